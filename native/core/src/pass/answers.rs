//! What only all segments of a connection tell of each of them: where its numbers begin, and which ACK answers it.

use std::collections::HashMap;

use crate::OutOfMemory;
use crate::mark;
use crate::pass::connection::{Connection, NOT_A_TIME};
use crate::pass::direction::Direction;
use crate::pass::holes::Holes;
use crate::pass::source::{Source, step};
use crate::tcp::ACK;

/// The row of no segment.
pub const NEVER: u32 = u32::MAX;

/// What is known of a direction in the end.
pub struct End {
    /// The number at 0 of its line.
    pub reference: u32,
    /// Where its unit 0 lies: the SYN, else the lowest number that either side mentions.
    pub origin: i64,
    /// How far ACKs before the first piece are moved.
    pub moved: i64,
    pub is_answered: bool,
    /// The end of what was captured; all, if nothing was.
    pub reach: i64,
    pub holes: Holes,
}

impl End {
    fn of(direction: &mut Direction) -> Self {
        let lowest = direction.lowest.min(direction.acks.lowest);
        Self {
            reference: direction.reference,
            origin: direction.syn_at.unwrap_or(lowest),
            moved: direction.acks.moved,
            is_answered: direction.acks.events > 0,
            reach: if direction.is_captured() { direction.reach } else { i64::MAX },
            holes: std::mem::take(&mut direction.holes),
        }
    }
}

/// What became of the first segment with a timestamp.
enum Stamp {
    Sent { end: i64, index: usize },
    Echoed,
}

/// The timestamps of one direction: the counterpart of `analysis/segments/timestamps.py`.
#[derive(Default)]
struct Stamps {
    seen: HashMap<u32, Stamp>,
    last_sent: Option<u32>,
    last_echo: Option<u32>,
}

impl Stamps {
    fn sent(&mut self, value: u32, end: i64, index: usize) -> Result<(), OutOfMemory> {
        if self.last_sent.replace(value) != Some(value) {
            self.seen.try_reserve(1)?;
            self.seen.entry(value).or_insert(Stamp::Sent { end, index });
        }
        Ok(())
    }

    /// Note an ACK that acknowledges more than any before; return the segment that it answers.
    fn echoed(&mut self, value: u32, upto: i64) -> Result<Option<usize>, OutOfMemory> {
        if self.last_echo.replace(value) == Some(value) {
            return Ok(None);
        }
        self.seen.try_reserve(1)?;
        match self.seen.insert(value, Stamp::Echoed) {
            Some(Stamp::Sent { end, index }) if upto >= end => Ok(Some(index)),
            _ => Ok(None),
        }
    }
}

/// Of each segment of a connection: the row of the ACK that ends at its end, and of the one that echoes it.
pub struct Answers {
    pub ends: [End; 2],
    pub exact: Vec<u32>,
    pub echo: Vec<u32>,
}

impl Answers {
    /// Return them; None if Python has to judge the connection.
    pub fn of(rows: &[u32], source: &Source) -> Result<Option<Self>, OutOfMemory> {
        let mut connection = Connection::default();
        let mut stamps = [Stamps::default(), Stamps::default()];
        let (mut exact, mut echo) = (never(rows.len())?, never(rows.len())?);
        let mut blocks = source.blocks_from(rows);
        for (index, &row) in rows.iter().enumerate() {
            let (side, mut segment) = source.segment(row);
            let is_strange = segment.time_ns == NOT_A_TIME || !segment.has(ACK) && !blocks.of(row).is_empty();
            segment.time_ns = index as i64; // so that a round trip tells which segment is answered
            let advance = step(&mut connection, side, &segment)?;
            if is_strange || connection.is_odd {
                return Ok(None);
            }
            for ago in connection.directions[side ^ 1].round_trips.samples_ns.drain(..) {
                exact[index - ago as usize] = row;
            }
            if segment.marks & mark::HAS_TIMESTAMPS != 0 {
                if segment.units() > 0 {
                    let end = connection.directions[side].line.last.at + segment.units();
                    stamps[side].sent(source.tsval[row as usize], end, index)?;
                }
                if let Some(advance) = advance {
                    let answered = stamps[side ^ 1].echoed(source.tsecr[row as usize], advance.upto)?;
                    answered.into_iter().for_each(|sent| echo[sent] = row);
                }
            }
        }
        let [forward, reverse] = &mut connection.directions;
        if !(forward.finish() & reverse.finish()) {
            return Ok(None);
        }
        Ok(Some(Self { ends: connection.directions.each_mut().map(End::of), exact, echo }))
    }
}

fn never(count: usize) -> Result<Vec<u32>, OutOfMemory> {
    let mut rows = Vec::new();
    rows.try_reserve_exact(count)?;
    rows.resize(count, NEVER);
    Ok(rows)
}
