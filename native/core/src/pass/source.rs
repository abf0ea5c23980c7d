//! The segments of a capture in columns, and what each step over those of one connection acknowledges.

use std::ops::Range;

use crate::OutOfMemory;
use crate::pass::connection::{Connection, Rows};
use crate::pass::direction::Segment;

/// Below every ACK number on a line.
const NOTHING: i64 = i64::MIN / 2;

/// The segments of a capture, of which some are those of a connection.
pub struct Source<'a> {
    pub rows: Rows<'a>,
    pub tsval: &'a [u32],
    pub tsecr: &'a [u32],
    /// Of each SACK block: the row of its segment, ascending.
    pub sack_row: &'a [i64],
    pub left: &'a [u32],
    pub right: &'a [u32],
}

/// Finds the SACK blocks of rows that ascend.
pub struct Blocks<'a> {
    row: &'a [i64],
    at: usize,
}

impl<'a> Source<'a> {
    /// Return which side sent the segment of a row, and the segment.
    #[inline]
    pub fn segment(&self, row: u32) -> (usize, Segment) {
        let row = row as usize;
        ((self.rows.direction[row] & 1) as usize, self.rows.segment(row))
    }

    pub fn blocks_from(&self, rows: &[u32]) -> Blocks<'a> {
        let first = rows.first().map_or(0, |&row| i64::from(row));
        Blocks { row: self.sack_row, at: self.sack_row.partition_point(|&row| row < first) }
    }
}

impl Blocks<'_> {
    /// Return where the blocks of a row lie.
    #[inline]
    pub fn of(&mut self, row: u32) -> Range<usize> {
        let row = i64::from(row);
        let mut step = 1;
        while self.row.get(self.at + step - 1).is_some_and(|&each| each < row) {
            self.at += step;
            step *= 2;
        }
        let to = (self.at + step).min(self.row.len());
        self.at += self.row[self.at..to].partition_point(|&each| each < row);
        let begin = self.at;
        while self.row.get(self.at) == Some(&row) {
            self.at += 1;
        }
        begin..self.at
    }
}

/// An ACK that acknowledges more than any before.
pub struct Advance {
    pub before: i64,
    pub upto: i64,
}

/// Add a segment to its connection; say what it acknowledges for the first time.
#[inline]
pub fn step(
    connection: &mut Connection,
    side: usize,
    segment: &Segment,
) -> Result<Option<Advance>, OutOfMemory> {
    let acks = &connection.directions[side ^ 1].acks;
    let before = if acks.events > 0 { acks.highest } else { NOTHING };
    connection.add(side, segment)?;
    let acks = &connection.directions[side ^ 1].acks;
    let upto = if acks.events > 0 { acks.highest } else { NOTHING };
    Ok((upto > before).then_some(Advance { before, upto }))
}
