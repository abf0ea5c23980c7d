//! The pass over a capture that comes piece by piece: nothing is kept of a segment that was counted.
//!
//! Of a connection whose SYN was not captured whole, or not first, Python needs the segments: they are named
//! and not counted here.

use crate::OutOfMemory;
use crate::block::Block;
use crate::mark;
use crate::pass::beginning::{Beginning, Current, opens};
use crate::pass::connection::{Connection, Summary};
use crate::pass::direction::Segment;
use crate::pass::stamps::Stamps;
use crate::room::push;
use crate::segment_row::{Row, SackBlock, Syn};
use crate::tcp::{ACK, FIN, RST, SYN};

/// In an option that was not there: `NA` in Python.
pub const MISSING: i32 = -1;
/// Payload beyond which a segment may be larger than its receiver accepts, and is if that says nothing: see
/// `ETHERNET_PAYLOAD_BYTES` and `JUMBO_PAYLOAD_BYTES` in `analysis/trust/trust.py`.
const ETHERNET_PAYLOAD_BYTES: i32 = 1460;
const JUMBO_PAYLOAD_BYTES: i32 = 8960;

/// What the options of one side of a flow announce in a connection.
pub struct Announced {
    /// Those of the first SYN.
    pub mss_bytes: i32,
    pub window_scale: i32,
    has_options: bool,
    pub sack_permitted: bool,
    pub sack_segments: i64,
    pub dsack_segments: i64,
}

impl Default for Announced {
    fn default() -> Self {
        Self {
            mss_bytes: MISSING,
            window_scale: MISSING,
            has_options: false,
            sack_permitted: false,
            sack_segments: 0,
            dsack_segments: 0,
        }
    }
}

impl Announced {
    fn syn(&mut self, syn: &Syn) {
        self.sack_permitted |= syn.sack_permitted;
        if !self.has_options {
            self.has_options = true;
            (self.mss_bytes, self.window_scale) = (syn.mss_bytes, i32::from(syn.window_scale));
        }
    }

    fn sack(&mut self, blocks: &[SackBlock], ack: u32) {
        self.sack_segments += 1;
        self.dsack_segments += i64::from(is_dsack(blocks, ack));
    }
}

/// Whether the first block of a segment is a D-SACK: it begins below the cumulative ACK, or lies within the
/// block that follows (RFC 2883, section 4).
fn is_dsack(blocks: &[SackBlock], ack: u32) -> bool {
    let is_below = |one: u32, two: u32| (one.wrapping_sub(two) as i32) < 0;
    match *blocks {
        [(_, left, _), ..] if is_below(left, ack) => true,
        [(_, left, right), (_, next_left, next_right), ..] => {
            !is_below(left, next_left) && !is_below(next_right, right)
        }
        _ => false,
    }
}

/// What is known of one side of a flow in a connection, beside what the pass counts.
#[derive(Default)]
pub struct Side {
    pub stamps: Stamps,
    pub has_stamped_syn: bool,
    pub has_mptcp: bool,
    pub has_syn: bool,
    pub has_answer: bool,
    /// Those of segments that Python has to keep.
    pub payload_bytes: i64,
    pub announced: Announced,
    /// It sent more at once than Ethernet carries.
    is_large: bool,
}

impl Side {
    fn note_opening(&mut self, segment: &Segment) {
        self.has_answer |= segment.has(ACK);
        self.has_syn |= !segment.has(ACK);
    }

    #[inline(always)]
    fn note_options(&mut self, segment: &Segment, tsval: u32) -> Result<(), OutOfMemory> {
        self.has_mptcp |= segment.marks & mark::MPTCP != 0;
        if segment.marks & mark::HAS_TIMESTAMPS != 0 {
            self.has_stamped_syn |= segment.has(SYN);
            self.stamps.add(segment.time_ns, tsval)?;
        }
        Ok(())
    }
}

/// The connections so far; row c of each is of connection c.
#[derive(Default)]
pub struct Running {
    /// By the number of the flow.
    current: Vec<Option<Current>>,
    /// None of those whose segments Python needs.
    connections: Vec<Option<Box<[Connection; 1]>>>,
    /// Whether they are, or were until the end.
    pub is_counted: Vec<bool>,
    pub beginnings: Vec<Beginning>,
    pub sides: Vec<[Side; 2]>,
    /// Something only all segments tell.
    pub is_odd: bool,
    pub segments: usize,
    /// How many segments have each bit of their marks, except `HAS_TIMESTAMPS`.
    pub marked: [i64; 16],
    /// Counted segments that are larger than their receiver accepts.
    pub giants: i64,
}

/// Return a connection in memory that was asked for: `Box::new` would abort without any.
fn new_connection() -> Result<Box<[Connection; 1]>, OutOfMemory> {
    let mut one = Vec::new();
    one.try_reserve_exact(1)?;
    one.push(Connection::default());
    one.into_boxed_slice().try_into().map_err(|_| OutOfMemory)
}

/// Flags and marks of segments whose counting is short.
const UNUSUAL_FLAGS: u16 = SYN | FIN | RST;
const USUAL_MARKS: u16 = mark::HAS_TIMESTAMPS | mark::PAYLOAD_CUT;
/// Its place in `marked`.
const PAYLOAD_CUT: usize = mark::PAYLOAD_CUT.trailing_zeros() as usize;

impl Segment {
    #[inline(always)]
    fn is_usual(&self) -> bool {
        self.flags & UNUSUAL_FLAGS == 0 && self.marks & !USUAL_MARKS == 0
    }
}

/// The options of the segments of a block that come next.
struct Options<'a> {
    syn: &'a [Syn],
    sack: &'a [SackBlock],
    /// The row that has the first of them.
    next: usize,
}

impl<'a> Options<'a> {
    fn of(block: &'a Block) -> Self {
        let mut options = Self { syn: &block.syn, sack: &block.sack, next: 0 };
        options.look();
        options
    }

    fn look(&mut self) {
        let rows = [self.syn.first().map(|syn| syn.row), self.sack.first().map(|block| block.0)];
        self.next = rows.into_iter().flatten().min().map_or(usize::MAX, |row| row as usize);
    }

    /// Take those of a row.
    fn of_row(&mut self, row: usize) -> (Option<&'a Syn>, &'a [SackBlock]) {
        if row != self.next {
            return (None, &[]);
        }
        let syn = self.syn.first().filter(|syn| syn.row == row as i64);
        let blocks = self.sack.iter().take_while(|block| block.0 == row as i64).count();
        let (sack, rest) = self.sack.split_at(blocks);
        (self.syn, self.sack) = (&self.syn[usize::from(syn.is_some())..], rest);
        self.look();
        (syn, sack)
    }
}

/// Segments that Python has to keep.
#[derive(Default)]
pub struct Kept {
    pub rows: Vec<usize>,
    /// Twice the number of the connection, + 1 if the flow's second end sent it.
    pub direction: Vec<i32>,
}

impl Running {
    /// Take in the next segments.
    pub fn add(&mut self, block: &Block) -> Result<Kept, OutOfMemory> {
        let (mut kept, mut options) = (Kept::default(), Options::of(block));
        for (place, row) in block.rows.iter().enumerate() {
            let segment = row.segment();
            let (number, is_counted) = if segment.is_usual() && place != options.next {
                // the compiler knows these bits then, and leaves out what looks at the others
                let (flags, marks) = (segment.flags & !UNUSUAL_FLAGS, segment.marks & USUAL_MARKS);
                self.add_usual(row, &Segment { flags, marks, ..segment })?
            } else {
                self.add_unusual(row, &segment, options.of_row(place))?
            };
            if !is_counted {
                self.sides[number][row.side()].payload_bytes += i64::from(segment.payload_bytes);
                push(&mut kept.rows, place)?;
                push(&mut kept.direction, (2 * number + row.side()) as i32)?;
            }
        }
        self.segments += block.rows.len();
        Ok(kept)
    }

    /// Count a segment of which nothing is rare; return the number of its connection, and false if Python has to
    /// keep it.
    #[inline(always)]
    fn add_usual(&mut self, row: &Row, segment: &Segment) -> Result<(usize, bool), OutOfMemory> {
        let number = self.connection_of(row.flow(), row.side(), segment)?;
        self.marked[PAYLOAD_CUT] += i64::from(segment.marks & mark::PAYLOAD_CUT != 0);
        Ok((number, self.count(number, row.side(), segment, row.tsval)?))
    }

    #[inline(never)]
    fn add_unusual(
        &mut self,
        row: &Row,
        segment: &Segment,
        (syn, sack): (Option<&Syn>, &[SackBlock]),
    ) -> Result<(usize, bool), OutOfMemory> {
        let side = row.side();
        let number = self.connection_of(row.flow(), side, segment)?;
        self.note(number, side, segment);
        if let Some(syn) = syn {
            self.announce(number, side, syn);
        }
        if !sack.is_empty() {
            self.sides[number][side].announced.sack(sack, segment.ack);
        }
        Ok((number, self.count(number, side, segment, row.tsval)?))
    }

    fn note(&mut self, number: usize, side: usize, segment: &Segment) {
        if opens(segment) {
            self.beginnings[number].note_opening(side, segment);
            self.sides[number][side].note_opening(segment);
        }
        let mut marks = segment.marks & !mark::HAS_TIMESTAMPS;
        self.is_odd |= marks & mark::FRAGMENT != 0;
        while marks != 0 {
            self.marked[marks.trailing_zeros() as usize] += 1;
            marks &= marks - 1;
        }
    }

    /// Note the options of a SYN; an MSS that comes after larger segments was not heeded when they came.
    fn announce(&mut self, number: usize, side: usize, syn: &Syn) {
        let before = self.sides[number][side].announced.mss_bytes;
        let own = &mut self.sides[number][side];
        own.has_mptcp |= syn.mptcp;
        own.announced.syn(syn);
        let is_new = before == MISSING && own.announced.mss_bytes != MISSING;
        self.is_odd |= is_new && self.sides[number][side ^ 1].is_large;
    }

    /// Count a segment; return false if it is one that Python has to keep.
    #[inline(always)]
    fn count(
        &mut self,
        number: usize,
        side: usize,
        segment: &Segment,
        tsval: u32,
    ) -> Result<bool, OutOfMemory> {
        let Some([connection]) = self.connections[number].as_deref_mut() else { return Ok(false) };
        let sides = &mut self.sides[number];
        sides[side].note_options(segment, tsval)?;
        connection.add(side, segment)?;
        self.is_odd |= connection.is_odd;
        if segment.payload_bytes > ETHERNET_PAYLOAD_BYTES {
            sides[side].is_large = true;
            let accepted = match sides[side ^ 1].announced.mss_bytes {
                MISSING => JUMBO_PAYLOAD_BYTES,
                mss_bytes => mss_bytes,
            };
            self.giants += i64::from(segment.payload_bytes > accepted);
        }
        Ok(true)
    }

    /// Note a segment of the connection that a flow holds now, if it does; return the number of that.
    #[inline(always)]
    fn noted(&mut self, flow: usize, side: usize, segment: &Segment) -> Option<usize> {
        let current = self.current.get_mut(flow)?.as_mut()?;
        current.note(side, segment);
        Some(current.number)
    }

    /// Return the number of a segment's connection, which it may begin.
    #[inline(always)]
    fn connection_of(&mut self, flow: usize, side: usize, segment: &Segment) -> Result<usize, OutOfMemory> {
        let known = if opens(segment) { None } else { self.noted(flow, side, segment) };
        known.map_or_else(|| self.connection_opened(flow, side, segment), Ok)
    }

    #[cold]
    fn connection_opened(
        &mut self,
        flow: usize,
        side: usize,
        segment: &Segment,
    ) -> Result<usize, OutOfMemory> {
        if flow >= self.current.len() {
            self.current.try_reserve(flow + 1 - self.current.len())?;
            self.current.resize_with(flow + 1, || None);
        }
        let is_new = self.current[flow].as_ref().is_none_or(|current| current.is_over(side, segment));
        if is_new {
            self.begin(flow, side, segment)?;
        }
        Ok(self.noted(flow, side, segment).unwrap_or_default())
    }

    fn begin(&mut self, flow: usize, side: usize, segment: &Segment) -> Result<(), OutOfMemory> {
        let number = self.beginnings.len();
        self.connections.try_reserve(1)?;
        self.beginnings.try_reserve(1)?;
        self.sides.try_reserve(1)?;
        self.is_counted.try_reserve(1)?;
        let is_whole = opens(segment) && !segment.has(ACK) && segment.marks & mark::HEADER_CUT == 0;
        self.connections.push(if is_whole { Some(new_connection()?) } else { None });
        self.is_counted.push(is_whole);
        self.beginnings.push(Beginning::new(flow, side));
        self.sides.push(Default::default());
        self.current[flow] = Some(Current::new(number));
        Ok(())
    }

    pub fn is_kept(&self, connection: usize) -> bool {
        !self.is_counted[connection]
    }

    /// Return what was counted of each side; nothing of connections whose segments Python needs.
    pub fn finish(&mut self) -> Result<Vec<Summary>, OutOfMemory> {
        let mut summaries = Vec::new();
        summaries.try_reserve_exact(2 * self.connections.len())?;
        for connection in &mut self.connections {
            let [counted] = connection.take().map_or_else(Default::default, |counted| *counted);
            summaries.extend(counted.finish());
        }
        Ok(summaries)
    }
}
