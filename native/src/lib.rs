//! The native kernel of MultiTracer as Python sees it: what its Python code does with captures, equal bit for bit,
//! and faster. The work is that of `core/`; here columns come in and go out.
//!
//! Python hands over a piece of a capture in memory and gets columns of the tables back. What is rare stays
//! with Python. Most captures do not come to Python at all: `whole_file.rs` reads a file, or what Python unpacks of
//! it, and says what was counted; `described.rs` takes in how its records lie.
//!
//! What must hold: no unsafe code; nothing outlives a call but what `running.rs` says; where there is no memory
//! Python gets a MemoryError; a panic becomes a `Fault`, whose text says where it was.
#![deny(unsafe_code)]

mod columns;
mod described;
mod each;
mod matching;
mod placed;
mod running;
mod summarise;
mod whole_file;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use multitracer_core::flows::Flow;
use multitracer_core::pcapng::{Interface, Section};
use multitracer_core::segments::{Part, Records};
use multitracer_core::walk::Layout;
use multitracer_core::{OutOfMemory, segments};
use numpy::{Element, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use described::DescribedPcap;

pyo3::create_exception!(multitracer._native, Fault, PyRuntimeError, "A bug in the native kernel.");

static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

fn out_of_memory() -> PyErr {
    PyMemoryError::new_err("out of memory in the native kernel")
}

/// Run `work` without the interpreter's lock; a panic or a lack of memory is a Python exception.
fn outside<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, OutOfMemory> + Send) -> PyResult<T> {
    match py.detach(|| catch_unwind(AssertUnwindSafe(work))) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(OutOfMemory)) => Err(out_of_memory()),
        Err(_) => Err(Fault::new_err(last_panic())),
    }
}

fn last_panic() -> String {
    LAST_PANIC.lock().map_or_else(|_| String::new(), |text| text.clone())
}

/// Return the records of a stretch of a pcap file as (start, captured, original, time_ns, last_s, next).
///
/// None if anything in it is strange.
#[pyfunction]
fn walk_pcap<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    begin: usize,
    end: usize,
    layout: DescribedPcap,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let layout = Layout::from(layout);
    let data = data.as_slice()?;
    let data = data.get(..end).unwrap_or(data);
    let Some(walked) = outside(py, || layout.walk(data, begin, None))? else { return Ok(None) };
    let columns = [walked.start, walked.captured, walked.original, walked.time_ns];
    let [start, captured, original, time_ns] = columns.map(|column| PyArray1::from_vec(py, column));
    let answer = (start, captured, original, time_ns, walked.last_s, walked.next);
    Ok(Some(answer.into_pyobject(py)?.into_any()))
}

/// Return where enhanced packet blocks of pcapng begin, one after the other from `begin` on, and where they end.
#[pyfunction]
#[pyo3(signature = (data, begin, end, *, big_endian))]
fn walk_pcapng<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    begin: usize,
    end: usize,
    big_endian: bool,
) -> PyResult<(Bound<'py, PyArray1<i64>>, usize)> {
    let data = data.as_slice()?;
    let section = Section { data: data.get(..end).unwrap_or(data), is_big_endian: big_endian };
    let (starts, next) = outside(py, || section.walk(begin))?;
    Ok((PyArray1::from_vec(py, starts), next))
}

/// Return the packets of enhanced packet blocks as (interface, start, captured, original, ticks).
///
/// `since` and `largest` are of each interface of the section. None if anything is strange.
#[pyfunction]
#[pyo3(signature = (data, starts, *, big_endian, since, largest, comments))]
fn pcapng_packets<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    starts: PyReadonlyArray1<'py, i64>,
    big_endian: bool,
    since: Vec<i64>,
    largest: Vec<i64>,
    comments: bool,
) -> PyResult<Option<Vec<Bound<'py, PyArray1<i64>>>>> {
    let section = Section { data: data.as_slice()?, is_big_endian: big_endian };
    let interfaces: Vec<_> =
        since.into_iter().zip(largest).map(|(since, largest)| Interface { since, largest }).collect();
    let starts = starts.as_slice()?;
    let Some(packets) = outside(py, || section.packets(starts, &interfaces, comments))? else {
        return Ok(None);
    };
    let columns = [packets.interface, packets.start, packets.captured, packets.original, packets.ticks];
    Ok(Some(columns.into_iter().map(|column| PyArray1::from_vec(py, column)).collect()))
}

/// Return the segments of packet records, in parts, each a dict; see `parsers/_packets/parts.py`.
#[pyfunction]
fn decode<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    start: PyReadonlyArray1<'py, i64>,
    captured: PyReadonlyArray1<'py, i64>,
    original: PyReadonlyArray1<'py, i64>,
    link_type: PyReadonlyArray1<'py, i64>,
) -> PyResult<Bound<'py, PyList>> {
    let records = Records {
        data: data.as_slice()?,
        start: start.as_slice()?,
        captured: captured.as_slice()?,
        original: original.as_slice()?,
        link_type: link_type.as_slice()?,
    };
    let parts = outside(py, || segments::decode(records))?;
    let parts = parts.into_iter().map(|part| part_dict(py, part)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, parts)
}

struct Columns<'py>(Bound<'py, PyDict>);

impl Columns<'_> {
    fn set<T: Element>(&self, name: &str, column: Vec<T>) -> PyResult<()> {
        self.0.set_item(name, PyArray1::from_vec(self.0.py(), column))
    }

    fn of<R, T: Element>(&self, name: &str, rows: &[R], value: impl Fn(&R) -> T) -> PyResult<()> {
        let mut column = Vec::new();
        column.try_reserve_exact(rows.len()).map_err(|_| out_of_memory())?;
        column.extend(rows.iter().map(value));
        self.set(name, column)
    }
}

fn part_dict(py: Python<'_>, part: Part) -> PyResult<Bound<'_, PyDict>> {
    let columns = Columns(PyDict::new(py));
    columns.set("flow", part.flow)?;
    columns.set("seq", part.seq)?;
    columns.set("ack", part.ack)?;
    columns.set("payload_bytes", part.payload_bytes)?;
    columns.set("flags", part.flags)?;
    columns.set("window", part.window)?;
    columns.set("ip_id", part.ip_id)?;
    columns.set("tsval", part.tsval)?;
    columns.set("tsecr", part.tsecr)?;
    columns.set("sack_blocks", part.sack_blocks)?;
    columns.set("marks", part.marks)?;
    let sack = Columns(PyDict::new(py));
    sack.of("row", &part.sack, |block| block.0)?;
    sack.of("left", &part.sack, |block| block.1)?;
    sack.of("right", &part.sack, |block| block.2)?;
    let syn = Columns(PyDict::new(py));
    syn.of("row", &part.syn, |syn| syn.row)?;
    syn.of("mss_bytes", &part.syn, |syn| syn.mss_bytes)?;
    syn.of("window_scale", &part.syn, |syn| syn.window_scale)?;
    syn.of("sack_permitted", &part.syn, |syn| syn.sack_permitted)?;
    syn.of("mptcp", &part.syn, |syn| syn.mptcp)?;
    syn.of("fast_open", &part.syn, |syn| syn.fast_open)?;
    let answer = Columns(PyDict::new(py));
    answer.0.set_item("in_ipv4", part.in_ipv4)?;
    answer.0.set_item("udp", part.udp)?;
    answer.0.set_item("segments", columns.0)?;
    answer.0.set_item("sack_blocks", sack.0)?;
    answer.0.set_item("syn_options", syn.0)?;
    answer.0.set_item("flows", flows_dict(py, &part.flows)?)?;
    answer.set("record", part.record)?;
    answer.set("rest", part.rest)?;
    Ok(answer.0)
}

fn flows_dict<'py>(py: Python<'py>, flows: &[Flow]) -> PyResult<Bound<'py, PyDict>> {
    // as `PacketEndpoints`: the first half of an address, or all of IPv4's; then the second half
    let halves = |version: u8, address: u128| match version {
        4 => (address as u64, 0),
        _ => ((address >> 64) as u64, address as u64),
    };
    let columns = Columns(PyDict::new(py));
    columns.of("version", flows, |f| f.version)?;
    columns.of("source_high", flows, |f| halves(f.version, f.source.address).0)?;
    columns.of("source_low", flows, |f| halves(f.version, f.source.address).1)?;
    columns.of("source_port", flows, |f| u64::from(f.source.port))?;
    columns.of("destination_high", flows, |f| halves(f.version, f.destination.address).0)?;
    columns.of("destination_low", flows, |f| halves(f.version, f.destination.address).1)?;
    columns.of("destination_port", flows, |f| u64::from(f.destination.port))?;
    columns.of("vlan", flows, |f| f.vlan)?;
    columns.of("record", flows, |f| f.record as i64)?;
    Ok(columns.0)
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    std::panic::set_hook(Box::new(|panic| {
        if let Ok(mut last) = LAST_PANIC.lock() {
            *last = panic.to_string();
        }
    }));
    module.add("Fault", module.py().get_type::<Fault>())?;
    // The checksum of these sources, by hatch_build.py: Python compares it where they lie beside
    module.add("SOURCES", option_env!("MULTITRACER_SOURCES").unwrap_or(""))?;
    module.add_function(wrap_pyfunction!(walk_pcap, module)?)?;
    module.add_function(wrap_pyfunction!(walk_pcapng, module)?)?;
    module.add_function(wrap_pyfunction!(pcapng_packets, module)?)?;
    module.add_function(wrap_pyfunction!(decode, module)?)?;
    module.add_class::<each::EachSegment>()?;
    module.add_class::<running::CountingPass>()?;
    module.add_class::<whole_file::CaptureFile>()?;
    module.add_function(wrap_pyfunction!(columns::places, module)?)?;
    module.add_function(wrap_pyfunction!(columns::span_minimum, module)?)?;
    module.add_function(wrap_pyfunction!(columns::first_painters, module)?)?;
    module.add_function(wrap_pyfunction!(placed::place_segments, module)?)?;
    module.add_function(wrap_pyfunction!(matching::identities, module)?)?;
    module.add_function(wrap_pyfunction!(matching::copies, module)?)?;
    module.add_function(wrap_pyfunction!(matching::keys_among, module)?)?;
    module.add_function(wrap_pyfunction!(matching::join, module)?)?;
    module.add_function(wrap_pyfunction!(matching::same_packets, module)?)?;
    Ok(())
}
