//! Times and timestamps of one direction's segments, six bytes each: a clock that steps, and the end of the path
//! where a capture was made, show only when all of them are known.

use crate::OutOfMemory;
use crate::room::{push, with_room};
use crate::times::Pause;

/// A step of time in ns, in 32 bits, and one of the timestamps, in 16; or a part of what does not fit.
type Step = [u16; 3];

/// In place of a step of the timestamps: two more hold the time and the timestamp themselves.
const WHOLE: u16 = i16::MIN as u16;

#[derive(Default)]
pub struct Stamps {
    steps: Vec<Step>,
    last_ns: i64,
    last_stamp: u32,
    pub count: usize,
}

impl Stamps {
    #[inline(always)]
    pub fn add(&mut self, time_ns: i64, stamp: u32) -> Result<(), OutOfMemory> {
        let step_ns = time_ns.wrapping_sub(self.last_ns);
        let step = stamp.wrapping_sub(self.last_stamp) as i32;
        if step_ns == i64::from(step_ns as i32) && step == i32::from(step as i16) && step as u16 != WHOLE {
            push(&mut self.steps, [step_ns as u16, (step_ns >> 16) as u16, step as u16])?;
        } else {
            let (time, high) = (time_ns as u64, (time_ns >> 48) as u16);
            self.steps.try_reserve(3)?;
            self.steps.push([0, 0, WHOLE]);
            self.steps.push([time as u16, (time >> 16) as u16, (time >> 32) as u16]);
            self.steps.push([high, stamp as u16, (stamp >> 16) as u16]);
        }
        (self.last_ns, self.last_stamp) = (time_ns, stamp);
        self.count += 1;
        Ok(())
    }

    /// The times in ns, and the timestamps.
    fn each(&self) -> impl Iterator<Item = (i64, u32)> {
        let (mut time_ns, mut stamp, mut steps) = (0_i64, 0_u32, self.steps.iter());
        std::iter::from_fn(move || {
            let &[low, high, step] = steps.next()?;
            if step == WHOLE {
                let (&[first, second, third], &[fourth, low, high]) = steps.next().zip(steps.next())?;
                time_ns =
                    [fourth, third, second, first].iter().fold(0, |all, &part| all << 16 | i64::from(part));
                stamp = u32::from(high) << 16 | u32::from(low);
            } else {
                time_ns = time_ns.wrapping_add(i64::from((u32::from(high) << 16 | u32::from(low)) as i32));
                stamp = stamp.wrapping_add(i32::from(step as i16) as u32);
            }
            Some((time_ns, stamp))
        })
    }

    /// Return the times in ns, and the timestamps.
    pub fn columns(&self) -> Result<(Vec<i64>, Vec<u32>), OutOfMemory> {
        let (mut times_ns, mut stamps) = (with_room(self.count)?, with_room(self.count)?);
        self.each().for_each(|(time_ns, stamp)| {
            times_ns.push(time_ns);
            stamps.push(stamp);
        });
        Ok((times_ns, stamps))
    }

    /// What passed between them.
    pub fn pauses(&self) -> impl Iterator<Item = Pause> {
        let mut each = self.each();
        let mut last = each.next().unwrap_or_default();
        each.map(move |(time_ns, stamp)| {
            let pause = (time_ns.wrapping_sub(last.0), i64::from(stamp.wrapping_sub(last.1) as i32));
            last = (time_ns, stamp);
            pause
        })
    }
}
