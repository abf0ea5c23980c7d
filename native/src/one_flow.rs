//! The segments of one flow, from packet records to columns; every other packet is passed over.
//!
//! Python calls this to read a large capture once more, for the figure of one connection. How many segments the
//! flow has, it knows from the first time.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::bytes::{be16, be32, be128};
use crate::flows::End;
use crate::ip::Datagram;
use crate::room::{push, with_room};
use crate::segments::{Part, Records};
use crate::{OutOfMemory, out_of_memory, outside, part_dict};

/// Both ends of a flow; `a` sent the first packet.
#[derive(Clone, Copy)]
struct Ends {
    version: u8,
    a: End,
    b: End,
}

impl Ends {
    /// Whether a datagram is between the two, either way.
    #[inline]
    fn has(&self, frame: &[u8], datagram: &Datagram) -> bool {
        let (a, b) = (self.a.address, self.b.address);
        let (source, destination) = (datagram.source, datagram.destination);
        let is_between = source == a && destination == b || source == b && destination == a;
        is_between && datagram.version == self.version && self.is_sent(frame, datagram).is_some()
    }

    /// Return whether `a` sent a datagram; None if it is between other ports.
    #[inline]
    fn is_sent(&self, frame: &[u8], datagram: &Datagram) -> Option<bool> {
        let source = End { address: datagram.source, port: be16(frame, datagram.at)? };
        let destination = End { address: datagram.destination, port: be16(frame, datagram.at + 2)? };
        match (source, destination) {
            ends if ends == (self.a, self.b) => Some(true),
            ends if ends == (self.b, self.a) => Some(false),
            _ => None,
        }
    }
}

/// Decodes the segments of one flow, block by block.
#[pyclass]
pub struct FlowDecoder {
    ends: Ends,
    rows: usize,
    part: Part,
    time_ns: Vec<i64>,
}

impl FlowDecoder {
    fn take_in(&mut self, records: &Records, time_ns: &[i64], first_frame: i64) -> Result<(), OutOfMemory> {
        let ends = self.ends;
        for (record, &time_ns) in time_ns.iter().enumerate() {
            if self.part.record.len() == self.rows {
                return Ok(());
            }
            let Some(decoded) = records.decoded_if(record, |frame, datagram| ends.has(frame, datagram))
            else {
                continue;
            };
            let source = End { address: decoded.datagram.source, port: decoded.segment.source_port };
            self.part.add_as(&decoded, i32::from(source != ends.a))?;
            push(&mut self.time_ns, time_ns)?;
            if let Some(frame) = self.part.record.last_mut() {
                *frame += first_frame;
            }
        }
        Ok(())
    }
}

fn end(version: u8, address: &[u8], port: u16) -> Option<End> {
    let address = if version == 4 { u128::from(be32(address, 0)?) } else { be128(address, 0)? };
    Some(End { address, port })
}

#[pymethods]
impl FlowDecoder {
    /// Decode what the ends `a` and `b` sent each other, up to `rows` segments of it.
    #[new]
    fn new(version: u8, a: (Vec<u8>, u16), b: (Vec<u8>, u16), rows: usize) -> PyResult<Self> {
        let short = || pyo3::exceptions::PyValueError::new_err("an address is too short");
        let ends = [a, b].map(|(address, port)| end(version, &address, port));
        let [Some(a), Some(b)] = ends else { return Err(short()) };
        let part = Part::with_room(rows).map_err(|_| out_of_memory())?;
        let time_ns = with_room(rows).map_err(|_| out_of_memory())?;
        Ok(Self { ends: Ends { version, a, b }, rows, part, time_ns })
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
        outside(py, || self.take_in(&records, time_ns, first_frame))
    }

    /// Return the times and the columns of what was found; `flow` is 0 where the end `a` sent it, else 1.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyDict>)> {
        let (part, time_ns) = (std::mem::take(&mut self.part), std::mem::take(&mut self.time_ns));
        Ok((PyArray1::from_vec(py, time_ns), part_dict(py, part)?))
    }
}
