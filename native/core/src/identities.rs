//! What identifies a packet at any capture point: a hash of some columns of its segment.

use crate::OutOfMemory;
use crate::partners::MIX;
use crate::room::with_room;

/// As in `matching.py`.
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

/// A column of SEGMENTS.
#[derive(Clone, Copy)]
pub enum Field<'a> {
    Unsigned(&'a [u32]),
    Short(&'a [u16]),
    Signed(&'a [i32]),
}

impl Field<'_> {
    fn len(self) -> usize {
        match self {
            Self::Unsigned(values) => values.len(),
            Self::Short(values) => values.len(),
            Self::Signed(values) => values.len(),
        }
    }

    fn mix(self, keys: &mut [u64], rows: Option<&[i64]>) {
        match self {
            Self::Unsigned(values) => mix(keys, values, rows, u64::from),
            Self::Short(values) => mix(keys, values, rows, u64::from),
            Self::Signed(values) => mix(keys, values, rows, |value| u64::from(value as u32)),
        }
    }
}

/// Take a field of some rows, or of all, into their keys.
fn mix<T: Copy>(keys: &mut [u64], values: &[T], rows: Option<&[i64]>, number: impl Fn(T) -> u64) {
    let mixed = |key: u64, value: T| {
        let key = (key ^ number(value)).wrapping_mul(ODD);
        (key ^ key >> 31).wrapping_mul(MIX)
    };
    match rows {
        Some(rows) => {
            keys.iter_mut().zip(rows).for_each(|(key, &row)| *key = mixed(*key, values[row as usize]))
        }
        None => keys.iter_mut().zip(values).for_each(|(key, &value)| *key = mixed(*key, value)),
    }
}

/// Columns of SEGMENTS, of all rows or of some.
pub struct Packets<'a> {
    pub fields: Vec<Field<'a>>,
    pub rows: Option<&'a [i64]>,
}

impl Packets<'_> {
    /// Return the hash of each.
    pub fn identities(&self) -> Result<Vec<u64>, OutOfMemory> {
        let whole = self.fields.first().map_or(0, |field| field.len());
        let count = self.rows.map_or(whole, <[i64]>::len);
        let mut keys = with_room(count)?;
        keys.resize(count, 0u64);
        self.fields.iter().for_each(|field| field.mix(&mut keys, self.rows));
        keys.iter_mut().for_each(|key| *key ^= *key >> 29);
        Ok(keys)
    }
}
