//! What Python calls of the pass over a capture that comes piece by piece.
//!
//! A piece stays in the kernel: `RunningDecoder` decodes it, Python gives its flows the numbers of the capture,
//! and `RunningPass` counts it. What Python decoded comes as columns, and takes the same way from there.

use numpy::{Element, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::flows::Flows;
use crate::link::UNTAGGED;
use crate::pass::beginning::Beginning;
use crate::pass::connection::{Rows, Summary};
use crate::pass::running::{Piece, Running, Side};
use crate::segments::{Part, Records, Syn, picked, push, with_room};
use crate::{Columns, OutOfMemory, flows_dict, out_of_memory, outside, part_dict, summarise};

/// Segments in capture order.
#[pyclass]
pub struct Segments {
    pub part: Part,
    pub time_ns: Vec<i64>,
}

/// Segments that Python has to keep.
pub struct Kept {
    /// Twice the number of the connection, + 1 if the flow's second end sent it.
    pub direction: Vec<i32>,
    time_ns: Vec<i64>,
    part: Part,
}

/// Direction, time and columns of kept segments in Python.
type KeptColumns<'py> = (Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyDict>);

impl Kept {
    pub fn columns(self, py: Python<'_>) -> PyResult<KeptColumns<'_>> {
        let columns = (PyArray1::from_vec(py, self.direction), PyArray1::from_vec(py, self.time_ns));
        Ok((columns.0, columns.1, part_dict(py, self.part)?))
    }
}

impl Segments {
    /// Count them; return those that Python has to keep.
    pub fn counted(&self, running: &mut Running) -> Result<Option<Kept>, OutOfMemory> {
        let kept = running.add(&self.piece())?;
        if kept.rows.is_empty() {
            return Ok(None);
        }
        let (time_ns, part) = (picked(&self.time_ns, &kept.rows)?, self.part.picked(&kept.rows)?);
        Ok(Some(Kept { direction: kept.direction, time_ns, part }))
    }

    fn piece(&self) -> Piece<'_> {
        let part = &self.part;
        let rows = Rows {
            direction: &part.flow,
            time_ns: &self.time_ns,
            seq: &part.seq,
            ack: &part.ack,
            payload_bytes: &part.payload_bytes,
            flags: &part.flags,
            window: &part.window,
            ip_id: &part.ip_id,
            marks: &part.marks,
        };
        Piece { rows, tsval: &part.tsval, sack: &part.sack, syn: &part.syn }
    }
}

fn column<T: Element + Copy>(table: &Bound<'_, PyDict>, name: &str) -> PyResult<Vec<T>> {
    converted(table, name, |value| value)
}

fn converted<T: Element + Copy, R>(
    table: &Bound<'_, PyDict>,
    name: &str,
    convert: impl Fn(T) -> R,
) -> PyResult<Vec<R>> {
    let missing = || PyValueError::new_err(format!("no column {name}"));
    let values: PyReadonlyArray1<T> = table.get_item(name)?.ok_or_else(missing)?.extract()?;
    let mut copy = with_room(values.as_array().len()).map_err(|_| out_of_memory())?;
    copy.extend(values.as_array().iter().copied().map(convert));
    Ok(copy)
}

#[pymethods]
impl Segments {
    fn __len__(&self) -> usize {
        self.time_ns.len()
    }

    /// Segments in IPv4; the others are in IPv6.
    #[getter]
    fn in_ipv4(&self) -> usize {
        self.part.in_ipv4
    }

    /// Return the records that Python decodes: ascending.
    fn rest<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_slice(py, &self.part.rest)
    }

    /// Return the flows that are new; None if all are known.
    fn flows<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let flows = &self.part.flows;
        if flows.is_empty() { Ok(None) } else { flows_dict(py, flows).map(Some) }
    }
}

/// Return segments of which there are tables: SEGMENTS, SACK_BLOCKS and SYN_OPTIONS.
#[pyfunction]
pub fn segments_of(
    table: &Bound<'_, PyDict>,
    sack_blocks: &Bound<'_, PyDict>,
    syn_options: &Bound<'_, PyDict>,
) -> PyResult<Segments> {
    let mut part = Part {
        record: converted(table, "frame", |frame: u32| i64::from(frame))?,
        flow: column(table, "flow")?,
        seq: column(table, "seq")?,
        ack: column(table, "ack")?,
        payload_bytes: column(table, "payload_bytes")?,
        flags: column(table, "flags")?,
        window: column(table, "window")?,
        ip_id: column(table, "ip_id")?,
        tsval: column(table, "tsval")?,
        tsecr: column(table, "tsecr")?,
        sack_blocks: column(table, "sack_blocks")?,
        marks: column(table, "marks")?,
        ..Part::default()
    };
    let (left, right) = (column(sack_blocks, "left")?, column(sack_blocks, "right")?);
    for (place, row) in column(sack_blocks, "row")?.into_iter().enumerate() {
        push(&mut part.sack, (row, left[place], right[place])).map_err(|_| out_of_memory())?;
    }
    let (mss_bytes, scale) = (column(syn_options, "mss_bytes")?, column(syn_options, "window_scale")?);
    let (sack, mptcp) = (column(syn_options, "sack_permitted")?, column(syn_options, "mptcp")?);
    let fast_open = column(syn_options, "fast_open")?;
    for (place, row) in column(syn_options, "row")?.into_iter().enumerate() {
        let syn = Syn {
            row,
            mss_bytes: mss_bytes[place],
            window_scale: scale[place],
            sack_permitted: sack[place],
            mptcp: mptcp[place],
            fast_open: fast_open[place],
        };
        push(&mut part.syn, syn).map_err(|_| out_of_memory())?;
    }
    Ok(Segments { part, time_ns: column(table, "time_ns")? })
}

/// Decodes a capture block by block, and knows its flows.
#[pyclass]
pub struct RunningDecoder {
    flows: Flows,
    /// Of each flow: the directed flow of the capture that its first packet has.
    numbers: Vec<i32>,
}

#[pymethods]
impl RunningDecoder {
    #[new]
    fn new() -> Self {
        Self { flows: Flows::new(), numbers: Vec::new() }
    }

    /// Return the segments of packet records, of which the first one is number `first_frame` of its file.
    #[allow(clippy::too_many_arguments)]
    fn decode(
        &mut self,
        py: Python<'_>,
        data: PyReadonlyArray1<'_, u8>,
        start: PyReadonlyArray1<'_, i64>,
        captured: PyReadonlyArray1<'_, i64>,
        original: PyReadonlyArray1<'_, i64>,
        link_type: PyReadonlyArray1<'_, i64>,
        time_ns: PyReadonlyArray1<'_, i64>,
        first_frame: i64,
    ) -> PyResult<Segments> {
        let records = Records {
            data: data.as_slice()?,
            start: start.as_slice()?,
            captured: captured.as_slice()?,
            original: original.as_slice()?,
            link_type: link_type.as_slice()?,
        };
        let time_ns = time_ns.as_slice()?;
        outside(py, || {
            let mut part = records.part(0, records.start.len(), &mut self.flows)?;
            let time_ns = picked(time_ns, &part.record)?;
            part.record.iter_mut().for_each(|record| *record += first_frame);
            Ok(Segments { part, time_ns })
        })
    }

    /// Number the flows of segments as the capture does; `numbers` are of those that are new.
    fn number(&mut self, segments: &mut Segments, numbers: PyReadonlyArray1<'_, i32>) -> PyResult<()> {
        let numbers = numbers.as_slice()?;
        self.numbers.try_reserve(numbers.len()).map_err(|_| out_of_memory())?;
        self.numbers.extend(numbers);
        for flow in &mut segments.part.flow {
            let known = self.numbers.get((*flow >> 1) as usize);
            *flow = known.ok_or_else(|| PyValueError::new_err("a flow has no number"))? ^ (*flow & 1);
        }
        Ok(())
    }
}

/// The connections of a capture, counted while it is read; see `multitracer/analysis/running.py`.
#[pyclass]
#[derive(Default)]
pub struct RunningPass {
    pub running: Running,
    /// What was counted, if that is known already.
    pub summaries: Option<Vec<Summary>>,
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
impl RunningPass {
    #[new]
    fn new() -> Self {
        Self::default()
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
    fn giants(&self) -> i64 {
        self.running.giants
    }

    /// How many segments there are so far.
    #[getter]
    fn segments(&self) -> usize {
        self.running.segments
    }

    /// Take in the next segments; return those that Python has to keep as (direction, time_ns, part) or None.
    fn add<'py>(&mut self, py: Python<'py>, segments: &Segments) -> PyResult<Option<KeptColumns<'py>>> {
        let kept = outside(py, || segments.counted(&mut self.running))?;
        self.running.is_odd |= segments.part.flows.iter().any(|flow| flow.vlan != UNTAGGED);
        kept.map(|kept| kept.columns(py)).transpose()
    }

    /// Return (what `summarise` returns, by directed flow; the rest of each directed flow; each connection).
    fn finish<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>, Bound<'py, PyDict>)> {
        let kept: Vec<i64> =
            (0..self.running.beginnings.len()).map(|c| i64::from(self.running.is_kept(c))).collect();
        let summaries = match self.summaries.take() {
            Some(summaries) => summaries,
            None => outside(py, || self.running.finish())?,
        };
        let counted = summarise::columns(py, &summaries)?;
        let sides = Columns(PyDict::new(py));
        let each: Vec<&Side> = self.running.sides.iter().flatten().collect();
        sides.of("stamped", &each, |s| s.stamps.count as i64)?;
        sides.of("payload_bytes", &each, |s| s.payload_bytes)?;
        sides.of("mss_bytes", &each, |s| s.announced.mss_bytes)?;
        sides.of("window_scale", &each, |s| s.announced.window_scale)?;
        sides.of("sack_segments", &each, |s| s.announced.sack_segments)?;
        sides.of("dsack_segments", &each, |s| s.announced.dsack_segments)?;
        for (name, flag) in FLAGS {
            sides.of(name, &each, |s| flag(s))?;
        }
        let begun = Columns(PyDict::new(py));
        let side = |side: Option<usize>| side.map_or(-1, |side| side as i64);
        begun.of("flow", &self.running.beginnings, |b: &Beginning| b.flow as i64)?;
        begun.of("first", &self.running.beginnings, |b| b.first as i64)?;
        begun.of("first_syn", &self.running.beginnings, |b| side(b.first_syn))?;
        begun.of("first_answer", &self.running.beginnings, |b| side(b.first_answer))?;
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
        let stamps = &self.running.sides[direction >> 1][direction & 1].stamps;
        let (times_ns, stamps) = outside(py, || stamps.columns())?;
        Ok((PyArray1::from_vec(py, times_ns), PyArray1::from_vec(py, stamps)))
    }
}
