//! When packets seem to be captured more than once: as `tests/parsers/test_duplicates.py` asks of both readers.

use multitracer_core::repeats::Repeats;
use multitracer_core::segment_row::Row;

fn rows(count: u32, copies: u32, apart_ns: i64) -> Vec<Row> {
    let row = |number, copy| Row {
        time_ns: i64::from(number) * 10_000_000 + i64::from(copy) * apart_ns,
        seq: number * 100,
        payload_bytes: 100,
        ..Row::default()
    };
    (0..count).flat_map(|number| (0..copies).map(move |copy| row(number, copy))).collect()
}

#[test]
fn a_copy_shortly_after_its_packet_is_noticed() {
    assert!(!Repeats::default().note(&rows(500, 1, 0)).unwrap());
    assert!(Repeats::default().note(&rows(500, 2, 1000)).unwrap());
    assert!(!Repeats::default().note(&rows(500, 2, 300_000_000)).unwrap());
}

#[test]
fn what_was_seen_lasts_from_block_to_block() {
    let all = rows(100_000, 2, 1000);
    let mut repeats = Repeats::default();
    let is_noticed = all.chunks(1).map(|block| repeats.note(block).unwrap()).collect::<Vec<_>>();
    assert!(!is_noticed[0]);
    assert!(is_noticed[1..].iter().all(|&noticed| noticed));
}

#[test]
fn few_duplicate_acks_are_no_copies() {
    let mut acks = rows(100, 1, 0);
    acks.iter_mut().for_each(|row| row.payload_bytes = 0);
    let again = acks[99];
    acks.extend([again; 5]);
    assert!(!Repeats::default().note(&acks).unwrap());
}
