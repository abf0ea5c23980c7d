//! What Python calls to look at columns, whatever they are about; see `search.rs` and `spans.rs` of the core.

use multitracer_core::search::found;
use multitracer_core::spans::{in_order, least, painted};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::outside;

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

/// Return numbers in ascending order.
#[pyfunction]
pub fn ordered<'py>(
    py: Python<'py>,
    values: PyReadonlyArray1<'py, i64>,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let values = values.as_slice()?;
    Ok(PyArray1::from_vec(py, outside(py, || in_order(values))?))
}
