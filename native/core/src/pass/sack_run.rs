//! Whether one side sends D-SACKs that grow: the counterpart of `with_growing_dsacks` in
//! `analysis/segments/untranslated.py`.

use crate::segment_row::SackBlock;

/// So many segments in a row: `FEWEST` in Python.
const FEWEST: u32 = 3;

/// The last first block that lay below its ACK, and how long it has grown.
#[derive(Clone, Copy, Default)]
pub struct SackRun {
    ack: u32,
    left: u32,
    right: u32,
    segments: u32,
    /// A middlebox changes sequence numbers, but not SACK blocks: none of these is a D-SACK.
    pub is_untranslated: bool,
}

impl SackRun {
    /// Note the first block of a segment, which lies below its ACK.
    pub fn below(&mut self, (_, left, right): SackBlock, ack: u32) {
        let step = right.wrapping_sub(self.right) as i32;
        let follows = self.segments > 0 && (self.ack, self.left) == (ack, left) && step >= 0;
        self.segments = if follows { self.segments + u32::from(step > 0) } else { 1 };
        (self.ack, self.left, self.right) = (ack, left, right);
        self.is_untranslated |= self.segments >= FEWEST;
    }
}
