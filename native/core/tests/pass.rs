//! What the pass counts of segments that no TCP sent, with overflow checks on: it never fails, and adds up.

mod made;

use made::strays::made;
use multitracer_core::pass::connection::Summary;

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
    let (seeds, count) = if cfg!(miri) { (2, 600) } else { (20, 3_000) };
    for seed in 0..seeds {
        let made = made(seed, count, 7);
        let all = made.counted(0..7);
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
fn a_connection_alone_counts_what_it_does_among_others() {
    let (count, connections) = if cfg!(miri) { (400, 5) } else { (40_000, 50) };
    let made = made(99, count, connections);
    let all = made.counted(0..connections as usize);
    assert!(all.iter().all(|summary| summary.is_known));
    for (connection, both) in all.chunks_exact(2).enumerate() {
        let alone = made.counted(connection..connection + 1);
        assert_eq!(
            alone.iter().map(numbers_of).collect::<Vec<_>>(),
            both.iter().map(numbers_of).collect::<Vec<_>>()
        );
    }
}
