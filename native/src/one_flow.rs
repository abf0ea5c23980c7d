//! What Python calls to get the segments of one flow; see `one_flow.rs` of the core.

use multitracer_core::one_flow::{Ends, OneFlow};
use multitracer_core::segments::Records;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{out_of_memory, outside, part_dict};

/// Decodes the segments of one flow, block by block.
#[pyclass]
pub struct FlowDecoder(OneFlow);

#[pymethods]
impl FlowDecoder {
    /// Decode what the ends `a` and `b` sent each other, up to `rows` segments of it.
    #[new]
    fn new(version: u8, a: (Vec<u8>, u16), b: (Vec<u8>, u16), rows: usize) -> PyResult<Self> {
        let short = || pyo3::exceptions::PyValueError::new_err("an address is too short");
        let ends = Ends::of(version, (&a.0, a.1), (&b.0, b.1)).ok_or_else(short)?;
        Ok(Self(OneFlow::of(ends, rows).map_err(|_| out_of_memory())?))
    }

    /// Take in packet records, of which the first one is number `first_frame` of its file.
    #[allow(clippy::too_many_arguments)]
    fn add(
        &mut self,
        py: Python<'_>,
        data: PyReadonlyArray1<'_, u8>,
        start: PyReadonlyArray1<'_, i64>,
        captured: PyReadonlyArray1<'_, i64>,
        original: PyReadonlyArray1<'_, i64>,
        link_type: PyReadonlyArray1<'_, i64>,
        time_ns: PyReadonlyArray1<'_, i64>,
        first_frame: i64,
    ) -> PyResult<()> {
        let records = Records {
            data: data.as_slice()?,
            start: start.as_slice()?,
            captured: captured.as_slice()?,
            original: original.as_slice()?,
            link_type: link_type.as_slice()?,
        };
        let time_ns = time_ns.as_slice()?;
        outside(py, || self.0.take_in(&records, time_ns, first_frame))
    }

    /// Return the times and the columns of what was found; `flow` is 0 where the end `a` sent it, else 1.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyDict>)> {
        let (part, time_ns) = (std::mem::take(&mut self.0.part), std::mem::take(&mut self.0.time_ns));
        Ok((PyArray1::from_vec(py, time_ns), part_dict(py, part)?))
    }
}
