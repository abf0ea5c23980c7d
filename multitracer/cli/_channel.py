"""A ray-traced radio on the command line: its numbers, its file, its figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from multitracer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    import plotly.graph_objects as go

    from multitracer.cli._reading import Reading
    from multitracer.figures.palette import ThemeName
    from multitracer.figures.power_figure import Transfer
    from multitracer.lab.scenario.channel import ReceivedPower
    from multitracer.tables import Array


def channel_facts(received: ReceivedPower) -> Iterator[tuple[str, str]]:
    """Yield what `testbed channel` prints."""
    power_dbm, step_ns = received.channel.power_dbm, received.channel.step_ns
    yield "received power", f"{power_dbm.min():.1f} to {power_dbm.max():.1f} dBm"
    yield "steps", f"{len(power_dbm):,} of {step_ns / 1e6:g} ms"
    fades = received.fades
    if fades is None:
        return
    yield "threshold", f"{received.threshold_dbm:g} dBm"
    yield "link down (T_d)", f"{100 * fades.down_share:.1f} %"
    yield "fades (N_f)", str(fades.number)
    yield "mean fade (T_f)", "-" if fades.mean_s is None else f"{fades.mean_s:.3f} s"


def plot_channel(reading: Reading, target: str, theme: ThemeName) -> None:
    """Draw a scenario's radio, a file of `testbed channel`, or a run over such a radio; print the path."""
    from multitracer.cli._output import check_output, replacing
    from multitracer.cli._plotting import write

    if len(reading.inputs) != 1:
        raise click.UsageError("--figure channel draws one scenario, file or session folder")
    (name,) = reading.inputs
    check_output(target, [name])
    title, figure = _figure(name, theme)
    with replacing(target) as temporary:
        write(figure, temporary, title=title, theme=theme, as_json=target.endswith(".json"))
    click.echo(target)


def _figure(name: str, theme: ThemeName) -> tuple[str, go.Figure]:
    from multitracer.figures.power_figure import power_figure
    from multitracer.lab.scenario.channel import power_of, read_power

    transfer = None
    if Path(name).is_dir():
        received, transfer = _session(Path(name))
    else:
        received = read_power(Path(name)) if name.endswith(".csv") else power_of(name)
    channel = received.channel
    figure = power_figure(
        received.name,
        channel.time_ns,
        channel.power_dbm,
        threshold_dbm=received.threshold_dbm,
        transfer=transfer,
        theme=theme,
    )
    return received.name, figure


def _session(folder: Path) -> tuple[ReceivedPower, Transfer]:
    """Return the radio of a run in virtual time, and its transfer on the radio's axis of time."""
    from multitracer.api.session import open as open_session
    from multitracer.lab.scenario.channel import power_of, repeated
    from multitracer.lab.scenario.session_folder import run_ns
    from multitracer.manifest import read_manifest

    manifest, scenario = read_manifest(folder), folder / "scenario.toml"
    if (
        manifest is None
        or manifest.created_ns is None
        or not manifest.variables.virtual
        or not scenario.is_file()
    ):
        raise InputError(
            f"{folder}: holds no run in virtual time; "
            "--figure channel draws a scenario, a file of `testbed channel`, or such a run"
        )
    received = repeated(power_of(str(scenario), seed=manifest.variables.seed), run_ns(folder))
    series = open_session(str(folder)).series()
    return received._replace(name=manifest.name), _transfer(series, manifest.created_ns)


def _transfer(series: dict[str, pd.DataFrame], origin_ns: int) -> Transfer:
    import numpy as np

    from multitracer.figures.power_figure import Transfer

    def columns(label: str) -> tuple[Array, Array]:
        frame = series.get(label)
        if frame is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        time_ns = frame["time_ns"].to_numpy(dtype="datetime64[ns]").astype(np.int64)
        return time_ns - origin_ns, frame["value"].to_numpy(dtype=np.int64)

    return Transfer(*columns("TcpSnd_data"), *columns("TcpRcv_data"), *columns("TcpSnd_cwnd"))
