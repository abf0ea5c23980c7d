//! The two ends of a flow of which alone the segments are wanted: every other packet is passed over.
//!
//! So a large capture is read once more, for the figure of one connection.

use crate::bytes::{be16, be32, be128};
use crate::flows::End;
use crate::ip::Datagram;
use crate::segments::Decoded;

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
    pub fn has(&self, frame: &[u8], datagram: &Datagram) -> bool {
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

    /// Return 0 for a segment of the flow that `a` sent, else 1.
    pub fn side(&self, decoded: &Decoded) -> i32 {
        let source = End { address: decoded.datagram.source, port: decoded.segment.source_port };
        i32::from(source != self.a)
    }
}

fn end(version: u8, address: &[u8], port: u16) -> Option<End> {
    let address = if version == 4 { u128::from(be32(address, 0)?) } else { be128(address, 0)? };
    Some(End { address, port })
}
