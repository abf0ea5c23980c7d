//! Which records of a file the kernel finds, and where it stops because something is strange.

mod made;

use made::{frame, packet_blocks, pcap};
use multitracer_core::pcapng::{Alike, Interface, Section};
use multitracer_core::walk::{Layout, Walked};

const LAYOUT: Layout = Layout {
    is_big_endian: false,
    header_bytes: 16,
    is_swapped: false,
    tick_ns: 1000,
    largest: 262_144,
    near_s: 30 * 86_400,
};

fn walked(data: &[u8]) -> Option<Walked> {
    LAYOUT.walk(data, 24, None).expect("there is memory")
}

fn frames(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(frame).collect()
}

#[test]
fn records_of_pcap() {
    let data = pcap(&frames(3));
    let walked = walked(&data).expect("nothing is strange");
    let each = frame(0).len() as i64;
    assert_eq!(walked.start, [40, 40 + 16 + each, 40 + 2 * (16 + each)]);
    assert_eq!((walked.captured, walked.original), (vec![each; 3], vec![each; 3]));
    assert_eq!(walked.time_ns, [0, 1, 2].map(|us| 1_700_000_000 * 1_000_000_000 + us * 1000));
    assert_eq!((walked.next, walked.last_s), (data.len(), 1_700_000_000));
}

#[test]
fn a_record_that_is_not_whole_waits() {
    let data = pcap(&frames(3));
    for cut in 1..frame(0).len() + 16 {
        let walked = walked(&data[..data.len() - cut]).expect("nothing is strange");
        assert_eq!(walked.start.len(), 2);
    }
    assert_eq!(walked(&data[..24]).expect("nothing is strange").next, 24);
}

#[test]
fn strange_headers_are_left_to_python() {
    let good = pcap(&frames(3));
    let second = 24 + 16 + frame(0).len();
    // captured more than there was; nothing there; more than any packet; a second of fractions; far away
    for (at, bytes) in [(8, [255; 4]), (12, [0; 4]), (12, [0, 0, 5, 0]), (4, [64, 66, 15, 0]), (0, [0; 4])] {
        let mut data = good.clone();
        data[second + at..second + at + 4].copy_from_slice(&bytes);
        assert!(walked(&data).is_none(), "{bytes:?} at {at}");
    }
}

#[test]
fn records_far_from_those_before_the_stretch_are_left_to_python() {
    let data = pcap(&frames(3));
    let first_s = i64::from(u32::from_le_bytes(data[24..28].try_into().expect("four bytes")));
    let is_sane = |before_s| LAYOUT.walk(&data, 24, before_s).expect("there is memory").is_some();
    assert!(
        is_sane(None) && is_sane(Some(first_s + LAYOUT.near_s)) && is_sane(Some(first_s - LAYOUT.near_s))
    );
    assert!(!is_sane(Some(first_s + LAYOUT.near_s + 3)) && !is_sane(Some(first_s - LAYOUT.near_s - 3)));
}

#[test]
fn blocks_of_pcapng() {
    let data = packet_blocks(&frames(3));
    let section = Section { data: &data, is_big_endian: false };
    let (starts, next) = section.walk(0).expect("there is memory");
    assert_eq!((starts.len(), next), (3, data.len()));
    let one = [Interface { since: 0, largest: 262_144 }];
    let packets = section.packets(&starts, &one, true).expect("there is memory").expect("nothing is strange");
    assert_eq!((packets.interface, packets.ticks), (vec![0; 3], vec![0, 1, 2]));
    assert_eq!(packets.captured, [frame(0).len() as i64; 3]);
    let later = [Interface { since: 1, largest: 262_144 }];
    assert!(section.packets(&starts, &later, true).expect("there is memory").is_none());
    assert!(section.packets(&starts, &[], true).expect("there is memory").is_none());
}

#[test]
fn another_block_ends_the_walk_and_a_wrong_trailer_is_strange() {
    let mut data = packet_blocks(&frames(3));
    let each = data.len() / 3;
    data[2 * each - 1] ^= 1;
    let section = Section { data: &data, is_big_endian: false };
    let (starts, _) = section.walk(0).expect("there is memory");
    let one = [Interface { since: 0, largest: 262_144 }];
    assert!(section.packets(&starts, &one, false).expect("there is memory").is_none());
    data[each] = 5;
    let (starts, next) = Section { data: &data, is_big_endian: false }.walk(0).expect("there is memory");
    assert_eq!((starts, next), (vec![0], each));
}

fn alike(tick_ns: i64, offset_ns: i64) -> Alike {
    let interfaces = vec![Interface { since: 0, largest: 262_144 }];
    Alike { is_big_endian: false, interfaces, tick_ns, offset_ns }
}

/// A block of another kind than packets, with its length at both ends.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (12 + body.len() as u32).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, body, &length].concat()
}

#[test]
fn packets_of_alike_interfaces_and_what_lies_between() {
    let packets = packet_blocks(&frames(3));
    let each = packets.len() / 3;
    let data = [&packets[..each], &block(5, &[7; 8]), &packets[each..], &block(4, &[]), &[6, 0]].concat();
    let mut others = Vec::new();
    let found = alike(1000, 5).walk(&data, 0, &mut others).expect("there is memory");
    let walked = found.expect("nothing is strange");
    assert_eq!(walked.time_ns, [5, 1005, 2005]);
    assert_eq!(walked.start, [28, each + 20 + 28, 2 * each + 20 + 28].map(|at| at as i64));
    assert_eq!(walked.captured, [frame(0).len() as i64; 3]);
    assert_eq!(walked.next, data.len() - 2);
    assert_eq!(others, [block(5, &[7; 8]), block(4, &[])]);
}

#[test]
fn strange_blocks_are_left_to_python() {
    let packets = packet_blocks(&frames(2));
    let each = packets.len() / 2;
    let is_strange =
        |data: &[u8], alike: &Alike| alike.walk(data, 0, &mut Vec::new()).expect("there is memory").is_none();
    for kind in [0x0A0D_0D0A, 1, 2, 3] {
        assert!(is_strange(&[&packets[..], &block(kind, &[0; 20])].concat(), &alike(1, 0)), "{kind}");
    }
    assert!(is_strange(&[&packets[..], &block(5, &vec![0; 1 << 20])].concat(), &alike(1, 0)));
    // another kind's trailer; a length that is no multiple of 4, or too small; an interface that is not there
    for (at, byte) in [(2 * each + 19, 1), (each + 4, 0x81), (each + 4, 8), (each + 8, 1)] {
        let mut data = [&packets[..], &block(5, &[0; 8])].concat();
        data[at] = byte;
        assert!(is_strange(&data, &alike(1, 0)), "{byte} at {at}");
    }
    assert!(is_strange(&packets, &alike(i64::MAX, 1)));
    assert!(is_strange(&packets, &alike(1, i64::MIN)));
    assert!(!is_strange(&packets, &alike(1, i64::MAX - 1)));
}
