//! What each segment of one connection was: the counterpart of `analysis/segments/segment_rows.py`.
//!
//! The segments are walked over twice. The first time tells what only all of them do (`answers.rs`); the second
//! time goes piece by piece, so that nothing as long as the connection is made of it. What a segment was is what
//! it makes the pass count.

use std::ops::Range;

use crate::OutOfMemory;
use crate::pass::answers::{Answers, End};
use crate::pass::connection::Connection;
use crate::pass::direction::{Direction, Segment};
use crate::pass::line::distance;
use crate::pass::sacked::Sacked;
use crate::pass::source::{Advance, Source, step};
use crate::room::with_room;
use crate::tcp::ACK;

/// `NA` of `ack_bytes` in Python.
const MISSING: i64 = -1;
// bits of `analysis.kind.Kind`; tests/native compares the kinds of segments
pub const DATA: u32 = 0x0001;
pub const RETRANSMISSION: u32 = 0x0002;
pub const PARTIAL_RETRANSMISSION: u32 = 0x0004;
pub const OUT_OF_ORDER: u32 = 0x0008;
pub const CAPTURE_DUPLICATE: u32 = 0x0010;
pub const DUPLICATE_ACK: u32 = 0x0020;
pub const ZERO_WINDOW: u32 = 0x0040;
pub const ZERO_WINDOW_PROBE: u32 = 0x0080;
pub const KEEP_ALIVE: u32 = 0x0100;
pub const WINDOW_UPDATE: u32 = 0x0200;
pub const SACK: u32 = 0x0400;
pub const ACK_OF_UNSEEN: u32 = 0x1000;

/// What was counted of a direction before a segment.
struct Tally {
    old_payload: i64,
    retransmitted: i64,
    partial: i64,
    out_of_order: i64,
    copies: i64,
    keep_alives: i64,
    probes: i64,
    duplicates: i64,
    updates: i64,
    alive_late: i64,
    alive_empty: i64,
    probing_empty: i64,
}

impl Tally {
    #[inline]
    fn of(direction: &Direction) -> Self {
        let counts = &direction.counts;
        Self {
            old_payload: counts.old_payload,
            retransmitted: counts.retransmitted_segments,
            partial: counts.partial_retransmissions,
            out_of_order: counts.out_of_order,
            copies: counts.capture_duplicates,
            keep_alives: counts.keep_alives,
            probes: counts.zero_window_probes,
            duplicates: counts.duplicate_acks,
            updates: counts.window_updates,
            alive_late: direction.alive_late,
            alive_empty: direction.alive_empty,
            probing_empty: direction.probing_empty,
        }
    }

    /// Return what a segment was by what was counted behind it.
    #[inline]
    fn kind(&self, now: &Self, segment: &Segment, is_answered: bool) -> u32 {
        let is_copy = now.copies > self.copies;
        let is_late_alive = now.alive_late > self.alive_late;
        let is_again = now.retransmitted > self.retransmitted || is_late_alive && is_answered;
        let is_alive = is_late_alive || now.alive_empty > self.alive_empty;
        let bit = |bit, is_so| if is_so { bit } else { 0 };
        bit(DATA, segment.payload_bytes > 0)
            | bit(RETRANSMISSION, is_again && !is_copy)
            | bit(PARTIAL_RETRANSMISSION, now.partial > self.partial && !is_copy)
            | bit(OUT_OF_ORDER, now.out_of_order > self.out_of_order)
            | bit(CAPTURE_DUPLICATE, is_copy)
            | bit(DUPLICATE_ACK, now.duplicates > self.duplicates)
            | bit(ZERO_WINDOW, segment.closes_window())
            | bit(ZERO_WINDOW_PROBE, now.probes > self.probes)
            | bit(ZERO_WINDOW_PROBE, now.probing_empty > self.probing_empty && !is_answered)
            | bit(KEEP_ALIVE, now.keep_alives > self.keep_alives || is_alive && !is_answered)
            | bit(WINDOW_UPDATE, now.updates > self.updates)
    }
}

/// Columns of TCP_SEGMENTS; `kind` is without D-SACKs.
#[derive(Default)]
pub struct Facts {
    pub seq_bytes: Vec<i64>,
    pub end_bytes: Vec<i64>,
    pub ack_bytes: Vec<i64>,
    pub new_bytes: Vec<i32>,
    pub flight_bytes: Vec<i64>,
    pub flight_sack_bytes: Vec<i64>,
    pub kind: Vec<u32>,
}

impl Facts {
    fn with_room(count: usize) -> Result<Self, OutOfMemory> {
        Ok(Self {
            seq_bytes: with_room(count)?,
            end_bytes: with_room(count)?,
            ack_bytes: with_room(count)?,
            new_bytes: with_room(count)?,
            flight_bytes: with_room(count)?,
            flight_sack_bytes: with_room(count)?,
            kind: with_room(count)?,
        })
    }
}

/// The second walk, as far as it went.
pub struct Each {
    pub answers: Answers,
    connection: Connection,
    sacked: [Sacked; 2],
}

impl Each {
    /// Walk over the segments of a connection, all of its rows, ascending; None if Python has to judge it.
    pub fn of(rows: &[u32], source: &Source) -> Result<Option<Self>, OutOfMemory> {
        let answers = Answers::of(rows, source)?;
        Ok(answers.map(|answers| Self {
            answers,
            connection: Connection::default(),
            sacked: Default::default(),
        }))
    }

    /// Return what the next segments were.
    pub fn next(&mut self, rows: &[u32], source: &Source) -> Result<Facts, OutOfMemory> {
        let mut facts = Facts::with_room(rows.len())?;
        let mut blocks = source.blocks_from(rows);
        for &row in rows {
            let (side, segment) = source.segment(row);
            self.add(side, &segment, blocks.of(row), source, &mut facts)?;
        }
        Ok(facts)
    }

    #[inline]
    fn add(
        &mut self,
        side: usize,
        segment: &Segment,
        blocks: Range<usize>,
        source: &Source,
        facts: &mut Facts,
    ) -> Result<(), OutOfMemory> {
        let before = Tally::of(&self.connection.directions[side]);
        let advance = step(&mut self.connection, side, segment)?;
        self.connection.directions[side ^ 1].round_trips.samples_ns.clear();
        let (own, end) = (&self.connection.directions[side], &self.answers.ends[side]);
        let now = Tally::of(own);
        let mut kind = before.kind(&now, segment, end.is_answered);
        if advance.is_some_and(|advance| self.is_of_unseen(&advance, side ^ 1)) {
            kind |= ACK_OF_UNSEEN;
        }
        if !blocks.is_empty() {
            kind |= SACK;
        }
        let start = start_of(segment, own, end) - end.origin;
        facts.seq_bytes.push(start);
        facts.end_bytes.push(start + segment.units());
        facts.new_bytes.push(segment.payload_bytes - (now.old_payload - before.old_payload) as i32);
        facts.kind.push(kind);
        facts.ack_bytes.push(if segment.has(ACK) {
            self.last_ack(side ^ 1) - self.answers.ends[side ^ 1].origin
        } else {
            MISSING
        });
        self.note_sacked(segment, side ^ 1, blocks, source)?;
        let data = if segment.units() > 0 { side } else { side ^ 1 };
        let flight = (self.connection.directions[data].reach - self.highest_ack(data).unwrap_or(0)).max(0);
        facts.flight_bytes.push(flight);
        facts.flight_sack_bytes.push((flight - self.sacked[data].units).max(0));
        Ok(())
    }

    #[inline]
    fn note_sacked(
        &mut self,
        segment: &Segment,
        other: usize,
        blocks: Range<usize>,
        source: &Source,
    ) -> Result<(), OutOfMemory> {
        if let Some(highest) = self.highest_ack(other) {
            self.sacked[other].acknowledged(highest)?;
        }
        let ack = self.last_ack(other);
        for block in blocks {
            let [left, right] =
                [source.left, source.right].map(|edge| ack + distance(segment.ack, edge[block]));
            self.sacked[other].reported(left, right)?;
        }
        Ok(())
    }

    /// How far the ACKs of a direction are still to be moved.
    #[inline]
    fn to_move(&self, direction: usize) -> i64 {
        if self.connection.directions[direction].acks.first.is_some() {
            self.answers.ends[direction].moved
        } else {
            0
        }
    }

    #[inline]
    fn last_ack(&self, direction: usize) -> i64 {
        self.connection.directions[direction].acks.value + self.to_move(direction)
    }

    #[inline]
    fn highest_ack(&self, direction: usize) -> Option<i64> {
        let acks = &self.connection.directions[direction].acks;
        (acks.events > 0).then(|| acks.highest + self.to_move(direction))
    }

    /// Whether an ACK is of units that the capture does not hold.
    #[inline]
    fn is_of_unseen(&self, advance: &Advance, direction: usize) -> bool {
        let (end, moved) = (&self.answers.ends[direction], self.to_move(direction));
        let (before, upto) = (advance.before + moved, advance.upto + moved);
        upto > end.reach || !end.holes.is_empty() && end.holes.reach_into(before.max(0), upto)
    }
}

/// Return where a segment that was just sent begins on the line of its direction.
#[inline]
fn start_of(segment: &Segment, direction: &Direction, end: &End) -> i64 {
    if direction.has_pieces {
        direction.line.last.place(segment.seq)
    } else {
        distance(end.reference, segment.seq)
    }
}
