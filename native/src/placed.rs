//! What Python calls to get where each segment of some connections lies; see `placing.rs`.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{Columns, outside};
use multitracer_core::placing::{Group, Items, Pass, Sides};

type Numbers<'py> = PyReadonlyArray1<'py, i64>;
/// Bounds, seq, flags, window and units.
type GroupColumns<'py> = (
    Numbers<'py>,
    PyReadonlyArray1<'py, u32>,
    PyReadonlyArray1<'py, u16>,
    PyReadonlyArray1<'py, u16>,
    PyReadonlyArray1<'py, i32>,
);
/// Position, bounds, value and highest.
type ItemColumns<'py> = (Numbers<'py>, Numbers<'py>, Numbers<'py>, Numbers<'py>);
/// Reference, reference_seq, origin, lowest, first_unit and shift.
type SideColumns<'py> =
    (Numbers<'py>, PyReadonlyArray1<'py, u32>, Numbers<'py>, Numbers<'py>, Numbers<'py>, Numbers<'py>);

fn items<'a>(columns: &'a ItemColumns<'_>) -> PyResult<Items<'a>> {
    let (position, bounds, value, highest) = columns;
    Ok(Items {
        position: position.as_slice()?,
        bounds: bounds.as_slice()?,
        value: value.as_slice()?,
        highest: highest.as_slice()?,
    })
}

/// Return columns of TCP_SEGMENTS by row, and `acked_0`, `acked_1` if `with_acked`; see `placed.py`.
#[pyfunction]
#[pyo3(signature = (group, pieces, acks, sides, order, *, missing, with_acked))]
#[allow(clippy::too_many_arguments)]
pub fn place_segments<'py>(
    py: Python<'py>,
    group: GroupColumns<'py>,
    pieces: ItemColumns<'py>,
    acks: ItemColumns<'py>,
    sides: SideColumns<'py>,
    order: Numbers<'py>,
    missing: i64,
    with_acked: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let pass = Pass {
        group: Group {
            bounds: group.0.as_slice()?,
            seq: group.1.as_slice()?,
            flags: group.2.as_slice()?,
            window: group.3.as_slice()?,
            units: group.4.as_slice()?,
        },
        pieces: items(&pieces)?,
        acks: items(&acks)?,
        sides: Sides {
            reference: sides.0.as_slice()?,
            reference_seq: sides.1.as_slice()?,
            origin: sides.2.as_slice()?,
            lowest: sides.3.as_slice()?,
            first_unit: sides.4.as_slice()?,
            shift: sides.5.as_slice()?,
        },
        order: order.as_slice()?,
        missing,
        with_acked,
    };
    let placed = outside(py, || pass.run())?;
    let columns = Columns(PyDict::new(py));
    columns.set("reverse", placed.is_reverse)?;
    for (name, column) in [
        ("seq_bytes", placed.seq),
        ("end_bytes", placed.end),
        ("ack_bytes", placed.ack),
        ("window_bytes", placed.window),
        ("flight_bytes", placed.flight),
    ] {
        columns.set(name, column)?;
    }
    let answer = columns.0;
    let [one, other] = placed.acked.map(|side| PyArray1::from_vec(py, side));
    if with_acked {
        answer.set_item("acked_0", one)?;
        answer.set_item("acked_1", other)?;
    }
    Ok(answer)
}
