//! Where values belong in a sorted column, if they are about in order themselves: times, bytes, rows.

use crate::OutOfMemory;

/// Steps of one that are tried before they double: most values belong right behind the last one.
const NEAR: usize = 8;

/// Return how many of the first values `counts` holds for: it holds for a value only if it does for all before.
///
/// It is looked for from `near` on, where it is at least; by steps that double after the first ones.
fn count(ordered: &[i64], near: usize, counts: impl Fn(i64) -> bool) -> usize {
    let few = (near + NEAR).min(ordered.len());
    if let Some(steps) = ordered[near..few].iter().position(|&value| !counts(value)) {
        return near + steps;
    }
    let (mut low, mut high, mut step) = (few, few, NEAR);
    while high < ordered.len() && counts(ordered[high]) {
        low = high + 1;
        high = (high + step).min(ordered.len());
        step *= 2;
    }
    low + ordered[low..high].partition_point(|&value| counts(value))
}

/// Values of which more than one in so many is less than the one before are not in order. Not measured.
const SELDOM: usize = 8;

pub fn found(ordered: &[i64], values: &[i64], right: bool) -> Result<Option<Vec<i64>>, OutOfMemory> {
    let falls = values.windows(2).filter(|pair| pair[1] < pair[0]).count();
    if falls > values.len() / SELDOM || !ordered.is_sorted() {
        return Ok(None);
    }
    let (mut places, mut near, mut last) = (Vec::new(), 0, i64::MIN);
    places.try_reserve_exact(values.len())?;
    for &sought in values {
        let counts = |value| if right { value <= sought } else { value < sought };
        near = match sought < last {
            true => ordered.partition_point(|&value| counts(value)),
            false => count(ordered, near, counts),
        };
        last = sought;
        places.push(near as i64);
    }
    Ok(Some(places))
}
