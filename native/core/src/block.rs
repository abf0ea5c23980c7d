//! The segments of a block one behind the other, for the pass that looks at each once: see `running.rs`.
//!
//! They are decoded as `segments.rs` does it, into a row each: twelve columns would cost more than the decoding.

use crate::OutOfMemory;
use crate::flows::{Flow, Flows};
use crate::link::UNTAGGED;
use crate::one_flow::Ends;
use crate::room::{push, with_room};
use crate::segment_row::{Row, SackBlock, Syn, put_options};
use crate::segments::{Decoded, Part, Records};
use crate::usual::Usual;

/// The segments of consecutive records, in their order.
#[derive(Default)]
pub struct Block {
    pub rows: Vec<Row>,
    pub sack: Vec<SackBlock>,
    pub syn: Vec<Syn>,
    /// Those of `FlowTable` whose first segment this block holds.
    pub flows: Vec<Flow>,
    /// Records that Python decodes.
    pub rest: Vec<i64>,
    /// Datagrams of UDP, which are not among them.
    pub udp: usize,
    /// Segments in IPv4; the others are in IPv6.
    pub in_ipv4: usize,
    /// The number in its file of the record with index 0.
    pub first_frame: i64,
}

impl Block {
    /// Decode records; their flows go on from those that are known.
    pub fn of(records: &Records, time_ns: &[i64], flows: &mut Flows) -> Result<Self, OutOfMemory> {
        let known = flows.flows.len();
        let mut block = Self { rows: with_room(records.start.len())?, ..Self::default() };
        let are_ethernet = records.are_ethernet();
        for record in 0..records.start.len() {
            let time_ns = time_ns[record];
            if let Some(usual) = if are_ethernet { records.usual(record) } else { None } {
                block.add_usual(&usual, record, time_ns, flows)?;
                continue;
            }
            match records.decoded(record) {
                Some(decoded) => block.add(&decoded, time_ns, flows)?,
                None if records.is_udp(record) => block.udp += 1,
                None => push(&mut block.rest, record as i64)?,
            }
        }
        block.flows = with_room(flows.flows.len() - known)?;
        block.flows.extend_from_slice(&flows.flows[known..]);
        Ok(block)
    }

    /// Decode the records of one flow alone; it has number 0.
    pub fn between(records: &Records, time_ns: &[i64], ends: &Ends) -> Result<Self, OutOfMemory> {
        let mut block = Self::default();
        for (record, &time_ns) in time_ns.iter().enumerate() {
            let decoded = records.decoded_if(record, |frame, datagram| ends.has(frame, datagram));
            if let Some(decoded) = decoded {
                block.push(&decoded, time_ns, ends.side(&decoded))?;
            }
        }
        Ok(block)
    }

    #[inline(always)]
    fn add_usual(
        &mut self,
        usual: &Usual,
        record: usize,
        time_ns: i64,
        flows: &mut Flows,
    ) -> Result<(), OutOfMemory> {
        let flow = flows.directed_ipv4(usual.addresses, usual.ports, record)?;
        self.in_ipv4 += 1;
        usual.put_sack(self.rows.len() as i64, &mut self.sack)?;
        push(&mut self.rows, Row { time_ns, flow, record: record as u32, ..usual.row })
    }

    #[inline(never)]
    fn add(&mut self, decoded: &Decoded, time_ns: i64, flows: &mut Flows) -> Result<(), OutOfMemory> {
        let flow = match decoded.flow() {
            Flow { version: 4, source, destination, vlan: UNTAGGED, record } => flows.directed_ipv4(
                (source.address as u32, destination.address as u32),
                (source.port, destination.port),
                record,
            )?,
            other => flows.directed(other)?,
        };
        self.push(decoded, time_ns, flow)
    }

    fn push(&mut self, decoded: &Decoded, time_ns: i64, flow: i32) -> Result<(), OutOfMemory> {
        let Decoded { record, datagram, segment, .. } = decoded;
        self.in_ipv4 += usize::from(datagram.version == 4);
        if segment.has_rare_options() {
            put_options(segment, self.rows.len() as i64, &mut self.sack, &mut self.syn)?;
        }
        push(&mut self.rows, Row::new(segment, flow, datagram.identification, *record, time_ns))
    }

    /// Return the columns of these rows (ascending) and their times, without the flows.
    pub fn picked(&self, rows: &[usize]) -> Result<(Part, Vec<i64>), OutOfMemory> {
        let (mut part, mut time_ns) = (Part::with_room(rows.len())?, with_room(rows.len())?);
        for &place in rows {
            let row = &self.rows[place];
            part.add_row(self.first_frame + i64::from(row.record), row);
            time_ns.push(row.time_ns);
        }
        let place = |row: i64| rows.binary_search(&(row as usize)).map(|place| place as i64);
        for &(row, left, right) in &self.sack {
            place(row).map_or(Ok(()), |row| push(&mut part.sack, (row, left, right)))?;
        }
        for &syn in &self.syn {
            place(syn.row).map_or(Ok(()), |row| push(&mut part.syn, Syn { row, ..syn }))?;
        }
        Ok((part, time_ns))
    }
}
