//! What Python calls of the pass, the one that counts.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::{Borrowed, column};
use crate::{Columns, out_of_memory, outside, part_dict, summarise};
use multitracer_core::kept::Kept;
use multitracer_core::pass::beginning::Beginning;
use multitracer_core::pass::running::{Running, Side};
use multitracer_core::pass::stamps::Stamps;
use multitracer_core::room::with_room;
use multitracer_core::segment_row::Syn;
use multitracer_core::times::{calm, disagreements};

/// Direction, time and columns of kept segments in Python.
pub type KeptColumns<'py> = (Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyDict>);

/// Return kept segments as columns.
pub fn kept_columns(py: Python<'_>, kept: Kept) -> PyResult<KeptColumns<'_>> {
    let columns = (PyArray1::from_vec(py, kept.direction), PyArray1::from_vec(py, kept.time_ns));
    Ok((columns.0, columns.1, part_dict(py, kept.part)?))
}

/// Return the options of SYNs, the rows of SYN_OPTIONS.
fn syns(table: &Bound<'_, PyDict>) -> PyResult<Vec<Syn>> {
    let (row, mss_bytes, window_scale): (
        PyReadonlyArray1<i64>,
        PyReadonlyArray1<i32>,
        PyReadonlyArray1<i16>,
    ) = (column(table, "row")?, column(table, "mss_bytes")?, column(table, "window_scale")?);
    let flags: [PyReadonlyArray1<bool>; 3] =
        [column(table, "sack_permitted")?, column(table, "mptcp")?, column(table, "fast_open")?];
    let (row, mss_bytes, window_scale) = (row.as_slice()?, mss_bytes.as_slice()?, window_scale.as_slice()?);
    let [sack_permitted, mptcp, fast_open] =
        [flags[0].as_slice()?, flags[1].as_slice()?, flags[2].as_slice()?];
    let mut syns = with_room(row.len()).map_err(|_| out_of_memory())?;
    syns.extend((0..row.len()).map(|at| Syn {
        row: row[at],
        mss_bytes: mss_bytes[at],
        window_scale: window_scale[at],
        sack_permitted: sack_permitted[at],
        mptcp: mptcp[at],
        fast_open: fast_open[at],
    }));
    Ok(syns)
}

/// The connections of a capture, counted while it is read; see `multitracer/analysis/running.py`.
#[pyclass]
#[derive(Default)]
pub struct CountingPass {
    pub running: Running,
}

type Flag = fn(&Side) -> bool;

const FLAGS: [(&str, Flag); 5] = [
    ("sack_permitted", |s| s.announced.sack_permitted),
    ("has_stamped_syn", |s| s.has_stamped_syn),
    ("has_mptcp", |s| s.has_mptcp),
    ("has_syn", |s| s.has_syn),
    ("has_answer", |s| s.has_answer),
];

#[pymethods]
impl CountingPass {
    /// Count the connections that come, or some that are known: from one number to below another.
    #[new]
    #[pyo3(signature = (known=None))]
    fn new(py: Python<'_>, known: Option<(usize, usize)>) -> PyResult<Self> {
        let Some((first, end)) = known else { return Ok(Self::default()) };
        Ok(Self { running: outside(py, || Running::of(first..end))? })
    }

    /// How many connections there are so far.
    #[getter]
    fn connections(&self) -> usize {
        self.running.beginnings.len()
    }

    /// Whether there is something that only all segments of a connection tell.
    #[getter]
    fn is_odd(&self) -> bool {
        self.running.is_odd
    }

    /// How many segments have each bit of their marks, except `HAS_TIMESTAMPS`.
    #[getter]
    fn marked(&self) -> [i64; 16] {
        self.running.marked
    }

    /// How many of the counted segments are larger than their receiver accepts.
    #[getter]
    fn oversized(&self) -> i64 {
        self.running.oversized
    }

    /// How many segments there are so far.
    #[getter]
    fn segments(&self) -> usize {
        self.running.segments
    }

    /// Take in the next segments, from row `begin` on, of columns as for `EachSegment` and those of SYN_OPTIONS;
    /// `direction` is the directed flow where connections are not known. Return (rows, direction) of the segments
    /// that Python has to keep: twice the number of the connection, and 1 for what the flow's second end sent.
    #[allow(clippy::type_complexity)]
    fn add<'py>(
        &mut self,
        py: Python<'py>,
        columns: &Bound<'py, PyDict>,
        syn_options: &Bound<'py, PyDict>,
        begin: usize,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i32>>)> {
        let (borrowed, syn) = (Borrowed::of(columns)?, syns(syn_options)?);
        let source = borrowed.source()?;
        let kept = outside(py, || {
            let mut sack = with_room(source.sack_row.len())?;
            let edges = source.left.iter().zip(source.right);
            sack.extend(source.sack_row.iter().zip(edges).map(|(&row, (&left, &right))| (row, left, right)));
            self.running.add_rows(&source, begin, &syn, &sack)
        })?;
        let rows = kept.rows.into_iter().map(|row| row as i64);
        Ok((PyArray1::from_iter(py, rows), PyArray1::from_vec(py, kept.direction)))
    }

    /// Return (what was counted of each direction; what else is known of it; how each connection began).
    fn finish<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>, Bound<'py, PyDict>)> {
        let summaries = outside(py, || self.running.finish())?;
        let counted = summarise::columns(py, &summaries)?;
        let sides = Columns(PyDict::new(py));
        let mut each: Vec<&Side> = Vec::new();
        each.try_reserve_exact(2 * self.running.sides.len()).map_err(|_| out_of_memory())?;
        each.extend(self.running.sides.iter().flatten());
        sides.of("stamped", &each, |s| s.stamped)?;
        sides.of("payload_bytes", &each, |s| s.payload_bytes)?;
        sides.of("mss_bytes", &each, |s| s.announced.mss_bytes)?;
        sides.of("window_scale", &each, |s| s.announced.window_scale)?;
        sides.of("sack_segments", &each, |s| s.announced.sack_segments)?;
        sides.of("dsack_segments", &each, |s| s.announced.dsack_segments())?;
        for (name, flag) in FLAGS {
            sides.of(name, &each, |s| flag(s))?;
        }
        let begun = Columns(PyDict::new(py));
        let side = |side: Option<usize>| side.map_or(-1, |side| side as i64);
        begun.of("flow", &self.running.beginnings, |b: &Beginning| b.flow as i64)?;
        begun.of("first", &self.running.beginnings, |b| b.first as i64)?;
        begun.of("first_syn", &self.running.beginnings, |b| side(b.first_syn))?;
        begun.of("first_answer", &self.running.beginnings, |b| side(b.first_answer))?;
        begun.of("is_kept", &self.running.is_whole, |&is_whole| i64::from(!is_whole))?;
        Ok((counted, sides.0, begun.0))
    }

    /// Return the times and the timestamps of a directed flow's stamped segments.
    #[allow(clippy::type_complexity)]
    fn stamps<'py>(
        &self,
        py: Python<'py>,
        direction: usize,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u32>>)> {
        let (times_ns, stamps) = outside(py, || self.stamps_of(direction).columns())?;
        Ok((PyArray1::from_vec(py, times_ns), PyArray1::from_vec(py, stamps)))
    }

    /// Do for a directed flow's stamped segments what the function of this name does.
    fn calm_stamps(&self, py: Python<'_>, direction: usize, short_ns: i64) -> PyResult<(usize, i64, i64)> {
        outside(py, || Ok(calm(self.stamps_of(direction).pauses(), short_ns)))
    }

    /// Do for a directed flow's stamped segments what the function of this name does.
    #[pyo3(signature = (direction, *, tick_ns, min_ns, skew, resolution_ns))]
    fn stamp_disagreements<'py>(
        &self,
        py: Python<'py>,
        direction: usize,
        tick_ns: f64,
        min_ns: f64,
        skew: f64,
        resolution_ns: f64,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let pauses = self.stamps_of(direction).pauses();
        let at = outside(py, || disagreements(pauses, tick_ns, min_ns, skew, resolution_ns))?;
        Ok(PyArray1::from_vec(py, at))
    }
}

impl CountingPass {
    fn stamps_of(&self, direction: usize) -> &Stamps {
        &self.running.sides[direction >> 1][direction & 1].stamps
    }
}
