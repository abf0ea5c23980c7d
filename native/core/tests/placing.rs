//! Where segments lie and what is outstanding after each, beside a model that looks through all items anew.

mod made;

use made::Chance;
use multitracer_core::placing::{Group, Items, Pass, Sides};

const MISSING: i64 = -1;
const FLAGS: [u16; 7] = [0x10, 0x10, 0x18, 0x02, 0x12, 0x14, 0];

/// Items of each direction: position, value and highest.
type Listed = [Vec<(i64, i64, i64)>; 4];

/// Two connections, with items and numbers by chance.
struct Made {
    bounds: Vec<i64>,
    order: Vec<i64>,
    seq: Vec<u32>,
    flags: Vec<u16>,
    window: Vec<u16>,
    units: Vec<i32>,
    pieces: Listed,
    acks: Listed,
    /// Of each direction: reference, origin, lowest, first unit, shift.
    sides: [[i64; 5]; 4],
    reference_seq: [u32; 4],
}

fn listed(chance: &mut Chance, senders: [usize; 4], bounds: &[i64]) -> Listed {
    senders.map(|sender| {
        let mut items = Vec::new();
        for position in bounds[sender]..bounds[sender + 1] {
            if chance.below(2) == 0 {
                items.push((position, chance.below(1 << 34) as i64, chance.below(1 << 34) as i64));
            }
        }
        items
    })
}

impl Made {
    fn of(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let mut bounds = vec![0];
        for _ in 0..4 {
            bounds.push(bounds[bounds.len() - 1] + chance.below(9) as i64);
        }
        let mut order = Vec::new();
        for first in [0, 2] {
            let (mut at, ends) = ([bounds[first], bounds[first + 1]], [bounds[first + 1], bounds[first + 2]]);
            while at != ends {
                let side = if at[0] == ends[0] {
                    1
                } else if at[1] == ends[1] {
                    0
                } else {
                    chance.below(2)
                };
                order.push(at[side]);
                at[side] += 1;
            }
        }
        let count = order.len();
        Self {
            seq: (0..count).map(|_| chance.next() as u32).collect(),
            flags: (0..count).map(|_| chance.of(&FLAGS)).collect(),
            window: (0..count).map(|_| chance.next() as u16).collect(),
            units: (0..count).map(|_| chance.of(&[0, 0, 1, 1460, i32::MAX])).collect(),
            pieces: listed(&mut chance, [0, 1, 2, 3], &bounds),
            acks: listed(&mut chance, [1, 0, 3, 2], &bounds),
            sides: [(); 4].map(|()| {
                let mut number = || chance.below(1 << 34) as i64;
                [number(), number(), number(), number(), number() % 15]
            }),
            reference_seq: [(); 4].map(|()| chance.next() as u32),
            bounds,
            order,
        }
    }

    /// Return what `place_segments` does: a row of numbers for each segment.
    fn placed(&self, with_acked: bool) -> Vec<[i64; 8]> {
        let (pieces, acks) = (Columns::of(&self.pieces), Columns::of(&self.acks));
        let side = |number: usize| self.sides.map(|side| side[number]);
        let [reference, origin, lowest, first_unit, shift] = [0, 1, 2, 3, 4].map(side);
        let pass = Pass {
            group: Group {
                bounds: &self.bounds,
                seq: &self.seq,
                flags: &self.flags,
                window: &self.window,
                units: &self.units,
            },
            pieces: pieces.items(),
            acks: acks.items(),
            sides: Sides {
                reference: &reference,
                reference_seq: &self.reference_seq,
                origin: &origin,
                lowest: &lowest,
                first_unit: &first_unit,
                shift: &shift,
            },
            order: &self.order,
            missing: MISSING,
            with_acked,
        };
        let placed = pass.run().expect("there is memory");
        let acked = |side: usize, row: usize| placed.acked[side].get(row).copied().unwrap_or(MISSING);
        let row = |row: usize| {
            let [seq, end, ack] = [placed.seq[row], placed.end[row], placed.ack[row]];
            let is_reverse = i64::from(placed.is_reverse[row]);
            let [window, flight] = [placed.window[row], placed.flight[row]];
            [is_reverse, seq, end, ack, window, flight, acked(0, row), acked(1, row)]
        };
        (0..self.order.len()).map(row).collect()
    }

    /// Return the same, with everything looked for anew.
    fn expected(&self, row: usize) -> [i64; 8] {
        let position = self.order[row] as usize;
        let direction = (0..4).find(|&d| (position as i64) < self.bounds[d + 1]).expect("a direction");
        let other = direction ^ 1;
        let so_far = |items: &[(i64, i64, i64)]| {
            let is_past = |item: &&(i64, i64, i64)| self.order[..=row].contains(&item.0);
            items.iter().filter(is_past).copied().collect::<Vec<_>>()
        };
        let highest = |items: &Listed, direction: usize, least: i64| {
            so_far(&items[direction]).into_iter().map(|item| item.2).fold(least, i64::max)
        };
        let [reference, origin, _, _, shift] = self.sides[direction];
        let (near, near_seq) = so_far(&self.pieces[direction])
            .last()
            .map_or((reference, self.reference_seq[direction]), |item| (item.1, self.seq[item.0 as usize]));
        let seq = near + i64::from(self.seq[position].wrapping_sub(near_seq) as i32) - origin;
        let (flags, units) = (self.flags[position], i64::from(self.units[position]));
        let ack = so_far(&self.acks[other]).last().map_or(0, |item| item.1) - self.sides[other][1];
        let acked = |d: usize| highest(&self.acks, d, self.sides[d][2] - 1);
        let data = if units > 0 { direction } else { other };
        let known = if acked(data) < self.sides[data][2] { self.sides[data][3] } else { acked(data) };
        let flight = highest(&self.pieces, data, self.sides[data][3]) - known;
        let window = i64::from(self.window[position]);
        [
            (direction & 1) as i64,
            seq,
            if flags & 0x04 == 0 { seq + units } else { seq },
            if flags & 0x10 == 0 { MISSING } else { ack },
            if flags & 0x02 == 0 { window << shift } else { window },
            flight.max(0),
            acked(direction & !1),
            acked(direction | 1),
        ]
    }
}

#[derive(Default)]
struct Columns {
    position: Vec<i64>,
    bounds: Vec<i64>,
    value: Vec<i64>,
    highest: Vec<i64>,
}

impl Columns {
    fn of(listed: &Listed) -> Self {
        let mut columns = Self { bounds: vec![0], ..Self::default() };
        for items in listed {
            for &(position, value, highest) in items {
                columns.position.push(position);
                columns.value.push(value);
                columns.highest.push(highest);
            }
            columns.bounds.push(columns.position.len() as i64);
        }
        columns
    }

    fn items(&self) -> Items<'_> {
        Items { position: &self.position, bounds: &self.bounds, value: &self.value, highest: &self.highest }
    }
}

#[test]
fn each_segment_lies_where_a_model_without_memory_says() {
    let mut rows = 0;
    for seed in 0..if cfg!(miri) { 20 } else { 3_000 } {
        let made = Made::of(seed);
        let placed = made.placed(true);
        for (row, was) in placed.into_iter().enumerate() {
            assert_eq!(was, made.expected(row), "seed {seed}, row {row}");
            rows += 1;
        }
    }
    assert!(rows > 100);
}

#[test]
fn the_highest_acks_are_left_out_where_nobody_asks() {
    for seed in 0..20 {
        let made = Made::of(seed);
        for (with, without) in made.placed(true).into_iter().zip(made.placed(false)) {
            assert_eq!((&with[..6], [MISSING; 2]), (&without[..6], [without[6], without[7]]));
        }
    }
}
