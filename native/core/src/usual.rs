//! Segments as most are: in IPv4 over Ethernet, with no options but timestamps and SACK where all stacks put
//! them, and with nothing else that is rare.
//!
//! `ip.rs` and `tcp.rs` decode these too, and alike, with twice the work.

use crate::OutOfMemory;
use crate::bytes::{be16, be32};
use crate::ip::TCP;
use crate::link::ETHERNET_BYTES;
use crate::mark;
use crate::room::push;
use crate::segment_row::{Row, SackBlock};
use crate::tcp::{PADDED_TIMESTAMPS, SYN, URG};

/// Of IP, and of TCP, without options.
const HEADER_BYTES: usize = 20;
const AT: usize = ETHERNET_BYTES + HEADER_BYTES;
/// Of SACK: its left and its right edge.
const BLOCK_BYTES: usize = 8;
/// Two bytes of padding, and the kind of SACK.
const PADDED_SACK: [u8; 3] = [1, 1, 5];

/// A segment whose flow, time and record are not known yet, and its ends.
pub struct Usual<'a> {
    pub row: Row,
    /// Source and destination.
    pub addresses: (u32, u32),
    pub ports: (u16, u16),
    /// SACK blocks, each of two edges.
    sack: &'a [u8],
}

impl Usual<'_> {
    /// Note its SACK blocks as those of a row.
    #[inline(always)]
    pub fn put_sack(&self, row: i64, sack: &mut Vec<SackBlock>) -> Result<(), OutOfMemory> {
        for block in self.sack.chunks_exact(BLOCK_BYTES) {
            let (left, right) = be32(block, 0).zip(be32(block, 4)).unwrap_or_default();
            push(sack, (row, left, right))?;
        }
        Ok(())
    }
}

/// Return the segment of a frame that ended at `stop` on the wire; `None` if there is more to look at.
#[inline(always)]
pub fn usual(frame: &[u8], stop: i64) -> Option<Usual<'_>> {
    let head: &[u8; AT + HEADER_BYTES] = frame.first_chunk()?;
    let is_ipv4 = be16(head, 12)? == 0x0800 && head[ETHERNET_BYTES] == 0x45;
    let is_fragment = be16(head, 20)? & 0x3FFF != 0;
    let offset_flags = be16(head, 46)?;
    if !is_ipv4 || is_fragment || head[23] != TCP || offset_flags & (SYN | URG) != 0 {
        return None;
    }
    let header_bytes = usize::from(offset_flags >> 12) << 2;
    let end = ETHERNET_BYTES + usize::from(be16(head, 16)?);
    if AT + header_bytes > end || end as i64 > stop {
        return None;
    }
    let (tsval, tsecr, stamped, sack) = options(frame.get(AT + HEADER_BYTES..AT + header_bytes)?)?;
    let cut = if frame.len() < end { mark::PAYLOAD_CUT } else { 0 };
    let row = Row {
        seq: be32(head, AT + 4)?,
        ack: be32(head, AT + 8)?,
        payload_bytes: (end - AT - header_bytes) as i32,
        tsval,
        tsecr,
        flags: offset_flags & 0x1FF,
        window: be16(head, AT + 14)?,
        ip_id: be16(head, 18)?,
        marks: cut | stamped,
        sack_blocks: (sack.len() / BLOCK_BYTES) as u8,
        ..Row::default()
    };
    Some(Usual {
        row,
        addresses: (be32(head, 26)?, be32(head, 30)?),
        ports: (be16(head, AT)?, be16(head, AT + 2)?),
        sack,
    })
}

/// Return both timestamps with their mark, and the SACK blocks, if they are all the options that there are.
#[inline(always)]
fn options(data: &[u8]) -> Option<(u32, u32, u16, &[u8])> {
    let (tsval, tsecr, mark, rest) = match data.split_first_chunk::<12>() {
        Some((stamps, rest)) if be32(stamps, 0)? == PADDED_TIMESTAMPS => {
            (be32(stamps, 4)?, be32(stamps, 8)?, mark::HAS_TIMESTAMPS, rest)
        }
        _ => (0, 0, 0, data),
    };
    Some((tsval, tsecr, mark, if rest.is_empty() { rest } else { sack(rest)? }))
}

#[inline(always)]
fn sack(options: &[u8]) -> Option<&[u8]> {
    let (&length, blocks) = options.strip_prefix(&PADDED_SACK)?.split_first()?;
    let is_whole = usize::from(length) == 2 + blocks.len() && blocks.len() % BLOCK_BYTES == 0;
    is_whole.then_some(blocks)
}
