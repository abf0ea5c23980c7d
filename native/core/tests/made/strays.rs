//! Segments that no TCP sent, as columns; each set follows from a seed alone.

use std::ops::Range;

use multitracer_core::pass::connection::{Rows, Summary};
use multitracer_core::pass::running::Running;
use multitracer_core::pass::source::Source;

/// Numbers that look random (Knuth, MMIX).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

#[derive(Default)]
pub struct Made {
    pub direction: Vec<i32>,
    pub time_ns: Vec<i64>,
    pub seq: Vec<u32>,
    pub ack: Vec<u32>,
    pub payload_bytes: Vec<i32>,
    pub flags: Vec<u16>,
    pub window: Vec<u16>,
    pub ip_id: Vec<u16>,
    pub marks: Vec<u16>,
}

const STRAYS: [u32; 8] = [0, 0, 0, 0, 0, 1 << 30, 1 << 31, 3 << 30];

/// Segments of some connections, first one of each; by each fifth seed all windows are closed.
pub fn made(seed: u64, count: usize, connections: i32) -> Made {
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
    pub fn rows(&self) -> Rows<'_> {
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

    /// What is counted of each direction of some connections.
    pub fn counted(&self, connections: Range<usize>) -> Vec<Summary> {
        let stamps = vec![0; self.seq.len()];
        let (tsval, tsecr) = (&stamps, &stamps);
        let source = Source { rows: self.rows(), tsval, tsecr, sack_row: &[], left: &[], right: &[] };
        let mut running = Running::of(connections).expect("there is memory");
        running.add_rows(&source, 0, &[], &[]).expect("there is memory");
        running.finish().expect("there is memory")
    }
}
