//! Which keys are equal: copies of one at a point, and the same at two points.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use crate::OutOfMemory;
use crate::room::with_room;

/// As in `multitracer/clock/captures/matching.py`.
pub const MIX: u64 = 0xBF58_476D_1CE4_E5B9;
/// Nobody is in this place of a table.
const NOBODY: u32 = u32::MAX;

/// Which of some keys is where; of equal keys the first.
struct Table<'a> {
    keys: &'a [u64],
    places: Vec<u32>,
    multiplier: u64,
    shift: u32,
}

impl<'a> Table<'a> {
    /// Its multiplier is random, so that nobody can prepare collisions.
    fn new(keys: &'a [u64]) -> Result<Self, OutOfMemory> {
        let bits = (2 * keys.len()).max(2).next_power_of_two().trailing_zeros();
        if bits > u32::BITS {
            return Err(OutOfMemory);
        }
        let mut places = Vec::new();
        places.try_reserve_exact(1 << bits)?;
        places.resize(1 << bits, NOBODY);
        let multiplier = RandomState::new().build_hasher().finish() | 1;
        Ok(Self { keys, places, multiplier, shift: u64::BITS - bits })
    }

    /// Return the place where a key is, or where it would be.
    fn place(&self, key: u64) -> usize {
        let mut place = (key.wrapping_mul(self.multiplier) >> self.shift) as usize;
        while self.places[place] != NOBODY && self.keys[self.places[place] as usize] != key {
            place = (place + 1) & (self.places.len() - 1);
        }
        place
    }

    /// Return the first key equal to that of `index`, which becomes it if there is none.
    fn first(&mut self, index: usize) -> u32 {
        let place = self.place(self.keys[index]);
        if self.places[place] == NOBODY {
            self.places[place] = index as u32;
        }
        self.places[place]
    }
}

/// Bits for each key; of as many keys one in 16 is then taken for one that was there. Not measured.
const BITS_PER_KEY: usize = 16;

/// Which keys may be among some: those that are, and few others; it stays in the processor's cache.
struct Filter {
    words: Vec<u64>,
    multiplier: u64,
    shift: u32,
}

impl Filter {
    fn new(keys: usize) -> Result<Self, OutOfMemory> {
        let bits = (BITS_PER_KEY * keys).max(64).next_power_of_two().trailing_zeros();
        let mut words = with_room(1 << (bits - 6))?;
        words.resize(1 << (bits - 6), 0);
        let multiplier = RandomState::new().build_hasher().finish() | 1;
        Ok(Self { words, multiplier, shift: u64::BITS - bits })
    }

    fn place(&self, key: u64) -> (usize, u64) {
        let bit = key.wrapping_mul(self.multiplier) >> self.shift;
        ((bit >> 6) as usize, 1 << (bit & 63))
    }

    /// Note a key; return whether it may have been noted before.
    fn note(&mut self, key: u64) -> bool {
        let (word, bit) = self.place(key);
        let was_there = self.words[word] & bit != 0;
        self.words[word] |= bit;
        was_there
    }

    fn may_hold(&self, key: u64) -> bool {
        let (word, bit) = self.place(key);
        self.words[word] & bit != 0
    }
}

/// Return the indexes of the keys that may come more than once, ascending.
fn doubtful(keys: &[u64]) -> Result<Vec<u32>, OutOfMemory> {
    let mut seen = Filter::new(keys.len())?;
    let mut again = Filter { words: with_room(seen.words.len())?, ..seen };
    again.words.resize(seen.words.len(), 0);
    let mut is_any = false;
    for &key in keys {
        if seen.note(key) {
            again.note(key);
            is_any = true;
        }
    }
    let mut rows = with_room(if is_any { keys.len() } else { 0 })?;
    let all = if is_any { keys } else { &[] };
    rows.extend((0..).zip(all).filter(|&(_, &key)| again.may_hold(key)).map(|(row, _)| row));
    Ok(rows)
}

/// How many with the same key came before each, and how many there are; empty if no two are the same.
#[derive(Default)]
pub struct Copies {
    pub number: Vec<u32>,
    pub total: Vec<u32>,
}

impl Copies {
    pub fn of(keys: &[u64]) -> Result<Self, OutOfMemory> {
        let rows = doubtful(keys)?;
        let mut own = with_room(rows.len())?;
        own.extend(rows.iter().map(|&row| keys[row as usize]));
        let mut table = Table::new(&own)?;
        let (mut first, mut counts) = (with_room(own.len())?, with_room(own.len())?);
        counts.resize(own.len(), 0u32);
        for index in 0..own.len() {
            let same = table.first(index);
            first.push((same, counts[same as usize]));
            counts[same as usize] += 1;
        }
        let mut copies = Self::default();
        if first.iter().any(|&(_, before)| before > 0) {
            copies.number = with_room(keys.len())?;
            copies.number.resize(keys.len(), 0);
            copies.total = with_room(keys.len())?;
            copies.total.resize(keys.len(), 1);
            for (&row, (same, before)) in rows.iter().zip(first) {
                copies.number[row as usize] = before;
                copies.total[row as usize] = counts[same as usize];
            }
        }
        Ok(copies)
    }

    fn number(&self, index: usize) -> u32 {
        self.number.get(index).copied().unwrap_or(0)
    }

    fn total(&self, index: usize) -> u32 {
        self.total.get(index).copied().unwrap_or(1)
    }
}

/// Return numbers as a column of so many rows, all of them `usual` if there are none.
pub fn wide(numbers: Vec<u32>, count: usize, usual: i64) -> Result<Vec<i64>, OutOfMemory> {
    let mut column = with_room(count)?;
    match numbers.is_empty() {
        true => column.resize(count, usual),
        false => column.extend(numbers.into_iter().map(i64::from)),
    }
    Ok(column)
}

/// Return the indexes of the keys that are among some wanted ones.
pub fn among(keys: &[u64], wanted: &[u64]) -> Result<Vec<i64>, OutOfMemory> {
    let (mut table, mut filter) = (Table::new(wanted)?, Filter::new(wanted.len())?);
    for (index, &key) in wanted.iter().enumerate() {
        table.first(index);
        filter.note(key);
    }
    let is_wanted = |key: u64| filter.may_hold(key) && table.places[table.place(key)] != NOBODY;
    let count = keys.iter().filter(|&&key| is_wanted(key)).count();
    let mut rows = with_room(count)?;
    rows.extend((0i64..).zip(keys).filter(|&(_, &key)| is_wanted(key)).map(|(row, _)| row));
    Ok(rows)
}

/// What tells a packet apart: its identity, and how many with the same came before it.
fn name(key: u64, copy: u64) -> u64 {
    key.wrapping_add(copy.wrapping_mul(MIX))
}

/// So far behind the last partner the next one is looked for, before all are put into a table. Not measured.
const AHEAD: usize = 8;
/// Of so many packets one without a partner in turn is nothing strange; nor are so many at the begin.
const SELDOM: usize = 4;
const FEW: usize = 64;

/// The index of each name's equal at the far point, `NOBODY` for none.
pub struct Partners<'a> {
    near: &'a [u64],
    far: &'a [u64],
    of: Vec<u32>,
}

impl<'a> Partners<'a> {
    pub fn new(near: &'a [u64], far: &'a [u64]) -> Result<Self, OutOfMemory> {
        let mut of = with_room(near.len())?;
        of.resize(near.len(), NOBODY);
        let mut partners = Self { near, far, of };
        let (left, others) = partners.in_turn()?;
        match left.len() <= others.len() {
            true => partners.by_near(&left, &others)?,
            false => partners.by_far(&left, &others)?,
        }
        Ok(partners)
    }

    /// Find those that come in the same order at both points; return who is left, near and far.
    fn in_turn(&mut self) -> Result<(Vec<u32>, Vec<u32>), OutOfMemory> {
        let (mut left, mut others) = (with_room(self.near.len())?, with_room(self.far.len())?);
        let mut next = 0;
        for (index, name) in self.near.iter().enumerate() {
            let ahead = &self.far[next..(next + AHEAD).min(self.far.len())];
            match ahead.iter().position(|each| each == name) {
                Some(step) => {
                    others.extend((next..next + step).map(|each| each as u32));
                    self.of[index] = (next + step) as u32;
                    next += step + 1;
                }
                None => left.push(index as u32),
            }
            if left.len() > FEW + index / SELDOM {
                left.extend((index + 1..self.near.len()).map(|each| each as u32));
                break;
            }
        }
        others.extend((next..self.far.len()).map(|each| each as u32));
        Ok((left, others))
    }

    fn by_far(&mut self, left: &[u32], others: &[u32]) -> Result<(), OutOfMemory> {
        let names = names_of(self.far, others)?;
        let mut table = Table::new(&names)?;
        for index in 0..names.len() {
            table.first(index);
        }
        for &index in left {
            let found = table.places[table.place(self.near[index as usize])];
            if let Some(&far) = others.get(found as usize) {
                self.of[index as usize] = far; // nobody has no place among the others
            }
        }
        Ok(())
    }

    fn by_near(&mut self, left: &[u32], others: &[u32]) -> Result<(), OutOfMemory> {
        let names = names_of(self.near, left)?;
        let (mut table, mut filter) = (Table::new(&names)?, Filter::new(names.len())?);
        let mut alike = Vec::new();
        for (index, &name) in names.iter().enumerate() {
            let first = table.first(index);
            if filter.note(name) && first as usize != index {
                alike.try_reserve(1)?;
                alike.push((index, first as usize));
            }
        }
        for &far in others {
            let name = self.far[far as usize];
            let place = if filter.may_hold(name) { table.places[table.place(name)] } else { NOBODY };
            if let Some(&index) = left.get(place as usize) {
                let partner = &mut self.of[index as usize];
                *partner = if *partner == NOBODY { far } else { *partner };
            }
        }
        for (index, first) in alike {
            self.of[left[index] as usize] = self.of[left[first] as usize];
        }
        Ok(())
    }

    /// Return the indexes of equal names at both points, in order of the near one.
    pub fn pairs(&self) -> Result<Two, OutOfMemory> {
        let count = self.of.iter().filter(|&&far| far != NOBODY).count();
        let (mut near, mut far) = (with_room(count)?, with_room(count)?);
        let known = self.of.iter().enumerate().filter(|&(_, &partner)| partner != NOBODY);
        for (index, &partner) in known {
            near.push(index as i64);
            far.push(i64::from(partner));
        }
        Ok((near, far))
    }
}

fn names_of(names: &[u64], rows: &[u32]) -> Result<Vec<u64>, OutOfMemory> {
    let mut chosen = with_room(rows.len())?;
    chosen.extend(rows.iter().map(|&row| names[row as usize]));
    Ok(chosen)
}

pub type Two = (Vec<i64>, Vec<i64>);

pub fn named(key: &[u64], copy: &[i64]) -> Result<Vec<u64>, OutOfMemory> {
    let mut names = with_room(key.len())?;
    names.extend(key.iter().zip(copy).map(|(&key, &copy)| name(key, copy as u64)));
    Ok(names)
}

/// The packets of one point.
pub struct Point {
    keys: Vec<u64>,
    copies: Copies,
}

impl Point {
    pub fn of(keys: Vec<u64>) -> Result<Self, OutOfMemory> {
        let copies = Copies::of(&keys)?;
        Ok(Self { keys, copies })
    }

    fn name(&self, index: usize) -> u64 {
        name(self.keys[index], u64::from(self.copies.number(index)))
    }

    /// Return the names of all packets, or of some.
    fn names(&self, only: Option<&[i64]>) -> Result<Vec<u64>, OutOfMemory> {
        let mut names = with_room(only.map_or(self.keys.len(), <[i64]>::len))?;
        match only {
            Some(rows) => names.extend(rows.iter().map(|&row| self.name(row as usize))),
            None => names.extend((0..self.keys.len()).map(|index| self.name(index))),
        }
        Ok(names)
    }
}

/// The same packets at two points, in order of the near one.
#[derive(Default)]
pub struct Same {
    pub near: Vec<i64>,
    pub far: Vec<i64>,
    /// Whether none with the same identity came before it.
    pub is_first: Vec<bool>,
    /// Whether both points show equally many.
    pub are_equal: Vec<bool>,
    /// Whether the near point shows no other.
    pub is_alone: Vec<bool>,
}

impl Same {
    pub fn of(near: &Point, far: &Point, only: Option<&[i64]>) -> Result<Self, OutOfMemory> {
        let names = (near.names(only)?, far.names(None)?);
        let (mut left, right) = Partners::new(&names.0, &names.1)?.pairs()?;
        if let Some(rows) = only {
            left.iter_mut().for_each(|index| *index = rows[*index as usize]);
        }
        let column = || with_room(left.len());
        let mut same =
            Self { is_first: column()?, are_equal: column()?, is_alone: column()?, ..Self::default() };
        for (&a, &b) in left.iter().zip(&right) {
            let (a, b) = (a as usize, b as usize);
            same.is_first.push(near.copies.number(a) == 0);
            same.are_equal.push(near.copies.total(a) == far.copies.total(b));
            same.is_alone.push(near.copies.total(a) == 1);
        }
        Ok(Self { near: left, far: right, ..same })
    }
}
