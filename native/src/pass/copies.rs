//! Which pieces were captured twice: the counterpart of `analysis/segments/duplicates.py`.

use std::collections::HashMap;

use crate::OutOfMemory;

/// A piece that raised the highest end of its direction.
struct Risen {
    end: i64,
    units: u32,
    ip_id: u16,
}

/// The pieces of one direction that a copy could be of.
#[derive(Default)]
pub struct Copies {
    /// Ascending; without those whose IP identification says nothing.
    risen: Vec<Risen>,
    /// The late piece that last began at a unit: its end, and its IP identification.
    late: HashMap<i64, (i64, u16)>,
}

impl Copies {
    /// Note a piece that raised the highest end.
    #[inline]
    pub fn rose(&mut self, start: i64, end: i64, ip_id: u16) -> Result<(), OutOfMemory> {
        if ip_id != 0 {
            self.risen.try_reserve(1)?;
            self.risen.push(Risen { end, units: (end - start) as u32, ip_id });
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
        let risen = self.risen.get(self.risen.partition_point(|risen| risen.end <= start))?;
        (risen.end - i64::from(risen.units) == start).then_some((risen.end, risen.ip_id))
    }
}
