//! What times and timestamps show, also at the ends of what 64 bits hold.

use multitracer_core::times::{calm, disagreements, facts};

const DAY_NS: i64 = 86_400_000_000_000;

#[test]
fn steps_back_are_counted_and_leaps_are_not() {
    let seen = facts(&[10, 7, i64::MIN, 9, 9 - 2 * DAY_NS], Some(12), DAY_NS);
    assert_eq!((seen.known, seen.last), (4, Some(9 - 2 * DAY_NS)));
    assert_eq!((seen.steps_back, seen.largest_step_back_ns), (2, 3));
    assert_eq!((seen.lowest_ns, seen.highest_ns), (9 - 2 * DAY_NS, 10));
}

#[test]
fn without_a_known_time_the_last_one_stays() {
    let seen = facts(&[i64::MIN], Some(5), DAY_NS);
    assert_eq!((seen.known, seen.last, seen.steps_back), (0, Some(5), 0));
}

#[test]
fn times_and_ticks_disagree_where_the_clock_steps() {
    let pauses = [(1_000, 1), (8_000, 1), (i64::MAX - 9_000, 1), (1, -1)];
    assert_eq!(calm(pauses.into_iter(), 5_000), (2, 1_001, 0));
    let seen = disagreements(pauses.into_iter(), 1_000.0, 5_000.0, 0.01, 0.0);
    assert_eq!(seen.ok(), Some(vec![1, 2]));
}
