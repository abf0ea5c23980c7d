//! Room in memory that is reserved before it is used: where there is none, Python gets a MemoryError.

use crate::OutOfMemory;

pub fn with_room<T>(count: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut room = Vec::new();
    room.try_reserve_exact(count)?;
    Ok(room)
}

#[inline(always)]
pub fn push<T>(column: &mut Vec<T>, value: T) -> Result<(), OutOfMemory> {
    if column.len() == column.capacity() {
        make_room(column)?;
    }
    column.push(value);
    Ok(())
}

#[cold]
fn make_room<T>(column: &mut Vec<T>) -> Result<(), OutOfMemory> {
    Ok(column.try_reserve(1)?)
}
