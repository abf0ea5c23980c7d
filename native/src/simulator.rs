//! What a run in virtual time writes: its packets, and rows of its logs, many at once.
//!
//! The Python code says how each row looks and hands over what is constant of it. A row with anything rare in
//! it stays with Python: `rest` is called for it, or the answer for all is None.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyString, PyTuple};

use crate::rows::{base64, checksum, decimal, words};
use crate::{Fault, last_panic, out_of_memory};

const NS_PER_S: i64 = 1_000_000_000;
/// What a number takes at most.
const DIGITS: usize = 20;

/// A host's clock: times of the run plus a constant, and a drift.
#[derive(Clone, Copy, FromPyObject)]
pub struct Clock(i64, f64);

impl Clock {
    fn at(self, now_ns: i64) -> i64 {
        let Self(shift_ns, skew_ppm) = self;
        let ahead_ns = (now_ns as f64 * skew_ppm / 1e6).round_ties_even() as i64;
        shift_ns.wrapping_add(now_ns).wrapping_add(ahead_ns)
    }
}

/// Run work that needs the interpreter's lock; a panic is a Python exception.
fn inside<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(Fault::new_err(last_panic())))
}

fn reserve(out: &mut Vec<u8>, more: usize) -> PyResult<()> {
    out.try_reserve(more).map_err(|_| out_of_memory())
}

/// Return a number that is no bool; None if it is another thing, or too large.
fn number(value: &Bound<'_, PyAny>) -> Option<i64> {
    value.is_exact_instance_of::<PyInt>().then(|| value.extract().ok()).flatten()
}

// --- packets ---

/// Return an IPv4 packet with a TCP segment, checksums filled in.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn tcp_packet<'py>(
    py: Python<'py>,
    source: &[u8],
    destination: &[u8],
    ecn: u8,
    identification: u16,
    source_port: u16,
    destination_port: u16,
    seq: u32,
    ack: u32,
    flags: u16,
    window: u16,
    options: &[u8],
    payload: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    inside(|| {
        let tcp_bytes = 20 + options.len() + payload.len();
        let total =
            u16::try_from(20 + tcp_bytes).map_err(|_| PyOverflowError::new_err("too long a packet"))?;
        let mut head = [0u8; 40];
        head[..2].copy_from_slice(&[0x45, ecn]);
        head[2..4].copy_from_slice(&total.to_be_bytes());
        head[4..6].copy_from_slice(&identification.to_be_bytes());
        head[6..10].copy_from_slice(&[0x40, 0, 64, 6]);
        head[12..16].copy_from_slice(source);
        head[16..20].copy_from_slice(destination);
        let sum = checksum(words(&head[..20]));
        head[10..12].copy_from_slice(&sum);
        head[20..22].copy_from_slice(&source_port.to_be_bytes());
        head[22..24].copy_from_slice(&destination_port.to_be_bytes());
        head[24..28].copy_from_slice(&seq.to_be_bytes());
        head[28..32].copy_from_slice(&ack.to_be_bytes());
        let offset = ((20 + options.len()) / 4) as u16;
        head[32..34].copy_from_slice(&(offset << 12 | flags).to_be_bytes());
        head[34..36].copy_from_slice(&window.to_be_bytes());
        let pseudo = words(&head[12..20]) + 6 + tcp_bytes as u64;
        let sum = checksum(pseudo + words(&head[20..]) + words(options) + words(payload));
        head[36..38].copy_from_slice(&sum);
        PyBytes::new_with(py, usize::from(total), |out| {
            out[..40].copy_from_slice(&head);
            out[40..40 + options.len()].copy_from_slice(options);
            out[40 + options.len()..].copy_from_slice(payload);
            Ok(())
        })
    })
}

/// Return the pcap records of packets, each with its time of the run; None if a time does not fit.
#[pyfunction]
pub fn pcap_records<'py>(
    py: Python<'py>,
    packets: &Bound<'py, PyList>,
    clock: Clock,
    snap_bytes: usize,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    inside(|| {
        let mut out = Vec::new();
        for row in packets {
            let (packet, now_ns): (Bound<'py, PyBytes>, i64) = row.extract()?;
            let packet = packet.as_bytes();
            let time_ns = clock.at(now_ns);
            let Ok(seconds) = u32::try_from(time_ns.div_euclid(NS_PER_S)) else { return Ok(None) };
            let kept = &packet[..packet.len().min(snap_bytes)];
            reserve(&mut out, 16 + kept.len())?;
            let rest = time_ns.rem_euclid(NS_PER_S) as u32;
            for word in [seconds, rest, kept.len() as u32, packet.len() as u32] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend_from_slice(kept);
        }
        Ok(Some(PyBytes::new(py, &out)))
    })
}

// --- TCP's variables ---

/// Where a number stands in the struct.
#[derive(Clone, Copy, FromPyObject)]
pub struct Place(usize, usize);

/// Return the lines of readings of TCP's variables; None if there is anything strange in one.
///
/// A row is (what precedes the line, two numbers, values, values of the struct). `pieces` are the parts of a
/// line between its values, of which the second is there twice and the last is the struct: `blank` with each
/// value of the struct at its place.
#[pyfunction]
pub fn reading_lines<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyList>,
    pieces: Vec<String>,
    places: Vec<Place>,
    blank: &[u8],
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    inside(|| {
        let (mut out, mut packed) = (Vec::new(), blank.to_vec());
        let fixed = pieces.iter().map(|piece| piece.len() + DIGITS).sum::<usize>() + 2 * blank.len();
        for row in rows {
            let row = row.cast::<PyTuple>()?;
            let before = row.get_borrowed_item(0)?;
            let before = before.cast::<PyBytes>()?;
            let before = before.as_bytes();
            reserve(&mut out, before.len() + fixed)?;
            out.extend_from_slice(before);
            let (about, values) = (row.get_borrowed_item(3)?, row.get_borrowed_item(4)?);
            let (about, values) = (about.cast::<PyTuple>()?, values.cast::<PyTuple>()?);
            let (read, read_ns) = (row.get_borrowed_item(1)?, row.get_borrowed_item(2)?);
            let (Some(read), Some(read_ns)) = (number(&read), number(&read_ns)) else { return Ok(None) };
            let mut open = pieces.iter();
            for value in [read, read_ns, read_ns] {
                out.extend_from_slice(open.next().map_or(b"", |piece| piece.as_bytes()));
                decimal(&mut out, value);
            }
            for value in about.iter_borrowed() {
                out.extend_from_slice(open.next().map_or(b"", |piece| piece.as_bytes()));
                if let Some(number) = number(&value) {
                    decimal(&mut out, number);
                } else {
                    let text = value.cast::<PyString>()?;
                    let text = text.to_str()?.as_bytes();
                    reserve(&mut out, text.len() + fixed)?;
                    out.extend_from_slice(text);
                }
            }
            for (at, (value, place)) in values.iter_borrowed().zip(&places).enumerate() {
                let Some(value) = number(&value) else { return Ok(None) };
                if value < 0 || value >> (8 * place.1).min(63) != 0 {
                    return Ok(None);
                }
                packed[place.0..place.0 + place.1].copy_from_slice(&value.to_le_bytes()[..place.1]);
                if at > 0 {
                    out.extend_from_slice(open.next().map_or(b"", |piece| piece.as_bytes()));
                    decimal(&mut out, value);
                }
            }
            out.extend_from_slice(open.next().map_or(b"", |piece| piece.as_bytes()));
            base64(&mut out, &packed);
            out.extend_from_slice(open.next().map_or(b"", |piece| piece.as_bytes()));
        }
        Ok(Some(PyBytes::new(py, &out)))
    })
}

// --- events of the link ---

/// A kind of event: its name and those of its facts.
struct Kind {
    address: usize,
    name: String,
    facts: Vec<String>,
}

/// What is constant of the records of events.
#[derive(FromPyObject)]
pub struct Lines<'py> {
    /// (name, names of the facts) of a kind of event.
    kinds: Bound<'py, PyAny>,
    /// Returns the record of a text of a length, at the time 0.
    blank: Bound<'py, PyAny>,
    /// Where the time of the block, the number of the slot and the text stand in it.
    at: (usize, usize, usize),
    /// Returns the record of an event that is no line, or has something rare in it.
    rest: Bound<'py, PyAny>,
}

/// Return the records of events of the link.
#[pyfunction]
pub fn event_records<'py>(
    py: Python<'py>,
    events: &Bound<'py, PyList>,
    lines: Lines<'py>,
    clock: Clock,
) -> PyResult<Bound<'py, PyBytes>> {
    inside(|| {
        let (mut out, mut text, mut known) = (Vec::new(), Vec::new(), Vec::new());
        let mut blanks: Vec<Option<Bound<'py, PyBytes>>> = Vec::new();
        for event in events {
            let time_ns = clock.at(event.get_item(0)?.extract()?);
            let event = event.cast::<PyTuple>()?;
            text.clear();
            if !words_of(event, kind_of(event, &lines, &mut known)?, &mut text)? {
                let record = lines.rest.call1((event, time_ns))?;
                let record = record.cast::<PyBytes>()?.as_bytes();
                reserve(&mut out, record.len())?;
                out.extend_from_slice(record);
                continue;
            }
            if blanks.len() <= text.len() {
                blanks.resize(text.len() + 1, None);
            }
            let blank = match &blanks[text.len()] {
                Some(blank) => blank,
                None => blanks[text.len()].insert(lines.blank.call1((text.len(),))?.cast_into()?),
            };
            let (begin, (time_at, tick_at, text_at)) = (out.len(), lines.at);
            reserve(&mut out, blank.as_bytes().len())?;
            out.extend_from_slice(blank.as_bytes());
            let record = &mut out[begin..];
            let tick: i64 = event.get_borrowed_item(1)?.extract()?;
            let (seconds, rest) = (time_ns.div_euclid(NS_PER_S), time_ns.rem_euclid(NS_PER_S));
            record[time_at..time_at + 4].copy_from_slice(&((time_ns >> 32) as u32).to_le_bytes());
            record[time_at + 4..time_at + 8].copy_from_slice(&(time_ns as u32).to_le_bytes());
            record[tick_at..tick_at + 4].copy_from_slice(&(tick as u32).to_be_bytes());
            record[tick_at + 8..tick_at + 12].copy_from_slice(&(seconds as u32).to_be_bytes());
            record[tick_at + 12..tick_at + 16].copy_from_slice(&((rest / 1000) as u32).to_be_bytes());
            record[text_at..text_at + text.len()].copy_from_slice(&text);
        }
        Ok(PyBytes::new(py, &out))
    })
}

fn kind_of<'a>(
    event: &Bound<'_, PyTuple>,
    lines: &Lines<'_>,
    known: &'a mut Vec<Kind>,
) -> PyResult<&'a Kind> {
    let kind = event.get_type();
    let address = kind.as_ptr() as usize;
    let place = match known.iter().position(|kind| kind.address == address) {
        Some(place) => place,
        None => {
            let (name, facts) = lines.kinds.get_item(kind)?.extract()?;
            known.push(Kind { address, name, facts });
            known.len() - 1
        }
    };
    Ok(&known[place])
}

/// Append an event's name and its facts as words, without empty ones; false if it holds anything rare.
fn words_of(event: &Bound<'_, PyTuple>, kind: &Kind, text: &mut Vec<u8>) -> PyResult<bool> {
    reserve(text, kind.name.len())?;
    text.extend_from_slice(kind.name.as_bytes());
    for (name, value) in kind.facts.iter().zip(event.iter_borrowed().skip(2)) {
        reserve(text, name.len() + 2 + DIGITS)?;
        let before = text.len();
        text.push(b' ');
        text.extend_from_slice(name.as_bytes());
        text.push(b'=');
        if let Some(number) = number(&value) {
            decimal(text, number);
        } else if value.is_none() {
            text.truncate(before);
        } else if let Ok(word) = value.cast_exact::<PyString>() {
            let word = word.to_str()?.as_bytes();
            if !word.iter().all(u8::is_ascii_graphic) {
                return Ok(false);
            }
            reserve(text, word.len())?;
            text.extend_from_slice(word);
            if word.is_empty() {
                text.truncate(before);
            }
        } else {
            return Ok(false);
        }
    }
    Ok(true)
}
