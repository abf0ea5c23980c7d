//! Enhanced packet blocks of pcapng: the counterpart of `parsers/_pcapng/walk.py` and `packets.py`.
//!
//! As in `walk.rs`, what is strange is not judged here: all other blocks, and a stretch with anything odd in
//! one of its packets, are Python's.

use crate::OutOfMemory;
use crate::bytes::{be16, be32, le16, le32};
use crate::room::{push, with_room};
use crate::walk::Walked;

const ENHANCED_PACKET: u32 = 6;
/// Sections, interfaces, and packets without an interface or in their old form.
const BEGIN_ANEW: [u32; 4] = [0x0A0D_0D0A, 1, 2, 3];
const SMALLEST_PACKET: usize = 32;
const SMALLEST_BLOCK: usize = 12;
/// All blocks of a stretch that are no packets have no more bytes, or there is something strange.
const MOST_OTHER_BYTES: usize = 1 << 20;
const PACKET_AT: usize = 28;
const COMMENT: u16 = 1;

/// The bytes of a file, in the byte order of one section.
#[derive(Clone, Copy)]
pub struct Section<'a> {
    pub data: &'a [u8],
    pub is_big_endian: bool,
}

/// An interface of the section, by its number there.
pub struct Interface {
    /// How many packets of the stretch came before its description.
    pub since: i64,
    /// Captured bytes that a packet has at most.
    pub largest: i64,
}

struct Packet {
    interface: i64,
    start: i64,
    captured: i64,
    original: i64,
    ticks: i64,
}

/// Columns of one length.
#[derive(Default)]
pub struct Packets {
    pub interface: Vec<i64>,
    pub start: Vec<i64>,
    pub captured: Vec<i64>,
    pub original: Vec<i64>,
    /// The bits of an unsigned count.
    pub ticks: Vec<i64>,
}

impl Section<'_> {
    #[inline(always)]
    fn word(&self, at: usize) -> Option<u32> {
        if self.is_big_endian { be32(self.data, at) } else { le32(self.data, at) }
    }

    #[inline(always)]
    fn half(&self, at: usize) -> Option<u16> {
        if self.is_big_endian { be16(self.data, at) } else { le16(self.data, at) }
    }

    /// Return where whole enhanced packet blocks begin from `begin` on, one after the other, and where they end.
    pub fn walk(&self, begin: usize) -> Result<(Vec<i64>, usize), OutOfMemory> {
        let (mut starts, mut at) = (Vec::new(), begin);
        while self.word(at) == Some(ENHANCED_PACKET) {
            let Some(length) = self.word(at + 4).map(|length| length as usize) else { break };
            let is_sane = length >= SMALLEST_PACKET && length & 3 == 0;
            if !is_sane || at + length > self.data.len() {
                break;
            }
            starts.try_reserve(1)?;
            starts.push(at as i64);
            at += length;
        }
        Ok((starts, at))
    }

    /// Return the packets of the blocks at `starts`; `None` if anything is strange.
    ///
    /// A comment is strange, too, if `comments` are of interest.
    pub fn packets(
        &self,
        starts: &[i64],
        interfaces: &[Interface],
        comments: bool,
    ) -> Result<Option<Packets>, OutOfMemory> {
        let mut packets = Packets::default();
        for column in packets.columns() {
            column.try_reserve_exact(starts.len())?;
        }
        for (index, &start) in starts.iter().enumerate() {
            let packet = usize::try_from(start).ok().and_then(|at| self.packet(at, interfaces, comments));
            let is_known = |packet: &Packet| interfaces[packet.interface as usize].since <= index as i64;
            let Some(packet) = packet.filter(is_known) else { return Ok(None) };
            packets.add(&packet);
        }
        Ok(Some(packets))
    }

    /// Return the packet of the block that begins here; `None` if anything is strange.
    #[inline(always)]
    fn packet(&self, at: usize, interfaces: &[Interface], comments: bool) -> Option<Packet> {
        let (kind, length) = (self.word(at)?, self.word(at.checked_add(4)?)?);
        let end = at.checked_add(length as usize)?;
        let number = self.word(at + 8)?;
        let interface = interfaces.get(number as usize)?;
        let ticks = i64::from(self.word(at + 12)?) << 32 | i64::from(self.word(at + 16)?);
        let (captured, original) = (self.word(at + 20)?, self.word(at + 24)?);
        let is_closed = self.word(end.checked_sub(4)?)? == length && length & 3 == 0;
        let fits = PACKET_AT as i64 + i64::from(captured) + 4 <= i64::from(length)
            && i64::from(captured) <= interface.largest;
        let options_at = at + PACKET_AT + ((captured as usize + 3) & !3);
        if kind != ENHANCED_PACKET
            || !is_closed
            || !fits
            || (comments && self.has_comment(options_at, end - 4))
        {
            return None;
        }
        let (captured, original) = (i64::from(captured), i64::from(original));
        let start = (at + PACKET_AT) as i64;
        Some(Packet { interface: i64::from(number), start, captured, original, ticks })
    }

    fn has_comment(&self, at: usize, end: usize) -> bool {
        let mut at = at;
        while at + 4 <= end {
            match self.half(at).zip(self.half(at + 2)) {
                Some((code, length)) if code != 0 && at + 4 + usize::from(length) <= end => {
                    if code == COMMENT {
                        return true;
                    }
                    at += 4 + ((usize::from(length) + 3) & !3);
                }
                _ => return false,
            }
        }
        false
    }
}

/// Packets of one section whose interfaces are alike.
pub struct Alike {
    pub is_big_endian: bool,
    pub interfaces: Vec<Interface>,
    pub tick_ns: i64,
    /// Of the time at 0 ticks.
    pub offset_ns: i64,
}

impl Alike {
    /// Walk from `begin` to the last whole block before `data` ends; `None` if anything is strange.
    ///
    /// Blocks that are no packets are put aside.
    pub fn walk(
        &self,
        data: &[u8],
        begin: usize,
        others: &mut Vec<Vec<u8>>,
    ) -> Result<Option<Walked>, OutOfMemory> {
        let section = Section { data, is_big_endian: self.is_big_endian };
        let (mut walked, mut left) = (Walked::from(begin), MOST_OTHER_BYTES);
        while let Some((kind, length)) = section.word(walked.next).zip(section.word(walked.next + 4)) {
            let end = walked.next + length as usize;
            if length & 3 != 0 || (length as usize) < SMALLEST_BLOCK {
                return Ok(None);
            }
            if end > data.len() {
                break;
            }
            if kind == ENHANCED_PACKET {
                let Some(packet) = section.packet(walked.next, &self.interfaces, true) else {
                    return Ok(None);
                };
                let Some(time_ns) = self.time_ns(packet.ticks) else { return Ok(None) };
                walked.add(begin, data.len(), [packet.start, packet.captured, packet.original, time_ns])?;
            } else {
                let is_odd = BEGIN_ANEW.contains(&kind) || section.word(end - 4) != Some(length);
                let kept = left.checked_sub(length as usize).filter(|_| !is_odd);
                let Some(now_left) = kept else { return Ok(None) };
                left = now_left;
                push(others, copied(&data[walked.next..end])?)?;
            }
            walked.next = end;
        }
        Ok(Some(walked))
    }

    /// Return the time of a packet; `None` if 64 bits do not hold it.
    #[inline(always)]
    fn time_ns(&self, ticks: i64) -> Option<i64> {
        let ticks = Some(ticks).filter(|&ticks| ticks >= 0)?; // its highest bit is no sign
        let time_ns = ticks.checked_mul(self.tick_ns)?.checked_add(self.offset_ns)?;
        (time_ns != i64::MIN).then_some(time_ns)
    }
}

fn copied(bytes: &[u8]) -> Result<Vec<u8>, OutOfMemory> {
    let mut copy = with_room(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

impl Packets {
    fn add(&mut self, packet: &Packet) {
        self.interface.push(packet.interface);
        self.start.push(packet.start);
        self.captured.push(packet.captured);
        self.original.push(packet.original);
        self.ticks.push(packet.ticks);
    }

    fn columns(&mut self) -> [&mut Vec<i64>; 5] {
        [&mut self.interface, &mut self.start, &mut self.captured, &mut self.original, &mut self.ticks]
    }
}
