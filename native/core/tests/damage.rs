//! Damaged captures by the million: nothing overflows, nothing is read outside of a packet, columns agree.
//!
//! `MULTITRACER_FUZZ_SECONDS` says how long, `MULTITRACER_FUZZ_SEED` which seed is the first.

mod made;

use std::time::{Duration, Instant};

use made::{Chance, any_frame, damaged, packet_blocks, pcap};
use multitracer_core::pcapng::{Alike, Interface, Section};
use multitracer_core::segments::{Part, Records, decode};
use multitracer_core::walk::{Layout, Walked};

const LINKS: [i64; 9] = [0, 1, 1, 1, 9, 101, 113, 276, 147];

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|words| words.parse().ok()).unwrap_or(otherwise)
}

/// Call `check` with chance from consecutive seeds, for its share of the time.
fn for_some_time(mut check: impl FnMut(&mut Chance)) {
    let seed = number("MULTITRACER_FUZZ_SEED", 1);
    let time = Duration::from_secs(number("MULTITRACER_FUZZ_SECONDS", 1));
    let (begin, mut inputs) = (Instant::now(), 0);
    while if cfg!(miri) { inputs < 10 } else { begin.elapsed() < time } {
        let mut chance = Chance((seed + inputs).wrapping_mul(0x2545_F491_4F6C_DD1D));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&mut chance)));
        assert!(outcome.is_ok(), "seed {}", seed + inputs);
        inputs += 1;
    }
    println!("{inputs} inputs from seed {seed} on");
}

fn frames(chance: &mut Chance, link_type: i64) -> Vec<Vec<u8>> {
    let made = |chance: &mut Chance| {
        let frame = any_frame(chance, link_type);
        if chance.below(4) == 0 { damaged(chance, frame) } else { frame }
    };
    (0..chance.below(20)).map(|_| made(chance)).collect()
}

fn check_walk(data: &[u8], begin: usize, layout: &Layout, walked: &Walked) {
    let header = layout.header_bytes as i64;
    let mut at = begin as i64;
    for (index, &start) in walked.start.iter().enumerate() {
        assert_eq!(start, at + header);
        assert!(0 <= walked.captured[index] && walked.captured[index] <= walked.original[index]);
        at = start + walked.captured[index];
    }
    assert_eq!(walked.next as i64, at);
    assert!(walked.next <= data.len().max(begin));
    let lengths = [&walked.captured, &walked.original, &walked.time_ns].map(Vec::len);
    assert_eq!(lengths, [walked.start.len(); 3]);
}

fn check_part(part: &Part, begin: usize, end: usize) {
    let mut all = [&part.record[..], &part.rest].concat();
    all.sort_unstable();
    assert!(all.iter().all(|record| (begin as i64..end as i64).contains(record)));
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "each record once at most");
    assert_eq!(all.len() + part.udp, end - begin, "the others are datagrams of UDP");
    assert!(part.record.is_sorted() && part.rest.is_sorted());
    let rows = part.record.len();
    assert_eq!([part.flow.len(), part.seq.len(), part.marks.len(), part.tsval.len()], [rows; 4]);
    assert!(part.payload_bytes.iter().all(|&bytes| bytes >= 0));
    let mut seen = 0;
    for (row, &flow) in part.flow.iter().enumerate() {
        let first = &part.flows[(flow >> 1) as usize];
        assert!(flow >> 1 <= seen, "flows are in the order of their first packet");
        if flow >> 1 == seen {
            assert_eq!((first.record as i64, flow & 1), (part.record[row], 0));
            seen += 1;
        }
    }
    assert_eq!(part.flows.len() as i32, seen);
    for row in 0..rows {
        let blocks = part.sack.iter().filter(|block| block.0 == row as i64).count();
        assert_eq!(blocks, usize::from(part.sack_blocks[row]));
    }
    let syn = part.syn.iter().map(|syn| syn.row);
    assert!(syn.eq((0..rows as i64).filter(|&row| part.flags[row as usize] & 2 != 0)));
}

fn told(part: &Part) -> impl PartialEq + std::fmt::Debug + use<> {
    let columns = (part.record.clone(), part.flow.clone(), part.seq.clone(), part.ack.clone());
    let more = (part.payload_bytes.clone(), part.flags.clone(), part.window.clone(), part.tsval.clone());
    (columns, more, part.marks.clone(), part.sack.clone(), part.rest.clone())
}

fn check_decode(data: &[u8], start: &[i64], captured: &[i64], original: &[i64], link_type: i64) {
    let link_type = &[link_type];
    let parts = decode(Records { data, start, captured, original, link_type }).expect("there is memory");
    assert_eq!(parts.len(), 1, "few records need one thread");
    check_part(&parts[0], 0, start.len());
    // nothing outside of the captured bytes has a say
    let mut others = vec![0xA5; data.len()];
    for (&start, &captured) in start.iter().zip(captured) {
        let inside = start as usize..(start + captured) as usize;
        others[inside.clone()].copy_from_slice(&data[inside]);
    }
    let again =
        decode(Records { data: &others, start, captured, original, link_type }).expect("there is memory");
    assert_eq!(told(&parts[0]), told(&again[0]));
}

#[test]
fn pcap_files() {
    for_some_time(|chance| {
        let link_type = chance.of(&LINKS);
        let data = pcap(&frames(chance, link_type));
        let data = if chance.below(3) == 0 { damaged(chance, data) } else { data };
        let layout = Layout {
            is_big_endian: chance.below(8) == 0,
            header_bytes: chance.of(&[16, 16, 16, 24]),
            is_swapped: chance.below(8) == 0,
            tick_ns: chance.of(&[1000, 1]),
            largest: 262_144,
            near_s: 30 * 86_400,
        };
        let begin = 24.min(data.len());
        let Some(walked) = layout.walk(&data, begin, None).expect("there is memory") else { return };
        check_walk(&data, begin, &layout, &walked);
        check_decode(&data, &walked.start, &walked.captured, &walked.original, link_type);
    });
}

#[test]
fn pcapng_blocks() {
    for_some_time(|chance| {
        let link_type = chance.of(&LINKS);
        let data = packet_blocks(&frames(chance, link_type));
        let data = if chance.below(3) == 0 { damaged(chance, data) } else { data };
        let section = Section { data: &data, is_big_endian: chance.below(8) == 0 };
        let (starts, next) = section.walk(chance.of(&[0, 0, 0, 1, 28])).expect("there is memory");
        assert!(starts.is_sorted() && (starts.is_empty() || next <= data.len()));
        let interfaces = [Interface { since: 0, largest: chance.of(&[262_144, 262_144, 96]) }];
        let found = section.packets(&starts, &interfaces, chance.below(2) == 0).expect("there is memory");
        let Some(packets) = found else { return };
        check_decode(&data, &packets.start, &packets.captured, &packets.original, link_type);
    });
}

#[test]
fn pcapng_files_of_alike_interfaces() {
    for_some_time(|chance| {
        let link_type = chance.of(&LINKS);
        let data = packet_blocks(&frames(chance, link_type));
        let data = if chance.below(3) == 0 { damaged(chance, data) } else { data };
        let interfaces = vec![Interface { since: 0, largest: chance.of(&[262_144, 96]) }];
        let (tick_ns, offset_ns) = (chance.of(&[1, 1000, i64::MAX]), chance.of(&[0, -5, i64::MIN]));
        let alike = Alike { is_big_endian: chance.below(8) == 0, interfaces, tick_ns, offset_ns };
        let mut others = Vec::new();
        let begin = chance.of(&[0, 0, 4]).min(data.len());
        let found = alike.walk(&data, begin, &mut others).expect("there is memory");
        let Some(walked) = found else { return };
        assert!(walked.start.is_sorted() && walked.next <= data.len() && !walked.time_ns.contains(&i64::MIN));
        check_decode(&data, &walked.start, &walked.captured, &walked.original, link_type);
    });
}

#[test]
fn records_that_cannot_be() {
    const ODD: [i64; 12] =
        [0, 1, 4, 14, 60, -1, i64::MIN, i64::MAX, 1 << 32, (1 << 31) - 1, 1 << 24, (1 << 24) + 54];
    for_some_time(|chance| {
        let link_type = chance.of(&LINKS);
        let data: Vec<u8> = frames(chance, link_type).concat();
        let count = chance.below(6);
        let [start, captured, original] =
            [0; 3].map(|_| (0..count).map(|_| chance.of(&ODD)).collect::<Vec<_>>());
        let records = Records {
            data: &data,
            start: &start,
            captured: &captured,
            original: &original,
            link_type: &[link_type],
        };
        check_part(&decode(records).expect("there is memory")[0], 0, count);
        let section = Section { data: &data, is_big_endian: false };
        let interfaces =
            [Interface { since: i64::MAX, largest: -1 }, Interface { since: -1, largest: i64::MAX }];
        let _ = section.packets(&start, &interfaces, true).expect("there is memory");
    });
}
