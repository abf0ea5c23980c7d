//! Numbers flows in order of their first packet.
//!
//! A number here holds within one block, or among the segments that stay in the kernel:
//! `parsers/_packets/flows.py`, which numbers those of the capture, is asked once for each flow.

use std::collections::hash_map::{Entry, HashMap, RandomState};
use std::hash::{BuildHasher, Hasher};

use crate::OutOfMemory;

/// One end of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

/// The flows so far.
pub struct Flows {
    numbers: HashMap<Key, u32, Seeded>,
    pub flows: Vec<Flow>,
    last: Option<(Key, u32)>,
}

impl Flows {
    pub fn new() -> Self {
        let random = RandomState::new().build_hasher().finish() | 1;
        Self { numbers: HashMap::with_hasher(Seeded(random)), flows: Vec::new(), last: None }
    }

    /// Return twice the number of a packet's flow, plus 1 if the end that was seen second sent it.
    #[inline]
    pub fn directed(&mut self, packet: Flow) -> Result<i32, OutOfMemory> {
        let (source, destination) = (packet.source, packet.destination);
        let (low, high) = if source <= destination { (source, destination) } else { (destination, source) };
        let key = Key { version: packet.version, low, high, vlan: packet.vlan };
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
        self.numbers.try_reserve(1)?;
        match self.numbers.entry(key) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(place) => {
                self.flows.try_reserve(1)?;
                let number = self.flows.len() as u32;
                self.flows.push(packet);
                Ok(*place.insert(number))
            }
        }
    }
}
