//! Which packets the kernel decodes, what it says of them, and which it leaves to Python.

mod made;

use made::{ethernet, frame, ipv4, ipv6, tcp};
use multitracer_core::mark;
use multitracer_core::segments::{Part, Records, decode};

fn decoded_as(link_type: i64, frames: &[Vec<u8>], cut: usize) -> Vec<Part> {
    let (mut data, mut start, mut captured, mut original) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for frame in frames {
        start.push(data.len() as i64);
        captured.push((frame.len() - cut) as i64);
        original.push(frame.len() as i64);
        data.extend(frame);
    }
    let columns = Records {
        data: &data,
        start: &start,
        captured: &captured,
        original: &original,
        link_type: &[link_type],
    };
    decode(columns).expect("there is memory")
}

fn decoded(frames: &[Vec<u8>]) -> Part {
    decoded_as(1, frames, 0).pop().expect("a part")
}

#[test]
fn a_plain_segment() {
    let part = decoded(&[frame(7)]);
    assert_eq!((part.seq[0], part.ack[0], part.payload_bytes[0], part.flags[0]), (7, 7, 4, 0x10));
    assert_eq!((part.window[0], part.ip_id[0], part.marks[0], part.in_ipv4), (0x1000, 5, 0, 1));
    assert_eq!((part.flow[0], part.flows.len(), part.rest.len()), (0, 1, 0));
}

#[test]
fn options_and_their_marks() {
    let edges: Vec<u8> = (0..16).collect();
    let options = [&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2][..], &[1, 1, 5, 18], &edges].concat();
    let part = decoded(&[ethernet(&ipv4(&tcp((1, 2), 0, 0x10, &options, b""), 6, 0), 0x0800, &[])]);
    assert_eq!((part.tsval[0], part.tsecr[0], part.marks[0]), (1, 2, mark::HAS_TIMESTAMPS));
    assert_eq!(part.sack, [(0, 0x0001_0203, 0x0405_0607), (0, 0x0809_0A0B, 0x0C0D_0E0F)]);
    let syn = decoded(&[ethernet(
        &ipv4(&tcp((1, 2), 0, 2, &[2, 4, 5, 180, 3, 3, 7, 4, 2], b""), 6, 0),
        0x0800,
        &[],
    )]);
    assert_eq!((syn.syn[0].mss_bytes, syn.syn[0].window_scale, syn.syn[0].sack_permitted), (1460, 7, true));
}

#[test]
fn both_directions_are_one_connection_and_a_vlan_is_another() {
    let there = ipv4(&tcp((1, 2), 0, 0x10, &[], b""), 6, 0);
    let mut back = ipv4(&tcp((2, 1), 0, 0x10, &[], b""), 6, 0);
    back[12..20].rotate_left(4);
    let frames = [&there, &back, &there].map(|packet| ethernet(packet, 0x0800, &[]));
    let tagged = ethernet(&there, 0x0800, &[5, 6]);
    let part = decoded(&[&frames[..], &[tagged]].concat());
    assert_eq!(part.flow, [0, 1, 0, 2]);
    assert_eq!(part.flows[1].vlan, (1 << 12 | 5) << 12 | 6);
}

#[test]
fn extension_headers_of_ipv6() {
    let segment = tcp((1, 2), 0, 0x10, &[], b"abc");
    let extended = ipv6(&[&[6, 0, 0, 0, 0, 0, 0, 0], &segment[..]].concat(), 60);
    let part = decoded(&[ethernet(&extended, 0x86DD, &[])]);
    assert_eq!((part.payload_bytes[0], part.in_ipv4, part.marks[0]), (3, 0, 0));
}

#[test]
fn a_cut_packet_says_so() {
    for (cut, marks) in [(2, mark::PAYLOAD_CUT), (4, mark::PAYLOAD_CUT)] {
        let part = decoded_as(1, &[frame(1)], cut).pop().expect("a part");
        assert_eq!((part.payload_bytes[0], part.marks[0]), (4, marks));
    }
    let part = decoded_as(1, &[frame(1)], 5).pop().expect("a part");
    assert_eq!((part.rest, part.seq.len()), (vec![0], 0), "less than a TCP header is Python's");
}

#[test]
fn what_is_rare_is_left_to_python_in_its_order() {
    let segment = tcp((1, 2), 0, 0x10, &[], b"");
    let rare = [
        ethernet(&ipv4(&segment, 6, 0x2000), 0x0800, &[]),
        ethernet(&ipv4(&ipv4(&segment, 6, 0), 4, 0), 0x0800, &[]),
        ethernet(&ipv4(&segment, 17, 0), 0x0800, &[]),
        ethernet(&ipv6(&segment, 44), 0x86DD, &[]),
        ethernet(&segment, 0x0806, &[]),
        ethernet(&ipv4(&segment, 6, 0), 0x86DD, &[]),
        Vec::new(),
    ];
    let frames: Vec<_> = rare.iter().flat_map(|each| [each.clone(), frame(1)]).collect();
    let part = decoded(&frames);
    assert_eq!((part.rest, part.udp), (vec![0, 2, 6, 8, 10, 12], 1), "a datagram of UDP is only counted");
    assert_eq!(part.record, [1, 3, 5, 7, 9, 11, 13]);
}

#[test]
fn links_of_every_kind() {
    let packet = ipv4(&tcp((1, 2), 9, 0x10, &[], b""), 6, 0);
    let before: [(i64, &[u8]); 6] = [
        (0, &[2, 0, 0, 0]),
        (9, &[0xFF, 0x03, 0, 0x21]),
        (51, &[0x11, 0, 0, 1, 0, 9, 0, 0x21]),
        (101, &[]),
        (113, &[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0, 8, 0]),
        (276, &[8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0]),
    ];
    for (link_type, header) in before {
        let part = decoded_as(link_type, &[[header, &packet].concat()], 0).pop().expect("a part");
        assert_eq!(part.seq, [9], "link type {link_type}");
    }
    assert_eq!(decoded_as(147, &[packet], 0)[0].rest, [0], "a link that only Python knows");
}

#[test]
fn several_threads_keep_the_order() {
    let count = if cfg!(miri) { 40 } else { 30_000 }; // Miri has one core, and takes a second for 100 frames
    let frames: Vec<_> = (0..count).map(frame).collect();
    let parts = decoded_as(1, &frames, 0);
    let seq: Vec<_> = parts.iter().flat_map(|part| part.seq.iter().copied()).collect();
    let record: Vec<_> = parts.iter().flat_map(|part| part.record.iter().copied()).collect();
    assert!(seq.iter().copied().eq(0..count));
    assert!(record.iter().copied().eq(0..i64::from(count)));
}
