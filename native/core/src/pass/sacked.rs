//! How many units above the highest ACK are SACKed (RFC 2018): the counterpart of `_sacked` in
//! `analysis/segments/outstanding.py`.

use crate::OutOfMemory;
use crate::pass::holes::{Hole, Holes};

/// Above every number on a line.
const ABOVE: i64 = 1 << 62;

/// A unit counts from the first block that reports it until the ACK passes it.
#[derive(Default)]
pub struct Sacked {
    /// What nobody reported above the highest ACK.
    silent: Holes,
    highest: Option<i64>,
    pub units: i64,
}

impl Sacked {
    /// Note the highest ACK so far.
    #[inline]
    pub fn acknowledged(&mut self, highest: i64) -> Result<(), OutOfMemory> {
        match self.highest.replace(highest) {
            None => self.silent.push(Hole { start: highest, end: ABOVE }),
            Some(before) if before < highest => {
                let silent = self.silent.fill(before, highest)?;
                self.units -= highest - before - silent;
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }

    /// Note a block of a segment whose ACK was noted.
    pub fn reported(&mut self, left: i64, right: i64) -> Result<(), OutOfMemory> {
        if let Some(highest) = self.highest {
            self.units += self.silent.fill(left.max(highest), right)?;
        }
        Ok(())
    }
}
