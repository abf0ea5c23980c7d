"""`multitracer capture`: record a session with every collector that works here."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from multitracer.cli._options import FiniteRange, common_options, examples
from multitracer.errors import InputError
from multitracer.manifest import Role

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from multitracer.lab.rehearsal.session import RehearsedDrive
    from multitracer.recorder.folder import SessionFolder
    from multitracer.recorder.supervisor import StatusView
    from multitracer.tables import Document


@click.command(
    "capture",
    epilog=examples(
        "multitracer capture -o drive",
        "multitracer capture -o drive --role mobile -i wwan0 --clap fixed.example:9009",
        "multitracer capture -o drive --phone any",
        "multitracer capture -o upload --duration 60 -- curl -T big.bin http://192.0.2.1/",
        "multitracer capture -o first --rehearse --duration 30",
    ),
)
@click.option(
    "-o", "--output", "folder", required=True, metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path), help="Session folder to create; must be new or empty.",
)  # fmt: skip
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    help="Role of this machine in the measurement. Default: mobile.",
)
@click.option(
    "-i", "--interface", metavar="IFACE", help='Network interface to capture on. Default: "any" (all interfaces).'
)
@click.option(
    "--filter", "expression", metavar="BPF", help="Capture filter (pcap-filter). Default: TCP and sync probes."
)
@click.option(
    "--duration", type=FiniteRange(min=0.1), metavar="S", help="Stop the recording after this time, in seconds."
)
@click.option(
    "--ready",
    type=FiniteRange(min=0),
    metavar="S",
    help="Wait at most S seconds until the collectors are ready. Default: 5.",
)
@click.option(
    "--tail",
    type=FiniteRange(min=0),
    metavar="S",
    help="Continue to record for S seconds after COMMAND ends. Default: 1.",
)
@click.option(
    "--with", "wanted", multiple=True, metavar="NAME",
    help="Name of the only collector to use; repeat the option to use several collectors.",
)  # fmt: skip
@click.option(
    "--without", "unwanted", multiple=True, metavar="NAME", help="Name of a collector that is not used; repeatable."
)
@click.option("--modem", metavar="PORT", help="Serial port of the modem. Default: detected.")
@click.option(
    "--gps",
    metavar="PORT|HOST:PORT",
    help="Serial port of the GPS receiver, or address of gpsd. Default: gpsd on this machine.",
)
@click.option(
    "--signalling", metavar="PORT",
    help="Diagnostic port of a Qualcomm phone. Signalling is recorded only with this option.",
)  # fmt: skip
@click.option(
    "--phone", multiple=True, metavar="SERIAL|any",
    help="Record this Android phone through adb; `any` is the only one that is connected. Repeatable.",
)  # fmt: skip
@click.option(
    "--phone-exporter", type=click.Choice(("tcp", "udp")),
    help="How PCAPdroid on a phone without root sends its packets. Default: tcp.",
)  # fmt: skip
@click.option(
    "--phone-keys", is_flag=True,
    help="Let PCAPdroid decrypt TLS on the phone, and save its keys in the session (keylog-0.txt).",
)  # fmt: skip
@click.option("--adb", metavar="PATH", help="The program adb. Default: that of PATH.")
@click.option(
    "--remote", multiple=True, metavar="USER@HOST[:PROFILE]",
    help="Record this router or machine through ssh: modem, clock, packets. Repeatable.",
)  # fmt: skip
@click.option(
    "--starlink", metavar="any|HOST:PORT",
    help="Record the Starlink dish; `any` is the one of this network, 192.168.100.1:9200.",
)  # fmt: skip
@click.option("--clap", metavar="HOST:PORT", help="Send sync probes to this address of the other endpoint (HOST:PORT).")
@click.option(
    "--clap-every",
    type=FiniteRange(min=0),
    metavar="S",
    help="Interval of sync probes in seconds; 0 sends none. Default: 30.",
)
@click.option(
    "--label",
    multiple=True,
    metavar="KEY=VALUE",
    help="Experiment variable to store with the session, such as location=downtown; repeatable.",
)
@click.option(
    "--session", "declared", metavar="FILE.toml",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read the options of this command from this file; options on the command line have "
         "precedence.",
)  # fmt: skip
@click.option(
    "--rehearse", is_flag=True, help="Rehearse a drive without hardware: modem, GPS receiver and link are simulated."
)
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="N",
    help="With --rehearse: random seed of the simulated drive; 0 selects a drive without incidents. "
         "Default: 1.",
)  # fmt: skip
@click.option(
    "--traffic", type=click.Choice(["download", "requests", "idle"]),
    help="With --rehearse: a download (the default), or requests with pauses; with `idle` the phone loses "
         "its connection in long pauses, and the next request waits for its promotion.",
)  # fmt: skip
@click.option("--plain", is_flag=True, help="Print one line per second instead of the live view.")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND …]")
@common_options
def command(folder: Path, command_line: tuple[str, ...], **chosen: Any) -> None:
    """Record TCP on this machine at every layer until Ctrl-C, the end of --duration or of COMMAND.

    Every collector that works on this machine runs as its own process. A collector that fails is restarted,
    and the manifest records the gap. Press m to set a marker with a note.

    COMMAND starts when the collectors are ready. `capture` exits with the exit status of COMMAND, or with
    128 + n if signal n ended COMMAND.
    """
    from multitracer.cli._capture import plan_of
    from multitracer.cli._output import check_output
    from multitracer.errors import CollectorError
    from multitracer.manifest import private_recording
    from multitracer.recorder.folder import SessionFolder
    from multitracer.recorder.supervisor import Supervisor

    check_output(str(folder), [])
    with (
        private_recording(folder) as umask,
        _rehearsal(chosen, has_command=bool(command_line)) as (ports, traffic, drive),
    ):
        plan = plan_of(chosen, command_line, ports, traffic, umask=umask)
        session = SessionFolder(folder, plan)
        with _path(drive, session), _view(folder, session.host, plain=chosen["plain"]) as view:
            supervisor = Supervisor(plan, session, view)
            reason = supervisor.run()
    if why := supervisor.lack_of_packets:
        raise CollectorError(f"{folder}: no packets were recorded, because {why}")
    _tell(folder, reason)
    raise click.exceptions.Exit(supervisor.status)


@contextmanager
def _rehearsal(
    chosen: Document, *, has_command: bool
) -> Iterator[tuple[Document, tuple[str, ...], RehearsedDrive | None]]:
    """Run the simulated devices during the `with` block, if a rehearsal is requested.

    Yield three values: options with the ports, the command that makes traffic, and the drive (None without).
    """
    if not chosen["rehearse"]:
        if chosen["seed"] is not None:
            raise InputError("--seed needs --rehearse; add --rehearse, or omit --seed")
        if chosen["traffic"] is not None:
            raise InputError("--traffic needs --rehearse; add --rehearse, or omit --traffic")
        yield {}, (), None
        return
    from multitracer.cli._messages import warn
    from multitracer.lab.rehearsal.session import TRAFFIC, drawn_drive, rehearsal

    drive = drawn_drive(
        seed=chosen["seed"], has_command=has_command,
        interface=chosen["interface"], sync_probe=chosen["clap"], warn=warn,
        traffic=chosen["traffic"] or "download",
    )  # fmt: skip
    with rehearsal(drive) as ports:
        yield ports, drive.command if drive else TRAFFIC, drive


@contextmanager
def _path(drive: RehearsedDrive | None, session: SessionFolder) -> Iterator[None]:
    """Set up the network path of a rehearsed drive during the `with` block.

    The logs of the far end go into the session.
    """
    if drive is None:
        yield
        return
    from multitracer.lab.rehearsal.session import FIXED, rehearsed_path

    session.expect(FIXED, rehearsed_seed=drive.seed, rehearsed_from_ns=drive.began_realtime_ns)
    with rehearsed_path(drive, session.folder):
        yield
    session.adopt()


def _view(folder: Path, host: Path, *, plain: bool) -> AbstractContextManager[StatusView]:
    import sys
    from functools import partial

    from multitracer.cli import _messages
    from multitracer.recorder.screen import PlainView, ScreenView

    now = (sys.executable, "-m", "multitracer.cli._now", str(host))
    if plain or not _messages.chosen.is_live:
        write = partial(click.echo, err=True) if _messages.chosen.is_progress_shown else None
        return PlainView(_messages.warn, write, now if write else ())
    return ScreenView(folder.resolve().name, _messages.log_warning, now)


def _tell(folder: Path, reason: str) -> None:
    import contextlib

    from multitracer.words import printable

    why = {"duration": "the duration is over"}.get(reason, f"stopped by {reason}" if reason.isupper() else reason)
    with contextlib.suppress(OSError):  # the terminal may be gone
        click.echo(f"{printable(folder)}: recorded; {why}")
