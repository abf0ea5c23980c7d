//! Segments that are not only counted: those of connections whose beginning was not captured, or all.

use crate::OutOfMemory;
use crate::block::Block;
use crate::pass::running::Running;
use crate::room::push;
use crate::segment_row::Syn;
use crate::segments::Part;

/// As in `parsers/_packets/columns.py`: what follows is rarely denser by more than this.
const MARGIN: f64 = 1.05;

/// Segments that Python has to keep.
#[derive(Default)]
pub struct Kept {
    /// Twice the number of the connection, + 1 if the flow's second end sent it; empty if all are kept.
    pub direction: Vec<i32>,
    pub time_ns: Vec<i64>,
    pub part: Part,
}

impl Kept {
    /// Count the segments of a block; return those that Python has to keep.
    pub fn of(block: &Block, running: &mut Running) -> Result<Option<Self>, OutOfMemory> {
        let kept = running.add(block)?;
        if kept.rows.is_empty() {
            return Ok(None);
        }
        let (part, time_ns) = block.picked(&kept.rows)?;
        Ok(Some(Self { direction: kept.direction, time_ns, part }))
    }

    /// Keep all segments of a block, too; `share` of the file has been read with it, from 0 to 1, if that is known.
    pub fn add(&mut self, block: &Block, share: Option<f64>) -> Result<(), OutOfMemory> {
        let (known, more) = (self.time_ns.len(), block.rows.len());
        if known + more > self.time_ns.capacity() {
            self.make_room(more, share)?;
        }
        for row in &block.rows {
            self.part.add_row(block.first_frame + i64::from(row.record), row);
            self.time_ns.push(row.time_ns);
        }
        for &(row, left, right) in &block.sack {
            push(&mut self.part.sack, (known as i64 + row, left, right))?;
        }
        for &syn in &block.syn {
            push(&mut self.part.syn, Syn { row: known as i64 + syn.row, ..syn })?;
        }
        Ok(())
    }

    /// Make room for so many more rows, and for those that the rest of the file lets expect: memory that is never
    /// written costs nothing.
    fn make_room(&mut self, more: usize, share: Option<f64>) -> Result<(), OutOfMemory> {
        let known = self.time_ns.len();
        let expected = share.map_or(0.0, |share| (known + more) as f64 / share * MARGIN) as usize;
        let ample = expected.max(2 * (known + more)) - known;
        self.reserve(ample).or_else(|OutOfMemory| self.reserve(more))
    }

    fn reserve(&mut self, more: usize) -> Result<(), OutOfMemory> {
        self.part.reserve(more)?;
        Ok(self.time_ns.try_reserve_exact(more)?)
    }
}
