//! Packets and captures, sane ones by grammar and damaged ones; each follows from a seed alone.
#![allow(dead_code)] // each test uses some of it

pub mod strays;

/// Numbers by chance that can be repeated: SplitMix64.
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ word >> 31
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// A TCP segment.
pub fn tcp(ports: (u16, u16), seq: u32, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let padded = (options.len() + 3) & !3;
    let mut out = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    out.extend([seq, 7].map(u32::to_be_bytes).concat());
    out.extend([((20 + padded) << 2) as u8, flags, 0x10, 0, 0, 0, 0, 0]);
    out.extend(options);
    out.resize(20 + padded, 0);
    out.extend(payload);
    out
}

/// An IPv4 packet; `fragment` is its field of flags and offset.
pub fn ipv4(inside: &[u8], protocol: u8, fragment: u16) -> Vec<u8> {
    let total = (20 + inside.len()) as u16;
    let mut out = vec![0x45, 0];
    out.extend([total, 5, fragment].map(u16::to_be_bytes).concat());
    out.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    out.extend(inside);
    out
}

/// An IPv6 packet.
pub fn ipv6(inside: &[u8], next_header: u8) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0];
    out.extend((inside.len() as u16).to_be_bytes());
    out.extend([next_header, 64]);
    out.extend([1; 16]);
    out.extend([2; 16]);
    out.extend(inside);
    out
}

/// An Ethernet frame with VLAN tags.
pub fn ethernet(inside: &[u8], ether_type: u16, vlans: &[u16]) -> Vec<u8> {
    let mut out = vec![2; 12];
    for vlan in vlans {
        out.extend([0x8100, *vlan].map(u16::to_be_bytes).concat());
    }
    out.extend(ether_type.to_be_bytes());
    out.extend(inside);
    out
}

/// The plainest frame: a segment of four bytes.
pub fn frame(seq: u32) -> Vec<u8> {
    ethernet(&ipv4(&tcp((1000, 80), seq, 0x10, &[], b"data"), 6, 0), 0x0800, &[])
}

fn options(chance: &mut Chance) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..chance.below(4) {
        let edges = 8 * chance.below(5);
        out.extend(match chance.below(7) {
            0 => vec![1],
            1 => [vec![8, 10], chance.bytes(8)].concat(),
            2 => vec![2, 4, 5, 180],
            3 => vec![4, 2, 3, 3, 7],
            4 => [vec![5, 2 + edges as u8], chance.bytes(edges)].concat(),
            5 => vec![30, 4, 0, 0],
            _ => chance.bytes(3),
        });
    }
    out.truncate(40);
    out
}

/// A frame of a link type by grammar: what the kernel takes, and now and then what it must leave.
pub fn any_frame(chance: &mut Chance, link_type: i64) -> Vec<u8> {
    let flags = chance.of(&[0x02, 0x10, 0x12, 0x18, 0x29]);
    let payload = vec![0; chance.of(&[0, 1, 40, 300])];
    let ports = (chance.of(&[1000, 1001, 80]), chance.of(&[80, 443]));
    let (seq, options) = (chance.next() as u32, options(chance));
    let segment = tcp(ports, seq, flags, &options, &payload);
    let is_v6 = chance.below(3) == 0;
    let packet = match is_v6 {
        true if chance.below(4) == 0 => ipv6(&[&[6, 0, 0, 0, 0, 0, 0, 0], &segment[..]].concat(), 60),
        true => ipv6(&segment, 6),
        false => ipv4(&segment, chance.of(&[6, 6, 6, 17, 4, 51]), chance.of(&[0, 0, 0, 0x4000, 0x2000, 3])),
    };
    let (ether_type, ppp): (u16, u8) = if is_v6 { (0x86DD, 0x57) } else { (0x0800, 0x21) };
    let [high, low] = ether_type.to_be_bytes();
    match link_type {
        1 => ethernet(&packet, ether_type, [&[][..], &[5], &[5, 6]][chance.below(3)]),
        9 => [&[0xFF, 0x03, 0, ppp], &packet[..]].concat(),
        113 => [&[0; 14][..], &[high, low], &packet[..]].concat(),
        276 => [&[high, low][..], &[0; 18], &packet[..]].concat(),
        0 => [&[2, 0, 0, 0], &packet[..]].concat(),
        _ => packet,
    }
}

/// Return data with some bytes changed, inserted, removed or cut off.
pub fn damaged(chance: &mut Chance, mut data: Vec<u8>) -> Vec<u8> {
    for _ in 0..1 + chance.below(3) {
        let at = chance.below(data.len() + 1);
        let until = (at + chance.of(&[1, 2, 4, 16, 100])).min(data.len());
        match chance.below(6) {
            0 if at < data.len() => data[at] ^= 1 << chance.below(8),
            1 => data[at..until].fill(chance.of(&[0, 1, 0x7F, 0x80, 0xFF])),
            2 => drop(data.drain(at..until)),
            3 => drop(data.splice(at..at, [0xFF; 4])),
            4 => data.truncate(at),
            _ => drop(data.splice(at..at, data[at..until].to_vec())),
        }
    }
    data
}

/// A pcap file of microseconds, little-endian.
pub fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    for (number, frame) in frames.iter().enumerate() {
        let length = frame.len() as u32;
        out.extend([1_700_000_000, number as u32, length, length].map(u32::to_le_bytes).concat());
        out.extend(frame);
    }
    out
}

/// Enhanced packet blocks of pcapng, little-endian, of interface 0.
pub fn packet_blocks(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, frame) in frames.iter().enumerate() {
        let captured = frame.len() as u32;
        let total = 32 + ((captured + 3) & !3);
        out.extend([6, total, 0, 0, number as u32, captured, captured].map(u32::to_le_bytes).concat());
        out.extend(frame);
        out.resize(out.len() + (total - 32 - captured) as usize, 0);
        out.extend(total.to_le_bytes());
    }
    out
}
