//! A token bucket of one rate over the packets of a transfer: how full it was between losses.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::room::with_room;
use crate::{OutOfMemory, outside};

/// Packets in order of sending; the columns are of equal length.
struct Packets<'a> {
    /// When each was sent.
    time: &'a [f64],
    /// Octets that had passed up to each, itself included.
    passed: &'a [f64],
    /// Octets of each that passed, 0 of others.
    passing: &'a [f64],
    is_lost: &'a [bool],
}

impl Packets<'_> {
    /// Return the most tokens before each packet from each loss on, and how many passed with less than `least`.
    ///
    /// Tokens are those more than after the last loss; before any, than after the first packet.
    fn levels(&self, rate: f64, least: f64) -> Result<(Vec<f64>, usize), OutOfMemory> {
        let mut most = with_room(self.is_lost.iter().filter(|&&lost| lost).count())?;
        let (mut short, mut origin) = (0, None);
        let times = self.time.iter().zip(self.passed);
        for ((&time, &passed), (&passing, &lost)) in times.zip(self.passing.iter().zip(self.is_lost)) {
            let after = rate * time - passed;
            if lost {
                origin = Some(after);
                most.push(f64::NEG_INFINITY);
            }
            let tokens = after - *origin.get_or_insert(after);
            if let Some(highest) = most.last_mut() {
                *highest = f64::max(*highest, tokens + passing);
            }
            short += usize::from(!lost && tokens < least);
        }
        Ok((most, short))
    }
}

/// Return the most tokens from each loss on, and how many packets passed with less than `least`.
#[pyfunction]
pub fn bucket_levels<'py>(
    py: Python<'py>,
    columns: [PyReadonlyArray1<'py, f64>; 3],
    is_lost: PyReadonlyArray1<'py, bool>,
    rate: f64,
    least: f64,
) -> PyResult<(Bound<'py, PyArray1<f64>>, usize)> {
    let [time, passed, passing] = &columns;
    let packets = Packets {
        time: time.as_slice()?,
        passed: passed.as_slice()?,
        passing: passing.as_slice()?,
        is_lost: is_lost.as_slice()?,
    };
    let (most, short) = outside(py, || packets.levels(rate, least))?;
    Ok((PyArray1::from_vec(py, most), short))
}
