//! What the native kernel does without Python: its files, with no glue around them, so that `cargo test`, Miri
//! and the sanitizers need nothing else. The tests are in `tests/`, what they read is made by `made.rs`.
#![deny(unsafe_code)]

#[path = "../../src/block.rs"]
pub mod block;
#[path = "../../src/bytes.rs"]
pub mod bytes;
#[path = "../../src/flows.rs"]
pub mod flows;
#[path = "../../src/ip.rs"]
pub mod ip;
#[path = "../../src/link.rs"]
pub mod link;
pub mod made;
#[path = "../../src/mark.rs"]
pub mod mark;
#[path = "../../src/pass/mod.rs"]
pub mod pass;
#[path = "../../src/pcapng.rs"]
pub mod pcapng;
#[path = "../../src/placing.rs"]
pub mod placing;
#[path = "../../src/room.rs"]
pub mod room;
#[path = "../../src/rows.rs"]
pub mod rows;
#[path = "../../src/segment_row.rs"]
pub mod segment_row;
#[path = "../../src/segments.rs"]
pub mod segments;
pub mod strays;
#[path = "../../src/tcp.rs"]
pub mod tcp;
#[path = "../../src/threads.rs"]
pub mod threads;
#[path = "../../src/times.rs"]
pub mod times;
#[path = "../../src/udp.rs"]
pub mod udp;
#[path = "../../src/usual.rs"]
pub mod usual;
#[path = "../../src/walk.rs"]
pub mod walk;

/// As in `native/src/lib.rs`.
#[derive(Debug)]
pub struct OutOfMemory;

impl From<std::collections::TryReserveError> for OutOfMemory {
    fn from(_: std::collections::TryReserveError) -> Self {
        Self
    }
}
