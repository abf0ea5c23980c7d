//! What a summary for people says of a capture whose connections all began in it: the counterpart of parts of
//! `segments/directions.py`, `trust/` and `tcp.py` in `analysis/`.

use crate::OutOfMemory;
use crate::pass::connection::Summary;
use crate::pass::running::{Running, Side};
use crate::times::Stamped;

/// `NOT_A_TIME` in Python.
const NOT_A_TIME: i64 = i64::MIN;
/// `VANTAGE_SHARE` and `_AT_ONCE_NS` in `segments/directions.py`.
const VANTAGE_SHARE: f64 = 0.1;
const AT_ONCE_NS: i64 = 1_000_000;
/// `FEWEST_STAMPS` in `segments/stamp_spread.py`.
const FEWEST_STAMPS: usize = 30;

/// A connection as a list of them shows it; `forward` is what its initiator sent.
pub struct Listed {
    pub number: usize,
    pub start_ns: i64,
    pub end_ns: i64,
    pub unique_bytes: [i64; 2],
    pub retransmitted_segments: i64,
    pub data_segments: i64,
    /// The larger median.
    pub rtt_p50_ns: Option<f64>,
}

/// Sums over the directions.
#[derive(Default)]
pub struct Sums {
    pub data_segments: i64,
    pub capture_duplicates: i64,
    pub acks_of_unseen: i64,
    pub missing_bytes: i64,
    pub unique_bytes: i64,
    pub acks_before_data: i64,
    pub negative_rtts: i64,
    pub payload_bytes: i64,
}

/// Connections of which only one direction was captured, and that are more than an attempt.
#[derive(Default)]
pub struct OneSided {
    pub connections: usize,
    pub payload_bytes: i64,
    pub packets: i64,
}

/// The connections that were counted, two summaries each; all began with a SYN.
pub struct Counted<'a> {
    pub running: &'a Running,
    pub summaries: &'a [Summary],
    /// The tick of the capture's clock.
    pub resolution_ns: f64,
}

impl Counted<'_> {
    /// Return which of its flow's ends began a connection; None if only all of its segments tell.
    pub fn initiator(&self, number: usize) -> Option<usize> {
        let is_known = self.summaries[2 * number].is_known && self.summaries[2 * number + 1].is_known;
        let begun = !self.running.is_kept(number) && is_known;
        self.running.beginnings[number].first_syn.filter(|_| begun)
    }

    /// Return the summaries and sides of a connection's directions, the initiator's first.
    fn ways(&self, number: usize) -> [(&Summary, &Side); 2] {
        let first = self.running.beginnings[number].first_syn.unwrap_or(0);
        [first, first ^ 1].map(|side| (&self.summaries[2 * number + side], &self.running.sides[number][side]))
    }

    /// Whether the list of connections tells all that is to be said of this capture.
    pub fn is_simple(&self) -> bool {
        (0..self.running.beginnings.len()).all(|number| self.initiator(number).is_some())
    }

    fn unique_bytes(summary: &Summary) -> i64 {
        summary.counts.payload_bytes - summary.counts.old_payload
    }

    /// Return up to `most` connections with the most unique bytes, in their order; None if one of them may have
    /// been captured where only its timestamps tell.
    pub fn largest(&self, most: usize) -> Result<Option<Vec<Listed>>, OutOfMemory> {
        let mut by_size = Vec::new();
        by_size.try_reserve_exact(self.running.beginnings.len())?;
        by_size.extend((0..self.running.beginnings.len()).map(|number| {
            let [(one, _), (two, _)] = self.ways(number);
            (-(Self::unique_bytes(one) + Self::unique_bytes(two)), number)
        }));
        by_size.sort_unstable();
        by_size.truncate(most);
        by_size.sort_unstable_by_key(|&(_, number)| number);
        Ok(by_size.into_iter().map(|(_, number)| self.listed(number)).collect())
    }

    fn listed(&self, number: usize) -> Option<Listed> {
        let [(one, _), (two, _)] = self.ways(number);
        let first_ns = |way: &Summary| (way.counts.packets > 0).then_some(way.counts.first_ns);
        let last_ns = |way: &Summary| if way.counts.packets > 0 { way.counts.last_ns } else { NOT_A_TIME };
        Some(Listed {
            number,
            start_ns: [one, two].into_iter().filter_map(first_ns).min().unwrap_or(NOT_A_TIME),
            end_ns: last_ns(one).max(last_ns(two)),
            unique_bytes: [Self::unique_bytes(one), Self::unique_bytes(two)],
            retransmitted_segments: one.counts.retransmitted_segments + two.counts.retransmitted_segments,
            data_segments: one.counts.data_segments + two.counts.data_segments,
            rtt_p50_ns: self.median_ns(number)?,
        })
    }

    /// Return the larger median of round trips, without those near whose receiver the capture was made.
    ///
    /// The outer None: timestamps may tell that it was.
    fn median_ns(&self, number: usize) -> Option<Option<f64>> {
        let [(one, of_one), (two, of_two)] = self.ways(number);
        let p50_ns =
            |way: &Summary| (way.rtt_ns[1] / self.resolution_ns).round_ties_even() * self.resolution_ns;
        if one.rtt_count > 0 && two.rtt_count > 0 {
            let own = (one.rtt_min_ns, p50_ns(one));
            let other = (two.rtt_min_ns, p50_ns(two));
            return Some(match near_receiver(own, other) {
                Some(0) => Some(other.1),
                Some(_) => Some(own.1),
                None => Some(own.1.max(other.1)),
            });
        }
        let measured = [one, two].into_iter().find(|way| way.rtt_count > 0);
        let may_tell = |way: &Summary, side: &Side| {
            way.counts.packets >= FEWEST_STAMPS as i64 && side.stamps.count >= FEWEST_STAMPS
        };
        if measured.is_some() && may_tell(one, of_one) && may_tell(two, of_two) {
            return None;
        }
        Some(measured.map(p50_ns))
    }

    pub fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for Summary { counts, negative_rtts, .. } in self.summaries {
            sums.data_segments += counts.data_segments;
            sums.capture_duplicates += counts.capture_duplicates;
            sums.acks_of_unseen += counts.acks_of_unseen;
            sums.missing_bytes += counts.missing_bytes;
            sums.unique_bytes += counts.payload_bytes - counts.old_payload;
            sums.acks_before_data += counts.acks_before_data;
            sums.negative_rtts += negative_rtts;
            sums.payload_bytes += counts.payload_bytes;
        }
        sums
    }

    pub fn one_sided(&self) -> OneSided {
        let mut all = OneSided::default();
        for pair in self.summaries.chunks_exact(2) {
            let (one, two) = (&pair[0].counts, &pair[1].counts);
            let packets = one.packets + two.packets;
            if one.packets.min(two.packets) == 0 && one.syn + two.syn != packets {
                all.connections += 1;
                all.payload_bytes += one.payload_bytes + two.payload_bytes;
                all.packets += packets;
            }
        }
        all
    }

    /// Return the stamped directions of the connection with the busiest sender of timestamps, that one first, and
    /// how many packets each sent.
    pub fn busiest_senders(&self) -> Vec<(i64, &Side)> {
        let stamped = |(way, side): (&Summary, &Side)| {
            let most = way.counts.syn == 0 && 2 * side.stamps.count as i64 > way.counts.packets;
            if side.has_stamped_syn || most { way.counts.packets } else { 0 }
        };
        let mut busiest = (0, 0, 0);
        for number in 0..self.running.beginnings.len() {
            for (place, way) in self.ways(number).into_iter().enumerate() {
                if stamped(way) > busiest.0 {
                    busiest = (stamped(way), number, place);
                }
            }
        }
        let (packets, number, place) = busiest;
        if packets == 0 {
            return Vec::new();
        }
        let ways = self.ways(number);
        [place, place ^ 1].map(|place| (stamped(ways[place]), ways[place].1)).into()
    }
}

/// Return which of two directions was captured near its receiver: its own and the other's smallest round trip, and
/// their medians, tell. See `put_vantage`.
fn near_receiver(own: (i64, f64), other: (i64, f64)) -> Option<usize> {
    let is_near = |near_ns: i64, far_ns: f64| near_ns as f64 <= VANTAGE_SHARE * (far_ns + near_ns as f64);
    let ((ahead, ahead_typical), (back, back_typical)) = (own, other);
    let near_initiator = is_near(back, ahead as f64);
    let near_responder = !near_initiator && is_near(ahead, back as f64);
    let at_initiator = back <= AT_ONCE_NS && is_near(back, ahead_typical);
    let at_responder = ahead <= AT_ONCE_NS && is_near(ahead, back_typical);
    if near_initiator || (!near_responder && at_initiator && !at_responder) {
        return Some(1);
    }
    (near_responder || (at_responder && !at_initiator)).then_some(0)
}

/// Times and timestamps of a side's segments.
pub struct Columns(pub Vec<i64>, pub Vec<u32>);

impl Columns {
    pub fn of(side: &Side) -> Result<Self, OutOfMemory> {
        side.stamps.columns().map(|(time_ns, stamp)| Self(time_ns, stamp))
    }

    pub fn stamped(&self) -> Stamped<'_> {
        Stamped { time_ns: &self.0, stamp: &self.1 }
    }
}
