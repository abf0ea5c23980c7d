//! Both directions of a connection, and the columns that its segments may come from.

use crate::OutOfMemory;
use crate::pass::deliveries::Delivered;
use crate::pass::direction::{Counts, Direction, Segment};
use crate::tcp::ACK;

/// `NOT_A_TIME` in Python.
pub const NOT_A_TIME: i64 = i64::MIN;

/// The columns of SEGMENTS that the pass reads; all slices of one length.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// Twice the connection's number, plus 1 for what its responder sent.
    pub direction: &'a [i32],
    pub time_ns: &'a [i64],
    pub seq: &'a [u32],
    pub ack: &'a [u32],
    pub payload_bytes: &'a [i32],
    pub flags: &'a [u16],
    pub window: &'a [u16],
    pub ip_id: &'a [u16],
    pub marks: &'a [u16],
}

#[derive(Default)]
pub struct Connection {
    pub(super) directions: [Direction; 2],
    /// Holds what Python alone can judge: what a probe was, only the segments behind it tell.
    pub is_odd: bool,
}

/// What is known of one direction.
pub struct Summary {
    pub counts: Counts,
    pub is_known: bool,
    pub rtt_count: i64,
    pub negative_rtts: i64,
    pub rtt_min_ns: i64,
    pub rtt_max_ns: i64,
    /// Mean, median, 95th percentile.
    pub rtt_ns: [f64; 3],
    pub acks: u64,
    pub acknowledged: Option<Delivered>,
    pub arrived: Option<Delivered>,
}

impl Connection {
    #[inline(always)]
    pub fn add(&mut self, side: usize, segment: &Segment) -> Result<(), OutOfMemory> {
        let [forward, reverse] = &mut self.directions;
        let (own, other) = if side == 0 { (forward, reverse) } else { (reverse, forward) };
        let is_asked_closed = other.is_captured() && other.last.closes_window();
        let is_probe = is_asked_closed && segment.payload_bytes == 1 && segment.is_plain();
        self.is_odd |= is_probe || segment.time_ns == NOT_A_TIME;
        if self.is_odd {
            return Ok(());
        }
        let has_last = own.is_captured();
        own.sent(segment, is_asked_closed)?;
        if segment.has(ACK) {
            let repeat = other.acknowledged(segment, has_last.then_some(&own.last))?;
            own.count_repeat(repeat);
        }
        own.last = *segment;
        Ok(())
    }

    pub fn finish(mut self) -> [Summary; 2] {
        let [forward, reverse] = &mut self.directions;
        let is_known = forward.finish() & reverse.finish() && !self.is_odd;
        // an ACK is counted with the direction that sent it
        std::mem::swap(&mut forward.counts.acks_of_unseen, &mut reverse.counts.acks_of_unseen);
        std::mem::swap(&mut forward.counts.acks_before_data, &mut reverse.counts.acks_before_data);
        self.directions.map(|mut direction| {
            let rtt_ns = direction.round_trips.statistics();
            let samples = &direction.round_trips.samples_ns;
            Summary {
                is_known,
                rtt_count: samples.len() as i64,
                negative_rtts: direction.round_trips.negative,
                rtt_min_ns: samples.iter().min().copied().unwrap_or(NOT_A_TIME),
                rtt_max_ns: samples.iter().max().copied().unwrap_or(NOT_A_TIME),
                rtt_ns,
                acks: direction.acks.events,
                acknowledged: direction.acks.payload.delivered(),
                arrived: direction.arrived.delivered(),
                counts: direction.counts,
            }
        })
    }
}

impl Rows<'_> {
    #[inline(always)]
    pub fn segment(&self, row: usize) -> Segment {
        Segment {
            seq: self.seq[row],
            ack: self.ack[row],
            payload_bytes: self.payload_bytes[row],
            flags: self.flags[row],
            window: self.window[row],
            ip_id: self.ip_id[row],
            marks: self.marks[row],
            time_ns: self.time_ns[row],
        }
    }
}
