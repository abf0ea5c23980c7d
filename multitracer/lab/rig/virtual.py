"""A measurement in virtual time: faster than real time, determined by plan, scenario and seed.

`carry_out` of `measure`, its clients and servers, and both protocols run as over a real link, but
waiting advances virtual time (`VirtualNetwork` of `simulator`). An interrupted run is repeated from its start
without writing again what is already written, so that the link behaves the same in the remaining part.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import parsers
from multitracer import __version__
from multitracer.errors import InputError
from multitracer.lab.channel.links import link_of
from multitracer.lab.channel.shared.packet_link import FIXED
from multitracer.lab.rig.radio_join import FILE, join_radio
from multitracer.lab.rig.radios import check_carried, profile_name
from multitracer.lab.rig.virtual_transports import SERVER_ADDRESS, VirtualTcp, VirtualUdp, VirtualWtcp
from multitracer.lab.rig.watchers import RigRecorder
from multitracer.lab.scenario.session_folder import keep_scenario, log_files, write_radio
from multitracer.lab.simulator.network import EPOCH_NS, VirtualNetwork
from multitracer.manifest import CollectorRun, Host, Manifest, Role, Variables, read_manifest, write_manifest
from multitracer.measure.centaurus import CentaurusClient
from multitracer.measure.outcome import UnreachableError
from multitracer.measure.run import carry_out
from multitracer.measure.tcp import TcpClient
from multitracer.measure.transports import TransportOptions, of_transport
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from multitracer.lab.scenario.model import Scenario
    from multitracer.measure.outcome import Client, TransactionOutcome
    from multitracer.measure.plan import MeasurementPlan, ProtocolName, Transaction
    from multitracer.measure.run import MeasureJournal, Progress

_LONGEST_SET_UP_NS = 60 * NS_PER_S
_COMMAND = ["multitracer.rig"]
_RUN = 1
"""Number of the run in messages; there is only one run."""


def run_virtual(  # noqa: PLR0913  # all a run is determined by
    plan: MeasurementPlan,
    folder: Path,
    scenario: Scenario,
    *,
    seed: int | None = None,
    options: TransportOptions | None = None,
    capture: bool = False,
    progress: Progress,
) -> MeasureJournal:
    """Carry out a plan over a modelled link in virtual time; continue it if it was interrupted.

    Parameters
    ----------
    plan : MeasurementPlan
        The plan; its server is replaced by the one on the link.
    folder : Path
        The session folder: new, empty, or that of an earlier run of the same plan and scenario.
    scenario : Scenario
        The link, its scripted events, the TCP of both hosts, and their programs.
    seed : int, optional
        Random seed; by default that of the scenario.
    options : TransportOptions, optional
        Options of CentaurusComm.
    capture : bool
        Also write packets, TCP variables and link events of both hosts.
    progress : callable
        Called after each transaction.

    Returns
    -------
    MeasureJournal
        The outcome of each transaction; already closed.

    Raises
    ------
    InputError
        If the folder belongs to another session, or was made by a version with other results; if no packet
        passes the link; if the transport is unknown, or impossible over this link.
    """
    check_carried(plan.protocol, scenario)
    make_client = of_transport(_CLIENTS, plan.protocol)
    seed = scenario.seed if seed is None else seed
    link_of(scenario.link, seed=seed, script=scenario.events)  # refuses what cannot be, before any folder
    options = options or TransportOptions()
    about = _manifest(folder, scenario, seed=seed, options=options, capture=capture)
    if not scenario.program.nodelay:
        about.variables.more["nodelay"] = False
    played = _undelayed(scenario) if scenario.program.nodelay else scenario
    with ExitStack() as files:

        def connect(_: int) -> Client:
            keep_scenario(folder, scenario)
            recorder = files.enter_context(RigRecorder(folder, scenario, capture=capture))
            network = VirtualNetwork(played, seed=seed, observers=[recorder], link_first=True)
            files.callback(network.drain)
            if capture:
                files.callback(lambda: write_radio(folder, network.link, now_ns=network.now_ns))
            network.read_radio_each_second()
            client = make_client(plan, network, scenario, options)
            network.wait(_LONGEST_SET_UP_NS, lambda: network.link.is_up)
            return _FromTheStart(client, plan, folder, scenario.name)

        journal = carry_out(plan, folder, connect, progress=progress, about=about, lasting=False)
    join_radio(folder)
    _complete(folder)
    return journal


def _undelayed(scenario: Scenario) -> Scenario:
    """Return the scenario with TCP_NODELAY on both hosts.

    The clients and servers of `measure` set this option.
    """
    mobile, fixed = (replace(profile, nagle=False) for profile in (scenario.mobile, scenario.fixed))
    return replace(scenario, mobile=mobile, fixed=fixed)


def _centaurus_client(
    plan: MeasurementPlan, network: VirtualNetwork, scenario: Scenario, options: TransportOptions
) -> Client:
    ends = VirtualUdp(network, scenario.hosts[0], options, scenario.program, mtu_bytes=scenario.mtu_bytes)
    return _SlowPrograms(ends, scenario, timeout_s=plan.timeout_s)


def _tcp_client(
    plan: MeasurementPlan, network: VirtualNetwork, scenario: Scenario, options: TransportOptions
) -> Client:
    del options
    mobile = scenario.hosts[0]
    tcp = VirtualTcp(network, mobile)
    return TcpClient(tcp.dial, run=_RUN, timeout_s=plan.timeout_s, clock=network.clock(mobile))


def _wtcp_client(
    plan: MeasurementPlan, network: VirtualNetwork, scenario: Scenario, options: TransportOptions
) -> Client:
    mobile = scenario.hosts[0]
    wtcp = VirtualWtcp(network, mobile, options.wtcp())
    return TcpClient(wtcp.dial, run=_RUN, timeout_s=plan.timeout_s, clock=network.clock(mobile))


_CLIENTS: Mapping[ProtocolName, Callable[[MeasurementPlan, VirtualNetwork, Scenario, TransportOptions], Client]] = (
    MappingProxyType({"tcp": _tcp_client, "centauruscomm": _centaurus_client, "wtcp": _wtcp_client})
)
"""Function that makes the client and the server, by the transport of a plan."""


class _SlowPrograms(CentaurusClient):
    """A client that knows when the programs, and not the link, are the reason that no answer comes."""

    def __init__(self, ends: VirtualUdp, scenario: Scenario, *, timeout_s: float) -> None:
        super().__init__(ends.client, SERVER_ADDRESS, run=_RUN, timeout_s=timeout_s)
        self._ends, self._scenario = ends, scenario

    def reach(self) -> None:
        """Wait until the server has answered."""
        try:
            super().reach()
        except UnreachableError as error:
            if not self._ends.is_busy:
                raise
            octet_s = self._scenario.program.octet_ns / NS_PER_S
            raise InputError(
                f"{self._scenario.name}: {error}, because a program takes {octet_s:g} s for each octet; "
                'choose a shorter "octet_us" in [program]'
            ) from error


class _FromTheStart:
    """A client that first repeats the transactions of an interrupted run, and checks their results."""

    def __init__(self, client: Client, plan: MeasurementPlan, folder: Path, link: str) -> None:
        self._client = client
        self._link = link
        self._path = folder / FILE
        self._left = plan.transactions()
        self._known = _starts(folder)

    def reach(self) -> None:
        """Wait until the server has answered."""
        try:
            self._client.reach()
        except UnreachableError as error:
            raise InputError(
                f"{self._link}: no packet can pass the link at the start of the run ({error}); choose another seed"
            ) from error

    def close(self) -> None:
        """Close the connection and release its resources."""
        self._client.close()

    def transact(self, transaction: Transaction) -> TransactionOutcome:
        """Run one transaction and return its outcome; the first call repeats all earlier transactions."""
        for each in self._left:
            outcome = self._client.transact(each)
            if each.number == transaction.number:
                return outcome
            if self._known.get(each.number) != (outcome.start_ns, outcome.outcome):
                raise InputError(
                    f"{self._path}: transaction {each.number} now has another result than the "
                    "recorded one, because another version of MultiTracer wrote this folder; name "
                    "another folder"
                )
        raise AssertionError("the transactions must be in the order of the plan")


def _starts(folder: Path) -> dict[int, tuple[int, str]]:
    """Return the start time and the status of each transaction that is already written, by its number."""
    _, tables = parsers.read(str(folder / FILE))
    assert isinstance(tables, dict)
    table = tables["transactions"]
    columns = (table[name].tolist() for name in ("transaction", "start_ns", "outcome"))
    return {number: (start_ns, outcome) for number, start_ns, outcome in zip(*columns, strict=True)}


# --- the manifest ---


def _manifest(folder: Path, scenario: Scenario, *, seed: int, options: TransportOptions, capture: bool) -> Manifest:
    about = Manifest(folder.resolve().name, created_ns=EPOCH_NS, more={"multitracer": __version__})
    about.hosts = {
        scenario.hosts[0]: Host(role=Role.CLIENT, kernel="virtual"),
        FIXED: Host(role=Role.SERVER, kernel="virtual"),
    }
    about.variables = Variables(
        link=scenario.name,
        scenario=scenario.source,
        seed=seed,
        speed=1,
        virtual=True,
        tcp_profile=profile_name(scenario),
        extensions=options.extensions.names,
        more={
            "tcp": {"mobile": asdict(scenario.mobile), "fixed": asdict(scenario.fixed)},
            "sealed": options.key is not None,
            "capture": capture,
        },
    )
    about.collectors = [CollectorRun("modem", scenario.hosts[0], _COMMAND, __version__, EPOCH_NS)]
    if capture:
        names = ("rlpdump", "tcpdump", "tcp_info")
        about.collectors += [
            CollectorRun(n, side, _COMMAND, __version__, EPOCH_NS) for side in about.hosts for n in names
        ]
    return about


def _complete(folder: Path) -> None:
    """Write the size and the checksum of every log into the manifest."""
    manifest = read_manifest(folder)
    assert manifest is not None
    for run in manifest.collectors:
        run.outcome = "ended"
    manifest.files = list(log_files(folder))
    write_manifest(folder, manifest)
