//! What Python calls to count a capture file: see `parsers/_complete.py`. Nothing here needs NumPy but what hands
//! over segments.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::described::Described;
use crate::running::{CountingPass, KeptColumns, kept_columns};
use crate::{flows_dict, outside};
use multitracer_core::OutOfMemory;
use multitracer_core::one_flow::Ends;
use multitracer_core::whole::{Bytes, Limits, Rest, Start, Stop, Whole};
use multitracer_core::zstd_file::{ZstdFile, is_zstd};

/// Bytes that Python unpacks, piece by piece.
struct Unpacked(Py<PyAny>);

impl Bytes for Unpacked {
    fn fill(&mut self, data: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        // once for all pieces: to enter Python from a thread that it does not know maps and frees memory
        Python::attach(|py| {
            while filled < data.len() {
                match self.next_piece(py, &mut data[filled..])? {
                    0 => break,
                    more => filled += more,
                }
            }
            Ok(filled)
        })
    }

    fn is_slow(&self) -> bool {
        true
    }
}

impl Unpacked {
    /// Fill the beginning of `data`; return how many bytes there were, 0 only at the end.
    fn next_piece(&self, py: Python<'_>, data: &mut [u8]) -> PyResult<usize> {
        let piece = PyBuffer::<u8>::get(&self.0.bind(py).call1((data.len(),))?)?;
        let count = piece.item_count().min(data.len());
        piece.copy_to_slice(py, &mut data[..count])?;
        Ok(count)
    }
}

/// Where the bytes of the file come from: its name, plain or packed with Zstandard, or what returns up to so many more of them.
#[derive(FromPyObject)]
pub enum Origin {
    Path(PathBuf),
    Unpacked(Py<PyAny>),
}

/// The bytes of a file, how many there are, and of a packed one how many were taken, as far as that is known.
struct Opened {
    bytes: Box<dyn Bytes>,
    total_bytes: Option<usize>,
    stored_bytes: Option<Arc<AtomicUsize>>,
}

impl Origin {
    fn open(self) -> io::Result<Opened> {
        Ok(match self {
            Self::Unpacked(more) => {
                Opened { bytes: Box::new(Unpacked(more)), total_bytes: None, stored_bytes: None }
            }
            Self::Path(path) => {
                let mut file = File::open(path)?;
                if is_zstd(&mut file)? {
                    let file = ZstdFile::of(file)?;
                    let stored_bytes = Some(file.taken());
                    return Ok(Opened { bytes: Box::new(file), total_bytes: None, stored_bytes });
                }
                let total_bytes = usize::try_from(file.metadata()?.len()).ok();
                Opened { bytes: Box::new(file), total_bytes, stored_bytes: None }
            }
        })
    }
}

/// A capture file that is being counted.
#[pyclass]
pub struct CaptureFile {
    whole: Whole,
    stored_bytes: Option<Arc<AtomicUsize>>,
}

/// Address and port.
type PyEnd = (Vec<u8>, u16);
/// The columns of packets: bytes, captured and original lengths, times.
type Packets<'py> = (Bound<'py, PyBytes>, Vec<i64>, Vec<i64>, Vec<i64>);
/// What Python has to look at of a block; see `CaptureFile::rests`.
type PyRest<'py> = ([usize; 3], Option<Packets<'py>>, Vec<Bound<'py, PyBytes>>);

fn rests_in(py: Python<'_>, rests: Vec<Rest>) -> Vec<PyRest<'_>> {
    let each = |rest: Rest| {
        let bytes = PyBytes::new(py, &rest.data);
        let packets = (bytes, rest.captured, rest.original, rest.time_ns);
        let others = rest.others.iter().map(|block| PyBytes::new(py, block)).collect();
        let [in_ipv4, in_ipv6] = rest.segments;
        ([in_ipv4, in_ipv6, rest.udp], (!packets.1.is_empty()).then_some(packets), others)
    };
    rests.into_iter().map(each).collect()
}

#[pymethods]
impl CaptureFile {
    #[new]
    #[pyo3(signature = (origin, first_record, link_type, form, *, block_bytes, far_ns, limits, only))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        origin: Origin,
        first_record: usize,
        link_type: i64,
        form: Described,
        block_bytes: usize,
        far_ns: i64,
        limits: Option<[usize; 4]>,
        only: Option<(u8, PyEnd, PyEnd)>,
    ) -> PyResult<Self> {
        let ends = |(version, a, b): (u8, PyEnd, PyEnd)| {
            let ends = Ends::of(version, (&a.0, a.1), (&b.0, b.1));
            ends.ok_or_else(|| PyValueError::new_err("an address is too short"))
        };
        let only = only.map(ends).transpose()?;
        let limits = limits.map(|[few_connections, least_each, few_kept, kept_share]| Limits {
            few_connections,
            least_each,
            few_kept,
            kept_share,
        });
        let Opened { bytes, total_bytes, stored_bytes } = origin.open()?;
        // of a small file so many are of use: one more shows that it ends
        let block_bytes = block_bytes.min(total_bytes.map_or(usize::MAX, |total| total.saturating_add(1)));
        let start = Start { first_record, link_type, far_ns, block_bytes, total_bytes, only };
        let whole = Whole::new(bytes, start, form.into(), limits);
        Ok(Self { whole, stored_bytes })
    }

    /// Read and count the file; return whether nothing is strange, so that Python need not read it.
    ///
    /// After `first` blocks, after each `every` more, and when many packets wait for Python, `look` is called while
    /// there is more: with what `rests` returns, how many bytes of the file were taken, and how many connections there are. If
    /// it returns False, something is strange.
    fn read(&mut self, py: Python<'_>, first: usize, every: usize, look: Py<PyAny>) -> PyResult<bool> {
        let mut raised = None;
        let stored_bytes = self.stored_bytes.clone();
        let mut ask = |rests: Vec<Rest>, bytes: usize, connections: usize| {
            let bytes = stored_bytes.as_ref().map_or(bytes, |taken| taken.load(Ordering::Relaxed));
            let answer = Python::attach(|py| -> PyResult<bool> {
                look.bind(py).call1((rests_in(py, rests), bytes, connections))?.extract()
            });
            answer.unwrap_or_else(|error| {
                raised = Some(error);
                false
            })
        };
        let is_due = |number: usize| number >= first && (number - first) % every.max(1) == 0;
        let stop = outside(py, || match self.whole.read(is_due, &mut ask) {
            Err(Stop::OutOfMemory) => Err(OutOfMemory),
            Err(stop) => Ok(Some(stop)),
            Ok(()) => Ok(None),
        })?;
        match (raised, stop) {
            (Some(error), _) => Err(error),
            (None, Some(Stop::Failed(error))) => interruption(py, error).map(|()| false),
            (None, stop) => Ok(stop.is_none()),
        }
    }

    /// How many bytes were read.
    #[getter]
    fn read_bytes(&self) -> usize {
        self.whole.read_bytes()
    }

    /// How many bytes of a file that is unpacked here were taken so far; None of others.
    #[getter]
    fn stored_bytes(&self) -> Option<usize> {
        self.stored_bytes.as_ref().map(|taken| taken.load(Ordering::Relaxed))
    }

    /// Return what there is of a last record that is cut off: nothing of most files.
    fn tail<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.whole.tail())
    }

    /// Return how many packets there are, steps back of their times, the largest, the lowest and highest time.
    fn times(&self) -> (usize, usize, i64, usize, u64, i64, i64) {
        let clock = self.whole.clock();
        let back = (clock.steps_back, clock.largest_step_back_ns);
        (clock.packets, back.0, back.1, clock.repeats, clock.grain_ns, clock.lowest_ns, clock.highest_ns)
    }

    /// Return of each block since the last look how many segments it has (IPv4, IPv6) and datagrams of UDP; the
    /// packets that Python has to look at: their bytes one behind the other, captured and original lengths, and times; or None; and
    /// blocks of pcapng that are no packets.
    fn rests<'py>(&mut self, py: Python<'py>) -> Vec<PyRest<'py>> {
        rests_in(py, std::mem::take(&mut self.whole.counts.rests))
    }

    /// Return the flows as columns.
    fn flows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        flows_dict(py, &self.whole.flows().flows)
    }

    /// Return direction, time and columns of the segments that Python has to keep; they are gone then. Without
    /// limits that is one piece, with all segments.
    fn kept<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<KeptColumns<'py>>> {
        std::mem::take(&mut self.whole.counts.kept).into_iter().map(|kept| kept_columns(py, kept)).collect()
    }

    /// Return the pass over the connections; it is gone then.
    fn counts(&mut self) -> CountingPass {
        CountingPass { running: std::mem::take(&mut self.whole.counts.running) }
    }
}

/// Raise what ended a reading, unless it is an error of the file: Python reads it and says what is wrong.
fn interruption(py: Python<'_>, error: io::Error) -> PyResult<()> {
    let raised = PyErr::from(error);
    if raised.is_instance_of::<PyException>(py) { Ok(()) } else { Err(raised) }
}
