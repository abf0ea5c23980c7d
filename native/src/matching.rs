//! The same packets at two capture points, by a table where `multitracer/clock/captures/matching.py` sorts.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use multitracer_core::identities::{Field, Packets};
use multitracer_core::partners::{Copies, Partners, Point, Same, Two, among, named, wide};

use crate::outside;

/// A column of SEGMENTS.
#[derive(FromPyObject)]
pub enum Column<'py> {
    Unsigned(PyReadonlyArray1<'py, u32>),
    Short(PyReadonlyArray1<'py, u16>),
    Signed(PyReadonlyArray1<'py, i32>),
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

/// Return columns of SEGMENTS, of all rows or of some.
fn packets<'a, 'py>(
    columns: &'a [Column<'py>],
    rows: Option<&'a PyReadonlyArray1<'py, i64>>,
) -> PyResult<Packets<'a>> {
    let fields = columns.iter().map(Column::field).collect::<PyResult<Vec<_>>>()?;
    Ok(Packets { fields, rows: rows.map(|rows| rows.as_slice()).transpose()? })
}

/// Return a hash of some columns of each row, or of some rows; see `identities` in `matching.py`.
#[pyfunction]
pub fn identities<'py>(
    py: Python<'py>,
    columns: Vec<Column<'py>>,
    rows: Option<PyReadonlyArray1<'py, i64>>,
) -> PyResult<Bound<'py, PyArray1<u64>>> {
    let packets = packets(&columns, rows.as_ref())?;
    Ok(PyArray1::from_vec(py, outside(py, || packets.identities())?))
}

type Columns<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

fn columns<'py>(py: Python<'py>, (one, other): Two) -> Columns<'py> {
    (PyArray1::from_vec(py, one), PyArray1::from_vec(py, other))
}

/// Return how many keys equal to each came before it, and how many there are.
#[pyfunction]
pub fn copies<'py>(py: Python<'py>, key: PyReadonlyArray1<'py, u64>) -> PyResult<Columns<'py>> {
    let key = key.as_slice()?;
    let Copies { number, total } = outside(py, || Copies::of(key))?;
    let total = PyArray1::from_vec(py, outside(py, || wide(total, key.len(), 1))?);
    if number.is_empty() {
        return Ok((PyArray1::zeros(py, key.len(), false), total)); // pages that nobody writes cost nothing
    }
    Ok((PyArray1::from_vec(py, outside(py, || wide(number, key.len(), 0))?), total))
}

/// Return the indexes of the keys that are among some wanted ones.
#[pyfunction]
#[pyo3(name = "among")]
pub fn keys_among<'py>(
    py: Python<'py>,
    key: PyReadonlyArray1<'py, u64>,
    wanted: PyReadonlyArray1<'py, u64>,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let (key, wanted) = (key.as_slice()?, wanted.as_slice()?);
    Ok(PyArray1::from_vec(py, outside(py, || among(key, wanted))?))
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
    let (near_key, near_copy) = (near_key.as_slice()?, near_copy.as_slice()?);
    let (far_key, far_copy) = (far_key.as_slice()?, far_copy.as_slice()?);
    let pairs = outside(py, || {
        let names = (named(near_key, near_copy)?, named(far_key, far_copy)?);
        Partners::new(&names.0, &names.1)?.pairs()
    })?;
    Ok(columns(py, pairs))
}

type Flags<'py> = Bound<'py, PyArray1<bool>>;
type Matched<'py> = (Columns<'py>, (Flags<'py>, Flags<'py>, Flags<'py>));

/// Return the packets that are the same at both points; see `_match_by` in `matching.py`.
#[pyfunction]
pub fn same_packets<'py>(
    py: Python<'py>,
    near: (Vec<Column<'py>>, Option<PyReadonlyArray1<'py, i64>>),
    far: (Vec<Column<'py>>, Option<PyReadonlyArray1<'py, i64>>),
    only: Option<PyReadonlyArray1<'py, i64>>,
) -> PyResult<Matched<'py>> {
    let (one, other) = (packets(&near.0, near.1.as_ref())?, packets(&far.0, far.1.as_ref())?);
    let only = only.as_ref().map(|rows| rows.as_slice()).transpose()?;
    let same = outside(py, || {
        let (near, far) = (Point::of(one.identities()?)?, Point::of(other.identities()?)?);
        Same::of(&near, &far, only)
    })?;
    let flags = [same.is_first, same.are_equal, same.is_alone].map(|flag| PyArray1::from_vec(py, flag));
    let [first, equal, alone] = flags;
    Ok((columns(py, (same.near, same.far)), (first, equal, alone)))
}
