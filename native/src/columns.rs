//! Columns of Python: those of a capture, and what looks at any; see `search.rs` and `spans.rs` of the core.

use multitracer_core::pass::connection::Rows;
use multitracer_core::pass::source::Source;
use multitracer_core::search::found;
use multitracer_core::spans::{least, painted};
use numpy::{Element, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::outside;

/// Return a column of a table.
pub fn column<'py, T: Element>(table: &Bound<'py, PyDict>, name: &str) -> PyResult<PyReadonlyArray1<'py, T>> {
    let column = table.get_item(name)?;
    column.ok_or_else(|| PyValueError::new_err(format!("no column {name}")))?.extract()
}

/// The columns of a capture that are read, borrowed for a call.
pub struct Borrowed<'py> {
    direction: PyReadonlyArray1<'py, i32>,
    time_ns: PyReadonlyArray1<'py, i64>,
    numbers: [PyReadonlyArray1<'py, u32>; 6],
    payload_bytes: PyReadonlyArray1<'py, i32>,
    small: [PyReadonlyArray1<'py, u16>; 4],
    sack_row: PyReadonlyArray1<'py, i64>,
}

impl<'py> Borrowed<'py> {
    pub fn of(columns: &Bound<'py, PyDict>) -> PyResult<Self> {
        let number = |name| column(columns, name);
        let small = |name| column(columns, name);
        Ok(Self {
            direction: column(columns, "direction")?,
            time_ns: column(columns, "time_ns")?,
            numbers: [
                number("seq")?,
                number("ack")?,
                number("tsval")?,
                number("tsecr")?,
                number("left")?,
                number("right")?,
            ],
            payload_bytes: column(columns, "payload_bytes")?,
            small: [small("flags")?, small("window")?, small("ip_id")?, small("marks")?],
            sack_row: column(columns, "row")?,
        })
    }

    pub fn source(&self) -> PyResult<Source<'_>> {
        let [seq, ack, tsval, tsecr, left, right] = &self.numbers;
        let [flags, window, ip_id, marks] = &self.small;
        let rows = Rows {
            direction: self.direction.as_slice()?,
            time_ns: self.time_ns.as_slice()?,
            seq: seq.as_slice()?,
            ack: ack.as_slice()?,
            payload_bytes: self.payload_bytes.as_slice()?,
            flags: flags.as_slice()?,
            window: window.as_slice()?,
            ip_id: ip_id.as_slice()?,
            marks: marks.as_slice()?,
        };
        Ok(Source {
            rows,
            tsval: tsval.as_slice()?,
            tsecr: tsecr.as_slice()?,
            sack_row: self.sack_row.as_slice()?,
            left: left.as_slice()?,
            right: right.as_slice()?,
        })
    }
}

/// Return what `numpy.searchsorted` does; None if the column is not sorted, or the values not nearly.
#[pyfunction]
pub fn places<'py>(
    py: Python<'py>,
    ordered: PyReadonlyArray1<'py, i64>,
    values: PyReadonlyArray1<'py, i64>,
    right: bool,
) -> PyResult<Option<Bound<'py, PyArray1<i64>>>> {
    let (ordered, values) = (ordered.as_slice()?, values.as_slice()?);
    Ok(outside(py, || found(ordered, values, right))?.map(|places| PyArray1::from_vec(py, places)))
}

/// Return the minimum of values[low[i]:high[i]] for each i; None if the stretches are not in order.
#[pyfunction]
pub fn span_minimum<'py>(
    py: Python<'py>,
    values: PyReadonlyArray1<'py, i64>,
    low: PyReadonlyArray1<'py, i64>,
    high: PyReadonlyArray1<'py, i64>,
) -> PyResult<Option<Bound<'py, PyArray1<i64>>>> {
    let (values, low, high) = (values.as_slice()?, low.as_slice()?, high.as_slice()?);
    Ok(outside(py, || least(values, low, high))?.map(|found| PyArray1::from_vec(py, found)))
}

/// Return for each cell the first of the spans that covers it, or their number; None if one covers no cell.
#[pyfunction]
pub fn first_painters<'py>(
    py: Python<'py>,
    left: PyReadonlyArray1<'py, i64>,
    right: PyReadonlyArray1<'py, i64>,
    cells: usize,
) -> PyResult<Option<Bound<'py, PyArray1<i64>>>> {
    let (left, right) = (left.as_slice()?, right.as_slice()?);
    Ok(outside(py, || painted(left, right, cells))?.map(|owner| PyArray1::from_vec(py, owner)))
}
