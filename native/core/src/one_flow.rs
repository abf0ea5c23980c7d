//! The segments of one flow, from packet records to columns; every other packet is passed over.
//!
//! So a large capture is read once more, for the figure of one connection. How many segments the flow has, is known
//! from the first time.

use crate::OutOfMemory;
use crate::bytes::{be16, be32, be128};
use crate::flows::End;
use crate::ip::Datagram;
use crate::room::{push, with_room};
use crate::segments::{Part, Records};

/// Both ends of a flow; `a` sent the first packet.
#[derive(Clone, Copy)]
pub struct Ends {
    version: u8,
    a: End,
    b: End,
}

impl Ends {
    /// Return the ends of addresses in network order; None if one is too short.
    pub fn of(version: u8, a: (&[u8], u16), b: (&[u8], u16)) -> Option<Self> {
        Some(Self { version, a: end(version, a.0, a.1)?, b: end(version, b.0, b.1)? })
    }

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
pub struct OneFlow {
    ends: Ends,
    rows: usize,
    pub part: Part,
    pub time_ns: Vec<i64>,
}

impl OneFlow {
    /// Make room for the `rows` segments of a flow.
    pub fn of(ends: Ends, rows: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { ends, rows, part: Part::with_room(rows)?, time_ns: with_room(rows)? })
    }

    /// Take in packet records, of which the first one is number `first_frame` of its file.
    pub fn take_in(
        &mut self,
        records: &Records,
        time_ns: &[i64],
        first_frame: i64,
    ) -> Result<(), OutOfMemory> {
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
