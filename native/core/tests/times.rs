//! What times and timestamps show, also at the ends of what 64 bits hold.

use multitracer_core::times::{calm, disagreements, facts};

const DAY_NS: i64 = 86_400_000_000_000;

#[test]
fn steps_back_are_counted_and_leaps_are_not() {
    let seen = facts(&[10, 7, i64::MIN, 9, 9 - 2 * DAY_NS], Some(12), DAY_NS, 0);
    assert_eq!((seen.known, seen.last), (4, Some(9 - 2 * DAY_NS)));
    assert_eq!((seen.steps_back, seen.largest_step_back_ns), (2, 3));
    assert_eq!((seen.lowest_ns, seen.highest_ns), (9 - 2 * DAY_NS, 10));
}

#[test]
fn without_a_known_time_the_last_one_stays() {
    let seen = facts(&[i64::MIN], Some(5), DAY_NS, 0);
    assert_eq!((seen.known, seen.last, seen.steps_back), (0, Some(5), 0));
}

#[test]
fn equal_times_and_the_grain_of_others_are_told() {
    const MS: i64 = 1_000_000;
    let seen = facts(&[0, 0, 40 * MS, i64::MIN, 40 * MS, 10 * MS], None, DAY_NS, 0);
    assert_eq!((seen.repeats, seen.grain_ns), (2, 10 * MS as u64));
    let seen = facts(&[15 * MS], seen.last, DAY_NS, seen.grain_ns);
    assert_eq!((seen.repeats, seen.grain_ns), (0, 5 * MS as u64));
    assert_eq!(facts(&[15 * MS + 1], seen.last, DAY_NS, seen.grain_ns).grain_ns, 1);
    assert_eq!(facts(&[i64::MAX, i64::MIN + 1], None, DAY_NS, 0).grain_ns, 1);
    assert_eq!(facts(&[7, 7], Some(7), DAY_NS, 0).grain_ns, 0);
}

#[test]
fn times_and_ticks_disagree_where_the_clock_steps() {
    let pauses = [(1_000, 1), (8_000, 1), (i64::MAX - 9_000, 1), (1, -1)];
    assert_eq!(calm(pauses.into_iter(), 5_000), (2, 1_001, 0));
    let seen = disagreements(pauses.into_iter(), 1_000.0, 5_000.0, 0.01, 0.0);
    assert_eq!(seen.ok(), Some(vec![1, 2]));
}
