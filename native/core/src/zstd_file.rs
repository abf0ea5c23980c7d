//! The bytes of a capture file that is packed with Zstandard (RFC 8878): frames one behind the other.
//!
//! Whatever is strange, such as a frame that is damaged or cut off, is an error: Python reads the file then, and
//! says what is wrong.

use std::fs::File;
use std::io::{self, ErrorKind, Seek};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

use crate::room::with_room;
use crate::whole::Bytes;

/// As `_WINDOW_BYTES` in `parsers/_expand.py`: no more memory is spent on one frame.
const WINDOW_LOG_MAX: u32 = 26;
/// So much is read at a time, as in the library's own programs.
const STORED_BYTES: usize = 128 * 1024;
/// How a frame begins, and one to skip, without its lowest four bits (RFC 8878, sections 3.1.1 and 3.1.2).
const FRAME: u32 = 0xFD2F_B528;
const SKIPPABLE: u32 = 0x184D_2A50;

/// Whether a file begins with a frame; it is read from its beginning afterwards.
pub fn is_zstd(file: &mut File) -> io::Result<bool> {
    let mut head = [0; 4];
    let count = file.fill(&mut head)?;
    file.rewind()?;
    Ok(begins_frame(&head[..count]))
}

fn begins_frame(data: &[u8]) -> bool {
    let head = data.first_chunk().map(|head| u32::from_le_bytes(*head));
    head.is_some_and(|head| head == FRAME || head & !15 == SKIPPABLE)
}

/// The unpacked bytes of a file.
pub struct ZstdFile {
    file: File,
    context: DCtx<'static>,
    stored: Vec<u8>,
    /// Those of `stored` that are not unpacked yet.
    begin: usize,
    end: usize,
    /// Bytes of a frame are still to come.
    is_in_frame: bool,
    /// How many bytes of the file were taken.
    taken: Arc<AtomicUsize>,
}

impl ZstdFile {
    /// Unpack a file from its beginning.
    pub fn of(file: File) -> io::Result<Self> {
        let mut context = DCtx::try_create().ok_or(ErrorKind::OutOfMemory)?;
        context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(odd)?;
        let mut stored = with_room(STORED_BYTES).map_err(|_| ErrorKind::OutOfMemory)?;
        stored.resize(STORED_BYTES, 0);
        Ok(Self { file, context, stored, begin: 0, end: 0, is_in_frame: false, taken: Arc::default() })
    }

    /// Counts the bytes of the file that were taken, while it is read.
    pub fn taken(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.taken)
    }

    /// Take in more of the file, if all of it before is unpacked; return whether there is something to unpack.
    fn take_in(&mut self) -> io::Result<bool> {
        if self.begin == self.end {
            (self.begin, self.end) = (0, self.file.fill(&mut self.stored)?);
            self.taken.fetch_add(self.end, Ordering::Relaxed);
        }
        Ok(self.begin < self.end)
    }

    /// Begin the next frame; return false if there is none.
    fn begin_frame(&mut self) -> io::Result<bool> {
        if !self.take_in()? {
            return Ok(false);
        }
        if self.end - self.begin < 4 {
            // the beginning of a frame lies over the end of what was taken
            self.stored.copy_within(self.begin..self.end, 0);
            let left = self.end - self.begin;
            let more = self.file.fill(&mut self.stored[left..])?;
            self.taken.fetch_add(more, Ordering::Relaxed);
            (self.begin, self.end) = (0, left + more);
        }
        if !begins_frame(&self.stored[self.begin..self.end]) {
            return Err(ErrorKind::InvalidData.into());
        }
        self.context.reset(ResetDirective::SessionOnly).map_err(odd)?;
        self.is_in_frame = true;
        Ok(true)
    }
}

impl Bytes for ZstdFile {
    fn fill(&mut self, data: &mut [u8]) -> io::Result<usize> {
        let mut output = OutBuffer::around(data);
        while output.pos() < output.capacity() {
            if !self.is_in_frame && !self.begin_frame()? {
                break;
            }
            // with an empty input, too: what is unpacked may not have found room yet
            let has_more = self.take_in()?;
            let before = output.pos();
            let mut input = InBuffer::around(&self.stored[self.begin..self.end]);
            let hint = self.context.decompress_stream(&mut output, &mut input).map_err(odd)?;
            let used = input.pos();
            self.begin += used;
            self.is_in_frame = hint > 0;
            if self.is_in_frame && !has_more && output.pos() == before {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(output.pos())
    }

    fn is_slow(&self) -> bool {
        true
    }
}

fn odd(code: usize) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, get_error_name(code))
}
