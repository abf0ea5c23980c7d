//! One direction of a connection: what it sent, what of it was new, and what came back.
//!
//! The counterpart of `coverage.py`, `duplicates.py`, `probes.py` and `acknowledgments.py` in
//! `analysis/segments/`, segment by segment instead of step by step.

use crate::OutOfMemory;
use crate::mark;
use crate::pass::acks::{Acks, Held};
use crate::pass::copies::Copies;
use crate::pass::deliveries::Arrived;
use crate::pass::holes::{Hole, Holes};
use crate::pass::line::{Line, Point};
use crate::pass::round_trips::RoundTrips;
use crate::tcp::{ACK, FIN, RST, SYN};

/// Below every number on a line: late pieces may lie anywhere before the first one.
const BELOW: i64 = -(1 << 62);

/// A segment as it stands in the tables.
#[derive(Clone, Copy, Default)]
pub struct Segment {
    pub seq: u32,
    pub ack: u32,
    pub payload_bytes: i32,
    pub flags: u16,
    pub window: u16,
    pub ip_id: u16,
    pub marks: u16,
    pub time_ns: i64,
}

impl Segment {
    #[inline(always)]
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        !self.has(SYN | FIN | RST)
    }

    /// Sequence units that it occupies (RFC 9293, section 3.4); none in a RST.
    #[inline(always)]
    pub(super) fn units(&self) -> i64 {
        let ends = i64::from(self.has(SYN)) + i64::from(self.has(FIN));
        if self.has(RST) { 0 } else { i64::from(self.payload_bytes) + ends }
    }

    #[inline(always)]
    pub fn closes_window(&self) -> bool {
        self.window == 0 && self.is_plain()
    }
}

/// A piece on the line, and what it is.
struct Piece {
    start: i64,
    end: i64,
    /// The highest end before it.
    before: i64,
    /// It is the SYN-ACK of an end whose SYN crossed that of its peer (RFC 9293, section 3.5).
    has_crossed: bool,
}

#[derive(Default)]
pub struct Direction {
    pub last: Segment,
    pub(super) line: Line,
    /// The number that lies at 0: that of the first piece, else of the first segment.
    pub(super) reference: u32,
    pub(super) has_pieces: bool,
    pub reach: i64,
    pub(super) lowest: i64,
    pub(super) syn_at: Option<i64>,
    sent_syn: bool,
    sent_syn_ack: bool,
    pub(super) holes: Holes,
    copies: Copies,
    pub acks: Acks,
    pub round_trips: RoundTrips,
    pub arrived: Arrived,
    least_ip_id: u16,
    most_ip_id: u16,
    /// Whether something was taken for captured twice: right only if the IP identification varies.
    took_copies: bool,
    /// Keep-alives and probes if nothing acknowledges this direction.
    pub(super) alive_late: i64,
    pub(super) alive_empty: i64,
    pub(super) probing_empty: i64,
    pub counts: Counts,
}

/// What was counted; columns of `DIRECTIONS` by their names.
#[derive(Default)]
pub struct Counts {
    pub packets: i64,
    pub payload_bytes: i64,
    pub data_segments: i64,
    pub syn: i64,
    pub fin: i64,
    pub rst: i64,
    /// SYNs whose options were captured whole.
    pub whole_syn: i64,
    pub first_ns: i64,
    pub last_ns: i64,
    pub first_payload_ns: i64,
    pub last_payload_ns: i64,
    pub old_payload: i64,
    pub retransmitted_segments: i64,
    pub retransmitted_bytes: i64,
    pub partial_retransmissions: i64,
    pub out_of_order: i64,
    pub capture_duplicates: i64,
    pub keep_alives: i64,
    pub zero_window_probes: i64,
    pub zero_window_segments: i64,
    pub duplicate_acks: i64,
    pub triple_duplicate_acks: i64,
    pub window_updates: i64,
    pub max_flight_bytes: i64,
    /// Not scaled; of SYNs, and of the other segments.
    pub max_window_syn: i64,
    pub max_window: i64,
    // known at the end
    pub missing_bytes: i64,
    pub acks_of_unseen: i64,
    pub acks_before_data: i64,
    pub beginning_acknowledged: bool,
}

/// Extend a span of time.
#[inline(always)]
fn extend(first_ns: &mut i64, last_ns: &mut i64, time_ns: i64, is_first: bool) {
    if is_first || time_ns >= *last_ns {
        *last_ns = time_ns;
    }
    if is_first || time_ns < *first_ns {
        *first_ns = time_ns;
    }
}

impl Counts {
    #[inline(always)]
    fn count(&mut self, segment: &Segment) {
        let (time_ns, window) = (segment.time_ns, i64::from(segment.window));
        extend(&mut self.first_ns, &mut self.last_ns, time_ns, self.packets == 0);
        self.packets += 1;
        if segment.payload_bytes > 0 {
            let is_first = self.data_segments == 0;
            extend(&mut self.first_payload_ns, &mut self.last_payload_ns, time_ns, is_first);
            self.data_segments += 1;
            self.payload_bytes += i64::from(segment.payload_bytes);
        }
        if segment.has(SYN) {
            self.syn += 1;
            self.whole_syn += i64::from(segment.marks & mark::HEADER_CUT == 0);
            self.max_window_syn = self.max_window_syn.max(window);
        } else {
            self.max_window = self.max_window.max(window);
        }
        self.fin += i64::from(segment.has(FIN));
        self.rst += i64::from(segment.has(RST));
        self.zero_window_segments += i64::from(segment.closes_window());
    }
}

impl Direction {
    pub fn is_captured(&self) -> bool {
        self.counts.packets > 0
    }

    fn held(&self) -> Held<'_> {
        Held { last: self.has_pieces.then_some(self.line.last), reach: self.reach, holes: &self.holes }
    }

    /// Note a segment that this direction sent; `is_asked_closed` if the other side's last window is 0.
    #[inline(always)]
    pub fn sent(&mut self, segment: &Segment, is_asked_closed: bool) -> Result<(), OutOfMemory> {
        if !self.is_captured() {
            self.reference = segment.seq;
            (self.least_ip_id, self.most_ip_id) = (segment.ip_id, segment.ip_id);
        }
        self.least_ip_id = self.least_ip_id.min(segment.ip_id);
        self.most_ip_id = self.most_ip_id.max(segment.ip_id);
        self.counts.count(segment);
        let units = segment.units();
        let old_payload = if units > 0 { self.piece(segment, units)? } else { 0 };
        if units == 0 && self.has_pieces {
            self.empty(segment, is_asked_closed);
        }
        self.arrived.arrived(i64::from(segment.payload_bytes) - old_payload, segment.time_ns);
        Ok(())
    }

    /// Note a segment that occupies units; return how many bytes of its payload were seen before.
    #[inline(always)]
    fn piece(&mut self, segment: &Segment, units: i64) -> Result<i64, OutOfMemory> {
        let start = self.line.place(segment.seq);
        let has_crossed = segment.has(SYN) && self.has_crossed(segment);
        let piece = Piece { start, end: start + units, before: self.reach, has_crossed };
        if !self.has_pieces {
            self.has_pieces = true;
            self.reference = segment.seq;
            self.acks.put(Point { number: segment.seq, at: start });
            self.reach = start;
        }
        self.lowest = self.lowest.min(start);
        if segment.has(SYN) {
            self.syn_at.get_or_insert(start);
        }
        if segment.payload_bytes > 0 {
            let (begin, end) = (i64::from(segment.has(SYN)), i64::from(segment.has(FIN)));
            self.acks.payload.sent(piece.start + begin, piece.end - end);
        }
        if start < self.reach {
            return self.late(segment, &piece);
        }
        if start > self.reach {
            self.holes.push(Hole { start: self.reach, end: start })?;
        }
        self.rise(segment, &piece)?;
        self.round_trips.sent_on_time(piece.end, segment.time_ns)?;
        Ok(0)
    }

    /// Note a SYN; say whether it is the first SYN-ACK of an end that has sent a SYN.
    fn has_crossed(&mut self, segment: &Segment) -> bool {
        let has_crossed = segment.has(ACK) && self.sent_syn && !self.sent_syn_ack;
        self.sent_syn |= !segment.has(ACK);
        self.sent_syn_ack |= segment.has(ACK);
        has_crossed
    }

    #[inline(always)]
    fn rise(&mut self, segment: &Segment, piece: &Piece) -> Result<(), OutOfMemory> {
        self.reach = piece.end;
        self.copies.rose(piece.start, piece.end, segment.ip_id)
    }

    /// Note a piece that begins below the highest end before it; return its bytes that were seen before.
    fn late(&mut self, segment: &Segment, piece: &Piece) -> Result<i64, OutOfMemory> {
        let units = piece.end - piece.start;
        let old_ends = self.old_syn_and_fin(segment, piece)?;
        let new = self.fill(piece)?;
        let is_copy = self.copies.is_copy(piece.start, piece.end, segment.ip_id)?;
        let is_alive = !is_copy && self.is_alive(segment, piece);
        if piece.end > piece.before {
            self.rise(segment, piece)?;
        }
        if is_copy {
            self.took_copies = true;
        } else {
            self.round_trips.sent_late(piece.start, piece.end, segment.time_ns, new == units)?;
        }
        let old_payload = units - new - old_ends;
        let counts = &mut self.counts;
        counts.old_payload += old_payload;
        counts.capture_duplicates += i64::from(is_copy);
        counts.out_of_order += i64::from(new == units);
        if new < units && !is_alive && !piece.has_crossed {
            counts.retransmitted_segments += 1;
            counts.retransmitted_bytes += units - new;
            counts.partial_retransmissions += i64::from(new > 0);
        }
        Ok(old_payload)
    }

    /// Return how many units of a late piece are new, and take them out of the holes.
    fn fill(&mut self, piece: &Piece) -> Result<i64, OutOfMemory> {
        let above = (piece.end - piece.before).max(0);
        Ok(above + self.holes.fill(piece.start, piece.end.min(piece.before))?)
    }

    /// Return how many units of SYN and FIN a late piece repeats.
    fn old_syn_and_fin(&mut self, segment: &Segment, piece: &Piece) -> Result<i64, OutOfMemory> {
        if piece.start < 0 && self.holes.iter().next().is_none_or(|hole| hole.start != BELOW) {
            self.holes.push_below(Hole { start: BELOW, end: 0 })?;
        }
        let last = piece.end - 1;
        let is_old_syn = segment.has(SYN) && !self.holes.hold(piece.start);
        let is_old_fin = segment.has(FIN) && last < piece.before && !self.holes.hold(last);
        Ok(i64::from(is_old_syn) + i64::from(is_old_fin))
    }

    /// Whether a late piece is a keep-alive of one byte; those are counted.
    fn is_alive(&mut self, segment: &Segment, piece: &Piece) -> bool {
        if !segment.is_plain() || piece.start != piece.before - 1 || segment.payload_bytes != 1 {
            return false;
        }
        let is_alive = self.acks.events == 0 || self.acks.highest >= piece.before;
        let count = if self.acks.events == 0 { &mut self.alive_late } else { &mut self.counts.keep_alives };
        *count += i64::from(is_alive);
        is_alive
    }

    /// Count a segment without units if it is a keep-alive, or a probe of a closed window.
    #[inline(always)]
    fn empty(&mut self, segment: &Segment, is_asked_closed: bool) {
        let expected = (self.reach as u32).wrapping_add(self.reference).wrapping_sub(1);
        if segment.seq != expected || !segment.is_plain() {
            return;
        }
        let count = match (self.acks.events == 0, is_asked_closed) {
            (true, true) => &mut self.probing_empty,
            (true, false) => &mut self.alive_empty,
            (false, _) if self.acks.highest < self.reach => return,
            (false, true) => &mut self.counts.zero_window_probes,
            (false, false) => &mut self.counts.keep_alives,
        };
        *count += 1;
    }

    /// Note that the other side sent a segment with an ACK number; `last` is its segment before.
    #[inline(always)]
    pub fn acknowledged(&mut self, segment: &Segment, last: Option<&Segment>) -> Result<Repeat, OutOfMemory> {
        match last {
            Some(last) if last.has(ACK) && last.ack == segment.ack => Ok(self.repeated(segment, last)),
            _ => self.acknowledged_anew(segment).map(|()| Repeat::None),
        }
    }

    #[inline(always)]
    fn acknowledged_anew(&mut self, segment: &Segment) -> Result<(), OutOfMemory> {
        let held =
            Held { last: self.has_pieces.then_some(self.line.last), reach: self.reach, holes: &self.holes };
        let Some(before) = self.acks.event(segment.ack, &held, segment.time_ns)? else { return Ok(()) };
        if self.has_pieces {
            self.flies_beyond(before);
        }
        self.round_trips.acknowledged(self.acks.highest, segment.time_ns)
    }

    #[inline(always)]
    fn flies_beyond(&mut self, acknowledged: i64) {
        self.counts.max_flight_bytes = self.counts.max_flight_bytes.max(self.reach - acknowledged);
    }

    /// Say what a segment is that repeats an ACK number (RFC 5681, section 2).
    #[inline(always)]
    fn repeated(&mut self, segment: &Segment, last: &Segment) -> Repeat {
        if segment.payload_bytes != 0 || !segment.is_plain() {
            return Repeat::None;
        }
        if segment.window != last.window {
            return Repeat::WindowUpdate;
        }
        if segment.ip_id != 0 && segment.ip_id == last.ip_id && last.payload_bytes == 0 {
            return Repeat::Copy;
        }
        let acks = &mut self.acks;
        if !self.has_pieces || acks.value != acks.highest || acks.value >= self.reach {
            return Repeat::None;
        }
        acks.repeats += 1;
        if acks.repeats == 3 { Repeat::ThirdDuplicate } else { Repeat::Duplicate }
    }

    /// Count what a segment of this direction repeats of the other one.
    #[inline(always)]
    pub fn count_repeat(&mut self, repeat: Repeat) {
        let counts = &mut self.counts;
        match repeat {
            Repeat::None => {}
            Repeat::WindowUpdate => counts.window_updates += 1,
            Repeat::Copy => {
                counts.capture_duplicates += 1;
                self.took_copies = true;
            }
            Repeat::Duplicate => counts.duplicate_acks += 1,
            Repeat::ThirdDuplicate => {
                counts.duplicate_acks += 1;
                counts.triple_duplicate_acks += 1;
            }
        }
    }

    /// Conclude what only the end tells; return whether all of it is known, else Python has to count.
    pub fn finish(&mut self) -> bool {
        if self.is_captured() && !self.has_pieces {
            self.acks.put(Point { number: self.reference, at: 0 });
        }
        let is_answered = self.acks.events > 0;
        if self.has_pieces {
            self.flies_beyond(if is_answered { self.acks.highest } else { 0 });
        }
        let (unseen, early) = self.acks.doubts(&self.held(), self.is_captured());
        let lowest = self.lowest.min(self.acks.lowest);
        let counts = &mut self.counts;
        (counts.acks_of_unseen, counts.acks_before_data) = (unseen, early);
        counts.missing_bytes = self.holes.iter().filter(|hole| hole.start > 0).map(|h| h.end - h.start).sum();
        counts.beginning_acknowledged = is_answered && self.acks.highest > self.syn_at.unwrap_or(lowest);
        if is_answered {
            counts.retransmitted_segments += self.alive_late;
            counts.retransmitted_bytes += self.alive_late;
        } else {
            counts.keep_alives += self.alive_late + self.alive_empty;
            counts.zero_window_probes += self.probing_empty;
        }
        !self.took_copies || self.least_ip_id != self.most_ip_id
    }
}

/// What a segment is that repeats the ACK number before it.
#[derive(Clone, Copy)]
pub enum Repeat {
    None,
    Duplicate,
    ThirdDuplicate,
    WindowUpdate,
    /// The very packet before it.
    Copy,
}
