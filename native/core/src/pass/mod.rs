//! The pass over the segments of each connection: the counterpart of `analysis/segments/`, in capture order.
//!
//! Python looks at all segments of a group at once, step by step; here each segment is looked at once, and what
//! is to be known of the others is kept. `line.rs` unwraps numbers; `holes.rs`, `copies.rs`, `acks.rs`,
//! `round_trips.rs` and `deliveries.rs` keep one thing each; `direction.rs` and `connection.rs` bring them together.

mod acks;
mod answers;
pub mod beginning;
pub mod connection;
mod copies;
pub mod deliveries;
pub mod direction;
pub mod each;
mod holes;
mod line;
mod round_trips;
pub mod running;
mod sack_run;
mod sacked;
pub mod source;
pub mod stamps;
