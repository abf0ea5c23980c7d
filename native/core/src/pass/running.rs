//! The one pass that counts: over a capture that comes piece by piece, or over columns of some connections.
//!
//! Nothing is kept of a segment that was counted, but what may be asked for in the end: times and timestamps.
//! Of a connection whose SYN was not captured whole, or not first, Python needs the segments, too: they are named.
//! Where Python knows the connections it has all segments, and nothing is kept here.

use std::ops::Range;

use crate::OutOfMemory;
use crate::block::Block;
use crate::mark;
use crate::pass::beginning::{Beginning, Current, opens};
use crate::pass::connection::{Connection, Summary};
use crate::pass::direction::Segment;
use crate::pass::sack_run::SackRun;
use crate::pass::source::Source;
use crate::pass::stamps::Stamps;
use crate::room::{push, with_room};
use crate::segment_row::{SackBlock, Syn};
use crate::tcp::{ACK, FIN, RST, SYN};

/// In an option that was not there: `NA` in Python.
pub const MISSING: i32 = -1;
/// Payload beyond which a segment may be larger than its receiver accepts, and is if that says nothing: see
/// `ETHERNET_PAYLOAD_BYTES` and `JUMBO_PAYLOAD_BYTES` in `analysis/trust.py`.
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
    dsack_segments: i64,
    run: SackRun,
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
            run: SackRun::default(),
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
        if let Some(&first) = blocks.first().filter(|block| is_below(block.1, ack)) {
            self.run.below(first, ack);
        }
    }

    /// How many segments have a D-SACK.
    pub fn dsack_segments(&self) -> i64 {
        if self.run.is_untranslated { 0 } else { self.dsack_segments }
    }
}

fn is_below(one: u32, two: u32) -> bool {
    (one.wrapping_sub(two) as i32) < 0
}

/// Whether the first block of a segment is a D-SACK: it begins below the cumulative ACK, or lies within the
/// block that follows (RFC 2883, section 4).
fn is_dsack(blocks: &[SackBlock], ack: u32) -> bool {
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
    /// How many of its segments have timestamps.
    pub stamped: i64,
    pub has_stamped_syn: bool,
    pub has_mptcp: bool,
    pub has_syn: bool,
    pub has_answer: bool,
    /// Those of segments that Python keeps.
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
    fn note_options<const KEEPS: bool>(&mut self, segment: &Segment, tsval: u32) -> Result<(), OutOfMemory> {
        self.has_mptcp |= segment.marks & mark::MPTCP != 0;
        if segment.marks & mark::HAS_TIMESTAMPS != 0 {
            self.has_stamped_syn |= segment.has(SYN);
            self.stamped += 1;
            if KEEPS {
                self.stamps.add(segment.time_ns, tsval)?;
            }
        }
        Ok(())
    }
}

/// A segment on its way into the pass.
pub struct Coming {
    /// See `Flows::directed`; of known connections twice the number among these.
    pub flow: i32,
    pub tsval: u32,
    pub segment: Segment,
}

impl Coming {
    #[inline(always)]
    fn flow(&self) -> usize {
        (self.flow >> 1) as usize
    }

    #[inline(always)]
    fn side(&self) -> usize {
        (self.flow & 1) as usize
    }
}

/// The connections so far; row c of each is of connection c.
#[derive(Default)]
pub struct Running {
    /// Those of them that are counted, if they are known; row 0 is of the first one then.
    known: Option<Range<usize>>,
    /// By the number of the flow, where they are not.
    current: Vec<Option<Current>>,
    /// So many together: nobody moves them when there are more.
    connections: Vec<Vec<Connection>>,
    /// Whether they begin with a whole SYN; Python keeps the segments of the others.
    pub is_whole: Vec<bool>,
    pub beginnings: Vec<Beginning>,
    pub sides: Vec<[Side; 2]>,
    /// Something only all segments tell.
    pub is_odd: bool,
    pub segments: usize,
    /// How many segments have each bit of their marks, except `HAS_TIMESTAMPS`.
    pub marked: [i64; 16],
    /// Counted segments that are larger than their receiver accepts.
    pub oversized: i64,
}

/// A kilobyte each. Not measured.
const TOGETHER: usize = 16;

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
    fn of(syn: &'a [Syn], sack: &'a [SackBlock]) -> Self {
        let mut options = Self { syn, sack, next: 0 };
        options.look();
        options
    }

    fn look(&mut self) {
        let rows = [self.syn.first().map(|syn| syn.row), self.sack.first().map(|block| block.0)];
        self.next = rows.into_iter().flatten().min().map_or(usize::MAX, |row| row as usize);
    }

    /// Take those of a row; those of rows before it are nobody's.
    fn of_row(&mut self, row: usize) -> (Option<&'a Syn>, &'a [SackBlock]) {
        if row > self.next {
            self.syn = &self.syn[self.syn.partition_point(|syn| syn.row < row as i64)..];
            self.sack = &self.sack[self.sack.partition_point(|block| block.0 < row as i64)..];
            self.look();
        }
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
    /// Return what counts these connections, whose segments Python has.
    pub fn of(known: Range<usize>) -> Result<Self, OutOfMemory> {
        let mut running = Self { known: Some(known.clone()), ..Self::default() };
        known.into_iter().try_for_each(|number| running.begin(number, 0, true))?;
        Ok(running)
    }

    /// Take in the next segments.
    pub fn add(&mut self, block: &Block) -> Result<Kept, OutOfMemory> {
        let (mut kept, mut options) = (Kept::default(), Options::of(&block.syn, &block.sack));
        for (place, row) in block.rows.iter().enumerate() {
            let coming = Coming { flow: row.flow, tsval: row.tsval, segment: row.segment() };
            self.add_one::<true>(place, &coming, &mut options, &mut kept)?;
        }
        self.segments += block.rows.len();
        Ok(kept)
    }

    /// Take in the next segments, from row `begin` on: of the known connections, or all.
    pub fn add_rows(
        &mut self,
        source: &Source,
        begin: usize,
        syn: &[Syn],
        sack: &[SackBlock],
    ) -> Result<Kept, OutOfMemory> {
        let (mut kept, mut options) = (Kept::default(), Options::of(syn, sack));
        let (directions, known) = (source.rows.direction, self.known.clone());
        for (row, &direction) in directions.iter().enumerate().skip(begin) {
            if let Some(known) = &known {
                let number = ((direction >> 1) as usize).wrapping_sub(known.start);
                if number < known.len() {
                    let flow = (number << 1) as i32 | direction & 1;
                    let coming = Coming { flow, tsval: 0, segment: source.rows.segment(row) };
                    self.add_one::<false>(row, &coming, &mut options, &mut kept)?;
                }
            } else {
                let (tsval, segment) = (source.tsval[row], source.rows.segment(row));
                let coming = Coming { flow: direction, tsval, segment };
                self.add_one::<true>(row, &coming, &mut options, &mut kept)?;
            }
        }
        self.segments += directions.len() - begin.min(directions.len());
        Ok(kept)
    }

    /// Take in a segment.
    #[inline(always)]
    fn add_one<const KEEPS: bool>(
        &mut self,
        place: usize,
        coming: &Coming,
        options: &mut Options,
        kept: &mut Kept,
    ) -> Result<(), OutOfMemory> {
        let segment = coming.segment;
        let number = if segment.is_usual() && place < options.next {
            // the compiler knows these bits then, and leaves out what looks at the others
            let (flags, marks) = (segment.flags & !UNUSUAL_FLAGS, segment.marks & USUAL_MARKS);
            self.add_usual::<KEEPS>(coming, &Segment { flags, marks, ..segment })?
        } else {
            self.add_unusual::<KEEPS>(coming, options.of_row(place))?
        };
        if KEEPS && !self.is_whole[number] {
            self.sides[number][coming.side()].payload_bytes += i64::from(segment.payload_bytes);
            push(&mut kept.rows, place)?;
            push(&mut kept.direction, (2 * number + coming.side()) as i32)?;
        }
        Ok(())
    }

    /// Count a segment of which nothing is rare; return the number of its connection.
    #[inline(always)]
    fn add_usual<const KEEPS: bool>(
        &mut self,
        coming: &Coming,
        segment: &Segment,
    ) -> Result<usize, OutOfMemory> {
        let number = self.connection_of::<KEEPS>(coming.flow(), coming.side(), segment)?;
        if KEEPS {
            self.marked[PAYLOAD_CUT] += i64::from(segment.marks & mark::PAYLOAD_CUT != 0);
        }
        self.count::<KEEPS>(number, coming.side(), segment, coming.tsval)?;
        Ok(number)
    }

    #[inline(never)]
    fn add_unusual<const KEEPS: bool>(
        &mut self,
        coming: &Coming,
        (syn, sack): (Option<&Syn>, &[SackBlock]),
    ) -> Result<usize, OutOfMemory> {
        let (side, segment) = (coming.side(), &coming.segment);
        let number = self.connection_of::<KEEPS>(coming.flow(), side, segment)?;
        self.note(number, side, segment);
        if let Some(syn) = syn {
            self.announce(number, side, syn);
        }
        if !sack.is_empty() {
            self.sides[number][side].announced.sack(sack, segment.ack);
        }
        self.count::<KEEPS>(number, side, segment, coming.tsval)?;
        Ok(number)
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

    /// Count a segment.
    #[inline(always)]
    fn count<const KEEPS: bool>(
        &mut self,
        number: usize,
        side: usize,
        segment: &Segment,
        tsval: u32,
    ) -> Result<(), OutOfMemory> {
        let connection = &mut self.connections[number / TOGETHER][number % TOGETHER];
        let sides = &mut self.sides[number];
        sides[side].note_options::<KEEPS>(segment, tsval)?;
        connection.add(side, segment)?;
        if KEEPS && self.is_whole[number] {
            self.is_odd |= connection.is_odd;
            if segment.payload_bytes > ETHERNET_PAYLOAD_BYTES {
                self.note_large(number, side, segment.payload_bytes);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn note_large(&mut self, number: usize, side: usize, payload_bytes: i32) {
        let sides = &mut self.sides[number];
        sides[side].is_large = true;
        let accepted = match sides[side ^ 1].announced.mss_bytes {
            MISSING => JUMBO_PAYLOAD_BYTES,
            mss_bytes => mss_bytes,
        };
        self.oversized += i64::from(payload_bytes > accepted);
    }

    /// Note a segment of the connection that a flow holds now, if it does; return the number of that.
    #[inline(always)]
    fn noted(&mut self, flow: usize, side: usize, segment: &Segment) -> Option<usize> {
        let current = self.current.get_mut(flow)?.as_mut()?;
        current.note(side, segment);
        Some(current.number)
    }

    /// Return the number of a segment's connection, which it may begin, or among those that are known.
    #[inline(always)]
    fn connection_of<const KEEPS: bool>(
        &mut self,
        flow: usize,
        side: usize,
        segment: &Segment,
    ) -> Result<usize, OutOfMemory> {
        if !KEEPS {
            return Ok(flow);
        }
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
            self.current[flow] = Some(Current::new(self.beginnings.len()));
            let is_whole = opens(segment) && !segment.has(ACK) && segment.marks & mark::HEADER_CUT == 0;
            self.begin(flow, side, is_whole)?;
        }
        Ok(self.noted(flow, side, segment).unwrap_or_default())
    }

    fn begin(&mut self, flow: usize, side: usize, is_whole: bool) -> Result<(), OutOfMemory> {
        if self.beginnings.len() == TOGETHER * self.connections.len() {
            push(&mut self.connections, with_room(TOGETHER)?)?;
        }
        self.connections.last_mut().into_iter().for_each(|last| last.push(Connection::default()));
        push(&mut self.is_whole, is_whole)?;
        push(&mut self.beginnings, Beginning::new(flow, side))?;
        push(&mut self.sides, Default::default())
    }

    /// Return what was counted of each side.
    pub fn finish(&mut self) -> Result<Vec<Summary>, OutOfMemory> {
        let mut summaries = Vec::new();
        summaries.try_reserve_exact(2 * self.beginnings.len())?;
        let connections = std::mem::take(&mut self.connections).into_iter().flatten();
        summaries.extend(connections.flat_map(Connection::finish));
        Ok(summaries)
    }
}
