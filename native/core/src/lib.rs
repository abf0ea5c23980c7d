//! What the native kernel of MultiTracer does with captures, without Python: equal bit for bit to its Python code.
//!
//! A piece of a capture in memory goes in, columns of tables come out. What is rare stays with Python (`None`, or
//! the list `rest`), so each rule for odd input is written once. `walk.rs` and `pcapng.rs` find records;
//! `segments.rs` decodes them by `link.rs`, `ip.rs` and `tcp.rs`, `flows.rs` numbers connections, and `pass/`
//! counts what the segments of each connection were. Of a large capture the segments do not go to Python:
//! `block.rs` decodes them into rows, and `kept.rs` hands these to the pass; `one_flow.rs` reads those of one
//! connection alone. `whole.rs` reads a file by itself (`zstd_file.rs` unpacks Zstandard). `usual.rs` is the short
//! way of most segments through decoding, `udp.rs` that of what is only counted. `repeats.rs` notices packets that were
//! captured more than once, which Python finds. `times.rs` looks at times and
//! timestamps; `identities.rs` and `partners.rs` find the same packets in two captures, `search.rs` looks up times, bytes and rows,
//! `spans.rs` looks at stretches of columns, `placing.rs` says where each segment lies.
//!
//! What must hold: no unsafe code; memory is reserved before it is used.
#![deny(unsafe_code)]

use std::collections::TryReserveError;

pub mod block;
pub mod bytes;
pub mod flows;
pub mod identities;
pub mod ip;
pub mod kept;
pub mod link;
pub mod mark;
pub mod one_flow;
pub mod partners;
pub mod pass;
pub mod pcapng;
pub mod placing;
pub mod repeats;
pub mod room;
pub mod search;
pub mod segment_row;
pub mod segments;
pub mod spans;
pub mod tcp;
pub mod threads;
pub mod times;
pub mod udp;
pub mod usual;
pub mod walk;
pub mod whole;
pub mod zstd_file;

/// There is no memory for what is asked.
#[derive(Debug)]
pub struct OutOfMemory;

impl From<TryReserveError> for OutOfMemory {
    fn from(_: TryReserveError) -> Self {
        Self
    }
}
