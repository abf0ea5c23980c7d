//! What the pass counts of segments that no TCP sent, with overflow checks on: it never fails, and adds up.

use multitracer_native_checks::pass::connection::{Rows, Summary};

/// Numbers that look random (Knuth, MMIX).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

#[derive(Default)]
struct Made {
    direction: Vec<i32>,
    time_ns: Vec<i64>,
    seq: Vec<u32>,
    ack: Vec<u32>,
    payload_bytes: Vec<i32>,
    flags: Vec<u16>,
    window: Vec<u16>,
    ip_id: Vec<u16>,
    marks: Vec<u16>,
}

const STRAYS: [u32; 8] = [0, 0, 0, 0, 0, 1 << 30, 1 << 31, 3 << 30];

/// Segments of some connections, first one of each; by each fifth seed all windows are closed.
fn made(seed: u64, count: usize, connections: i32) -> Made {
    let (mut numbers, mut made) = (Numbers(seed), Made::default());
    for row in 0..count {
        let any = numbers.below(connections as u64) as i32;
        let connection = if (row as i32) < connections { row as i32 } else { any };
        let (near, far) = (numbers.below(5_000) as u32, numbers.below(5_000) as u32);
        made.direction.push(2 * connection + numbers.below(2) as i32);
        made.time_ns.push(numbers.one_of(&[0, row as i64, -(row as i64), i64::MAX, i64::MIN + 1]));
        made.seq.push(near.wrapping_sub(2_000).wrapping_add(numbers.one_of(&STRAYS)));
        made.ack.push(far.wrapping_sub(2_000).wrapping_add(numbers.one_of(&STRAYS)));
        made.payload_bytes.push(numbers.one_of(&[0, 0, 1, 7, 1460, 1 << 24]));
        made.flags.push(numbers.one_of(&[0x10, 0x10, 0x10, 0x18, 0x02, 0x12, 0x11, 0x04, 0x1FF, 0]));
        made.window.push(if seed % 5 == 0 { 0 } else { numbers.one_of(&[1, 1000, 1000, 0xFFFF]) });
        made.ip_id.push(numbers.one_of(&[0, 1, 2]));
        made.marks.push(0);
    }
    made
}

impl Made {
    fn rows(&self) -> Rows<'_> {
        Rows {
            direction: &self.direction,
            time_ns: &self.time_ns,
            seq: &self.seq,
            ack: &self.ack,
            payload_bytes: &self.payload_bytes,
            flags: &self.flags,
            window: &self.window,
            ip_id: &self.ip_id,
            marks: &self.marks,
        }
    }

    fn packets(&self, connections: usize) -> Vec<i64> {
        let mut packets = vec![0; connections];
        self.direction.iter().for_each(|&direction| packets[direction as usize / 2] += 1);
        packets
    }
}

fn numbers_of(summary: &Summary) -> [i64; 8] {
    let counts = &summary.counts;
    [
        counts.packets,
        counts.old_payload,
        counts.retransmitted_bytes,
        counts.missing_bytes,
        counts.acks_of_unseen,
        counts.duplicate_acks,
        counts.max_flight_bytes,
        summary.rtt_count,
    ]
}

#[test]
fn segments_that_no_tcp_sent_add_up() {
    for seed in 0..20 {
        let made = made(seed, 3_000, 7);
        let packets = made.packets(7);
        let all = made.rows().summaries(0, 0, &packets).expect("there is memory");
        assert_eq!((all.len(), all.iter().any(|summary| summary.is_known)), (14, seed % 5 != 0));
        for summary in all.iter().filter(|summary| summary.is_known) {
            let counts = &summary.counts;
            assert!(0 <= counts.old_payload && counts.old_payload <= counts.payload_bytes);
            assert!(counts.retransmitted_segments + counts.out_of_order <= counts.packets);
            assert!(counts.missing_bytes >= 0 && counts.max_flight_bytes >= 0);
        }
    }
}

#[test]
fn threads_count_what_one_counts() {
    let made = made(99, 40_000, 50);
    let packets = made.packets(50);
    let all = made.rows().summaries(0, 0, &packets).expect("there is memory");
    assert!(all.iter().all(|summary| summary.is_known));
    for (connection, both) in all.chunks_exact(2).enumerate() {
        let begin = made.direction.iter().position(|&d| d as usize / 2 == connection).expect("a row");
        let alone = made.rows().summaries(begin, connection, &packets[connection..=connection]);
        let alone = alone.expect("there is memory");
        assert_eq!(
            alone.iter().map(numbers_of).collect::<Vec<_>>(),
            both.iter().map(numbers_of).collect::<Vec<_>>()
        );
    }
}
