//! What Python calls of the pass over a capture that comes piece by piece.
//!
//! A piece stays in the kernel: `RunningDecoder` decodes it, Python gives its flows the numbers of the capture,
//! and `RunningPass` counts it. What Python decoded comes as columns, and takes the same way from there.

use numpy::{Element, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{Columns, flows_dict, out_of_memory, outside, part_dict, summarise};
use multitracer_core::block::Block;
use multitracer_core::flows::Flows;
use multitracer_core::kept::Kept;
use multitracer_core::link::UNTAGGED;
use multitracer_core::pass::beginning::Beginning;
use multitracer_core::pass::running::{Running, Side};
use multitracer_core::pass::stamps::Stamps;
use multitracer_core::room::{push, with_room};
use multitracer_core::segment_row::{Row, Syn};
use multitracer_core::segments::Records;
use multitracer_core::times::{calm, disagreements};

/// Segments in capture order.
#[pyclass]
pub struct Segments(Block);

/// Direction, time and columns of kept segments in Python.
pub type KeptColumns<'py> = (Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyDict>);

/// Return kept segments as columns.
pub fn kept_columns(py: Python<'_>, kept: Kept) -> PyResult<KeptColumns<'_>> {
    let columns = (PyArray1::from_vec(py, kept.direction), PyArray1::from_vec(py, kept.time_ns));
    Ok((columns.0, columns.1, part_dict(py, kept.part)?))
}

fn column<T: Element + Copy>(table: &Bound<'_, PyDict>, name: &str) -> PyResult<Vec<T>> {
    let missing = || PyValueError::new_err(format!("no column {name}"));
    let values: PyReadonlyArray1<T> = table.get_item(name)?.ok_or_else(missing)?.extract()?;
    let mut copy = with_room(values.as_array().len()).map_err(|_| out_of_memory())?;
    copy.extend(values.as_array().iter().copied());
    Ok(copy)
}

/// Write a column of a table into the rows.
fn put<T: Element + Copy>(
    rows: &mut [Row],
    table: &Bound<'_, PyDict>,
    name: &str,
    put: impl Fn(&mut Row, T),
) -> PyResult<()> {
    rows.iter_mut().zip(column(table, name)?).for_each(|(row, value)| put(row, value));
    Ok(())
}

#[pymethods]
impl Segments {
    fn __len__(&self) -> usize {
        self.0.rows.len()
    }

    /// Segments in IPv4; the others are in IPv6.
    #[getter]
    fn in_ipv4(&self) -> usize {
        self.0.in_ipv4
    }

    /// Datagrams of UDP, which are only counted.
    #[getter]
    fn udp(&self) -> usize {
        self.0.udp
    }

    /// Return the records that Python decodes: ascending.
    fn rest<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_slice(py, &self.0.rest)
    }

    /// Return the flows that are new; None if all are known.
    fn flows<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let flows = &self.0.flows;
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
    let mut block = Block::default();
    let time_ns: Vec<i64> = column(table, "time_ns")?;
    block.rows.try_reserve_exact(time_ns.len()).map_err(|_| out_of_memory())?;
    block.rows.extend(time_ns.into_iter().map(|time_ns| Row { time_ns, ..Row::default() }));
    put(&mut block.rows, table, "frame", |row, frame| row.record = frame)?;
    put(&mut block.rows, table, "flow", |row, flow| row.flow = flow)?;
    put(&mut block.rows, table, "seq", |row, seq| row.seq = seq)?;
    put(&mut block.rows, table, "ack", |row, ack| row.ack = ack)?;
    put(&mut block.rows, table, "payload_bytes", |row, bytes| row.payload_bytes = bytes)?;
    put(&mut block.rows, table, "flags", |row, flags| row.flags = flags)?;
    put(&mut block.rows, table, "window", |row, window| row.window = window)?;
    put(&mut block.rows, table, "ip_id", |row, ip_id| row.ip_id = ip_id)?;
    put(&mut block.rows, table, "tsval", |row, tsval| row.tsval = tsval)?;
    put(&mut block.rows, table, "tsecr", |row, tsecr| row.tsecr = tsecr)?;
    put(&mut block.rows, table, "sack_blocks", |row, blocks| row.sack_blocks = blocks)?;
    put(&mut block.rows, table, "marks", |row, marks| row.marks = marks)?;
    let (left, right) = (column(sack_blocks, "left")?, column(sack_blocks, "right")?);
    for (place, row) in column(sack_blocks, "row")?.into_iter().enumerate() {
        push(&mut block.sack, (row, left[place], right[place])).map_err(|_| out_of_memory())?;
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
        push(&mut block.syn, syn).map_err(|_| out_of_memory())?;
    }
    Ok(Segments(block))
}

/// Decodes a capture block by block, and knows its flows.
#[pyclass]
pub struct RunningDecoder {
    flows: Flows,
    /// Of each flow: the directed flow of the capture that its first packet has.
    numbers: Vec<i32>,
    /// Whether the numbers of the capture are not simply those here.
    is_renumbered: bool,
}

#[pymethods]
impl RunningDecoder {
    #[new]
    fn new() -> Self {
        Self { flows: Flows::new(), numbers: Vec::new(), is_renumbered: false }
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
        let block = outside(py, || Block::of(&records, time_ns, &mut self.flows))?;
        Ok(Segments(Block { first_frame, ..block }))
    }

    /// Number the flows of segments as the capture does; `numbers` are of those that are new.
    fn number(&mut self, segments: &mut Segments, numbers: PyReadonlyArray1<'_, i32>) -> PyResult<()> {
        let numbers = numbers.as_slice()?;
        self.numbers.try_reserve(numbers.len()).map_err(|_| out_of_memory())?;
        for &number in numbers {
            self.is_renumbered |= number != 2 * self.numbers.len() as i32;
            self.numbers.push(number);
        }
        if !self.is_renumbered && self.numbers.len() >= segments.0.known_flows {
            return Ok(());
        }
        for Row { flow, .. } in &mut segments.0.rows {
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
        let Segments(block) = segments;
        let kept = outside(py, || Kept::of(block, &mut self.running))?;
        self.running.is_odd |= block.flows.iter().any(|flow| flow.vlan != UNTAGGED);
        kept.map(|kept| kept_columns(py, kept)).transpose()
    }

    /// Return (what `summarise` returns, by directed flow; the rest of each directed flow; each connection).
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
        begun.of("is_kept", &self.running.is_counted, |&is_counted| i64::from(!is_counted))?;
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
    #[pyo3(signature = (direction, *, tick_ns, least_ns, skew, resolution_ns))]
    fn stamp_disagreements<'py>(
        &self,
        py: Python<'py>,
        direction: usize,
        tick_ns: f64,
        least_ns: f64,
        skew: f64,
        resolution_ns: f64,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let pauses = self.stamps_of(direction).pauses();
        let at = outside(py, || disagreements(pauses, tick_ns, least_ns, skew, resolution_ns))?;
        Ok(PyArray1::from_vec(py, at))
    }
}

impl RunningPass {
    fn stamps_of(&self, direction: usize) -> &Stamps {
        &self.running.sides[direction >> 1][direction & 1].stamps
    }
}
