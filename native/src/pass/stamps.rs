//! Times and timestamps of one direction's segments, a few bytes each: a clock that steps, and the end of the
//! path where a capture was made, show only when all of them are known.

use crate::OutOfMemory;

/// Seven bits of a byte are the number's, the eighth says that more follow.
const BITS: u32 = 7;
const MORE: u8 = 1 << BITS;

#[derive(Default)]
pub struct Stamps {
    bytes: Vec<u8>,
    last_ns: i64,
    last_stamp: u32,
    pub count: usize,
}

impl Stamps {
    #[inline]
    pub fn add(&mut self, time_ns: i64, stamp: u32) -> Result<(), OutOfMemory> {
        let (step_ns, step) =
            (time_ns.wrapping_sub(self.last_ns), stamp.wrapping_sub(self.last_stamp) as i32);
        put(&mut self.bytes, (step_ns << 1 ^ step_ns >> 63) as u64)?;
        put(&mut self.bytes, u64::from((step << 1 ^ step >> 31) as u32))?;
        (self.last_ns, self.last_stamp) = (time_ns, stamp);
        self.count += 1;
        Ok(())
    }

    /// Return the times in ns, and the timestamps.
    pub fn columns(&self) -> Result<(Vec<i64>, Vec<u32>), OutOfMemory> {
        let (mut times_ns, mut stamps) = (Vec::new(), Vec::new());
        times_ns.try_reserve_exact(self.count)?;
        stamps.try_reserve_exact(self.count)?;
        let (mut time_ns, mut stamp, mut bytes) = (0_i64, 0_u32, self.bytes.iter());
        for _ in 0..self.count {
            let (step_ns, step) = (taken(&mut bytes), taken(&mut bytes) as u32);
            time_ns = time_ns.wrapping_add((step_ns >> 1) as i64 ^ -((step_ns & 1) as i64));
            stamp = stamp.wrapping_add(step >> 1 ^ (step & 1).wrapping_neg());
            times_ns.push(time_ns);
            stamps.push(stamp);
        }
        Ok((times_ns, stamps))
    }
}

#[inline(always)]
fn put(bytes: &mut Vec<u8>, number: u64) -> Result<(), OutOfMemory> {
    bytes.try_reserve(10)?; // they hold 64 bits
    if number < u64::from(MORE) {
        bytes.push(number as u8);
    } else if number < 1 << (8 * BITS) {
        put_several(bytes, number);
    } else {
        put_many(bytes, number);
    }
    Ok(())
}

/// Put a number of two to eight times seven bits, without a branch for each: how many there are, no processor
/// foresees.
#[inline(always)]
fn put_several(bytes: &mut Vec<u8>, number: u64) {
    let mut spread = (number & 0x00FF_FFFF_F000_0000) << 4 | number & 0x0FFF_FFFF;
    spread = (spread & 0x0FFF_C000_0FFF_C000) << 2 | spread & 0x0000_3FFF_0000_3FFF;
    spread = (spread & 0x3F80_3F80_3F80_3F80) << 1 | spread & 0x007F_007F_007F_007F;
    let last = spread.ilog2() / u8::BITS; // the byte that no more follow
    let more = 0x8080_8080_8080_8080 & ((1 << (last * u8::BITS)) - 1);
    let end = bytes.len() + last as usize + 1;
    bytes.extend_from_slice(&(spread | more).to_le_bytes());
    bytes.truncate(end);
}

#[cold]
fn put_many(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= u64::from(MORE) {
        bytes.push(number as u8 | MORE);
        number >>= BITS;
    }
    bytes.push(number as u8);
}

#[inline(always)]
fn taken<'a>(bytes: &mut impl Iterator<Item = &'a u8>) -> u64 {
    let (mut number, mut shift) = (0, 0);
    for &byte in bytes {
        number |= u64::from(byte & !MORE) << shift;
        shift += BITS;
        if byte & MORE == 0 {
            break;
        }
    }
    number
}
