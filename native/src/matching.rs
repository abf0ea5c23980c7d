//! The same packets at two capture points, by a table where `multitracer/clock/captures/matching.py` sorts.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::{OutOfMemory, outside};

// The constants of `matching.py`.
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
const MIX: u64 = 0xBF58_476D_1CE4_E5B9;
/// Nobody is in this place of a table.
const NOBODY: u32 = u32::MAX;

/// Which of some keys is where; of equal keys the first.
struct Table<'a> {
    keys: &'a [u64],
    places: Vec<u32>,
    multiplier: u64,
    shift: u32,
}

impl<'a> Table<'a> {
    /// Its multiplier is random, so that nobody can prepare collisions.
    fn new(keys: &'a [u64]) -> Result<Self, OutOfMemory> {
        let bits = (2 * keys.len()).max(2).next_power_of_two().trailing_zeros();
        if bits > u32::BITS {
            return Err(OutOfMemory);
        }
        let mut places = Vec::new();
        places.try_reserve_exact(1 << bits)?;
        places.resize(1 << bits, NOBODY);
        let multiplier = RandomState::new().build_hasher().finish() | 1;
        Ok(Self { keys, places, multiplier, shift: u64::BITS - bits })
    }

    /// Return the place where a key is, or where it would be.
    fn place(&self, key: u64) -> usize {
        let mut place = (key.wrapping_mul(self.multiplier) >> self.shift) as usize;
        while self.places[place] != NOBODY && self.keys[self.places[place] as usize] != key {
            place = (place + 1) & (self.places.len() - 1);
        }
        place
    }

    /// Return the first key equal to that of `index`, which becomes it if there is none.
    fn first(&mut self, index: usize) -> u32 {
        let place = self.place(self.keys[index]);
        if self.places[place] == NOBODY {
            self.places[place] = index as u32;
        }
        self.places[place]
    }
}

fn reserved<T>(count: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut column = Vec::new();
    column.try_reserve_exact(count)?;
    Ok(column)
}

type Two = (Vec<i64>, Vec<i64>);

/// How many with the same key came before each, and how many there are.
fn counted(keys: &[u64]) -> Result<Two, OutOfMemory> {
    let mut table = Table::new(keys)?;
    let (mut first, mut number, mut total) =
        (reserved(keys.len())?, reserved(keys.len())?, reserved(keys.len())?);
    total.resize(keys.len(), 0i64);
    for index in 0..keys.len() {
        let same = table.first(index) as usize;
        first.push(same as u32);
        number.push(total[same]);
        total[same] += 1;
    }
    for (index, same) in first.into_iter().enumerate() {
        total[index] = total[same as usize]; // the first one comes before its copies, and stays as it is
    }
    Ok((number, total))
}

/// How many distinct keys others hold, of each of these in turn.
fn shared(keys: &[u64], others: &[&[u64]]) -> Result<Vec<usize>, OutOfMemory> {
    let mut table = Table::new(keys)?;
    for index in 0..keys.len() {
        table.first(index);
    }
    let mut is_there = reserved(keys.len())?;
    let mut counts = reserved(others.len())?;
    for other in others {
        is_there.clear();
        is_there.resize(keys.len(), false);
        for &key in *other {
            if let Some(there) = is_there.get_mut(table.places[table.place(key)] as usize) {
                *there = true; // nobody has no place among the keys
            }
        }
        counts.push(is_there.iter().filter(|&&there| there).count());
    }
    Ok(counts)
}

/// What tells packets apart: their identities, and how many with the same came before each.
struct Named<'a> {
    key: &'a [u64],
    copy: &'a [i64],
}

impl Named<'_> {
    fn names(&self) -> Result<Vec<u64>, OutOfMemory> {
        let mut names = reserved(self.key.len())?;
        let both = self.key.iter().zip(self.copy);
        names.extend(both.map(|(key, &copy)| key.wrapping_add((copy as u64).wrapping_mul(MIX))));
        Ok(names)
    }
}

/// Return the indexes of equal names at both points, in order of the near one.
fn pairs(near: &Named, far: &Named) -> Result<Two, OutOfMemory> {
    let (near, far) = (near.names()?, far.names()?);
    let mut table = Table::new(&far)?;
    for index in 0..far.len() {
        table.first(index);
    }
    let (mut left, mut right) = (reserved(near.len())?, reserved(near.len())?);
    for (index, &name) in near.iter().enumerate() {
        let partner = table.places[table.place(name)];
        if partner != NOBODY {
            left.push(index as i64);
            right.push(i64::from(partner));
        }
    }
    Ok((left, right))
}

/// A column of SEGMENTS.
#[derive(FromPyObject)]
pub enum Column<'py> {
    Unsigned(PyReadonlyArray1<'py, u32>),
    Short(PyReadonlyArray1<'py, u16>),
    Signed(PyReadonlyArray1<'py, i32>),
}

#[derive(Clone, Copy)]
enum Field<'a> {
    Unsigned(&'a [u32]),
    Short(&'a [u16]),
    Signed(&'a [i32]),
}

impl Column<'_> {
    fn field(&self) -> PyResult<Field<'_>> {
        Ok(match self {
            Self::Unsigned(column) => Field::Unsigned(column.as_slice()?),
            Self::Short(column) => Field::Short(column.as_slice()?),
            Self::Signed(column) => Field::Signed(column.as_slice()?),
        })
    }
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

/// Return a hash of some columns of each row, or of some rows; see `identities` in `matching.py`.
#[pyfunction]
pub fn identities<'py>(
    py: Python<'py>,
    columns: Vec<Column<'py>>,
    rows: Option<PyReadonlyArray1<'py, i64>>,
) -> PyResult<Bound<'py, PyArray1<u64>>> {
    let fields = columns.iter().map(Column::field).collect::<PyResult<Vec<_>>>()?;
    let rows = rows.as_ref().map(|rows| rows.as_slice()).transpose()?;
    let whole = fields.first().map_or(0, |field| field.len());
    let keys = outside(py, || {
        let count = rows.map_or(whole, <[i64]>::len);
        let mut keys = reserved(count)?;
        keys.resize(count, 0u64);
        fields.iter().for_each(|field| field.mix(&mut keys, rows));
        keys.iter_mut().for_each(|key| *key ^= *key >> 29);
        Ok(keys)
    })?;
    Ok(PyArray1::from_vec(py, keys))
}

type Columns<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

fn columns<'py>(py: Python<'py>, (one, other): Two) -> Columns<'py> {
    (PyArray1::from_vec(py, one), PyArray1::from_vec(py, other))
}

/// Return how many keys equal to each came before it, and how many there are.
#[pyfunction]
pub fn copies<'py>(py: Python<'py>, key: PyReadonlyArray1<'py, u64>) -> PyResult<Columns<'py>> {
    let key = key.as_slice()?;
    Ok(columns(py, outside(py, || counted(key))?))
}

/// Return how many distinct keys others hold, of each of these in turn.
#[pyfunction]
#[pyo3(name = "shared")]
pub fn shared_keys(
    py: Python<'_>,
    key: PyReadonlyArray1<'_, u64>,
    others: Vec<PyReadonlyArray1<'_, u64>>,
) -> PyResult<Vec<usize>> {
    let key = key.as_slice()?;
    let others = others.iter().map(|other| other.as_slice()).collect::<Result<Vec<_>, _>>()?;
    outside(py, || shared(key, &others))
}

/// Return the indexes of equal (key, copy) at both points, in order of the near one.
#[pyfunction]
pub fn join<'py>(
    py: Python<'py>,
    near_key: PyReadonlyArray1<'py, u64>,
    near_copy: PyReadonlyArray1<'py, i64>,
    far_key: PyReadonlyArray1<'py, u64>,
    far_copy: PyReadonlyArray1<'py, i64>,
) -> PyResult<Columns<'py>> {
    let near = Named { key: near_key.as_slice()?, copy: near_copy.as_slice()? };
    let far = Named { key: far_key.as_slice()?, copy: far_copy.as_slice()? };
    Ok(columns(py, outside(py, || pairs(&near, &far))?))
}
