//! Where a connection begins on its flow, and who began it: the counterpart of `analysis/connections.py`.

use crate::pass::direction::Segment;
use crate::tcp::{ACK, FIN, RST, SYN};

/// A segment may open a connection: SYN, and neither RST nor FIN.
#[inline(always)]
pub fn opens(segment: &Segment) -> bool {
    segment.flags & (SYN | RST | FIN) == SYN
}

/// The connection that a flow holds now.
pub struct Current {
    pub number: usize,
    /// What the numbers of each side began with, once it shows.
    origin: [Option<u32>; 2],
    /// Which side sent a SYN that is no answer.
    has_asked: [bool; 2],
}

impl Current {
    pub fn new(number: usize) -> Self {
        Self { number, origin: [None; 2], has_asked: [false; 2] }
    }

    /// Whether a segment of `side` begins the next connection.
    #[inline]
    pub fn is_over(&self, side: usize, segment: &Segment) -> bool {
        let is_awaited = segment.has(ACK) && self.has_asked[side ^ 1];
        opens(segment) && !is_awaited && self.origin[side].is_some_and(|origin| origin != segment.seq)
    }

    /// Note a segment of the connection.
    #[inline(always)]
    pub fn note(&mut self, side: usize, segment: &Segment) {
        if opens(segment) || self.origin.contains(&None) {
            self.note_numbers(side, segment);
        }
    }

    fn note_numbers(&mut self, side: usize, segment: &Segment) {
        self.has_asked[side] |= opens(segment) && !segment.has(ACK);
        if self.origin[side].is_none() {
            let own = segment.seq.wrapping_sub(1).wrapping_add(u32::from(segment.has(SYN)));
            self.origin[side] = Some(own);
        }
        if self.origin[side ^ 1].is_none() && segment.has(ACK) {
            self.origin[side ^ 1] = Some(segment.ack.wrapping_sub(1));
        }
    }
}

/// Which side of a flow did something first; by their numbers in Python.
pub struct Beginning {
    pub flow: usize,
    pub first: usize,
    pub first_syn: Option<usize>,
    pub first_answer: Option<usize>,
}

impl Beginning {
    pub fn new(flow: usize, first: usize) -> Self {
        Self { flow, first, first_syn: None, first_answer: None }
    }

    /// Note a segment that opens.
    pub fn note_opening(&mut self, side: usize, segment: &Segment) {
        let first = if segment.has(ACK) { &mut self.first_answer } else { &mut self.first_syn };
        first.get_or_insert(side);
    }
}
