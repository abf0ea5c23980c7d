//! Which pieces were captured twice: the counterpart of `analysis/segments/duplicates.py`.

use std::collections::HashMap;

use crate::OutOfMemory;
use crate::room::push;

/// Pieces of one length that raised the highest end, each at the end of the one before and with the next IP
/// identification: a long transfer is some of these, and not a million pieces.
struct Run {
    /// Of the last one, as is `ip_id`.
    end: i64,
    units: u32,
    ip_id: u16,
    pieces: u16,
}

impl Run {
    #[inline(always)]
    fn goes_on(&self, start: i64, units: u32, ip_id: u16) -> bool {
        self.end == start
            && self.units == units
            && self.ip_id.wrapping_add(1) == ip_id
            && self.pieces < u16::MAX
    }

    /// Return the end and the IP identification of the piece that begins at a unit below `end`.
    fn piece_at(&self, start: i64) -> Option<(i64, u16)> {
        let units = i64::from(self.units);
        let behind = (self.end - start) / units;
        let is_begin = start + behind * units == self.end && behind <= i64::from(self.pieces);
        is_begin.then(|| (start + units, self.ip_id - (behind - 1) as u16))
    }
}

/// The pieces of one direction that a copy could be of.
#[derive(Default)]
pub struct Copies {
    /// Ascending; without those whose IP identification says nothing.
    risen: Vec<Run>,
    /// The late piece that last began at a unit: its end, and its IP identification.
    late: HashMap<i64, (i64, u16)>,
}

impl Copies {
    /// Note a piece that raised the highest end.
    #[inline(always)]
    pub fn rose(&mut self, start: i64, end: i64, ip_id: u16) -> Result<(), OutOfMemory> {
        let units = (end - start) as u32;
        match self.risen.last_mut() {
            _ if ip_id == 0 => {}
            Some(run) if run.goes_on(start, units, ip_id) => {
                (run.end, run.ip_id) = (end, ip_id);
                run.pieces += 1;
            }
            _ => {
                push(&mut self.risen, Run { end, units, ip_id, pieces: 1 })?;
            }
        }
        Ok(())
    }

    /// Note a late piece; return whether it is the very packet that last began at its first unit.
    pub fn is_copy(&mut self, start: i64, end: i64, ip_id: u16) -> Result<bool, OutOfMemory> {
        self.late.try_reserve(1)?;
        let earlier = self.late.insert(start, (end, ip_id)).or_else(|| self.on_time(start));
        Ok(ip_id != 0 && earlier == Some((end, ip_id)))
    }

    fn on_time(&self, start: i64) -> Option<(i64, u16)> {
        self.risen.get(self.risen.partition_point(|run| run.end <= start))?.piece_at(start)
    }
}
