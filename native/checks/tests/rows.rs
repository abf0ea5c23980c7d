//! Numbers and checksums as logs and packets hold them.

use multitracer_native_checks::made::Chance;
use multitracer_native_checks::rows::{base64, checksum, decimal, words};

fn made(write: impl Fn(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn numbers_are_written_as_rust_writes_them() {
    let mut chance = Chance(1);
    let some = (0..2000).map(|at| chance.next() as i64 >> (at % 64));
    for value in some.chain([0, 1, -1, 9, 10, i64::MIN, i64::MAX]) {
        assert_eq!(made(|out| decimal(out, value)), value.to_string());
    }
}

#[test]
fn base64_is_that_of_rfc_4648() {
    let vectors = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
    for (length, expected) in vectors.iter().enumerate() {
        assert_eq!(made(|out| base64(out, &b"foobar"[..length])), *expected);
    }
    assert_eq!(made(|out| base64(out, &[0xFB, 0xFF, 0xBF])), "+/+/");
}

#[test]
fn the_checksum_is_that_of_rfc_1071() {
    let data = [0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7]; // its example in section 3
    assert_eq!(checksum(words(&data)), [0x22, 0x0D]);
    assert_eq!(words(&[0x12, 0x34, 0x56]), 0x1234 + 0x5600);
}
