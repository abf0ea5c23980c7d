//! What the times of packets show: the counterpart of `StampFacts` in `parsers/_capture/capture_file.py`.

/// `NOT_A_TIME` in Python.
const NOT_A_TIME: i64 = i64::MIN;

/// Of the known times; if there are none, only `known` and `last` mean something.
pub struct TimeFacts {
    pub known: usize,
    pub last: Option<i64>,
    pub steps_back: usize,
    pub largest_step_back_ns: i64,
    pub lowest_ns: i64,
    pub highest_ns: i64,
}

/// Return what times in ns show that follow `last`; one that steps back by `far_ns` or more does not.
pub fn facts(time_ns: &[i64], last: Option<i64>, far_ns: i64) -> TimeFacts {
    let mut facts = TimeFacts {
        known: 0,
        last,
        steps_back: 0,
        largest_step_back_ns: 0,
        lowest_ns: i64::MAX,
        highest_ns: i64::MIN,
    };
    for &now in time_ns.iter().filter(|&&now| now != NOT_A_TIME) {
        let back = facts.last.unwrap_or(now).wrapping_sub(now);
        if back > 0 && back < far_ns {
            facts.steps_back += 1;
            facts.largest_step_back_ns = facts.largest_step_back_ns.max(back);
        }
        facts.lowest_ns = facts.lowest_ns.min(now);
        facts.highest_ns = facts.highest_ns.max(now);
        facts.last = Some(now);
        facts.known += 1;
    }
    facts
}
