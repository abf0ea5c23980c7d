//! Walks over the records of a classic pcap file: the counterpart of `parsers/_pcap/walk.py`.
//!
//! Only a stretch in which nothing is strange is taken. Whether strange records are damage, and where reading
//! goes on, is for Python to judge, on the same bytes and in the same words.

use crate::OutOfMemory;
use crate::bytes::{be32, le32};

const HEADER_BYTES: usize = 16;
const NS_PER_S: i64 = 1_000_000_000;
/// So many tell how long the others are. Not measured.
const FIRST_RECORDS: usize = 1024;

/// How the records of a file are laid out; see `parsers/_pcap/dialect.py` and `plausibility.py`.
pub struct Layout {
    pub is_big_endian: bool,
    pub header_bytes: usize,
    /// The two lengths may be the wrong way round.
    pub is_swapped: bool,
    pub tick_ns: i64,
    /// Bytes that a sane packet has at most.
    pub largest: u32,
    /// Seconds that sane neighbours are apart at most.
    pub near_s: i64,
}

/// The records of a stretch; columns of one length.
pub struct Walked {
    pub start: Vec<i64>,
    pub captured: Vec<i64>,
    pub original: Vec<i64>,
    pub time_ns: Vec<i64>,
    pub last_s: i64,
    /// Where the next record begins.
    pub next: usize,
}

struct Header {
    seconds: i64,
    fraction: i64,
    captured: u32,
    original: u32,
}

impl Layout {
    #[inline(always)]
    fn word(&self, data: &[u8], at: usize) -> Option<u32> {
        if self.is_big_endian { be32(data, at) } else { le32(data, at) }
    }

    #[inline(always)]
    fn header(&self, data: &[u8], at: usize) -> Option<Header> {
        let bytes = data.get(at..at + HEADER_BYTES)?;
        let (one, two) = (self.word(bytes, 8)?, self.word(bytes, 12)?);
        let is_turned = self.is_swapped && one > two;
        Some(Header {
            seconds: i64::from(self.word(bytes, 0)?),
            fraction: i64::from(self.word(bytes, 4)?),
            captured: if is_turned { two } else { one },
            original: if is_turned { one } else { two },
        })
    }

    #[inline(always)]
    fn is_sane(&self, header: &Header) -> bool {
        header.captured <= header.original
            && header.original > 0
            && header.original <= self.largest
            && header.fraction * self.tick_ns < NS_PER_S
    }

    /// Walk from `begin` to the last whole record before `data` ends; `None` if anything is strange.
    ///
    /// The header behind the last whole record is looked at, too, if it is there. `before_s` is when the record
    /// before the stretch was captured, if that is to be heeded.
    pub fn walk(
        &self,
        data: &[u8],
        begin: usize,
        mut before_s: Option<i64>,
    ) -> Result<Option<Walked>, OutOfMemory> {
        let mut walked = Walked::from(begin);
        while let Some(header) = self.header(data, walked.next) {
            let is_near = before_s.is_none_or(|before| (header.seconds - before).abs() <= self.near_s);
            if !is_near || !self.is_sane(&header) {
                return Ok(None);
            }
            let packet = walked.next + self.header_bytes;
            let next = packet + header.captured as usize;
            if next > data.len() {
                break;
            }
            let time_ns = header.seconds * NS_PER_S + header.fraction * self.tick_ns;
            let (captured, original) = (i64::from(header.captured), i64::from(header.original));
            walked.add(begin, data.len(), [packet as i64, captured, original, time_ns])?;
            before_s = Some(header.seconds);
            walked.last_s = header.seconds;
            walked.next = next;
        }
        Ok(Some(walked))
    }
}

impl Walked {
    pub fn from(begin: usize) -> Self {
        let columns = [const { Vec::new() }; 4];
        let [start, captured, original, time_ns] = columns;
        Self { start, captured, original, time_ns, last_s: 0, next: begin }
    }

    /// Make room for about so many records: a few at first, which show how long they are.
    #[cold]
    fn make_room(&mut self, begin: usize, end: usize) -> Result<(), OutOfMemory> {
        let mean = ((self.next - begin) / self.start.len().max(1)).max(HEADER_BYTES);
        let expected = (end - self.next) / mean;
        let more =
            if self.start.is_empty() { FIRST_RECORDS } else { expected + expected / 16 + FIRST_RECORDS };
        for column in [&mut self.start, &mut self.captured, &mut self.original, &mut self.time_ns] {
            column.try_reserve_exact(more)?;
        }
        Ok(())
    }

    /// Add a record of the stretch from `begin` to `end`: its packet's place, both lengths and time.
    #[inline(always)]
    pub fn add(&mut self, begin: usize, end: usize, record: [i64; 4]) -> Result<(), OutOfMemory> {
        if self.start.len() == self.start.capacity() {
            self.make_room(begin, end)?;
        }
        let [start, captured, original, time_ns] = record;
        self.start.push(start);
        self.captured.push(captured);
        self.original.push(original);
        self.time_ns.push(time_ns);
        Ok(())
    }
}
