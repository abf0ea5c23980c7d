//! The pass over a capture that comes piece by piece: nothing is kept of a segment that was counted.
//!
//! Of a connection whose SYN was not captured whole, or not first, Python needs the segments: they are named
//! and not counted here.

use crate::OutOfMemory;
use crate::mark;
use crate::pass::beginning::{Beginning, Current, opens};
use crate::pass::connection::{Connection, Rows, Summary};
use crate::pass::direction::Segment;
use crate::pass::stamps::Stamps;
use crate::tcp::{ACK, SYN};

/// What is known of one side of a flow in a connection, beside what the pass counts.
#[derive(Default)]
pub struct Side {
    pub stamps: Stamps,
    pub has_stamped_syn: bool,
    pub has_mptcp: bool,
    pub has_syn: bool,
    pub has_answer: bool,
    pub payload_bytes: i64,
}

impl Side {
    #[inline]
    fn note(&mut self, segment: &Segment) {
        self.has_answer |= opens(segment) && segment.has(ACK);
        self.has_syn |= opens(segment) && !segment.has(ACK);
        self.payload_bytes += i64::from(segment.payload_bytes);
    }

    #[inline]
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
    connections: Vec<Option<Box<Connection>>>,
    pub beginnings: Vec<Beginning>,
    pub sides: Vec<[Side; 2]>,
    /// A connection holds what only all of its segments tell.
    pub is_odd: bool,
}

/// Of some segments: twice the number of the connection, + 1 if the flow's second end sent it; which are kept.
pub struct Placed {
    pub direction: Vec<i32>,
    pub kept: Vec<i64>,
}

impl Running {
    /// Take in the next segments; the column `direction` of `rows` is that of the directed flow.
    pub fn add(&mut self, rows: &Rows, tsval: &[u32]) -> Result<Placed, OutOfMemory> {
        let mut placed = Placed { direction: Vec::new(), kept: Vec::new() };
        placed.direction.try_reserve_exact(rows.direction.len())?;
        for (row, &flow) in rows.direction.iter().enumerate() {
            let (flow, side, segment) = ((flow >> 1) as usize, (flow & 1) as usize, rows.segment(row));
            let number = self.connection_of(flow, side, &segment)?;
            self.beginnings[number].note(side, &segment);
            let own = &mut self.sides[number][side];
            own.note(&segment);
            placed.direction.push((2 * number + side) as i32);
            match &mut self.connections[number] {
                Some(connection) => {
                    own.note_options(&segment, tsval[row])?;
                    connection.add(side, &segment)?;
                    self.is_odd |= connection.is_odd;
                }
                None => {
                    placed.kept.try_reserve(1)?;
                    placed.kept.push(row as i64);
                }
            }
        }
        Ok(placed)
    }

    /// Return the number of a segment's connection, which it may begin.
    #[inline]
    fn connection_of(&mut self, flow: usize, side: usize, segment: &Segment) -> Result<usize, OutOfMemory> {
        if flow >= self.current.len() {
            self.current.try_reserve(flow + 1 - self.current.len())?;
            self.current.resize_with(flow + 1, || None);
        }
        let is_new = self.current[flow].as_ref().is_none_or(|current| current.is_over(side, segment));
        if is_new {
            self.begin(flow, side, segment)?;
        }
        let current = self.current[flow].get_or_insert_with(|| Current::new(0));
        current.note(side, segment);
        Ok(current.number)
    }

    fn begin(&mut self, flow: usize, side: usize, segment: &Segment) -> Result<(), OutOfMemory> {
        let number = self.beginnings.len();
        self.connections.try_reserve(1)?;
        self.beginnings.try_reserve(1)?;
        self.sides.try_reserve(1)?;
        let is_whole = opens(segment) && !segment.has(ACK) && segment.marks & mark::HEADER_CUT == 0;
        self.connections.push(is_whole.then(Box::default));
        self.beginnings.push(Beginning::new(flow, side));
        self.sides.push(Default::default());
        self.current[flow] = Some(Current::new(number));
        Ok(())
    }

    pub fn is_kept(&self, connection: usize) -> bool {
        self.connections[connection].is_none()
    }

    /// Return what was counted of each side; nothing of connections whose segments Python needs.
    pub fn finish(&mut self) -> Result<Vec<Summary>, OutOfMemory> {
        let mut summaries = Vec::new();
        summaries.try_reserve_exact(2 * self.connections.len())?;
        for connection in &mut self.connections {
            summaries.extend(connection.take().map(|counted| *counted).unwrap_or_default().finish());
        }
        Ok(summaries)
    }
}
