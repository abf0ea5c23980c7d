//! Enhanced packet blocks of pcapng: the counterpart of `parsers/_pcapng/walk.py` and `packets.py`.
//!
//! As in `walk.rs`, what is strange is not judged here: all other blocks, and a stretch with anything odd in
//! one of its packets, are Python's.

use crate::OutOfMemory;
use crate::bytes::{be16, be32, le16, le32};

const ENHANCED_PACKET: u32 = 6;
const SMALLEST_BLOCK: usize = 32;
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
            let is_sane = length >= SMALLEST_BLOCK && length & 3 == 0;
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
            if self.add(&mut packets, index as i64, start, interfaces, comments).is_none() {
                return Ok(None);
            }
        }
        Ok(Some(packets))
    }

    #[inline]
    fn add(
        &self,
        packets: &mut Packets,
        index: i64,
        start: i64,
        interfaces: &[Interface],
        comments: bool,
    ) -> Option<()> {
        let at = usize::try_from(start).ok()?;
        let (kind, length) = (self.word(at)?, self.word(at.checked_add(4)?)?);
        let end = at.checked_add(length as usize)?;
        let number = self.word(at + 8)?;
        let interface = interfaces.get(number as usize).filter(|i| i.since <= index)?;
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
        packets.interface.push(i64::from(number));
        packets.start.push((at + PACKET_AT) as i64);
        packets.captured.push(i64::from(captured));
        packets.original.push(i64::from(original));
        packets.ticks.push(ticks);
        Some(())
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

impl Packets {
    fn columns(&mut self) -> [&mut Vec<i64>; 5] {
        [&mut self.interface, &mut self.start, &mut self.captured, &mut self.original, &mut self.ticks]
    }
}
