//! Whether packets seem to be captured more than once: the counterpart of `parsers/_packets/repeats.py`, where the
//! rule and its bounds are explained. Python then reads the file, and finds which packets are copies.

use crate::OutOfMemory;
use crate::room::with_room;
use crate::segment_row::Row;
use crate::tcp::{FIN, RST, SYN};

/// As in `repeats.py`, as are the next ones.
const SPACING_NS: u64 = 200_000_000;
const ALL_OF: usize = 1 << 15;
const SLOT_BITS: u32 = 10;
const SAMPLE_BITS: u32 = 6;
const CARRYING_SHARE: usize = 1000;
const BARE_SHARE: usize = 10;
const FEWEST_BARE: usize = 3;
const SAMPLE_FACTOR: u32 = 0x9E37_79B1;
const FACTORS: [u64; 4] =
    [0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9, 0x2708_92D2_C68F_2B2D];

#[inline(always)]
fn mixed(value: u64, factor: usize) -> u64 {
    let product = value.wrapping_mul(FACTORS[factor]);
    product ^ product >> 29
}

/// Segments of one kind: how many were compared, and how many had been seen shortly before.
#[derive(Clone, Copy, Default)]
struct Seen {
    compared: usize,
    repeated: usize,
}

/// The segments that were seen last, by what they hold.
#[derive(Default)]
pub struct Repeats {
    /// Key and time of the last segment with the slot's number in the highest bits of its key.
    slots: Vec<(u64, i64)>,
    segments: usize,
    /// Segments with payload, SYN or FIN, and no RST; then all others.
    seen: [Seen; 2],
}

impl Repeats {
    /// Note the next segments; return whether copies are among those seen so far.
    pub fn note(&mut self, rows: &[Row]) -> Result<bool, OutOfMemory> {
        if self.slots.is_empty() {
            self.slots = with_room(1 << SLOT_BITS)?;
            self.slots.resize(1 << SLOT_BITS, (0, i64::MIN));
        }
        for row in rows {
            let sample = (row.seq ^ row.ack).wrapping_mul(SAMPLE_FACTOR) >> (32 - SAMPLE_BITS);
            if self.segments < ALL_OF || sample == 0 {
                self.compare(row);
            }
            self.segments += 1;
        }
        let [carrying, bare] = self.seen;
        Ok(carrying.repeated > 0 && carrying.repeated * CARRYING_SHARE >= carrying.compared
            || bare.repeated >= FEWEST_BARE && bare.repeated * BARE_SHARE >= bare.compared)
    }

    fn compare(&mut self, row: &Row) {
        let numbers = u64::from(row.seq) | u64::from(row.ack) << 32;
        let stamps = u64::from(row.tsval) | u64::from(row.tsecr) << 32;
        let rest =
            u64::from(row.payload_bytes as u32) | u64::from(row.flags) << 32 | u64::from(row.window) << 41;
        let key = mixed(mixed(numbers, 0).wrapping_add(stamps), 1);
        let key = mixed(key.wrapping_add(rest), 2);
        let key = mixed(key.wrapping_add(u64::from(row.ip_id)), 3);
        let slot = &mut self.slots[(key >> (64 - SLOT_BITS)) as usize];
        let is_again = slot.0 == key && row.time_ns.wrapping_sub(slot.1).unsigned_abs() <= SPACING_NS;
        *slot = (key, row.time_ns);
        let carries = (row.payload_bytes > 0 || row.flags & (SYN | FIN) != 0) && row.flags & RST == 0;
        let seen = &mut self.seen[usize::from(!carries)];
        seen.compared += 1;
        seen.repeated += usize::from(is_again);
    }
}
