//! TCP headers and options: the counterpart of `parsers/_packets/tcp.py` and `options.py`.

use crate::bytes::{be16, be32, byte};
use crate::ip::Datagram;
use crate::mark;

const HEADER_BYTES: usize = 20;
pub const FIN: u16 = 0x01;
pub const SYN: u16 = 0x02;
pub const RST: u16 = 0x04;
pub const ACK: u16 = 0x10;
pub const URG: u16 = 0x20;
pub const PADDED_TIMESTAMPS: u32 = 0x0101_080A;
const FAST_OPEN_MAGIC: u16 = 0xF989;
/// So many SACK blocks fit the 40 bytes of options.
pub const MOST_SACK_BLOCKS: usize = 4;

/// The values of a segment's options; -1 where a value is not there.
#[derive(Default)]
pub struct Options {
    pub timestamps: Option<(u32, u32)>,
    pub sack: [(u32, u32); MOST_SACK_BLOCKS],
    pub sack_blocks: u8,
    pub mptcp: bool,
    pub mss_bytes: Option<u16>,
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    pub fast_open: bool,
}

/// A TCP segment as it stands in the packet.
pub struct Segment {
    pub source_port: u16,
    pub destination_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub payload_bytes: i32,
    pub flags: u16,
    pub window: u16,
    pub marks: u16,
    pub options: Options,
}

impl Segment {
    pub fn is_syn(&self) -> bool {
        self.flags & SYN != 0
    }

    /// Whether `put_options` has something to do.
    #[inline(always)]
    pub fn has_rare_options(&self) -> bool {
        self.is_syn() || self.options.sack_blocks > 0
    }
}

/// Decode the TCP header of a datagram; `None` if less than the fixed part of it was captured.
#[inline(always)]
pub fn segment(frame: &[u8], datagram: &Datagram) -> Option<Segment> {
    let captured = frame.get(datagram.at..datagram.end)?;
    let header = captured.get(..HEADER_BYTES)?;
    let offset_flags = be16(header, 12)?;
    let header_bytes = usize::from(offset_flags >> 12) << 2;
    if header_bytes < HEADER_BYTES {
        return None;
    }
    let options = options(&captured[HEADER_BYTES..header_bytes.min(captured.len())]);
    let wire_bytes = datagram.stop - datagram.at as i64;
    let is_urgent = offset_flags & URG != 0 && be16(header, 18)? != 0;
    let mut marks = datagram.marks | cut_marks(header_bytes as i64, captured.len() as i64, wire_bytes);
    marks |= if is_urgent { mark::URGENT } else { 0 };
    marks |= if options.timestamps.is_some() { mark::HAS_TIMESTAMPS } else { 0 };
    marks |= if options.mptcp { mark::MPTCP } else { 0 };
    Some(Segment {
        source_port: be16(header, 0)?,
        destination_port: be16(header, 2)?,
        seq: be32(header, 4)?,
        ack: be32(header, 8)?,
        payload_bytes: (wire_bytes - header_bytes as i64).max(0) as i32,
        flags: offset_flags & 0x1FF,
        window: be16(header, 14)?,
        marks,
        options,
    })
}

/// What header, captured and wire length, in bytes from where TCP begins, say of how it was captured.
#[inline(always)]
fn cut_marks(header: i64, captured: i64, wire: i64) -> u16 {
    let mut marks = 0;
    if header > captured && header <= wire {
        marks |= mark::HEADER_CUT;
    }
    if captured < wire && header < wire {
        marks |= mark::PAYLOAD_CUT;
    }
    if header > wire {
        marks |= mark::BAD_LENGTH;
    }
    marks
}

#[inline(always)]
fn options(data: &[u8]) -> Options {
    let (mut options, mut at) = (Options::default(), 0);
    if data.len() >= 12 && be32(data, 0) == Some(PADDED_TIMESTAMPS) {
        options.timestamps = be32(data, 4).zip(be32(data, 8));
        at = 12;
    }
    if at == data.len() { options } else { more_options(options, data, at) }
}

/// Return `options` with those from byte `at` on.
#[inline(never)]
fn more_options(mut options: Options, data: &[u8], mut at: usize) -> Options {
    while at < data.len() {
        at += match data[at] {
            0 => break,
            1 => 1,
            kind => match byte(data, at + 1).map(usize::from) {
                Some(length) if length >= 2 && at + length <= data.len() => {
                    note(&mut options, kind, &data[at..at + length]);
                    length
                }
                _ => break,
            },
        };
    }
    options
}

/// Note one option; of several of a kind the last one counts, as in Python.
fn note(options: &mut Options, kind: u8, option: &[u8]) {
    match (kind, option.len()) {
        (8, 10) => options.timestamps = be32(option, 2).zip(be32(option, 6)),
        (5, length) if length >= 10 && length & 7 == 2 => note_sack(options, &option[2..]),
        (2, 4) => options.mss_bytes = be16(option, 2),
        (3, 3) => options.window_scale = Some(option[2]),
        (4, _) => options.sack_permitted = true,
        (30, _) => options.mptcp = true,
        (34, _) => options.fast_open = true,
        (254, length) if length >= 4 => options.fast_open |= be16(option, 2) == Some(FAST_OPEN_MAGIC),
        _ => {}
    }
}

fn note_sack(options: &mut Options, blocks: &[u8]) {
    let edges = blocks.chunks_exact(8).map(|b| be32(b, 0).zip(be32(b, 4)).unwrap_or_default());
    options.sack_blocks = 0;
    for (place, edge) in options.sack.iter_mut().zip(edges) {
        *place = edge;
        options.sack_blocks += 1;
    }
}
