//! Stretches of units that are missing in one direction, ascending.
//!
//! They are kept in chunks, so that a capture made to have a hundred thousand of them costs no more than others.

use crate::OutOfMemory;

/// Holes of a chunk at most: some kilobytes are moved at a time. Not measured.
const CHUNK: usize = 512;

#[derive(Clone, Copy)]
pub struct Hole {
    pub start: i64,
    pub end: i64,
}

#[derive(Default)]
pub struct Holes {
    chunks: Vec<Vec<Hole>>,
}

impl Holes {
    pub fn iter(&self) -> impl Iterator<Item = &Hole> {
        self.chunks.iter().flatten()
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Add a hole above all others.
    pub fn push(&mut self, hole: Hole) -> Result<(), OutOfMemory> {
        let chunk = self.chunks.len().saturating_sub(1);
        let place = self.chunks.last().map_or(0, Vec::len);
        self.insert(chunk, place, hole)
    }

    /// Add a hole below all others.
    pub fn push_below(&mut self, hole: Hole) -> Result<(), OutOfMemory> {
        self.insert(0, 0, hole)
    }

    /// Whether a hole has a unit behind `from` and one before `to`.
    pub fn reach_into(&self, from: i64, to: i64) -> bool {
        let (chunk, place) = self.first_behind(from);
        self.at(chunk, place).is_some_and(|hole| hole.start < to)
    }

    /// Whether the unit is missing.
    pub fn hold(&self, unit: i64) -> bool {
        self.reach_into(unit, unit + 1)
    }

    /// Take the units from `bottom` to `top` out of the holes; return how many of them were missing.
    pub fn fill(&mut self, bottom: i64, top: i64) -> Result<i64, OutOfMemory> {
        let (mut filled, mut bottom) = (0, bottom);
        while bottom < top {
            let (chunk, place) = self.first_behind(bottom);
            let Some(hole) = self.at(chunk, place).filter(|hole| hole.start < top) else { break };
            let (low, high) = (hole.start.max(bottom), hole.end.min(top));
            filled += high - low;
            bottom = high;
            match (hole.start < low, high < hole.end) {
                (false, false) => self.remove(chunk, place),
                (false, true) => self.chunks[chunk][place].start = high,
                (true, is_split) => {
                    self.chunks[chunk][place].end = low;
                    if is_split {
                        self.insert(chunk, place + 1, Hole { start: high, end: hole.end })?;
                    }
                }
            }
        }
        Ok(filled)
    }

    fn at(&self, chunk: usize, place: usize) -> Option<Hole> {
        self.chunks.get(chunk)?.get(place).copied()
    }

    /// Return where the first hole lies that ends behind a unit.
    fn first_behind(&self, unit: i64) -> (usize, usize) {
        let chunk = self.chunks.partition_point(|chunk| chunk.last().is_none_or(|hole| hole.end <= unit));
        let place = self.chunks.get(chunk).map_or(0, |chunk| chunk.partition_point(|hole| hole.end <= unit));
        (chunk, place)
    }

    fn remove(&mut self, chunk: usize, place: usize) {
        self.chunks[chunk].remove(place);
        if self.chunks[chunk].is_empty() {
            self.chunks.remove(chunk);
        }
    }

    fn insert(&mut self, chunk: usize, place: usize, hole: Hole) -> Result<(), OutOfMemory> {
        if self.chunks.is_empty() {
            self.chunks.try_reserve(1)?;
            self.chunks.push(Vec::new());
        }
        let holes = &mut self.chunks[chunk];
        holes.try_reserve(1)?;
        holes.insert(place, hole);
        if holes.len() > CHUNK {
            let mut upper = Vec::new();
            upper.try_reserve(CHUNK)?;
            upper.extend_from_slice(&holes[CHUNK / 2..]);
            holes.truncate(CHUNK / 2);
            self.chunks.try_reserve(1)?;
            self.chunks.insert(chunk + 1, upper);
        }
        Ok(())
    }
}
