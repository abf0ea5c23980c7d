//! IPv4 and IPv6 headers: the counterpart of `parsers/_packets/ip.py`.
//!
//! Taken here are whole datagrams of TCP. Fragments, tunnels, jumbograms and what contradicts itself are
//! Python's: `None`.

use crate::bytes::{be16, be32, be128, byte};
use crate::link::IpHeader;
use crate::mark;

pub const TCP: u8 = 6;
const AUTHENTICATION: u8 = 51;
const MOST_EXTENSIONS: usize = 8;
/// Of a packet; what says far more is damaged, and Python's.
const LONGEST_BYTES: i64 = 1 << 24;

/// A datagram that carries TCP; positions are those in the frame.
pub struct Datagram {
    pub version: u8,
    pub source: u128,
    pub destination: u128,
    pub identification: u16,
    /// Where TCP begins.
    pub at: usize,
    /// Where the captured bytes of the datagram end.
    pub end: usize,
    /// Where it ended on the wire, by the IP length.
    pub stop: i64,
    pub marks: u16,
}

/// Take the IP header off; `stop` is where the frame ended on the wire.
#[inline]
pub fn datagram(frame: &[u8], ip: &IpHeader, stop: i64) -> Option<Datagram> {
    if ip.version == 4 { ipv4(frame, ip.at, stop) } else { ipv6(frame, ip.at, stop) }
}

#[inline(always)]
fn ipv4(frame: &[u8], at: usize, stop: i64) -> Option<Datagram> {
    let (header, total, behind) = ipv4_header(frame, at)?;
    let datagram = Datagram {
        version: 4,
        source: u128::from(be32(header, 12)?),
        destination: u128::from(be32(header, 16)?),
        identification: be16(header, 4)?,
        ..bounded(frame, at, total, stop)?
    };
    without_extensions(frame, datagram, header[9], behind)
}

/// Return the fixed part of the header of a whole datagram, its length by it, and where what it carries begins.
#[inline(always)]
pub fn ipv4_header(frame: &[u8], at: usize) -> Option<(&[u8], i64, usize)> {
    let header = frame.get(at..at + 20)?;
    let header_bytes = usize::from(header[0] & 0x0F) << 2;
    let total = be16(header, 2)?;
    let fragment = be16(header, 6)?;
    let is_whole = fragment & 0x3FFF == 0;
    let is_valid = header_bytes >= 20 && (usize::from(total) >= header_bytes || total == 0);
    let is_known = is_whole && is_valid && at + header_bytes <= frame.len();
    is_known.then_some((header, i64::from(total), at + header_bytes))
}

#[inline]
fn ipv6(frame: &[u8], at: usize, stop: i64) -> Option<Datagram> {
    let (header, length, behind) = ipv6_header(frame, at)?;
    let datagram = Datagram {
        version: 6,
        source: be128(header, 8)?,
        destination: be128(header, 24)?,
        ..bounded(frame, at, length, stop)?
    };
    without_extensions(frame, datagram, header[6], behind)
}

/// Return the header, the length of the datagram by it, and where what it carries begins.
#[inline(always)]
pub fn ipv6_header(frame: &[u8], at: usize) -> Option<(&[u8], i64, usize)> {
    let header = frame.get(at..at + 40)?;
    let payload = be16(header, 4)?;
    if payload == 0 && header[6] == 0 {
        return None; // perhaps a jumbogram
    }
    let length = if payload == 0 { 0 } else { i64::from(payload) + 40 };
    Some((header, length, at + 40))
}

/// Return a datagram ended by its IP length; 0 (segmentation offload) leaves the end as it is.
#[inline(always)]
pub fn bounded(frame: &[u8], at: usize, length: i64, stop: i64) -> Option<Datagram> {
    let by_length = at as i64 + length;
    let (ended, marks) = match length {
        0 => (stop, mark::LENGTH_FROM_CAPTURE),
        _ if by_length > stop => (stop, mark::BAD_LENGTH),
        _ => (by_length, 0),
    };
    if ended - at as i64 > LONGEST_BYTES {
        return None;
    }
    let end = (frame.len() as i64).min(ended) as usize;
    Some(Datagram { version: 0, source: 0, destination: 0, identification: 0, at, end, stop: ended, marks })
}

/// Walk over extension headers to TCP.
#[inline(always)]
fn without_extensions(frame: &[u8], datagram: Datagram, protocol: u8, at: usize) -> Option<Datagram> {
    let captured = frame.get(..datagram.end)?;
    if protocol == TCP {
        Some(Datagram { at, ..datagram })
    } else {
        extended(captured, datagram, protocol, at)
    }
}

#[cold]
fn extended(captured: &[u8], datagram: Datagram, protocol: u8, at: usize) -> Option<Datagram> {
    let (mut protocol, mut at) = (protocol, at);
    for _ in 0..MOST_EXTENSIONS {
        if protocol == TCP {
            return Some(Datagram { at, ..datagram });
        }
        let is_extension = match datagram.version {
            4 => protocol == AUTHENTICATION,
            _ => matches!(protocol, 0 | 43 | AUTHENTICATION | 60 | 135 | 139 | 140),
        };
        if !is_extension || at + 8 > captured.len() {
            return None;
        }
        let stated = usize::from(byte(captured, at + 1)?);
        let length = if protocol == AUTHENTICATION { (stated + 2) << 2 } else { (stated + 1) << 3 };
        protocol = byte(captured, at)?;
        at += length;
        if at > captured.len() {
            return None;
        }
    }
    None
}
