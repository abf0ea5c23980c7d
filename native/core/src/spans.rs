//! Columns as stretches: the least of each, and who covers a cell first.

use crate::OutOfMemory;
use crate::room::with_room;

fn filled<T: Clone>(count: usize, value: T) -> Result<Vec<T>, OutOfMemory> {
    let mut column = with_room(count)?;
    column.resize(count, value);
    Ok(column)
}

/// Return whether both ends of the stretches ascend, and each holds a value of so many.
fn is_in_order(low: &[i64], high: &[i64], count: usize) -> bool {
    let holds = |(&low, &high): (&i64, &i64)| 0 <= low && low < high && high as u64 <= count as u64;
    low.len() == high.len() && low.is_sorted() && high.is_sorted() && low.iter().zip(high).all(holds)
}

/// Return the least value of each stretch; None if they are not in order.
///
/// Of the values seen only those are kept that are less than all behind them, from `first` on.
pub fn least(values: &[i64], low: &[i64], high: &[i64]) -> Result<Option<Vec<i64>>, OutOfMemory> {
    if values.len() >= u32::MAX as usize || !is_in_order(low, high, values.len()) {
        return Ok(None);
    }
    let (mut found, mut kept) = (with_room(low.len())?, with_room::<u32>(values.len())?);
    let (mut first, mut seen) = (0, 0);
    for (&low, &high) in low.iter().zip(high) {
        seen = seen.max(low as usize);
        for at in seen..high as usize {
            while kept.len() > first && values[kept[kept.len() - 1] as usize] >= values[at] {
                kept.pop();
            }
            kept.push(at as u32);
        }
        seen = seen.max(high as usize);
        while (kept[first] as i64) < low {
            first += 1;
        }
        found.push(values[kept[first] as usize]);
    }
    Ok(Some(found))
}

/// Return the first cell from one on that nobody covers; `next` has one that is not before it.
fn free(next: &mut [u32], cell: usize) -> usize {
    let mut cell = cell;
    while next[cell] as usize != cell {
        next[cell] = next[next[cell] as usize];
        cell = next[cell] as usize;
    }
    cell
}

/// Return the first painter of each cell, or their number; None if one covers what is no cell.
pub fn painted(left: &[i64], right: &[i64], cells: usize) -> Result<Option<Vec<i64>>, OutOfMemory> {
    let covers = |(&left, &right): (&i64, &i64)| 0 <= left && left < right && right as u64 <= cells as u64;
    if left.len() != right.len() || cells >= u32::MAX as usize || !left.iter().zip(right).all(covers) {
        return Ok(None);
    }
    let (mut owner, mut next) = (filled(cells, left.len() as i64)?, with_room(cells + 1)?);
    next.extend(0..=cells as u32);
    for (painter, (&left, &right)) in left.iter().zip(right).enumerate() {
        let mut cell = free(&mut next, left as usize);
        while cell < right as usize {
            owner[cell] = painter as i64;
            next[cell] = cell as u32 + 1;
            cell = free(&mut next, cell + 1);
        }
    }
    Ok(Some(owner))
}
