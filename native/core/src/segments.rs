//! The segments of a block as columns of the tables, and the records that are left to Python.

use crate::OutOfMemory;
use crate::flows::{End, Flow, Flows};
use crate::ip::{Datagram, datagram};
use crate::link::{ETHERNET, ip_header};
use crate::room::{push, with_room};
use crate::segment_row::{Row, SackBlock, Syn, put_options};
use crate::tcp::{Segment, segment};
use crate::threads;
use crate::udp;
use crate::usual::{Usual, usual};

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
#[derive(Default)]
pub struct Part {
    /// Index of the record in the block.
    pub record: Vec<i64>,
    /// See `Flows::directed`.
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
    pub sack: Vec<SackBlock>,
    pub syn: Vec<Syn>,
    /// Those of `FlowTable` whose first segment this part holds.
    pub flows: Vec<Flow>,
    /// Records that Python decodes.
    pub rest: Vec<i64>,
    /// Datagrams of UDP, which are not among them.
    pub udp: usize,
    /// Segments in IPv4; the others are in IPv6.
    pub in_ipv4: usize,
}

impl Part {
    pub fn with_room(count: usize) -> Result<Self, OutOfMemory> {
        let mut part = Self::default();
        part.reserve(count)?;
        Ok(part)
    }

    /// Make room for exactly so many more rows.
    pub fn reserve(&mut self, more: usize) -> Result<(), OutOfMemory> {
        self.record.try_reserve_exact(more)?;
        self.flow.try_reserve_exact(more)?;
        self.seq.try_reserve_exact(more)?;
        self.ack.try_reserve_exact(more)?;
        self.payload_bytes.try_reserve_exact(more)?;
        self.flags.try_reserve_exact(more)?;
        self.window.try_reserve_exact(more)?;
        self.ip_id.try_reserve_exact(more)?;
        self.tsval.try_reserve_exact(more)?;
        self.tsecr.try_reserve_exact(more)?;
        self.sack_blocks.try_reserve_exact(more)?;
        Ok(self.marks.try_reserve_exact(more)?)
    }

    #[inline]
    fn add(&mut self, decoded: &Decoded, flows: &mut Flows) -> Result<(), OutOfMemory> {
        let flow = flows.directed(decoded.flow())?;
        let Decoded { record, datagram, segment, .. } = decoded;
        put_options(segment, self.seq.len() as i64, &mut self.sack, &mut self.syn)?;
        self.in_ipv4 += usize::from(datagram.version == 4);
        self.add_row(*record as i64, &Row::new(segment, flow, datagram.identification, *record, 0));
        Ok(())
    }

    #[inline(always)]
    fn add_usual(&mut self, usual: &Usual, record: usize, flows: &mut Flows) -> Result<(), OutOfMemory> {
        let flow = flows.directed_ipv4(usual.addresses, usual.ports, record)?;
        self.in_ipv4 += 1;
        usual.put_sack(self.seq.len() as i64, &mut self.sack)?;
        self.add_row(record as i64, &Row { flow, ..usual.row });
        Ok(())
    }

    /// Add a row as that of a record; there is room for it.
    #[inline(always)]
    pub fn add_row(&mut self, record: i64, row: &Row) {
        self.record.push(record);
        self.flow.push(row.flow);
        self.seq.push(row.seq);
        self.ack.push(row.ack);
        self.payload_bytes.push(row.payload_bytes);
        self.flags.push(row.flags);
        self.window.push(row.window);
        self.ip_id.push(row.ip_id);
        self.tsval.push(row.tsval);
        self.tsecr.push(row.tsecr);
        self.sack_blocks.push(row.sack_blocks);
        self.marks.push(row.marks);
    }
}

/// A segment, and where it lies.
pub struct Decoded {
    pub record: usize,
    vlan: i64,
    pub datagram: Datagram,
    pub segment: Segment,
}

impl Decoded {
    #[inline]
    pub fn flow(&self) -> Flow {
        let Self { record, vlan, datagram, segment } = self;
        Flow {
            version: datagram.version,
            source: End { address: datagram.source, port: segment.source_port },
            destination: End { address: datagram.destination, port: segment.destination_port },
            vlan: *vlan,
            record: *record,
        }
    }
}

/// So many packets are fetched together, if they are further apart than this.
const TOGETHER: usize = 16;
const FAR_BYTES: usize = 512;
/// Where most have their TCP header, about.
const HEADER_AT: usize = 48;

impl Records<'_> {
    /// Whether a segment may be a usual one: see `usual.rs`.
    pub fn are_ethernet(&self) -> bool {
        *self.link_type == [ETHERNET]
    }

    /// Return the segment of a record in Ethernet if it is a usual one.
    #[inline(always)]
    pub fn usual(&self, record: usize) -> Option<Usual<'_>> {
        let (frame, stop) = self.frame(record)?;
        usual(frame, stop)
    }

    /// Touch the next packets: they come from memory at the same time then, and not one by one as they are decoded.
    fn fetch(&self, next: &[i64]) {
        let header = |&start: &i64| self.data.get((start as usize).saturating_add(HEADER_AT));
        std::hint::black_box(next.iter().filter_map(header).fold(0, |seen, byte| seen ^ byte));
    }

    /// Return the captured bytes of a record, and where it ended on the wire.
    #[inline(always)]
    pub fn frame(&self, record: usize) -> Option<(&[u8], i64)> {
        let start = usize::try_from(self.start[record]).ok()?;
        let captured = usize::try_from(self.captured[record]).ok()?;
        let frame = self.data.get(start..start.checked_add(captured)?)?;
        Some((frame, self.original[record].max(self.captured[record])))
    }

    #[inline]
    pub fn decoded(&self, record: usize) -> Option<Decoded> {
        self.decoded_if(record, |_, _| true)
    }

    /// Return the segment of a record if its datagram, which lies in a frame, is wanted.
    #[inline]
    pub fn decoded_if(&self, record: usize, is_wanted: impl Fn(&[u8], &Datagram) -> bool) -> Option<Decoded> {
        let (frame, stop) = self.frame(record)?;
        let link_type = self.link_type[if self.link_type.len() == 1 { 0 } else { record }];
        let ip = ip_header(frame, link_type)?;
        let datagram = datagram(frame, &ip, stop)?;
        if !is_wanted(frame, &datagram) {
            return None;
        }
        let segment = segment(frame, &datagram)?;
        Some(Decoded { record, vlan: ip.vlan, datagram, segment })
    }

    /// Whether a record that is no segment is a datagram of UDP that need only be counted.
    pub fn is_udp(&self, record: usize) -> bool {
        let Some((frame, stop)) = self.frame(record) else { return false };
        let link_type = self.link_type[if self.link_type.len() == 1 { 0 } else { record }];
        ip_header(frame, link_type).is_some_and(|header| udp::is_counted(frame, &header, stop))
    }

    /// Decode the records from `begin` to `end`; their flows go on from those that are known.
    pub fn part(&self, begin: usize, end: usize, flows: &mut Flows) -> Result<Part, OutOfMemory> {
        let (mut part, known) = (Part::with_room(end - begin)?, flows.flows.len());
        let is_far = self.data.len() / self.start.len().max(1) > FAR_BYTES;
        let are_ethernet = self.are_ethernet();
        for record in begin..end {
            if is_far && record % TOGETHER == 0 {
                self.fetch(&self.start[record..end.min(record + TOGETHER)]);
            }
            if let Some(usual) = if are_ethernet { self.usual(record) } else { None } {
                part.add_usual(&usual, record, flows)?;
                continue;
            }
            match self.decoded(record) {
                Some(decoded) => part.add(&decoded, flows)?,
                None if self.is_udp(record) => part.udp += 1,
                None => push(&mut part.rest, record as i64)?,
            }
        }
        part.flows = with_room(flows.flows.len() - known)?;
        part.flows.extend_from_slice(&flows.flows[known..]);
        Ok(part)
    }
}

/// Decode the records in as many parts as there are threads, in the order of the file; each numbers its flows.
pub fn decode(records: Records) -> Result<Vec<Part>, OutOfMemory> {
    let count = records.start.len();
    let parts = threads::count(count);
    let bound = |part: usize| count * part / parts;
    let jobs = (0..parts).map(|part| move || records.part(bound(part), bound(part + 1), &mut Flows::new()));
    threads::run(jobs.collect())
}
