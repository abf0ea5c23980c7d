//! Numbers and checksums as logs and packets hold them.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Append a number in decimal.
pub fn decimal(out: &mut Vec<u8>, value: i64) {
    let mut digits = [b'0'; 20];
    let (mut rest, mut at) = (value.unsigned_abs(), digits.len());
    for place in digits.iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
        at -= 1;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Append data in base64 (RFC 4648, section 4).
pub fn base64(out: &mut Vec<u8>, data: &[u8]) {
    for three in data.chunks(3) {
        let word = (0..3).fold(0u32, |word, at| word << 8 | u32::from(*three.get(at).unwrap_or(&0)));
        for place in 0..4 {
            let six = (word >> (18 - 6 * place) & 0x3F) as usize;
            out.push(if place <= three.len() { ALPHABET[six] } else { b'=' });
        }
    }
}

/// Return the sum of the 16-bit words of some data, which goes on with a whole word (RFC 1071).
pub fn words(data: &[u8]) -> u64 {
    let pairs = data.chunks_exact(2);
    let last = pairs.remainder().first().map_or(0, |&byte| u64::from(byte) << 8);
    pairs.map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u64>() + last
}

/// Return the ones' complement checksum of words that were added up (RFC 1071).
pub fn checksum(mut sum: u64) -> [u8; 2] {
    while sum > 0xFFFF {
        sum = (sum >> 16) + (sum & 0xFFFF);
    }
    (!(sum as u16)).to_be_bytes()
}
