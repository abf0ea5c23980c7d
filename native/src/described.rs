//! How Python says where the records of a capture file lie.

use pyo3::prelude::*;

use multitracer_core::pcapng::{Alike, Interface};
use multitracer_core::walk::Layout;
use multitracer_core::whole::Form;

/// How records lie in the file; see `parsers/_pcap/dialect.py` and `parsers/_pcapng/blocks.py`.
#[derive(FromPyObject)]
pub enum Described {
    Pcap(DescribedPcap),
    Pcapng(DescribedPcapng),
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct DescribedPcap {
    big_endian: bool,
    header_bytes: usize,
    swapped: bool,
    tick_ns: i64,
    largest: u32,
    near_s: i64,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct DescribedPcapng {
    big_endian: bool,
    tick_ns: i64,
    offset_ns: i64,
    /// Of each interface.
    most_captured: Vec<i64>,
}

impl From<DescribedPcap> for Layout {
    fn from(described: DescribedPcap) -> Self {
        let DescribedPcap { big_endian, header_bytes, swapped, tick_ns, largest, near_s } = described;
        let (is_big_endian, is_swapped) = (big_endian, swapped);
        Self { is_big_endian, header_bytes, is_swapped, tick_ns, largest, near_s }
    }
}

impl From<Described> for Form {
    fn from(described: Described) -> Self {
        match described {
            Described::Pcap(pcap) => Self::Pcap(pcap.into()),
            Described::Pcapng(pcapng) => {
                let DescribedPcapng { big_endian, tick_ns, offset_ns, most_captured } = pcapng;
                let interfaces = most_captured.into_iter().map(|largest| Interface { since: 0, largest });
                let interfaces = interfaces.collect();
                Self::Pcapng(Alike { is_big_endian: big_endian, interfaces, tick_ns, offset_ns })
            }
        }
    }
}
