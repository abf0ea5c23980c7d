//! Round-trip times by exact ACKs under Karn's rule: the counterpart of `analysis/segments/exact_acks.py`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::OutOfMemory;
use crate::room::push;

/// A piece that an ACK may end at; ordered by its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sent {
    end: i64,
    /// Number of the piece in its direction.
    piece: u64,
    time_ns: i64,
}

/// Pieces in their order: a `VecDeque` that does not wrap around, which costs more than to move the rest at times.
#[derive(Default)]
struct Queue {
    sent: Vec<Sent>,
    /// How many of them left it.
    gone: usize,
}

impl Queue {
    #[inline(always)]
    fn push(&mut self, sent: Sent) -> Result<(), OutOfMemory> {
        if self.sent.len() == self.sent.capacity() {
            self.make_room()?;
        }
        self.sent.push(sent);
        Ok(())
    }

    #[cold]
    fn make_room(&mut self) -> Result<(), OutOfMemory> {
        if self.gone > self.sent.len() / 2 {
            self.sent.drain(..self.gone);
            self.gone = 0;
        }
        Ok(self.sent.try_reserve(1)?)
    }

    #[inline(always)]
    fn first(&self) -> Option<&Sent> {
        self.sent.get(self.gone)
    }

    #[inline(always)]
    fn leave(&mut self) {
        self.gone += 1;
        if self.gone == self.sent.len() {
            self.sent.clear();
            self.gone = 0;
        }
    }
}

/// The pieces of one direction without an answer, and the samples of those that got one.
#[derive(Default)]
pub struct RoundTrips {
    on_time: Queue,
    fills: BinaryHeap<Reverse<Sent>>,
    /// Late pieces (number, first unit) of which none before another begins above it: the least of the rest.
    late: VecDeque<(u64, i64)>,
    pieces: u64,
    pub samples_ns: Vec<i64>,
    pub negative: i64,
}

impl RoundTrips {
    /// Note a piece that is new and began at the highest end, or above it.
    #[inline(always)]
    pub fn sent_on_time(&mut self, end: i64, time_ns: i64) -> Result<(), OutOfMemory> {
        self.pieces += 1;
        self.on_time.push(Sent { end, piece: self.pieces, time_ns })
    }

    /// Note a late piece; `is_new` if it fills a hole and every unit is new.
    pub fn sent_late(&mut self, start: i64, end: i64, time_ns: i64, is_new: bool) -> Result<(), OutOfMemory> {
        self.pieces += 1;
        while self.late.back().is_some_and(|&(_, first)| first >= start) {
            self.late.pop_back();
        }
        self.late.try_reserve(1)?;
        self.late.push_back((self.pieces, start));
        if is_new {
            self.fills.try_reserve(1)?;
            self.fills.push(Reverse(Sent { end, piece: self.pieces, time_ns }));
        }
        Ok(())
    }

    /// Take the samples of an ACK that acknowledges more than any before.
    #[inline(always)]
    pub fn acknowledged(&mut self, upto: i64, time_ns: i64) -> Result<(), OutOfMemory> {
        while let Some(&sent) = self.on_time.first().filter(|sent| sent.end <= upto) {
            self.on_time.leave();
            self.sample(sent, upto, time_ns)?;
        }
        if self.late.is_empty() { Ok(()) } else { self.acknowledged_late(upto, time_ns) }
    }

    /// Go on where there are late pieces, some of which filled holes.
    fn acknowledged_late(&mut self, upto: i64, time_ns: i64) -> Result<(), OutOfMemory> {
        while let Some(&Reverse(sent)) = self.fills.peek().filter(|sent| sent.0.end <= upto) {
            self.fills.pop();
            self.sample(sent, upto, time_ns)?;
        }
        if self.fills.is_empty() {
            let oldest = self.on_time.first().map_or(u64::MAX, |sent| sent.piece);
            while self.late.front().is_some_and(|&(piece, _)| piece < oldest) {
                self.late.pop_front();
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn sample(&mut self, sent: Sent, upto: i64, time_ns: i64) -> Result<(), OutOfMemory> {
        if sent.end != upto || self.is_disturbed(sent) {
            return Ok(());
        }
        let rtt_ns = time_ns.wrapping_sub(sent.time_ns);
        if rtt_ns < 0 {
            self.negative += 1;
            return Ok(());
        }
        push(&mut self.samples_ns, rtt_ns)
    }

    /// Whether something was sent since that begins below its end.
    #[inline(always)]
    fn is_disturbed(&self, sent: Sent) -> bool {
        if self.late.is_empty() {
            return false;
        }
        let next = self.late.partition_point(|&(piece, _)| piece <= sent.piece);
        self.late.get(next).is_some_and(|&(_, start)| start < sent.end)
    }

    /// Return mean, median and 95th percentile, in ns; NaN without samples.
    pub fn statistics(&mut self) -> [f64; 3] {
        let count = self.samples_ns.len();
        let sum = self.samples_ns.iter().fold(0_i64, |sum, &rtt| sum.wrapping_add(rtt));
        [sum as f64 / count as f64, self.quantile(0.50), self.quantile(0.95)]
    }

    /// Return a quantile, linear between the nearest ranks.
    fn quantile(&mut self, share: f64) -> f64 {
        let Some(last) = self.samples_ns.len().checked_sub(1) else { return f64::NAN };
        let place = last as f64 * share;
        let low = place.floor();
        let (_, &mut lower, above) = self.samples_ns.select_nth_unstable(low as usize);
        let upper = above.iter().min().copied().unwrap_or(lower);
        lower as f64 + (upper - lower) as f64 * (place - low)
    }
}
