//! The short way for usual segments decodes what the long way does, into columns and into rows.

mod made;

use made::{Chance, damaged, ethernet, ipv4, tcp};
use multitracer_core::block::Block;
use multitracer_core::flows::Flows;
use multitracer_core::segments::{Part, Records};

const STAMPS: [u8; 12] = [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8];

/// Options as stacks send them, or nearly so.
fn options(chance: &mut Chance) -> Vec<u8> {
    let edges = chance.of(&[0, 8, 12, 16, 24]);
    let sack = [vec![1, 1, 5, 2 + edges as u8], chance.bytes(edges)].concat();
    match chance.below(6) {
        0 => Vec::new(),
        1 => sack,
        2 => [&STAMPS[..], &sack].concat(),
        3 => vec![2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8],
        _ => STAMPS.to_vec(),
    }
}

/// A frame that is usual, but often for one byte.
fn nearly_usual(chance: &mut Chance) -> Vec<u8> {
    let payload = vec![0; chance.of(&[0, 0, 1, 30])];
    let ports = (chance.of(&[1000, 1001, 80]), 80);
    let flags = chance.of(&[0x10, 0x10, 0x18, 0x11, 0x14, 0x02, 0x30]);
    let segment = tcp(ports, chance.next() as u32, flags, &options(chance), &payload);
    let mut frame = ethernet(&ipv4(&segment, 6, chance.of(&[0, 0x4000])), 0x0800, &[]);
    match chance.below(6) {
        0 => frame[12 + chance.below(42)] ^= 1 << chance.below(8),
        1 => frame[16..18].copy_from_slice(&(chance.below(120) as u16).to_be_bytes()),
        2 => frame.extend(chance.bytes(6)), // a trailer
        3 => frame = damaged(chance, frame),
        _ => {}
    }
    frame
}

fn columns(part: &Part) -> impl PartialEq + std::fmt::Debug + '_ {
    let syn: Vec<_> =
        part.syn.iter().map(|s| (s.row, s.mss_bytes, s.window_scale, s.sack_permitted, s.mptcp)).collect();
    (
        (&part.record, &part.flow, &part.seq, &part.ack, &part.payload_bytes, &part.flags, &part.window),
        (&part.ip_id, &part.tsval, &part.tsecr, &part.sack_blocks, &part.marks, &part.sack, syn),
    )
}

#[test]
fn the_short_way_decodes_what_the_long_way_does() {
    for seed in 0..if cfg!(miri) { 3 } else { 3_000 } {
        let chance = &mut Chance(seed);
        let (mut data, mut start, mut captured, mut original) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for frame in (0..20).map(|_| nearly_usual(chance)).collect::<Vec<_>>() {
            let cut = chance.of(&[0, 0, 1, 40]).min(frame.len());
            start.push(data.len() as i64);
            captured.push((frame.len() - cut) as i64);
            original.push(frame.len() as i64 - chance.of(&[0, 0, 20]));
            data.extend(&frame[..frame.len() - cut]);
        }
        let records =
            Records { data: &data, start: &start, captured: &captured, original: &original, link_type: &[1] };
        let times: Vec<i64> = (0..20).collect();
        // a link type each takes the long way
        let each = Records { link_type: &[1; 20], ..records };
        let part = each.part(0, 20, &mut Flows::new()).expect("there is memory");
        let short = records.part(0, 20, &mut Flows::new()).expect("there is memory");
        assert_eq!(columns(&short), columns(&part), "seed {seed}");
        assert_eq!((&short.rest, short.in_ipv4), (&part.rest, part.in_ipv4), "seed {seed}");
        let block = Block::of(&records, &times, &mut Flows::new()).expect("there is memory");
        let all: Vec<usize> = (0..block.rows.len()).collect();
        let (picked, _) = block.picked(&all).expect("there is memory");
        assert_eq!(columns(&picked), columns(&part), "seed {seed}");
        assert_eq!((&block.rest, block.in_ipv4), (&part.rest, part.in_ipv4), "seed {seed}");
        assert!(block.rows.iter().all(|row| row.time_ns == i64::from(row.record)));
        assert_eq!(block.flows.len(), part.flows.len(), "seed {seed}");
    }
}
