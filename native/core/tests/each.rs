//! What each segment of a connection was, beside a model that remembers every byte; pieces; and damage.

mod made;

use made::Chance;
use made::strays::{Made, made};
use multitracer_core::mark::HAS_TIMESTAMPS;
use multitracer_core::pass::each::{
    CAPTURE_DUPLICATE, DATA, DUPLICATE_ACK, Each, Facts, KEEP_ALIVE, OUT_OF_ORDER, PARTIAL_RETRANSMISSION,
    RETRANSMISSION, SACK, WINDOW_UPDATE, ZERO_WINDOW, ZERO_WINDOW_PROBE,
};
use multitracer_core::pass::source::Source;

const UNITS: usize = 40_000;

/// The segments of one connection, and SACK blocks: row, left and right edge.
#[derive(Default)]
struct Connection {
    segments: Made,
    tsval: Vec<u32>,
    tsecr: Vec<u32>,
    blocks: [Vec<u32>; 2],
    block_rows: Vec<i64>,
}

impl Connection {
    fn of(segments: Made) -> Self {
        let stamps = vec![0; segments.seq.len()];
        Self { segments, tsval: stamps.clone(), tsecr: stamps, ..Self::default() }
    }

    fn source(&self) -> Source<'_> {
        Source {
            rows: self.segments.rows(),
            tsval: &self.tsval,
            tsecr: &self.tsecr,
            sack_row: &self.block_rows,
            left: &self.blocks[0],
            right: &self.blocks[1],
        }
    }

    /// Add a segment of another set with its blocks, of a connection with other directions.
    fn take(&mut self, from: &Self, row: usize, direction: i32) {
        let (own, made) = (&mut self.segments, &from.segments);
        for (block, _) in from.block_rows.iter().enumerate().filter(|&(_, &of)| of == row as i64) {
            self.block_rows.push(own.seq.len() as i64);
            self.blocks.iter_mut().zip(&from.blocks).for_each(|(edges, all)| edges.push(all[block]));
        }
        own.direction.push(made.direction[row] + direction);
        own.time_ns.push(made.time_ns[row]);
        own.seq.push(made.seq[row]);
        own.ack.push(made.ack[row]);
        own.payload_bytes.push(made.payload_bytes[row]);
        own.flags.push(made.flags[row]);
        own.window.push(made.window[row]);
        own.ip_id.push(made.ip_id[row]);
        own.marks.push(made.marks[row]);
        self.tsval.push(from.tsval[row]);
        self.tsecr.push(from.tsecr[row]);
    }

    /// Return it without its first rows: unit 0 is then the lowest number that anybody mentions.
    fn without_beginning(&self, rows: usize) -> Self {
        let mut later = Self::default();
        (rows..self.segments.seq.len()).for_each(|row| later.take(self, row, 0));
        later
    }

    fn rows(&self) -> Vec<u32> {
        (0..self.segments.seq.len() as u32).collect()
    }

    /// Return what its segments were, asked for in pieces of so many; None if Python has to judge it.
    fn facts(&self, piece: usize) -> Option<[Vec<i64>; 7]> {
        let (rows, source) = (self.rows(), self.source());
        let mut each = Each::of(&rows, &source).expect("there is memory")?;
        let mut all = [const { Vec::new() }; 7];
        for some in rows.chunks(piece) {
            let facts = each.next(some, &source).expect("there is memory");
            all.iter_mut().zip(columns(facts)).for_each(|(all, column)| all.extend(column));
        }
        Some(all)
    }
}

fn columns(facts: Facts) -> [Vec<i64>; 7] {
    [
        facts.seq_bytes,
        facts.end_bytes,
        facts.ack_bytes,
        facts.new_bytes.into_iter().map(i64::from).collect(),
        facts.flight_bytes,
        facts.flight_sack_bytes,
        facts.kind.into_iter().map(i64::from).collect(),
    ]
}

/// A sender that forgets, repeats and cuts anew, a receiver that acknowledges; unit 0 of both is their SYN.
struct Model {
    chance: Chance,
    made: Connection,
    expected: Vec<[i64; 7]>,
    first: [u32; 2],
    sent: Vec<bool>,
    sacked: Vec<bool>,
    reach: usize,
    acked: usize,
    window: u16,
}

impl Model {
    fn of(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let first = [chance.next() as u32, chance.next() as u32];
        let (sent, sacked) = (vec![false; UNITS], vec![false; UNITS]);
        let mut model = Self {
            chance,
            made: Connection::default(),
            expected: Vec::new(),
            first,
            sent,
            sacked,
            reach: 1,
            acked: 0,
            window: 1000,
        };
        model.push(0, 0x02, 0, 0, 0, [0, 1, -1, 0, 1, 1, 0]);
        model.push(0, 0, 0, 0, 0, [0, 0, -1, 0, 0, 0, 0]); // a keep-alive, if nobody answered
        model.push(1, 0x12, 0, 1, 0, [0, 1, 1, 0, 1, 1, 0]);
        model.acked = 1;
        for _ in 0..if cfg!(miri) { 60 } else { 300 } {
            match model.chance.below(9) {
                0 => model.keep_alive(),
                1..=3 => model.answer(),
                _ => model.data(),
            }
        }
        model
    }

    fn push(&mut self, side: usize, flags: u16, seq: usize, ack: usize, payload: usize, expected: [i64; 7]) {
        let (row, segments) = (self.expected.len(), &mut self.made.segments);
        segments.direction.push(side as i32);
        segments.time_ns.push(row as i64 * 10_000_000);
        segments.seq.push(self.first[side].wrapping_add(seq as u32));
        segments.ack.push(self.first[side ^ 1].wrapping_add(ack as u32));
        segments.payload_bytes.push(payload as i32);
        segments.flags.push(flags);
        segments.window.push(if side == 0 { 1000 } else { self.window });
        segments.ip_id.push(row as u16);
        segments.marks.push(HAS_TIMESTAMPS);
        self.made.tsval.push(row as u32);
        self.made.tsecr.push(self.chance.below(row + 1) as u32);
        self.expected.push(expected);
    }

    /// The initiator sends what comes next, leaves out some of it, or sends some again.
    fn data(&mut self) {
        let start = match self.chance.below(12) {
            0 => 1 + self.chance.below(self.reach),
            1 => self.reach + 1 + self.chance.below(300),
            2..=4 => self.whole(),
            _ => self.reach,
        };
        let end = start + 2 + self.chance.below(200);
        if end > UNITS {
            return;
        }
        let old = self.sent[start..end].iter().filter(|&&is_sent| is_sent).count();
        let whole = end - start;
        let again = if old == whole { RETRANSMISSION } else { 0 };
        let partial = if 0 < old && old < whole { RETRANSMISSION | PARTIAL_RETRANSMISSION } else { 0 };
        let late = if old == 0 && start < self.reach { OUT_OF_ORDER } else { 0 };
        let kind = DATA | again | partial | late;
        self.sent[start..end].fill(true);
        self.reach = self.reach.max(end);
        let (seq, new) = (start as i64, (whole - old) as i64);
        let expected = [seq, seq + whole as i64, 1, new, self.flight(), self.not_sacked(), i64::from(kind)];
        self.push(0, 0x10, start, 1, whole, expected);
    }

    /// The initiator sends what lies below all that it has sent: a keep-alive if nothing is outstanding.
    fn keep_alive(&mut self) {
        let (seq, kind) = (self.reach - 1, if self.acked == self.reach { KEEP_ALIVE } else { 0 });
        self.push(0, 0x10, seq, 1, 0, [seq as i64, seq as i64, 1, 0, 0, 0, i64::from(kind)]);
    }

    /// The responder acknowledges as far as nothing is missing, and tells of something above.
    fn answer(&mut self) {
        let whole = self.whole();
        let window = self.chance.of(&[self.window, self.window, 2000, 3000]);
        let mut kind = match whole == self.acked {
            true if window != self.window => WINDOW_UPDATE,
            true if whole < self.reach => DUPLICATE_ACK,
            _ => 0,
        };
        (self.acked, self.window) = (whole, window);
        let left = self.acked + 1 + self.chance.below(400);
        let right = left + 1 + self.chance.below(100);
        if right <= self.reach && (left..right).all(|unit| self.sent[unit]) {
            self.made.block_rows.push(self.expected.len() as i64);
            for (edges, edge) in self.made.blocks.iter_mut().zip([left, right]) {
                edges.push(self.first[0].wrapping_add(edge as u32));
            }
            self.sacked[left..right].fill(true);
            kind |= SACK;
        }
        let expected = [1, 1, whole as i64, 0, self.flight(), self.not_sacked(), i64::from(kind)];
        self.push(1, 0x10, 1, whole, 0, expected);
    }

    /// Return how far nothing is missing.
    fn whole(&self) -> usize {
        (1..self.reach).find(|&unit| !self.sent[unit]).unwrap_or(self.reach)
    }

    fn flight(&self) -> i64 {
        (self.reach - self.acked) as i64
    }

    fn not_sacked(&self) -> i64 {
        let told = self.sacked[self.acked..self.reach].iter().filter(|&&is_told| is_told).count();
        self.flight() - told as i64
    }
}

#[test]
fn each_segment_was_what_a_model_of_every_byte_says() {
    let mut kinds = 0;
    for seed in 0..if cfg!(miri) { 1 } else { 40 } {
        let model = Model::of(seed);
        let facts = model.made.facts(1_000).expect("it is known");
        for (row, expected) in model.expected.iter().enumerate() {
            let [was, should] = [facts.each_ref().map(|column| column[row]), *expected];
            assert_eq!(was, should, "seed {seed}, row {row}, flags {:x}", model.made.segments.flags[row]);
            kinds |= was[6];
        }
    }
    let sent = DATA | RETRANSMISSION | PARTIAL_RETRANSMISSION | OUT_OF_ORDER | KEEP_ALIVE;
    let met = sent | DUPLICATE_ACK | WINDOW_UPDATE | SACK;
    assert!(cfg!(miri) || kinds == i64::from(met), "the model shows all of these: {kinds:x}");
}

/// A connection that no TCP sent, with SACK blocks and timestamps by chance.
fn stray(seed: u64, count: usize) -> Connection {
    let (mut chance, mut connection) = (Chance(seed), Connection::of(made(seed, count, 1)));
    for stamps in [&mut connection.tsval, &mut connection.tsecr] {
        stamps.iter_mut().for_each(|stamp| *stamp = chance.below(20) as u32);
    }
    for row in 0..count {
        let ack = connection.segments.ack[row];
        let blocks = if connection.segments.flags[row] & 0x10 == 0 { 0 } else { chance.below(4) };
        for _ in 0..blocks {
            let left = ack.wrapping_add(chance.of(&[1, 500, 1 << 30, u32::MAX]));
            connection.block_rows.push(row as i64);
            connection.blocks[0].push(left);
            connection.blocks[1].push(left.wrapping_add(chance.of(&[0, 1, 700, 1 << 31])));
        }
        connection.segments.marks[row] = chance.of(&[0, HAS_TIMESTAMPS, HAS_TIMESTAMPS]);
    }
    connection
}

#[test]
fn pieces_tell_what_the_whole_does() {
    for seed in 1..if cfg!(miri) { 2 } else { 30 } {
        for connection in [Model::of(seed).made, stray(seed, 300)] {
            let whole = connection.facts(1_000);
            assert!([1, 7, 100].into_iter().all(|piece| connection.facts(piece) == whole), "seed {seed}");
        }
    }
}

#[test]
fn a_connection_among_others_tells_what_it_does_alone() {
    for seed in 1..if cfg!(miri) { 2 } else { 30 } {
        let alone = Model::of(seed).made;
        let (mut among, mut rows, mut others) = (Connection::default(), Vec::new(), Chance(seed));
        for row in alone.rows() {
            for _ in 0..others.below(4) {
                among.take(&alone, others.below(alone.segments.seq.len()), 2);
            }
            rows.push(among.segments.seq.len() as u32);
            among.take(&alone, row as usize, 0);
        }
        let mut each = Each::of(&rows, &among.source()).expect("there is memory").expect("it is known");
        let facts = each.next(&rows, &among.source()).expect("there is memory");
        assert_eq!(Some(columns(facts)), alone.facts(1_000), "seed {seed}");
    }
}

#[test]
fn what_segments_were_adds_up_to_what_is_counted() {
    let mut known = 0;
    for seed in 1..if cfg!(miri) { 3 } else { 100 } {
        let connection = stray(seed, 200);
        let Some(facts) = connection.facts(64) else { continue };
        known += 1;
        let rows = connection.segments.rows();
        let sides = connection.segments.counted(0..1);
        for (side, summary) in sides.iter().enumerate() {
            let own = || (0..200).filter(|&row| rows.direction[row] as usize == side);
            let with = |kind: u32| own().filter(|&row| facts[6][row] & i64::from(kind) != 0).count() as i64;
            let counts = &summary.counts;
            assert!(summary.is_known);
            assert_eq!(
                own().map(|row| facts[3][row]).sum::<i64>(),
                counts.payload_bytes - counts.old_payload
            );
            assert_eq!(with(DATA), counts.data_segments);
            assert_eq!(with(OUT_OF_ORDER), counts.out_of_order);
            assert_eq!(with(DUPLICATE_ACK), counts.duplicate_acks);
            assert_eq!(with(WINDOW_UPDATE), counts.window_updates);
            assert_eq!(with(ZERO_WINDOW), counts.zero_window_segments);
            assert_eq!(with(ZERO_WINDOW_PROBE), counts.zero_window_probes);
            assert_eq!(with(KEEP_ALIVE), counts.keep_alives);
            assert_eq!(with(CAPTURE_DUPLICATE), counts.capture_duplicates);
            let again = counts.retransmitted_segments - counts.capture_duplicates;
            assert_eq!(with(RETRANSMISSION), again, "what was captured twice was sent once");
        }
    }
    assert!(cfg!(miri) || known > 0, "Python judges all of them");
}

#[test]
fn an_answer_acknowledges_the_end_of_a_segment_or_echoes_its_stamp() {
    let mut answers = [0; 2];
    for seed in 0..if cfg!(miri) { 1 } else { 40 } {
        let made = Model::of(seed).made.without_beginning(30);
        let facts = made.facts(1_000).expect("it is known");
        let each = Each::of(&made.rows(), &made.source()).expect("there is memory").expect("it is known");
        let [exact, echo] = [&each.answers.exact, &each.answers.echo].map(|column| {
            let answered = column.iter().enumerate().filter(|&(_, &by)| by != u32::MAX);
            answered.map(|(row, &by)| (row, by as usize)).collect::<Vec<_>>()
        });
        for &(row, by) in exact.iter().chain(&echo) {
            assert!(row < by && made.segments.direction[row] != made.segments.direction[by]);
        }
        assert!(exact.iter().all(|&(row, by)| facts[2][by] == facts[1][row]), "seed {seed}");
        assert!(echo.iter().all(|&(row, by)| made.tsecr[by] == made.tsval[row]), "seed {seed}");
        answers = [answers[0] + exact.len(), answers[1] + echo.len()];
    }
    assert!(cfg!(miri) || answers.into_iter().all(|count| count > 10), "{answers:?}");
}
