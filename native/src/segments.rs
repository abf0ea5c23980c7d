//! The segments of a block as columns of the tables, and the records that are left to Python.

use crate::OutOfMemory;
use crate::flows::{End, Flow, Flows};
use crate::ip::{Datagram, datagram};
use crate::link::ip_header;
use crate::tcp::{Segment, segment};
use crate::threads;

/// Packet records of one block, as `parsers/_packets/decode.py` has them: all slices of one length.
#[derive(Clone, Copy)]
pub struct Records<'a> {
    pub data: &'a [u8],
    pub start: &'a [i64],
    pub captured: &'a [i64],
    pub original: &'a [i64],
    /// One for all, or one each.
    pub link_type: &'a [i64],
}

/// The segments of consecutive records; columns are those of `SEGMENTS` in `multitracer/tables.py`.
pub struct Part {
    /// Index of the record in the block.
    pub record: Vec<i64>,
    /// Number within `flows`, see `Flows::directed`.
    pub flow: Vec<i32>,
    pub seq: Vec<u32>,
    pub ack: Vec<u32>,
    pub payload_bytes: Vec<i32>,
    pub flags: Vec<u16>,
    pub window: Vec<u16>,
    pub ip_id: Vec<u16>,
    pub tsval: Vec<u32>,
    pub tsecr: Vec<u32>,
    pub sack_blocks: Vec<u8>,
    pub marks: Vec<u16>,
    /// Row, left and right edge.
    pub sack: Vec<(i64, u32, u32)>,
    pub syn: Vec<Syn>,
    pub flows: Flows,
    /// Records that Python decodes.
    pub rest: Vec<i64>,
    /// Segments in IPv4; the others are in IPv6.
    pub in_ipv4: usize,
}

/// The options of a SYN; -1 where there is none.
pub struct Syn {
    pub row: i64,
    pub mss_bytes: i32,
    pub window_scale: i16,
    pub sack_permitted: bool,
    pub mptcp: bool,
    pub fast_open: bool,
}

fn with_room<T>(count: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut room = Vec::new();
    room.try_reserve_exact(count)?;
    Ok(room)
}

fn push<T>(column: &mut Vec<T>, value: T) -> Result<(), OutOfMemory> {
    column.try_reserve(1)?;
    column.push(value);
    Ok(())
}

impl Part {
    fn with_room(count: usize) -> Result<Self, OutOfMemory> {
        Ok(Self {
            record: with_room(count)?,
            flow: with_room(count)?,
            seq: with_room(count)?,
            ack: with_room(count)?,
            payload_bytes: with_room(count)?,
            flags: with_room(count)?,
            window: with_room(count)?,
            ip_id: with_room(count)?,
            tsval: with_room(count)?,
            tsecr: with_room(count)?,
            sack_blocks: with_room(count)?,
            marks: with_room(count)?,
            sack: Vec::new(),
            syn: Vec::new(),
            flows: Flows::new(),
            rest: Vec::new(),
            in_ipv4: 0,
        })
    }

    #[inline]
    fn add(&mut self, decoded: &Decoded) -> Result<(), OutOfMemory> {
        let Decoded { record, vlan, datagram, segment } = decoded;
        let flow = self.flows.directed(Flow {
            version: datagram.version,
            source: End { address: datagram.source, port: segment.source_port },
            destination: End { address: datagram.destination, port: segment.destination_port },
            vlan: *vlan,
            record: *record,
        })?;
        let (tsval, tsecr) = segment.options.timestamps.unwrap_or_default();
        self.add_options(segment)?;
        self.record.push(*record as i64);
        self.flow.push(flow);
        self.seq.push(segment.seq);
        self.ack.push(segment.ack);
        self.payload_bytes.push(segment.payload_bytes);
        self.flags.push(segment.flags);
        self.window.push(segment.window);
        self.ip_id.push(datagram.identification);
        self.tsval.push(tsval);
        self.tsecr.push(tsecr);
        self.sack_blocks.push(segment.options.sack_blocks);
        self.marks.push(segment.marks);
        self.in_ipv4 += usize::from(datagram.version == 4);
        Ok(())
    }

    #[inline]
    fn add_options(&mut self, segment: &Segment) -> Result<(), OutOfMemory> {
        let (row, options) = (self.seq.len() as i64, &segment.options);
        for &(left, right) in options.sack.iter().take(usize::from(options.sack_blocks)) {
            push(&mut self.sack, (row, left, right))?;
        }
        if segment.is_syn() {
            push(
                &mut self.syn,
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
}

/// A segment, and where it lies.
struct Decoded {
    record: usize,
    vlan: i64,
    datagram: Datagram,
    segment: Segment,
}

impl Records<'_> {
    #[inline]
    fn decoded(&self, record: usize) -> Option<Decoded> {
        let start = usize::try_from(self.start[record]).ok()?;
        let captured = usize::try_from(self.captured[record]).ok()?;
        let frame = self.data.get(start..start.checked_add(captured)?)?;
        let stop = self.original[record].max(self.captured[record]);
        let link_type = self.link_type[if self.link_type.len() == 1 { 0 } else { record }];
        let ip = ip_header(frame, link_type)?;
        let datagram = datagram(frame, &ip, stop)?;
        let segment = segment(frame, &datagram)?;
        Some(Decoded { record, vlan: ip.vlan, datagram, segment })
    }

    fn part(&self, begin: usize, end: usize) -> Result<Part, OutOfMemory> {
        let mut part = Part::with_room(end - begin)?;
        for record in begin..end {
            match self.decoded(record) {
                Some(decoded) => part.add(&decoded)?,
                None => push(&mut part.rest, record as i64)?,
            }
        }
        Ok(part)
    }
}

/// Decode the records in as many parts as there are threads, in the order of the file.
pub fn decode(records: Records) -> Result<Vec<Part>, OutOfMemory> {
    let count = records.start.len();
    let parts = threads::count(count);
    let bound = |part: usize| count * part / parts;
    threads::run((0..parts).map(|part| move || records.part(bound(part), bound(part + 1))).collect())
}
