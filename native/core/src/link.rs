//! From the start of a frame to its IP header, for the links that most captures are made on.
//!
//! The counterpart of `parsers/_packets/chain.py` and its steps, which say where each header is defined.
//! `None` anywhere means: not decoded here, Python decides.

use crate::bytes::{be16, be32, byte, le32};

/// `vlan` of a packet without a VLAN tag, as in the table of flows.
pub const UNTAGGED: i64 = -1;

/// LINKTYPE_ETHERNET, and how long its header is.
pub const ETHERNET: i64 = 1;
pub const ETHERNET_BYTES: usize = 14;

/// More headers than this before IP are for Python, which counts them exactly.
const MOST_HEADERS: usize = 8;
/// Up to here an EtherType is a length, and LLC follows (IEEE 802.3, 3.2.6).
const LARGEST_LENGTH: u16 = 1500;
/// Five VLAN ids of 12 bits fit the column.
const VLAN_ROOM: i64 = 1 << 60;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Header {
    EtherType(u16),
    Ppp,
    FramedPpp,
    RawIp,
}

/// Where IP begins in a frame.
pub struct IpHeader {
    pub version: u8,
    pub at: usize,
    pub vlan: i64,
}

/// Return where IP begins in the captured bytes of a frame.
#[inline]
pub fn ip_header(frame: &[u8], link_type: i64) -> Option<IpHeader> {
    if link_type == ETHERNET && is_ethernet_ipv4(frame) {
        return Some(IpHeader { version: 4, at: ETHERNET_BYTES, vlan: UNTAGGED });
    }
    any_ip_header(frame, link_type)
}

/// Whether an Ethernet frame holds IPv4 and no tag, as most do.
#[inline(always)]
fn is_ethernet_ipv4(frame: &[u8]) -> bool {
    matches!((be16(frame, 12), byte(frame, ETHERNET_BYTES)), (Some(0x0800), Some(0x40..0x50)))
}

fn any_ip_header(frame: &[u8], link_type: i64) -> Option<IpHeader> {
    let (mut header, mut at) = first_header(frame, link_type)?;
    let mut vlan = UNTAGGED;
    for _ in 0..MOST_HEADERS {
        let version = match header {
            Header::EtherType(0x0800) => 4,
            Header::EtherType(0x86DD) => 6,
            Header::RawIp => byte(frame, at)? >> 4,
            _ => {
                (header, at) = following(frame, header, at, &mut vlan)?;
                continue;
            }
        };
        // What the header before IP says and IP's own first bits may differ: Python weighs them.
        let is_known = matches!(version, 4 | 6) && byte(frame, at)? >> 4 == version;
        return is_known.then_some(IpHeader { version, at, vlan });
    }
    None
}

fn first_header(frame: &[u8], link_type: i64) -> Option<(Header, usize)> {
    Some(match link_type {
        0 | 108 => (by_family(frame)?, 4),
        ETHERNET => (Header::EtherType(ether_type(frame, 12)?), ETHERNET_BYTES),
        9 | 50 | 104 => (Header::FramedPpp, 0),
        12 | 14 | 101 | 228 | 229 => (Header::RawIp, 0),
        51 => (Header::Ppp, 6),
        113 => (Header::EtherType(ether_type(frame, 14)?), 16),
        166 => (Header::Ppp, if byte(frame, 1)? == 0x03 { 2 } else { 1 }),
        204 => (Header::FramedPpp, 1),
        276 => (Header::EtherType(ether_type(frame.get(..20)?, 0)?), 20),
        _ => return None,
    })
}

/// BSD's address family, in the byte order of the host that captured.
fn by_family(frame: &[u8]) -> Option<Header> {
    match be32(frame, 0)?.min(le32(frame, 0)?) {
        2 => Some(Header::EtherType(0x0800)),
        10 | 23 | 24 | 28 | 30 => Some(Header::EtherType(0x86DD)),
        _ => None,
    }
}

fn ether_type(frame: &[u8], at: usize) -> Option<u16> {
    be16(frame, at).filter(|&number| number > LARGEST_LENGTH)
}

fn following(frame: &[u8], header: Header, at: usize, vlan: &mut i64) -> Option<(Header, usize)> {
    match header {
        Header::EtherType(0x8100 | 0x88A8 | 0x9100 | 0x9200) => {
            let id = i64::from(be16(frame, at)? & 0xFFF);
            if *vlan >= VLAN_ROOM {
                return None;
            }
            if id != 0 {
                *vlan = (if *vlan == UNTAGGED { 1 } else { *vlan }) << 12 | id;
            }
            Some((Header::EtherType(ether_type(frame, at + 2)?), at + 4))
        }
        Header::EtherType(0x8864) => Some((Header::Ppp, at + 6)),
        Header::EtherType(0x880B) | Header::FramedPpp => framed_ppp(frame, at),
        Header::Ppp => ppp(frame, at),
        _ => None,
    }
}

/// Address and control of PPP in HDLC, unless compressed away; Cisco HDLC has an EtherType.
fn framed_ppp(frame: &[u8], at: usize) -> Option<(Header, usize)> {
    match be16(frame, at)? {
        0xFF03 => Some((Header::Ppp, at + 2)),
        first if matches!(first >> 8, 0x0F | 0x8F) => {
            Some((Header::EtherType(ether_type(frame, at + 2)?), at + 4))
        }
        _ => Some((Header::Ppp, at)),
    }
}

fn ppp(frame: &[u8], at: usize) -> Option<(Header, usize)> {
    let both = be16(frame, at)?;
    let (protocol, length) = if both >> 8 & 1 == 1 { (both >> 8, 1) } else { (both, 2) };
    match protocol {
        0x0021 => Some((Header::EtherType(0x0800), at + length)),
        0x0057 => Some((Header::EtherType(0x86DD), at + length)),
        _ => None,
    }
}
