//! What Python calls to get what each segment of a connection was, piece by piece.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::Borrowed;
use crate::{Columns, outside};
use multitracer_core::pass::each::Each;

/// The segments of one connection, which are walked over twice; see `pass/each.rs`.
#[pyclass]
pub struct EachSegment {
    each: Option<Each>,
    next: usize,
}

#[pymethods]
impl EachSegment {
    /// Walk over the rows of a connection, all of them, ascending.
    ///
    /// `columns` are those of SEGMENTS and of SACK_BLOCKS, and `direction`, odd for what the responder sent.
    #[new]
    fn new(py: Python<'_>, rows: PyReadonlyArray1<'_, u32>, columns: &Bound<'_, PyDict>) -> PyResult<Self> {
        let (borrowed, rows) = (Borrowed::of(columns)?, rows.as_slice()?);
        let source = borrowed.source()?;
        let each = outside(py, || Each::of(rows, &source))?;
        Ok(Self { each, next: 0 })
    }

    /// Whether it is known; else the connection is for Python.
    #[getter]
    fn is_known(&self) -> bool {
        self.each.is_some()
    }

    /// Return what the next segments were, as columns; `rows` and `columns` as before, `rows` of these alone.
    ///
    /// `exact` and `echo` are the rows of the ACKs that answer each, 2^32 - 1 without one.
    fn next<'py>(
        &mut self,
        py: Python<'py>,
        rows: PyReadonlyArray1<'py, u32>,
        columns: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (borrowed, rows) = (Borrowed::of(columns)?, rows.as_slice()?);
        let source = borrowed.source()?;
        let each = self.each.as_mut().ok_or_else(|| PyValueError::new_err("is not known"))?;
        let facts = outside(py, || each.next(rows, &source))?;
        let answer = Columns(PyDict::new(py));
        answer.set("seq_bytes", facts.seq_bytes)?;
        answer.set("end_bytes", facts.end_bytes)?;
        answer.set("ack_bytes", facts.ack_bytes)?;
        answer.set("new_bytes", facts.new_bytes)?;
        answer.set("flight_bytes", facts.flight_bytes)?;
        answer.set("flight_sack_bytes", facts.flight_sack_bytes)?;
        answer.set("kind", facts.kind)?;
        let here = self.next..self.next + rows.len();
        self.next = here.end;
        for (name, all) in [("exact", &each.answers.exact), ("echo", &each.answers.echo)] {
            let here = all.get(here.clone()).ok_or_else(|| PyValueError::new_err("has no such rows"))?;
            answer.0.set_item(name, PyArray1::from_slice(py, here))?;
        }
        Ok(answer.0)
    }
}
