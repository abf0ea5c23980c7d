//! Numbers flows in order of their first packet.
//!
//! A number here holds within one block, or among the segments that stay in the kernel:
//! `parsers/_packets/flows.py`, which numbers those of the capture, is asked once for each flow.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use crate::OutOfMemory;
use crate::link::UNTAGGED;

/// One end of a packet. It is packed, as there may be millions of flows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C, packed(2))]
pub struct End {
    pub address: u128,
    pub port: u16,
}

/// The first packet of a flow.
#[derive(Clone, Copy)]
pub struct Flow {
    pub version: u8,
    pub source: End,
    pub destination: End,
    pub vlan: i64,
    /// Index of that packet's record in its block.
    pub record: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    version: u8,
    low: End,
    high: End,
    vlan: i64,
}

impl Key {
    fn of(flow: &Flow) -> Self {
        let (source, destination) = (flow.source, flow.destination);
        let (low, high) = if source <= destination { (source, destination) } else { (destination, source) };
        Self { version: flow.version, low, high, vlan: flow.vlan }
    }
}

impl std::hash::Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for address in [self.low.address, self.high.address] {
            state.write_u64(address as u64);
            state.write_u64((address >> 64) as u64);
        }
        let ports = u64::from(self.low.port) << 16 | u64::from(self.high.port);
        state.write_u64(u64::from(self.version) << 32 | ports);
        state.write_u64(self.vlan as u64);
    }
}

/// Makes hashes whose multiplier is random, so that nobody can prepare collisions.
struct Seeded(u64);

struct Folded {
    multiplier: u64,
    state: u64,
}

impl BuildHasher for Seeded {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded { multiplier: self.0, state: self.0.rotate_left(32) }
    }
}

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.state ^ word).wrapping_mul(u128::from(self.multiplier));
        self.state = (product as u64 ^ (product >> 64) as u64).wrapping_add(self.multiplier);
    }

    fn finish(&self) -> u64 {
        self.state
    }
}

/// Which directed flow of plain IPv4 was seen last, at each of some places that its ends tell.
#[derive(Clone, Copy)]
struct Recent {
    addresses: u64,
    ports: u32,
    directed: i32,
}

const NO_FLOW: Recent = Recent { addresses: 0, ports: 0, directed: -1 };
/// Places of flows that were seen last: 64 KB, which a core has near.
const RECENT_BITS: u32 = 12;

/// Marks a slot without a flow.
const EMPTY: u32 = u32::MAX;
/// Slots of a table with its first flow.
const FEWEST_SLOTS: usize = 64;

/// The flows so far.
pub struct Flows {
    /// A hash table with linear probing: numbers of flows, whose keys are not stored a second time. At most half of
    /// the slots, a power of two, are used.
    slots: Vec<u32>,
    hashes: Seeded,
    pub flows: Vec<Flow>,
    last: Option<(Key, u32)>,
    recent: Vec<Recent>,
    random: u64,
}

impl Flows {
    pub fn new() -> Self {
        let random = RandomState::new().build_hasher().finish() | 1;
        let hashes = Seeded(random);
        Self { slots: Vec::new(), hashes, flows: Vec::new(), last: None, recent: Vec::new(), random }
    }

    /// Do what `directed` does for a packet in IPv4 without a VLAN tag.
    #[inline(always)]
    pub fn directed_ipv4(
        &mut self,
        (source, destination): (u32, u32),
        (source_port, destination_port): (u16, u16),
        record: usize,
    ) -> Result<i32, OutOfMemory> {
        let addresses = u64::from(source) << 32 | u64::from(destination);
        let ports = u32::from(source_port) << 16 | u32::from(destination_port);
        let mixed = (addresses ^ u64::from(ports).rotate_left(24)).wrapping_mul(self.random);
        let place = (mixed >> (u64::BITS - RECENT_BITS)) as usize;
        match self.recent.get(place) {
            Some(recent)
                if recent.addresses == addresses && recent.ports == ports && recent.directed >= 0 =>
            {
                Ok(recent.directed)
            }
            _ => self.note_ipv4(place, addresses, ports, record),
        }
    }

    #[inline(never)]
    fn note_ipv4(
        &mut self,
        place: usize,
        addresses: u64,
        ports: u32,
        record: usize,
    ) -> Result<i32, OutOfMemory> {
        if self.recent.is_empty() {
            self.recent.try_reserve_exact(1 << RECENT_BITS)?;
            self.recent.resize(1 << RECENT_BITS, NO_FLOW);
        }
        let end = |address: u64, port: u32| End { address: u128::from(address as u32), port: port as u16 };
        let (source, destination) = (end(addresses >> 32, ports >> 16), end(addresses, ports));
        let directed = self.directed(Flow { version: 4, source, destination, vlan: UNTAGGED, record })?;
        self.recent[place] = Recent { addresses, ports, directed };
        Ok(directed)
    }

    /// Return twice the number of a packet's flow, plus 1 if the end that was seen second sent it.
    #[inline]
    pub fn directed(&mut self, packet: Flow) -> Result<i32, OutOfMemory> {
        let (source, key) = (packet.source, Key::of(&packet));
        let number = match &self.last {
            Some((last, number)) if *last == key => *number,
            _ => {
                let number = self.number(key, packet)?;
                self.last = Some((key, number));
                number
            }
        };
        Ok((number << 1) as i32 | i32::from(self.flows[number as usize].source != source))
    }

    fn number(&mut self, key: Key, packet: Flow) -> Result<u32, OutOfMemory> {
        if 2 * self.flows.len() >= self.slots.len() {
            self.make_room()?;
        }
        let place = self.place(&key);
        if self.slots[place] == EMPTY {
            self.flows.try_reserve(1)?;
            self.slots[place] = self.flows.len() as u32;
            self.flows.push(packet);
        }
        Ok(self.slots[place])
    }

    /// Return the slot of a flow, an empty one if it is not known.
    fn place(&self, key: &Key) -> usize {
        let last = self.slots.len() - 1;
        let mut place = self.hashes.hash_one(key) as usize & last;
        while let Some(flow) = self.flows.get(self.slots[place] as usize) {
            if Key::of(flow) == *key {
                break;
            }
            place = (place + 1) & last;
        }
        place
    }

    /// Double the slots, and place all flows again.
    fn make_room(&mut self) -> Result<(), OutOfMemory> {
        let many = FEWEST_SLOTS.max(2 * self.slots.len());
        self.slots = Vec::new();
        self.slots.try_reserve_exact(many)?;
        self.slots.resize(many, EMPTY);
        let last = many - 1;
        for (number, flow) in self.flows.iter().enumerate() {
            let mut place = self.hashes.hash_one(Key::of(flow)) as usize & last;
            while self.slots[place] != EMPTY {
                place = (place + 1) & last;
            }
            self.slots[place] = number as u32;
        }
        Ok(())
    }
}
