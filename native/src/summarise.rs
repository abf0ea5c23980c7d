//! What was counted, as columns.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::Columns;
use multitracer_core::pass::connection::Summary;
use multitracer_core::pass::deliveries::Delivered;
use multitracer_core::pass::direction::Counts;

type Number = fn(&Counts) -> i64;
type RoundTrips = fn(&Summary) -> i64;

/// By the names of `DIRECTIONS`, where these columns are there.
const COUNTS: [(&str, Number); 30] = [
    ("packets", |c| c.packets),
    ("payload_bytes", |c| c.payload_bytes),
    ("data_segments", |c| c.data_segments),
    ("syn", |c| c.syn),
    ("fin", |c| c.fin),
    ("rst", |c| c.rst),
    ("whole_syn", |c| c.whole_syn),
    ("first_ns", |c| c.first_ns),
    ("last_ns", |c| c.last_ns),
    ("first_payload_ns", |c| c.first_payload_ns),
    ("last_payload_ns", |c| c.last_payload_ns),
    ("unique_bytes", |c| c.payload_bytes - c.old_payload),
    ("retransmitted_segments", |c| c.retransmitted_segments),
    ("retransmitted_bytes", |c| c.retransmitted_bytes),
    ("partial_retransmissions", |c| c.partial_retransmissions),
    ("out_of_order", |c| c.out_of_order),
    ("capture_duplicates", |c| c.capture_duplicates),
    ("keep_alives", |c| c.keep_alives),
    ("zero_window_probes", |c| c.zero_window_probes),
    ("zero_window_segments", |c| c.zero_window_segments),
    ("duplicate_acks", |c| c.duplicate_acks),
    ("triple_duplicate_acks", |c| c.triple_duplicate_acks),
    ("window_updates", |c| c.window_updates),
    ("max_flight_bytes", |c| c.max_flight_bytes),
    ("max_window_syn", |c| c.max_window_syn),
    ("max_window", |c| c.max_window),
    ("missing_bytes", |c| c.missing_bytes),
    ("acks_of_unseen", |c| c.acks_of_unseen),
    ("acks_before_data", |c| c.acks_before_data),
    ("beginning_acknowledged", |c| i64::from(c.beginning_acknowledged)),
];
/// Also by the names of `DIRECTIONS`.
const ROUND_TRIPS: [(&str, RoundTrips); 4] = [
    ("rtt_count", |s| s.rtt_count),
    ("negative_rtts", |s| s.negative_rtts),
    ("rtt_min_ns", |s| s.rtt_min_ns),
    ("rtt_max_ns", |s| s.rtt_max_ns),
];
const RTT_NS: [&str; 3] = ["rtt_mean_ns", "rtt_p50_ns", "rtt_p95_ns"];

/// Return what was counted of each direction as columns of int64, RTTs of float64.
///
/// Where `is_known` is 0 the values mean nothing: the connection is for Python. `acknowledged_*` and `arrived_*` are
/// the first and the last moment at which payload did so, and how much did after the first.
pub fn columns<'py>(py: Python<'py>, summaries: &[Summary]) -> PyResult<Bound<'py, PyDict>> {
    let columns = Columns(PyDict::new(py));
    for (name, value) in COUNTS {
        columns.of(name, summaries, |s| value(&s.counts))?;
    }
    for (name, value) in ROUND_TRIPS {
        columns.of(name, summaries, value)?;
    }
    for (place, name) in RTT_NS.into_iter().enumerate() {
        columns.of(name, summaries, |s| s.rtt_ns[place])?;
    }
    columns.of("acks", summaries, |s| s.acks as i64)?;
    columns.of("is_known", summaries, |s| i64::from(s.is_known))?;
    moments(&columns, "acknowledged", summaries, |s| s.acknowledged.as_ref())?;
    moments(&columns, "arrived", summaries, |s| s.arrived.as_ref())?;
    Ok(columns.0)
}

/// Add the columns of two moments; the bytes are -1 where there is none.
fn moments(
    columns: &Columns<'_>,
    name: &str,
    summaries: &[Summary],
    of: fn(&Summary) -> Option<&Delivered>,
) -> PyResult<()> {
    columns.of(&format!("{name}_first_ns"), summaries, |s| of(s).map_or(0, |d| d.first_ns))?;
    columns.of(&format!("{name}_last_ns"), summaries, |s| of(s).map_or(0, |d| d.last_ns))?;
    columns.of(&format!("{name}_bytes"), summaries, |s| of(s).map_or(-1, |d| d.bytes))
}
