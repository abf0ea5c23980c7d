//! The ACKs of one direction's units: what they acknowledge, and what they show of the capture.
//!
//! The counterpart of `progress` in `analysis/segments/acknowledgments.py`. ACK numbers lie on the line of the
//! pieces that they acknowledge. Before the first piece that line has no place yet, so they are moved later.

use crate::OutOfMemory;
use crate::pass::deliveries::Acknowledged;
use crate::pass::holes::Holes;
use crate::pass::line::{Line, Point, distance};

/// An ACK of units that had not been captured when it came.
struct Doubtful {
    before: i64,
    value: i64,
    /// The highest end sent until then; none before the first piece.
    reach: Option<i64>,
}

/// Below every number on a line.
const NEVER: i64 = i64::MIN / 2;

#[derive(Default)]
pub struct Acks {
    line: Line,
    /// The first ACK number, while the line has no place.
    pub(super) first: Option<u32>,
    /// How far they were moved then.
    pub(super) moved: i64,
    /// ACK numbers that differ from the one before.
    pub events: u64,
    /// The last of them.
    pub value: i64,
    pub highest: i64,
    pub lowest: i64,
    /// Duplicates of `value`.
    pub repeats: u64,
    doubtful: Vec<Doubtful>,
    pub payload: Acknowledged,
}

/// What the capture holds of a direction so far.
pub struct Held<'a> {
    /// The last piece.
    pub last: Option<Point>,
    pub reach: i64,
    pub holes: &'a Holes,
}

impl Acks {
    /// Note an ACK number that is not the one before; return what was acknowledged before if it advances.
    #[inline(always)]
    pub fn event(&mut self, number: u32, held: &Held, time_ns: i64) -> Result<Option<i64>, OutOfMemory> {
        self.value = self.line.place(number);
        if self.events == 0 {
            self.first = Some(number);
            if let Some(piece) = held.last {
                self.put(piece);
            }
        }
        self.lowest = self.lowest.min(self.value);
        self.events += 1;
        self.repeats = 0;
        let before = if self.events == 1 { NEVER } else { self.highest };
        if self.value <= before {
            return Ok(None);
        }
        self.highest = self.value;
        self.payload.acknowledged(before, self.value, time_ns)?;
        self.doubt(before, held)?;
        Ok(Some(if self.events == 1 { 0 } else { before }))
    }

    #[inline(always)]
    fn doubt(&mut self, before: i64, held: &Held) -> Result<(), OutOfMemory> {
        let reach = held.last.map(|_| held.reach);
        let over_a_hole = || !held.holes.is_empty() && held.holes.reach_into(before.max(0), self.value);
        if reach.is_none_or(|reach| self.value > reach) || over_a_hole() {
            self.doubtful.try_reserve(1)?;
            self.doubtful.push(Doubtful { before, value: self.value, reach });
        }
        Ok(())
    }

    /// Move the ACKs so far to where a piece says that they lie: the one before the first ACK, or the first one.
    pub fn put(&mut self, piece: Point) {
        let Some(first) = self.first.take() else { return };
        let by = piece.at + distance(piece.number, first);
        self.moved = by;
        self.line.shift(by);
        for value in [&mut self.value, &mut self.highest, &mut self.lowest] {
            *value += by;
        }
        self.payload.shift(by);
        for ack in &mut self.doubtful {
            ack.before += by;
            ack.value += by;
        }
    }

    /// Return how many ACKs are of units that the capture does not hold, or holds only later.
    pub fn doubts(&self, held: &Held, is_captured: bool) -> (i64, i64) {
        let (mut unseen, mut early) = (0, 0);
        let reach = if is_captured { held.reach } else { i64::MAX };
        for ack in &self.doubtful {
            if ack.value > reach || held.holes.reach_into(ack.before.max(0), ack.value) {
                unseen += 1;
            } else if held.last.is_some() && ack.value > ack.reach.unwrap_or(0) {
                early += 1;
            }
        }
        (unseen, early)
    }
}
