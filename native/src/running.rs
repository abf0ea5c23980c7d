//! What Python calls of the pass over a capture that comes piece by piece.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::pass::beginning::Beginning;
use crate::pass::connection::Rows;
use crate::pass::running::{Running, Side};
use crate::{Columns, outside, summarise};

/// The connections of a capture, counted while it is read; see `multitracer/analysis/running.py`.
#[pyclass]
#[derive(Default)]
pub struct RunningPass(Running);

type Flag = fn(&Side) -> bool;

const FLAGS: [(&str, Flag); 4] = [
    ("has_stamped_syn", |s| s.has_stamped_syn),
    ("has_mptcp", |s| s.has_mptcp),
    ("has_syn", |s| s.has_syn),
    ("has_answer", |s| s.has_answer),
];

#[pymethods]
impl RunningPass {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// How many connections there are so far.
    #[getter]
    fn connections(&self) -> usize {
        self.0.beginnings.len()
    }

    /// Whether there is something that only all segments of a connection tell.
    #[getter]
    fn is_odd(&self) -> bool {
        self.0.is_odd
    }

    /// Take in the next segments; return (direction of each, rows that Python has to keep).
    #[pyo3(signature = (*, flow, time_ns, seq, ack, payload_bytes, flags, window, ip_id, marks, tsval))]
    #[allow(clippy::too_many_arguments, clippy::type_complexity)]
    fn add<'py>(
        &mut self,
        py: Python<'py>,
        flow: PyReadonlyArray1<'py, i32>,
        time_ns: PyReadonlyArray1<'py, i64>,
        seq: PyReadonlyArray1<'py, u32>,
        ack: PyReadonlyArray1<'py, u32>,
        payload_bytes: PyReadonlyArray1<'py, i32>,
        flags: PyReadonlyArray1<'py, u16>,
        window: PyReadonlyArray1<'py, u16>,
        ip_id: PyReadonlyArray1<'py, u16>,
        marks: PyReadonlyArray1<'py, u16>,
        tsval: PyReadonlyArray1<'py, u32>,
    ) -> PyResult<(Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i64>>)> {
        let rows = Rows {
            direction: flow.as_slice()?,
            time_ns: time_ns.as_slice()?,
            seq: seq.as_slice()?,
            ack: ack.as_slice()?,
            payload_bytes: payload_bytes.as_slice()?,
            flags: flags.as_slice()?,
            window: window.as_slice()?,
            ip_id: ip_id.as_slice()?,
            marks: marks.as_slice()?,
        };
        let tsval = tsval.as_slice()?;
        let placed = outside(py, || self.0.add(&rows, tsval))?;
        Ok((PyArray1::from_vec(py, placed.direction), PyArray1::from_vec(py, placed.kept)))
    }

    /// Return (what `summarise` returns, by directed flow; the rest of each directed flow; each connection).
    fn finish<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>, Bound<'py, PyDict>)> {
        let kept: Vec<i64> = (0..self.0.beginnings.len()).map(|c| i64::from(self.0.is_kept(c))).collect();
        let counted = summarise::columns(py, &outside(py, || self.0.finish())?)?;
        let sides = Columns(PyDict::new(py));
        let each: Vec<&Side> = self.0.sides.iter().flatten().collect();
        sides.of("stamped", &each, |s| s.stamps.count as i64)?;
        sides.of("payload_bytes", &each, |s| s.payload_bytes)?;
        for (name, flag) in FLAGS {
            sides.of(name, &each, |s| flag(s))?;
        }
        let begun = Columns(PyDict::new(py));
        let side = |side: Option<usize>| side.map_or(-1, |side| side as i64);
        begun.of("flow", &self.0.beginnings, |b: &Beginning| b.flow as i64)?;
        begun.of("first", &self.0.beginnings, |b| b.first as i64)?;
        begun.of("first_syn", &self.0.beginnings, |b| side(b.first_syn))?;
        begun.of("first_answer", &self.0.beginnings, |b| side(b.first_answer))?;
        begun.set("is_kept", kept)?;
        Ok((counted, sides.0, begun.0))
    }

    /// Return the times and the timestamps of a directed flow's stamped segments.
    #[allow(clippy::type_complexity)]
    fn stamps<'py>(
        &self,
        py: Python<'py>,
        direction: usize,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u32>>)> {
        let stamps = &self.0.sides[direction >> 1][direction & 1].stamps;
        let (times_ns, stamps) = outside(py, || stamps.columns())?;
        Ok((PyArray1::from_vec(py, times_ns), PyArray1::from_vec(py, stamps)))
    }
}
