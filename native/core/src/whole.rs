//! A capture file from its bytes to what is counted of its connections, block by block: one thread reads, the
//! next walks and decodes, the last counts. Whoever asks gets what Python has to look at: records that are not
//! known here, and blocks of pcapng that are no packets.

use std::fs::File;
use std::io::{self, Read};
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

use crate::OutOfMemory;
use crate::block::Block;
use crate::flows::Flows;
use crate::kept::Kept;
use crate::link::UNTAGGED;
use crate::mark;
use crate::one_flow::Ends;
use crate::pass::running::Running;
use crate::pcapng::Alike;
use crate::repeats::Repeats;
use crate::segments::Records;
use crate::times;
use crate::walk::{Layout, Walked};

/// Blocks that wait for the next thread: more only take memory.
const WAITING: usize = 2;
/// So many bytes of packets wait for Python at most: it takes some times as much memory to look at them.
const MOST_WAITING_BYTES: usize = 4 << 20;
/// Before the bytes of a block, for what is left of the one before: a part of a record, which is no larger than
/// `LARGEST_PACKET` in `parsers/_capture/bounds.py` and its header.
const ROOM_BYTES: usize = 256 * 1024 + 4096;

/// Why reading ended before the file did.
pub enum Stop {
    OutOfMemory,
    /// Something is strange: Python reads the file.
    Odd,
    /// There are no more bytes to be had.
    Failed(io::Error),
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
    pub repeats: usize,
    pub grain_ns: u64,
    pub lowest_ns: i64,
    pub highest_ns: i64,
}

impl Clock {
    fn note(&mut self, time_ns: &[i64]) {
        let facts = times::facts(time_ns, self.last_ns, self.far_ns, self.grain_ns);
        self.packets += facts.known;
        self.last_ns = facts.last;
        self.steps_back += facts.steps_back;
        self.largest_step_back_ns = self.largest_step_back_ns.max(facts.largest_step_back_ns);
        self.repeats += facts.repeats;
        self.grain_ns = facts.grain_ns;
        self.lowest_ns = self.lowest_ns.min(facts.lowest_ns);
        self.highest_ns = self.highest_ns.max(facts.highest_ns);
    }
}

/// What gives the bytes of a file.
pub trait Bytes: Send + Sync {
    /// Fill `data` with the next bytes; return how many there were, fewer only at the end.
    fn fill(&mut self, data: &mut [u8]) -> io::Result<usize>;

    /// Whether that takes longer than to decode and to count what there is.
    fn is_slow(&self) -> bool {
        false
    }
}

impl Bytes for File {
    fn fill(&mut self, data: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < data.len() {
            match self.read(&mut data[filled..]) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

/// How the records of a file lie in it.
pub enum Form {
    Pcap(Layout),
    Pcapng(Alike),
}

/// The next bytes of the file, behind room for what is left of those before.
struct Piece {
    data: Vec<u8>,
    is_last: bool,
}

struct Source {
    bytes: Box<dyn Bytes>,
    /// So many are read at a time.
    block_bytes: usize,
    read_bytes: usize,
    is_over: bool,
}

impl Source {
    /// Return the next bytes, in memory that was used before, or that is new.
    fn next(&mut self, mut data: Vec<u8>) -> Result<Piece, Stop> {
        let size = ROOM_BYTES + self.block_bytes;
        data.try_reserve_exact(size - data.len()).map_err(OutOfMemory::from)?;
        data.resize(size, 0);
        let read = self.bytes.fill(&mut data[ROOM_BYTES..]).map_err(Stop::Failed)?;
        data.truncate(ROOM_BYTES + read);
        self.read_bytes += read;
        self.is_over = read < self.block_bytes;
        Ok(Piece { data, is_last: self.is_over })
    }
}

/// Finds records in pieces of the file.
struct Walker {
    form: Form,
    /// Where the first record begins in the next piece.
    begin: usize,
    /// What is left of the pieces before; in the end of a record that is cut off.
    tail: Vec<u8>,
    /// When the last record of a pcap file before the next piece was captured: Python's blocks end elsewhere.
    before_s: Option<i64>,
}

/// Records of the file.
struct Found {
    data: Vec<u8>,
    walked: Walked,
    /// Blocks of pcapng that are no packets.
    others: Vec<Vec<u8>>,
}

impl Walker {
    /// Whether a file may end so: of pcap the last record may be cut off, of which Python decides.
    fn may_end(&self, left: &[u8]) -> bool {
        left.is_empty() || matches!(self.form, Form::Pcap(_))
    }

    /// Return the records of the next piece.
    fn walk(&mut self, piece: Piece) -> Result<Found, Stop> {
        let Piece { mut data, is_last } = piece;
        let room = ROOM_BYTES.checked_sub(self.tail.len()).ok_or(Stop::Odd)?;
        data[room..ROOM_BYTES].copy_from_slice(&self.tail);
        let begin = room + std::mem::take(&mut self.begin);
        let mut others = Vec::new();
        let walked = match &self.form {
            Form::Pcap(layout) => layout.walk(&data, begin, self.before_s)?,
            Form::Pcapng(alike) => alike.walk(&data, begin, &mut others)?,
        };
        let walked = walked.ok_or(Stop::Odd)?;
        let is_well = if is_last {
            data.get(walked.next..).is_some_and(|left| self.may_end(left))
        } else {
            walked.next > begin
        };
        if !is_well {
            return Err(Stop::Odd);
        }
        self.before_s = walked.start.last().map(|_| walked.last_s).or(self.before_s);
        self.tail.clear();
        self.tail.try_reserve(data.len() - walked.next).map_err(OutOfMemory::from)?;
        self.tail.extend_from_slice(&data[walked.next..]);
        Ok(Found { data, walked, others })
    }
}

/// What Python has to look at of a block: packets, which `data` holds one behind the other, and other blocks.
#[derive(Default)]
pub struct Rest {
    pub data: Vec<u8>,
    pub captured: Vec<i64>,
    pub original: Vec<i64>,
    pub time_ns: Vec<i64>,
    /// Segments of the block by IP version, 4 and 6.
    pub segments: [usize; 2],
    /// Datagrams of UDP, which are not among the packets.
    pub udp: usize,
    pub others: Vec<Vec<u8>>,
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
    is_last: bool,
}

/// Looks at what was found: packets and blocks that Python has to look at, how many bytes were read, and how many
/// connections there are; returns whether to read on.
pub type Look<'a> = &'a mut (dyn FnMut(Vec<Rest>, usize, usize) -> bool + Send);

struct Decoder {
    walker: Walker,
    link_type: i64,
    /// Those of the one flow whose segments are wanted.
    only: Option<Ends>,
    flows: Flows,
    records: usize,
    clock: Clock,
    repeats: Repeats,
}

impl Decoder {
    /// Find and decode the packets of a piece; return them and its memory.
    fn decode(&mut self, piece: Piece) -> Result<(Decoded, Vec<u8>), Stop> {
        let is_last = piece.is_last;
        let mut found = self.walker.walk(piece)?;
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
        let mut block = match &self.only {
            Some(ends) => Block::between(&records, &walked.time_ns, ends)?,
            None => Block::of(&records, &walked.time_ns, &mut self.flows)?,
        };
        self.flows.flows[known..].iter_mut().for_each(|flow| flow.record += self.records);
        if block.flows.iter().any(|flow| flow.vlan != UNTAGGED) {
            return Err(Stop::Odd); // flows may be joined later
        }
        if self.only.is_none() && self.repeats.note(&block.rows)? {
            return Err(Stop::Odd); // Python leaves copies out; of one flow alone the first reading knew
        }
        let mut rest = Rest { others: std::mem::take(&mut found.others), ..Rest::default() };
        for &record in &block.rest {
            rest.add(&found, record as usize)?;
        }
        rest.segments = [block.in_ipv4, block.rows.len() - block.in_ipv4];
        rest.udp = block.udp;
        block.first_frame = self.records as i64 + 1;
        self.records += found.walked.start.len();
        Ok((Decoded { block, rest, is_last }, found.data))
    }
}

/// What was counted so far.
pub struct Counts {
    pub running: Running,
    pub kept: Vec<Kept>,
    kept_rows: usize,
    /// None: all segments are kept, and nothing is counted.
    limits: Option<Limits>,
    /// Of the file, if that is known.
    total_bytes: Option<usize>,
    /// Of each block since the last look.
    pub rests: Vec<Rest>,
    /// Bytes of the packets in them, and of those before.
    waiting_bytes: usize,
    looked_at_bytes: usize,
}

impl Counts {
    /// Take in a block, with which so much of the file has been read: count its segments, or keep them all.
    fn take(&mut self, decoded: Decoded, read_bytes: usize) -> Result<(), Stop> {
        self.waiting_bytes += decoded.rest.data.len();
        if self.waiting_bytes + self.looked_at_bytes > (read_bytes / 2).max(MOST_WAITING_BYTES) {
            return Err(Stop::Odd); // Python looks at most of the file: it had better do so in place
        }
        self.rests.try_reserve(1).map_err(OutOfMemory::from)?;
        self.rests.push(decoded.rest);
        match self.limits {
            Some(_) => self.count(&decoded.block),
            None => self.keep(&decoded.block, read_bytes),
        }
    }

    fn count(&mut self, block: &Block) -> Result<(), Stop> {
        if let Some(kept) = Kept::of(block, &mut self.running)? {
            self.kept_rows += kept.direction.len();
            self.kept.try_reserve(1).map_err(OutOfMemory::from)?;
            self.kept.push(kept);
        }
        // the lengths of records may be overwritten: the first packets of a file tell
        let is_cut = self.running.marked[mark::BAD_LENGTH.trailing_zeros() as usize] > 0;
        if self.running.is_odd || is_cut || self.is_in_vain() { Err(Stop::Odd) } else { Ok(()) }
    }

    fn keep(&mut self, block: &Block, read_bytes: usize) -> Result<(), Stop> {
        let marks = block.rows.iter().fold(0, |marks, row| marks | row.marks);
        if marks & (mark::BAD_LENGTH | mark::FRAGMENT) != 0 {
            return Err(Stop::Odd); // as above; what later fragments carry belongs to a segment
        }
        if self.kept.is_empty() {
            self.kept.push(Kept::default());
        }
        let share = self.total_bytes.map(|total| read_bytes as f64 / total as f64);
        Ok(self.kept[0].add(block, share)?)
    }

    /// Let somebody look at what was found since the last look; return whether to read on.
    fn are_looked_at(&mut self, read_bytes: usize, look: Look) -> bool {
        self.looked_at_bytes += std::mem::take(&mut self.waiting_bytes);
        look(std::mem::take(&mut self.rests), read_bytes, self.running.beginnings.len())
    }

    /// Whether what is kept takes as much memory as the segments would.
    fn is_in_vain(&self) -> bool {
        let Some(limits) = &self.limits else { return false };
        let segments = self.running.segments;
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
    /// Of the file, if that is known.
    pub total_bytes: Option<usize>,
    /// Of which flow alone the segments are wanted.
    pub only: Option<Ends>,
}

/// A capture file that is being counted.
pub struct Whole {
    source: Source,
    decoder: Decoder,
    pub counts: Counts,
}

impl Whole {
    pub fn new(bytes: Box<dyn Bytes>, start: Start, form: Form, limits: Option<Limits>) -> Self {
        let Start { first_record, link_type, far_ns, block_bytes, total_bytes, only } = start;
        let clock = Clock {
            far_ns,
            packets: 0,
            last_ns: None,
            steps_back: 0,
            largest_step_back_ns: 0,
            repeats: 0,
            grain_ns: 0,
            lowest_ns: i64::MAX,
            highest_ns: i64::MIN,
        };
        let walker = Walker { form, begin: first_record, tail: Vec::new(), before_s: None };
        Self {
            source: Source { bytes, block_bytes, read_bytes: 0, is_over: false },
            decoder: Decoder {
                walker,
                link_type,
                only,
                flows: Flows::new(),
                records: 0,
                clock,
                repeats: Repeats::default(),
            },
            counts: Counts {
                running: Running::default(),
                kept: Vec::new(),
                kept_rows: 0,
                limits,
                total_bytes,
                rests: Vec::new(),
                waiting_bytes: 0,
                looked_at_bytes: 0,
            },
        }
    }

    pub fn clock(&self) -> &Clock {
        &self.decoder.clock
    }

    pub fn flows(&self) -> &Flows {
        &self.decoder.flows
    }

    /// What there is of a last record that is cut off.
    pub fn tail(&self) -> &[u8] {
        &self.decoder.walker.tail
    }

    /// How many bytes were read.
    pub fn read_bytes(&self) -> usize {
        self.source.read_bytes
    }

    /// Read and count the file; look at what was found at each block, by number, for which `is_due` holds, while
    /// there is more.
    pub fn read(&mut self, is_due: impl Fn(usize) -> bool, look: Look) -> Result<(), Stop> {
        let first = self.source.next(Vec::new())?;
        if first.is_last {
            return self.counts.take(self.decoder.decode(first)?.0, self.source.read_bytes);
        }
        self.read_beside(first, is_due, look)
    }

    /// Read a file of several blocks: each stage in a thread of its own.
    ///
    /// What takes long to read is decoded and counted here: a third thread would only take its core away.
    fn read_beside(&mut self, first: Piece, is_due: impl Fn(usize) -> bool, look: Look) -> Result<(), Stop> {
        let Self { source, decoder, counts } = self;
        let (block_bytes, is_slow) = (source.block_bytes, source.bytes.is_slow());
        let (to_decoder, pieces) = sync_channel(WAITING);
        let (to_counts, blocks) = sync_channel(WAITING);
        let (to_source, buffers) = sync_channel(2 * WAITING);
        let mut count = |(block, number): (Result<Decoded, Stop>, usize)| {
            let decoded = block?;
            let is_last = decoded.is_last;
            counts.take(decoded, number * block_bytes)?;
            let looks = !is_last && (is_due(number) || counts.waiting_bytes > MOST_WAITING_BYTES);
            let go_on = !looks || counts.are_looked_at(number * block_bytes, &mut *look);
            if go_on { Ok(()) } else { Err(Stop::Odd) }
        };
        std::thread::scope(|scope| {
            let reads = move || read_on(source, first, &to_decoder, &buffers);
            let reader = Builder::new().spawn_scoped(scope, reads).map_err(|_| Stop::Odd)?; // no more are to be had
            let decoded = pieces.into_iter().map(move |piece| {
                piece.and_then(|piece| decoder.decode(piece)).map(|(decoded, memory)| {
                    let _ = to_source.try_send(memory); // if nobody takes it, it is freed
                    decoded
                })
            });
            // the others end when nobody takes what they give
            let counted = if is_slow {
                drop(to_counts);
                decoded.zip(1..).try_for_each(count)
            } else {
                let decodes = move || send_all(decoded, &to_counts);
                let decoder = Builder::new().spawn_scoped(scope, decodes).map_err(|_| Stop::Odd)?;
                let counted = blocks.into_iter().zip(1..).try_for_each(&mut count);
                decoder.join().unwrap_or_else(|panic| resume_unwind(panic));
                counted
            };
            reader.join().unwrap_or_else(|panic| resume_unwind(panic));
            counted
        })
    }
}

fn read_on(
    source: &mut Source,
    first: Piece,
    to_decoder: &SyncSender<Result<Piece, Stop>>,
    buffers: &Receiver<Vec<u8>>,
) {
    let mut is_taken = to_decoder.send(Ok(first)).is_ok();
    while is_taken && !source.is_over {
        let next = source.next(buffers.try_recv().unwrap_or_default());
        is_taken = next.is_ok();
        is_taken &= to_decoder.send(next).is_ok();
    }
}

fn send_all(
    blocks: impl Iterator<Item = Result<Decoded, Stop>>,
    to_counts: &SyncSender<Result<Decoded, Stop>>,
) {
    for block in blocks {
        let is_last = block.is_err();
        if to_counts.send(block).is_err() || is_last {
            return;
        }
    }
}
