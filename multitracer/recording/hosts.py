"""What the hosts of a recording logged besides packets: TCP variables, and their side of a link.

A log belongs to the host in whose folder it lies. The addresses of a host come from the manifest, or else
from its log of TCP variables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.sender_state import SenderLogs
from multitracer.endpoints import host_text
from multitracer.protocols.sock_diag import ReadBy
from multitracer.schemas.link import LINK_EVENTS, LINK_FRAMES
from multitracer.schemas.sender import JOINED_EVENTS, JOINED_STATE, TCP_EVENTS, TCP_STATE
from multitracer.tables import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.logs import LogSource
    from multitracer.recording.capture import Capture
    from multitracer.tables import Array


@dataclass(frozen=True, slots=True)
class LinkSide:
    """The link log of one host.

    Attributes
    ----------
    host : str
        Name of the host's folder.
    frames : Table
        LINK_FRAMES, in order of the log.
    events : Table
        LINK_EVENTS, in order of the log.
    facts : dict of str to str
        The header fields of the log: side, slot_ns, speed, t1_ms, n2, ...
    """

    host: str
    frames: Table
    events: Table
    facts: dict[str, str] = field(default_factory=dict)

    def rows(self, *names: str) -> Array:
        """Return the rows of `events` with one of these names: int64, shape (n,), in order of the log."""
        return np.flatnonzero(np.isin(self.events["event"], names))


@dataclass(frozen=True)
class HostLogs:
    """The logs of all hosts of a recording.

    Attributes
    ----------
    state, events : Table
        TCP_STATE and TCP_EVENTS of all hosts together.
    link : mapping of str to LinkSide
        The link log of each host that has one, by host name.
    addresses : mapping of str to frozenset of str
        The addresses of each host, by host name.
    """

    state: Table
    events: Table
    link: Mapping[str, LinkSide] = field(default_factory=dict)
    addresses: Mapping[str, frozenset[str]] = field(default_factory=dict)
    _joined: dict[int, SenderLogs] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, source: LogSource) -> HostLogs:
        """Return the host logs of a recording."""
        logs = source.logs("tcp")
        stated = {
            host: set(facts.addresses) for host, facts in (source.manifest.hosts if source.manifest else {}).items()
        }
        addresses = {host: set(own) for host, own in stated.items()}
        for log, tables in logs:
            if TCP_STATE.name in tables and not stated.get(log.host):
                addresses.setdefault(log.host, set()).update(_polled(tables[TCP_STATE.name]))
        state, events = (
            Table.concatenate(schema, [tables[schema.name] for _, tables in logs if schema.name in tables])
            for schema in (TCP_STATE, TCP_EVENTS)
        )
        by_host: dict[str, list[dict[str, Table]]] = {}
        for log, tables in source.logs("link"):
            by_host.setdefault(log.host, []).append(tables)
        sides = {}
        for host, each in by_host.items():
            frames, of_link = ([one[schema.name] for one in each] for schema in (LINK_FRAMES, LINK_EVENTS))
            sides[host] = LinkSide(host, frames[0], of_link[0], dict(frames[0].provenance.get("header", {})))
            if len(each) > 1:  # no facts, because they need not hold for all of its logs
                complete = Table.concatenate(LINK_FRAMES, frames), Table.concatenate(LINK_EVENTS, of_link)
                sides[host] = LinkSide(host, *complete)
        return cls(state, events, sides, {host: frozenset(own) for host, own in addresses.items()})

    def owner(self, address: str) -> str | None:
        """Return the host that has an address; None if no host has it, or several have it."""
        hosts = [host for host, own in self.addresses.items() if address in own]
        return hosts[0] if len(hosts) == 1 else None

    def of_sender(self, capture: Capture, connection: int, *, reverse: bool) -> tuple[Table, Table]:
        """Return JOINED_STATE and JOINED_EVENTS of the sender of one direction; windows are in bytes.

        Parameters
        ----------
        capture, connection : Capture, int
            The connection, as numbered in that capture.
        reverse : bool
            Whose data: False the initiator's, True the responder's.
        """
        if not len(self.state):
            return Table.empty(JOINED_STATE), Table.empty(JOINED_EVENTS)
        logs = self._joined.get(id(capture))
        if logs is None:  # the connection of each row is found once for all who ask
            flows, counted = capture.tables.flows, capture.analysis
            logs = SenderLogs(self.state, self.events, flows, counted.connections, counted.directions)
            self._joined[id(capture)] = logs
        return logs.of_sender(connection, reverse=reverse)


def _polled(state: Table) -> set[str]:
    """Return the local addresses of sockets whose variables were polled (`ss`).

    A kernel trace is not used, because it also contains sockets of other network namespaces.
    """
    own = (state["method"] != ReadBy.TCP_PROBE) & (state["ip_version"] != 0)
    ends = zip(state["ip_version"][own].tolist(), state["address_local"][own].tolist(), strict=True)
    return {host_text(version, address) for version, address in set(ends)}
