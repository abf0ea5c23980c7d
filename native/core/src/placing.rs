//! Where each segment of some connections lies, and what is outstanding after it: columns of TCP_SEGMENTS.
//!
//! As `multitracer/analysis/segments/segment_rows.py` and `outstanding.py` say, in one pass over the rows.

use crate::OutOfMemory;
use crate::tcp::{ACK, RST, SYN};

/// Segments direction after direction; a position is an index in these.
pub struct Group<'a> {
    pub bounds: &'a [i64],
    pub seq: &'a [u32],
    pub flags: &'a [u16],
    pub window: &'a [u16],
    pub units: &'a [i32],
}

/// Items on the axis, of direction d those from bounds[d] to bounds[d + 1], each at its position.
pub struct Items<'a> {
    pub position: &'a [i64],
    pub bounds: &'a [i64],
    pub value: &'a [i64],
    pub highest: &'a [i64],
}

/// Of each direction, in the order of the names of `_Sides` in `placed.py`.
pub struct Sides<'a> {
    pub reference: &'a [i64],
    pub reference_seq: &'a [u32],
    pub origin: &'a [i64],
    pub lowest: &'a [i64],
    pub first_unit: &'a [i64],
    pub shift: &'a [i64],
}

/// The last item of a direction so far.
#[derive(Clone, Copy)]
struct Cursor {
    next: usize,
    end: usize,
}

impl Cursor {
    fn new(items: &Items, direction: usize) -> Self {
        Self { next: items.bounds[direction] as usize, end: items.bounds[direction + 1] as usize }
    }

    /// Return the item at a position, if there is one; positions ascend from call to call.
    fn at(&mut self, items: &Items, position: i64) -> Option<usize> {
        if self.next == self.end || items.position[self.next] != position {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }
}

/// What is known of one direction so far.
struct Way {
    pieces: Cursor,
    acks: Cursor,
    near: i64,
    near_seq: u32,
    ack: i64,
    highest_sent: i64,
    /// Of this direction's units, by the other's ACKs.
    highest_acked: i64,
}

impl Way {
    fn new(direction: usize, pieces: &Items, acks: &Items, sides: &Sides) -> Self {
        Self {
            pieces: Cursor::new(pieces, direction),
            acks: Cursor::new(acks, direction ^ 1),
            near: sides.reference[direction],
            near_seq: sides.reference_seq[direction],
            ack: 0,
            highest_sent: sides.first_unit[direction],
            highest_acked: sides.lowest[direction] - 1,
        }
    }
}

#[derive(Default)]
pub struct Placed {
    pub is_reverse: Vec<bool>,
    pub seq: Vec<i64>,
    pub end: Vec<i64>,
    pub ack: Vec<i64>,
    pub window: Vec<i64>,
    pub flight: Vec<i64>,
    /// The highest ACK of both sides at each row, if it is asked for.
    pub acked: [Vec<i64>; 2],
}

impl Placed {
    fn reserved(rows: usize, with_acked: bool) -> Result<Self, OutOfMemory> {
        let mut placed = Self::default();
        placed.is_reverse.try_reserve_exact(rows)?;
        for column in
            [&mut placed.seq, &mut placed.end, &mut placed.ack, &mut placed.window, &mut placed.flight]
        {
            column.try_reserve_exact(rows)?;
        }
        for side in &mut placed.acked {
            side.try_reserve_exact(if with_acked { rows } else { 0 })?;
        }
        Ok(placed)
    }
}

pub struct Pass<'a> {
    pub group: Group<'a>,
    pub pieces: Items<'a>,
    pub acks: Items<'a>,
    pub sides: Sides<'a>,
    pub order: &'a [i64],
    pub missing: i64,
    pub with_acked: bool,
}

impl Pass<'_> {
    pub fn run(&self) -> Result<Placed, OutOfMemory> {
        let mut placed = Placed::reserved(self.order.len(), self.with_acked)?;
        for first in (0..self.group.bounds.len().saturating_sub(2)).step_by(2) {
            self.connection(first, &mut placed);
        }
        Ok(placed)
    }

    /// Place the rows of the connection whose directions are `first` and the next one.
    fn connection(&self, first: usize, placed: &mut Placed) {
        let (begin, turn) = (self.group.bounds[first] as usize, self.group.bounds[first + 1]);
        let end = self.group.bounds[first + 2] as usize;
        let mut ways = [first, first + 1].map(|d| Way::new(d, &self.pieces, &self.acks, &self.sides));
        for &position in &self.order[begin..end] {
            let side = usize::from(position >= turn);
            self.move_on(&mut ways, side, position);
            self.place(&ways, first, side, position as usize, placed);
        }
    }

    /// Take note of what a segment sends and acknowledges.
    fn move_on(&self, ways: &mut [Way; 2], side: usize, position: i64) {
        let way = &mut ways[side];
        if let Some(piece) = way.pieces.at(&self.pieces, position) {
            way.near = self.pieces.value[piece];
            way.near_seq = self.group.seq[position as usize];
            way.highest_sent = way.highest_sent.max(self.pieces.highest[piece]);
        }
        if let Some(ack) = way.acks.at(&self.acks, position) {
            way.ack = self.acks.value[ack];
            let other = &mut ways[side ^ 1];
            other.highest_acked = other.highest_acked.max(self.acks.highest[ack]);
        }
    }

    fn place(&self, ways: &[Way; 2], first: usize, side: usize, position: usize, placed: &mut Placed) {
        let (way, sides, direction) = (&ways[side], &self.sides, first + side);
        let (flags, units) = (self.group.flags[position], self.group.units[position]);
        let away = self.group.seq[position].wrapping_sub(way.near_seq) as i32;
        let seq = way.near + i64::from(away) - sides.origin[direction];
        let window = i64::from(self.group.window[position]);
        let is_syn = flags & SYN != 0;
        placed.is_reverse.push(side == 1);
        placed.seq.push(seq);
        placed.end.push(if flags & RST != 0 { seq } else { seq + i64::from(units) });
        placed.ack.push(match flags & ACK {
            0 => self.missing,
            _ => way.ack - sides.origin[direction ^ 1],
        });
        placed.window.push(if is_syn { window } else { window << sides.shift[direction] });
        placed.flight.push(self.flight(ways, first, side ^ usize::from(units == 0)));
        if self.with_acked {
            placed.acked.iter_mut().zip(ways).for_each(|(column, way)| column.push(way.highest_acked));
        }
    }

    /// Return the units of a side that are outstanding.
    fn flight(&self, ways: &[Way; 2], first: usize, side: usize) -> i64 {
        let acked = ways[side].highest_acked;
        let is_known = acked >= self.sides.lowest[first + side];
        let known = if is_known { acked } else { self.sides.first_unit[first + side] };
        (ways[side].highest_sent - known).max(0)
    }
}
