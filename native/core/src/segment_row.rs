//! A segment as a row of SEGMENTS has it, and the rows of its two side tables.

use crate::OutOfMemory;
use crate::pass::direction::Segment;
use crate::room::push;
use crate::tcp;

/// A segment, as the columns of SEGMENTS have it.
#[derive(Clone, Copy, Default)]
pub struct Row {
    pub time_ns: i64,
    /// See `Flows::directed`.
    pub flow: i32,
    pub seq: u32,
    pub ack: u32,
    pub payload_bytes: i32,
    pub tsval: u32,
    pub tsecr: u32,
    /// Index of its record in the block.
    pub record: u32,
    pub flags: u16,
    pub window: u16,
    pub ip_id: u16,
    pub marks: u16,
    pub sack_blocks: u8,
}

impl Row {
    #[inline(always)]
    pub fn new(segment: &tcp::Segment, flow: i32, ip_id: u16, record: usize, time_ns: i64) -> Self {
        let (tsval, tsecr) = segment.options.timestamps.unwrap_or_default();
        Self {
            time_ns,
            flow,
            seq: segment.seq,
            ack: segment.ack,
            payload_bytes: segment.payload_bytes,
            tsval,
            tsecr,
            record: record as u32,
            flags: segment.flags,
            window: segment.window,
            ip_id,
            marks: segment.marks,
            sack_blocks: segment.options.sack_blocks,
        }
    }

    #[inline(always)]
    pub fn segment(&self) -> Segment {
        Segment {
            seq: self.seq,
            ack: self.ack,
            payload_bytes: self.payload_bytes,
            flags: self.flags,
            window: self.window,
            ip_id: self.ip_id,
            marks: self.marks,
            time_ns: self.time_ns,
        }
    }
}

/// Row of its segment, left and right edge.
pub type SackBlock = (i64, u32, u32);

/// The options of a SYN; -1 where there is none.
#[derive(Clone, Copy)]
pub struct Syn {
    pub row: i64,
    pub mss_bytes: i32,
    pub window_scale: i16,
    pub sack_permitted: bool,
    pub mptcp: bool,
    pub fast_open: bool,
}

/// Note the SACK blocks of a segment in a row, and the options of a SYN.
pub fn put_options(
    segment: &tcp::Segment,
    row: i64,
    sack: &mut Vec<SackBlock>,
    syn: &mut Vec<Syn>,
) -> Result<(), OutOfMemory> {
    let options = &segment.options;
    for &(left, right) in options.sack.iter().take(usize::from(options.sack_blocks)) {
        push(sack, (row, left, right))?;
    }
    if segment.is_syn() {
        push(
            syn,
            Syn {
                row,
                mss_bytes: options.mss_bytes.map_or(-1, i32::from),
                window_scale: options.window_scale.map_or(-1, i16::from),
                sack_permitted: options.sack_permitted,
                mptcp: options.mptcp,
                fast_open: options.fast_open,
            },
        )?;
    }
    Ok(())
}
