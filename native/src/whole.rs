//! A plain pcap file from its bytes to what is counted of its connections, block by block: one thread reads and
//! walks, the next decodes, the last counts. Whoever asks gets the records that Python has to look at.

use std::fs::File;
use std::io::Read;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

use crate::OutOfMemory;
use crate::block::Block;
use crate::flows::Flows;
use crate::link::UNTAGGED;
use crate::mark;
use crate::pass::running::Running;
use crate::running::Kept;
use crate::segments::Records;
use crate::times;
use crate::walk::{Layout, Walked};

/// Blocks that wait for the next thread: more only take memory.
const WAITING: usize = 2;

/// Why reading ended before the file did.
pub enum Stop {
    OutOfMemory,
    /// Something is strange: Python reads the file.
    Odd,
}

impl From<OutOfMemory> for Stop {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// Bounds beyond which it is of no use to go on; see `multitracer/analysis/running.py`.
pub struct Limits {
    pub few_connections: usize,
    pub least_each: usize,
    pub few_kept: usize,
    pub kept_share: usize,
}

/// What the times of the packets show; see `StampFacts` in `parsers/_capture/capture_file.py`.
pub struct Clock {
    pub far_ns: i64,
    pub packets: usize,
    pub last_ns: Option<i64>,
    pub steps_back: usize,
    pub largest_step_back_ns: i64,
    pub lowest_ns: i64,
    pub highest_ns: i64,
}

impl Clock {
    fn note(&mut self, time_ns: &[i64]) {
        let facts = times::facts(time_ns, self.last_ns, self.far_ns);
        self.packets += facts.known;
        self.last_ns = facts.last;
        self.steps_back += facts.steps_back;
        self.largest_step_back_ns = self.largest_step_back_ns.max(facts.largest_step_back_ns);
        self.lowest_ns = self.lowest_ns.min(facts.lowest_ns);
        self.highest_ns = self.highest_ns.max(facts.highest_ns);
    }
}

/// The bytes of the file.
struct Source {
    file: File,
    layout: Layout,
    /// So many are read at a time: as many as Python, which then counts what it finds in the same order.
    block_bytes: usize,
    /// Where the first record of the next block begins in it.
    begin: usize,
    /// What was read behind the last whole record.
    tail: Vec<u8>,
    bytes: usize,
    is_over: bool,
}

/// Records of the file.
struct Found {
    data: Vec<u8>,
    walked: Walked,
}

impl Source {
    /// Return the next records; None if there are no more.
    fn next(&mut self, mut data: Vec<u8>) -> Result<Option<Found>, Stop> {
        data.clear();
        data.try_reserve_exact(self.block_bytes).map_err(OutOfMemory::from)?;
        data.append(&mut self.tail);
        let wanted = self.block_bytes.saturating_sub(data.len());
        let read = Read::by_ref(&mut self.file).take(wanted as u64).read_to_end(&mut data);
        let read = read.map_err(|_| Stop::Odd)?;
        self.bytes += read;
        self.is_over = read < wanted;
        if self.is_over && data.len() == self.begin {
            return Ok(None);
        }
        let walked = self.layout.walk(&data, self.begin)?.ok_or(Stop::Odd)?;
        let is_cut = self.is_over && walked.next != data.len();
        if walked.start.is_empty() || is_cut {
            return Err(Stop::Odd);
        }
        self.begin = 0;
        self.tail.try_reserve(data.len() - walked.next).map_err(OutOfMemory::from)?;
        self.tail.extend_from_slice(&data[walked.next..]);
        Ok(Some(Found { data, walked }))
    }
}

/// Packets of a block that Python has to look at; `data` holds them one behind the other.
#[derive(Default)]
pub struct Rest {
    pub data: Vec<u8>,
    pub captured: Vec<i64>,
    pub original: Vec<i64>,
    pub time_ns: Vec<i64>,
    /// Segments of the block by IP version, 4 and 6.
    pub segments: [usize; 2],
}

impl Rest {
    fn add(&mut self, block: &Found, record: usize) -> Result<(), OutOfMemory> {
        let (start, captured) = (block.walked.start[record], block.walked.captured[record]);
        let packet = &block.data[start as usize..(start + captured) as usize];
        self.data.try_reserve(packet.len())?;
        self.data.extend_from_slice(packet);
        for (column, value) in [
            (&mut self.captured, captured),
            (&mut self.original, block.walked.original[record]),
            (&mut self.time_ns, block.walked.time_ns[record]),
        ] {
            column.try_reserve(1)?;
            column.push(value);
        }
        Ok(())
    }
}

/// A block that is decoded.
struct Decoded {
    block: Block,
    rest: Rest,
}

struct Decoder {
    link_type: i64,
    flows: Flows,
    records: usize,
    clock: Clock,
}

impl Decoder {
    fn decode(&mut self, found: &Found) -> Result<Decoded, Stop> {
        let walked = &found.walked;
        self.clock.note(&walked.time_ns);
        let records = Records {
            data: &found.data,
            start: &walked.start,
            captured: &walked.captured,
            original: &walked.original,
            link_type: &[self.link_type],
        };
        let known = self.flows.flows.len();
        let mut block = Block::of(&records, &walked.time_ns, &mut self.flows)?;
        self.flows.flows[known..].iter_mut().for_each(|flow| flow.record += self.records);
        if block.flows.iter().any(|flow| flow.vlan != UNTAGGED) {
            return Err(Stop::Odd); // flows may be joined later
        }
        let mut rest = Rest::default();
        for &record in &block.rest {
            rest.add(found, record as usize)?;
        }
        rest.segments = [block.in_ipv4, block.rows.len() - block.in_ipv4];
        block.first_frame = self.records as i64 + 1;
        self.records += walked.start.len();
        Ok(Decoded { block, rest })
    }
}

/// What was counted so far.
pub struct Counts {
    pub running: Running,
    pub kept: Vec<Kept>,
    kept_rows: usize,
    limits: Limits,
    /// Of each block since Python asked for them.
    pub rests: Vec<Rest>,
}

impl Counts {
    fn count(&mut self, decoded: Decoded) -> Result<(), Stop> {
        if let Some(kept) = Kept::of(&decoded.block, &mut self.running)? {
            self.kept_rows += kept.direction.len();
            self.kept.try_reserve(1).map_err(OutOfMemory::from)?;
            self.kept.push(kept);
        }
        self.rests.try_reserve(1).map_err(OutOfMemory::from)?;
        self.rests.push(decoded.rest);
        // the lengths of records may be overwritten: the first packets of a file tell
        let is_cut = self.running.marked[mark::BAD_LENGTH.trailing_zeros() as usize] > 0;
        if self.running.is_odd || is_cut || self.is_in_vain() { Err(Stop::Odd) } else { Ok(()) }
    }

    /// Whether what is kept takes as much memory as the segments would.
    fn is_in_vain(&self) -> bool {
        let (limits, segments) = (&self.limits, self.running.segments);
        let connections = self.running.beginnings.len();
        connections > limits.few_connections.max(segments / limits.least_each)
            || self.kept_rows > limits.few_kept.max(segments / limits.kept_share)
    }
}

/// Where and how reading begins.
pub struct Start {
    pub first_record: usize,
    pub link_type: i64,
    /// Times further apart than this are no step back.
    pub far_ns: i64,
    pub block_bytes: usize,
}

/// A plain pcap file that is being counted.
pub struct Whole {
    source: Source,
    decoder: Decoder,
    pub counts: Counts,
}

impl Whole {
    pub fn new(file: File, start: Start, layout: Layout, limits: Limits) -> Self {
        let Start { first_record, link_type, far_ns, block_bytes } = start;
        let clock = Clock {
            far_ns,
            packets: 0,
            last_ns: None,
            steps_back: 0,
            largest_step_back_ns: 0,
            lowest_ns: i64::MAX,
            highest_ns: i64::MIN,
        };
        let (tail, bytes, is_over) = (Vec::new(), 0, false);
        Self {
            source: Source { file, layout, block_bytes, begin: first_record, tail, bytes, is_over },
            decoder: Decoder { link_type, flows: Flows::new(), records: 0, clock },
            counts: Counts {
                running: Running::default(),
                kept: Vec::new(),
                kept_rows: 0,
                limits,
                rests: Vec::new(),
            },
        }
    }

    pub fn clock(&self) -> &Clock {
        &self.decoder.clock
    }

    pub fn flows(&self) -> &Flows {
        &self.decoder.flows
    }

    /// How many bytes were read.
    pub fn bytes(&self) -> usize {
        self.source.bytes
    }

    pub fn is_over(&self) -> bool {
        self.source.is_over
    }

    /// Read and count up to so many blocks more.
    pub fn read(&mut self, blocks: usize) -> Result<(), Stop> {
        let first = self.source.next(Vec::new())?;
        let Some(first) = first else { return Ok(()) };
        if self.source.is_over || blocks < 2 {
            return self.counts.count(self.decoder.decode(&first)?);
        }
        self.read_beside(first, blocks - 1)
    }

    /// Read a file of several blocks: each stage in a thread of its own.
    fn read_beside(&mut self, first: Found, more: usize) -> Result<(), Stop> {
        let Self { source, decoder, counts } = self;
        let (to_decoder, blocks) = sync_channel(WAITING);
        let (to_counts, pieces) = sync_channel(WAITING);
        let (to_source, buffers) = sync_channel(2 * WAITING);
        std::thread::scope(|scope| {
            let walks = move || walk_on(source, first, more, &to_decoder, &buffers);
            let decodes = move || decode_all(decoder, &blocks, &to_counts, &to_source);
            let threads = [
                Builder::new().spawn_scoped(scope, walks).map_err(|_| Stop::Odd)?, // no more are to be had
                Builder::new().spawn_scoped(scope, decodes).map_err(|_| Stop::Odd)?,
            ];
            // the others end when nobody takes what they give
            let counted = pieces.into_iter().try_for_each(|piece| counts.count(piece?));
            for thread in threads {
                thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
            counted
        })
    }
}

fn walk_on(
    source: &mut Source,
    first: Found,
    more: usize,
    to_decoder: &SyncSender<Result<Found, Stop>>,
    buffers: &Receiver<Vec<u8>>,
) {
    let mut is_taken = to_decoder.send(Ok(first)).is_ok();
    for _ in 0..more {
        if !is_taken || source.is_over {
            return;
        }
        let Some(next) = source.next(buffers.try_recv().unwrap_or_default()).transpose() else { return };
        is_taken = next.is_ok();
        is_taken &= to_decoder.send(next).is_ok();
    }
}

fn decode_all(
    decoder: &mut Decoder,
    blocks: &Receiver<Result<Found, Stop>>,
    to_counts: &SyncSender<Result<Decoded, Stop>>,
    to_source: &SyncSender<Vec<u8>>,
) {
    for block in blocks {
        let decoded = block.and_then(|block| {
            let decoded = decoder.decode(&block);
            let _ = to_source.try_send(block.data); // if nobody takes the memory, it is freed
            decoded
        });
        let is_last = decoded.is_err();
        if to_counts.send(decoded).is_err() || is_last {
            return;
        }
    }
}
