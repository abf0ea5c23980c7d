//! What the times of packets show: the counterpart of `StampFacts` in `parsers/_capture/capture_file.py`, and,
//! beside TCP timestamps, of `analysis/trust.py`.

use crate::OutOfMemory;

/// `NOT_A_TIME` in Python.
const NOT_A_TIME: i64 = i64::MIN;
/// Smallest grain that is told apart, in ns; a finer one is 1: `SMALLEST_GRAIN_NS` in Python.
const SMALLEST_GRAIN_NS: u64 = 1_000_000;

/// Of the known times; if there are none, only `known` and `last` mean something.
pub struct TimeFacts {
    pub known: usize,
    pub last: Option<i64>,
    pub steps_back: usize,
    pub largest_step_back_ns: i64,
    /// How many have the time of the one before.
    pub repeats: usize,
    /// Greatest common divisor of the steps and of the grain before; 1 if it is below a millisecond.
    pub grain_ns: u64,
    pub lowest_ns: i64,
    pub highest_ns: i64,
}

/// Return what times in ns show that follow `last`; one that steps back by `far_ns` or more does not.
///
/// `grain_ns` is the grain of the times up to `last`; 0 if none differ.
pub fn facts(time_ns: &[i64], last: Option<i64>, far_ns: i64, grain_ns: u64) -> TimeFacts {
    let mut facts = TimeFacts {
        known: 0,
        last,
        steps_back: 0,
        largest_step_back_ns: 0,
        repeats: 0,
        grain_ns,
        lowest_ns: i64::MAX,
        highest_ns: i64::MIN,
    };
    for &now in time_ns.iter().filter(|&&now| now != NOT_A_TIME) {
        let back = facts.last.unwrap_or(now).wrapping_sub(now);
        if back > 0 && back < far_ns {
            facts.steps_back += 1;
            facts.largest_step_back_ns = facts.largest_step_back_ns.max(back);
        }
        if facts.last == Some(now) {
            facts.repeats += 1;
        } else if facts.grain_ns != 1 && facts.last.is_some() {
            let divisor = greatest_common_divisor(facts.grain_ns, back.unsigned_abs());
            facts.grain_ns = if divisor < SMALLEST_GRAIN_NS { 1 } else { divisor };
        }
        facts.lowest_ns = facts.lowest_ns.min(now);
        facts.highest_ns = facts.highest_ns.max(now);
        facts.last = Some(now);
        facts.known += 1;
    }
    facts
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// How much time in ns passed between two neighbours, and how many ticks.
pub type Pause = (i64, i64);

/// Return of the pauses of less than `short_ns` how many there are, and the sums of time and ticks.
pub fn calm(pauses: impl Iterator<Item = Pause>, short_ns: i64) -> (usize, i64, i64) {
    let short = pauses.filter(|(elapsed, _)| elapsed.wrapping_abs() < short_ns);
    short.fold((0, 0, 0), |(calm, spent, ticked): (usize, i64, i64), (elapsed, ticks)| {
        (calm + 1, spent.wrapping_add(elapsed), ticked.wrapping_add(ticks))
    })
}

/// Return behind which segments the time differs from the ticks: by more than `least_ns`, a share `skew` of what
/// the ticks say, and `resolution_ns`.
pub fn disagreements(
    pauses: impl Iterator<Item = Pause>,
    tick_ns: f64,
    least_ns: f64,
    skew: f64,
    resolution_ns: f64,
) -> Result<Vec<i64>, OutOfMemory> {
    let mut at = Vec::new();
    for (place, (elapsed, ticks)) in pauses.enumerate() {
        let expected = ticks as f64 * tick_ns;
        let bound = least_ns + skew * expected.abs() + resolution_ns;
        if (elapsed as f64 - expected).abs() > bound && ticks >= 0 {
            at.try_reserve(1)?;
            at.push(place as i64);
        }
    }
    Ok(at)
}
