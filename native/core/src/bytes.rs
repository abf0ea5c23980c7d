//! Numbers in a slice of bytes; `None` where they are not all there.

#[inline(always)]
pub fn byte(data: &[u8], at: usize) -> Option<u8> {
    data.get(at).copied()
}

#[inline(always)]
fn array<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[inline(always)]
pub fn be16(data: &[u8], at: usize) -> Option<u16> {
    array(data, at).map(u16::from_be_bytes)
}

#[inline(always)]
pub fn le16(data: &[u8], at: usize) -> Option<u16> {
    array(data, at).map(u16::from_le_bytes)
}

#[inline(always)]
pub fn be32(data: &[u8], at: usize) -> Option<u32> {
    array(data, at).map(u32::from_be_bytes)
}

#[inline(always)]
pub fn le32(data: &[u8], at: usize) -> Option<u32> {
    array(data, at).map(u32::from_le_bytes)
}

#[inline(always)]
pub fn be128(data: &[u8], at: usize) -> Option<u128> {
    array(data, at).map(u128::from_be_bytes)
}
