//! When the payload of one direction got through, for its goodput: the counterpart of `analysis/segments/goodput.py`.
//!
//! Where payload begins and ends on the line is known only when all of it was seen. So ACKs that may turn out
//! to be the first or the last to acknowledge payload are kept until then; usually that is the ACK of the SYN.

use crate::OutOfMemory;

/// An ACK that acknowledges more than any before.
#[derive(Clone, Copy)]
struct Ack {
    /// The highest one before it.
    before: i64,
    value: i64,
    time_ns: i64,
}

/// The first and the last moment at which payload got through, and what did so after the first.
pub struct Delivered {
    pub first_ns: i64,
    pub last_ns: i64,
    pub bytes: i64,
}

/// ACKs of payload.
pub struct Acknowledged {
    begin: i64,
    end: i64,
    first: Option<Ack>,
    last: Option<Ack>,
    /// Before `first`.
    head: Vec<Ack>,
    /// Behind `last`.
    tail: Vec<Ack>,
}

impl Default for Acknowledged {
    fn default() -> Self {
        Self { begin: i64::MAX, end: i64::MIN, first: None, last: None, head: Vec::new(), tail: Vec::new() }
    }
}

impl Acknowledged {
    /// Note the payload of a piece.
    #[inline(always)]
    pub fn sent(&mut self, start: i64, end: i64) {
        self.begin = self.begin.min(start);
        self.end = self.end.max(end);
    }

    /// Note an ACK; `before` is the highest one before it.
    #[inline(always)]
    pub fn acknowledged(&mut self, before: i64, value: i64, time_ns: i64) -> Result<(), OutOfMemory> {
        let ack = Ack { before, value, time_ns };
        if self.first.is_none() && value <= self.begin {
            self.head.try_reserve(1)?;
            self.head.push(ack);
            return Ok(());
        }
        self.first.get_or_insert(ack);
        if self.moves(&ack) {
            self.last = Some(ack);
            self.tail.clear();
        } else {
            self.tail.try_reserve(1)?;
            self.tail.push(ack);
        }
        Ok(())
    }

    /// Move the ACKs on the line, all of which came before the first piece.
    pub fn shift(&mut self, by: i64) {
        for ack in &mut self.head {
            ack.before += by;
            ack.value += by;
        }
    }

    /// Whether an ACK acknowledges payload that none before did.
    fn moves(&self, ack: &Ack) -> bool {
        ack.value > self.begin && ack.before < self.end
    }

    pub fn delivered(&self) -> Option<Delivered> {
        let first = self.head.iter().find(|ack| self.moves(ack)).or(self.first.as_ref())?;
        let later = self.tail.iter().rev().find(|ack| self.moves(ack)).or(self.last.as_ref());
        let last = later.or_else(|| self.head.iter().rev().find(|ack| self.moves(ack)))?;
        let bytes = last.value.min(self.end) - first.value.min(self.end);
        Some(Delivered { first_ns: first.time_ns, last_ns: last.time_ns, bytes })
    }
}

/// Segments that brought payload.
#[derive(Default)]
pub struct Arrived {
    first: Option<(i64, i64)>,
    last_ns: i64,
    bytes: i64,
}

impl Arrived {
    #[inline(always)]
    pub fn arrived(&mut self, bytes: i64, time_ns: i64) {
        if bytes > 0 {
            self.first.get_or_insert((time_ns, bytes));
            self.last_ns = time_ns;
            self.bytes += bytes;
        }
    }

    pub fn delivered(&self) -> Option<Delivered> {
        let (first_ns, first_bytes) = self.first?;
        Some(Delivered { first_ns, last_ns: self.last_ns, bytes: self.bytes - first_bytes })
    }
}
