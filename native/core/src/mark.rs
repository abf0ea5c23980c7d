//! Bits of `multitracer.capture.Mark`; a test compares them.

pub const HAS_TIMESTAMPS: u16 = 0x001;
pub const HEADER_CUT: u16 = 0x002;
pub const PAYLOAD_CUT: u16 = 0x004;
pub const LENGTH_FROM_CAPTURE: u16 = 0x008;
pub const FRAGMENT: u16 = 0x010;
pub const MPTCP: u16 = 0x040;
pub const BAD_LENGTH: u16 = 0x080;
pub const URGENT: u16 = 0x100;
