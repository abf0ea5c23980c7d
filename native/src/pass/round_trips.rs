//! Round-trip times by exact ACKs under Karn's rule: the counterpart of `analysis/segments/exact_acks.py`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::OutOfMemory;

/// A piece that an ACK may end at; ordered by its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sent {
    end: i64,
    /// Number of the piece in its direction.
    piece: u64,
    time_ns: i64,
}

/// The pieces of one direction without an answer, and the samples of those that got one.
#[derive(Default)]
pub struct RoundTrips {
    on_time: VecDeque<Sent>,
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
        self.on_time.try_reserve(1)?;
        self.on_time.push_back(Sent { end, piece: self.pieces, time_ns });
        Ok(())
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
        while let Some(&sent) = self.on_time.front().filter(|sent| sent.end <= upto) {
            self.on_time.pop_front();
            self.sample(sent, upto, time_ns)?;
        }
        while let Some(&Reverse(sent)) = self.fills.peek().filter(|sent| sent.0.end <= upto) {
            self.fills.pop();
            self.sample(sent, upto, time_ns)?;
        }
        if self.fills.is_empty() {
            let oldest = self.on_time.front().map_or(u64::MAX, |sent| sent.piece);
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
        self.samples_ns.try_reserve(1)?;
        self.samples_ns.push(rtt_ns);
        Ok(())
    }

    /// Whether something was sent since that begins below its end.
    fn is_disturbed(&self, sent: Sent) -> bool {
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
