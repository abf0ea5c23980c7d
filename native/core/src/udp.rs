//! Datagrams of UDP that Python would only count: QUIC and the like, of which a capture may mostly consist.
//!
//! The counterpart of `_segments_of` in `parsers/_packets/decode.py`, as far as a header tells.

use crate::bytes::be16;
use crate::ip::{bounded, ipv4_header, ipv6_header};
use crate::link::IpHeader;

const UDP: u8 = 17;
const HEADER_BYTES: usize = 8;
/// IANA: gsmtap, 4729/udp. Python counts it by this name.
const GSMTAP_PORT: u16 = 4729;
/// Ports of tunnels in UDP, as in `parsers/_packets/opening.py`: Python looks whether there is one.
const fn is_of_tunnel(port: u16) -> bool {
    matches!(port, 1701 | 2152 | 3544 | 4754 | 4789 | 4790 | 6081 | 8472)
}
/// Of a SYN of WTCP, docs/wtcp.md: 22 octets behind UDP's header.
const WTCP_SYN_BYTES: u16 = 30;

/// Whether a frame, which ended at `stop` on the wire, holds a datagram of UDP that is nothing else.
#[inline]
pub fn is_counted(frame: &[u8], header: &IpHeader, stop: i64) -> bool {
    payload(frame, header, stop).is_some_and(|udp| {
        let (source, port, length) = (be16(udp, 0), be16(udp, 2), be16(udp, 4));
        let is_tunnel = source.is_some_and(is_of_tunnel) || port.is_some_and(is_of_tunnel);
        let is_known = port == Some(GSMTAP_PORT) || length == Some(WTCP_SYN_BYTES);
        udp.len() >= HEADER_BYTES && !is_tunnel && !is_known
    })
}

/// Return what is captured of UDP behind its IP header, which has no extensions; None if it is none.
fn payload<'a>(frame: &'a [u8], header: &IpHeader, stop: i64) -> Option<&'a [u8]> {
    let is_ipv4 = header.version == 4;
    let (ip, length, at) =
        if is_ipv4 { ipv4_header(frame, header.at) } else { ipv6_header(frame, header.at) }?;
    let protocol = ip[if is_ipv4 { 9 } else { 6 }];
    let datagram = bounded(frame, header.at, length, stop).filter(|_| protocol == UDP)?;
    frame.get(at..datagram.end)
}
