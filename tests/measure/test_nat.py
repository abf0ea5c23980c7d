"""`measure` from behind a NAT, over IPv6, and when the NAT forgets its mapping: namespaces with nftables between."""

from __future__ import annotations

import contextlib
import csv
import json
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from multitracer.errors import InputError
from multitracer.measure.endpoint import resolved
from multitracer.measure.transports import TransportOptions, host_port, server
from tests.cli.program import COMMAND, ENVIRONMENT
from tests.netns import Namespaces, namespaces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from multitracer.measure.plan import ProtocolName

PROTOCOLS = ["tcp", "centauruscomm", "wtcp"]
_MASQUERADE = """
    add table ip nat
    add chain ip nat postrouting { type nat hook postrouting priority srcnat; }
    add rule ip nat postrouting oifname to-b masquerade random
"""
_FORGET = """
import socket, struct
netfilter = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)                       # NETLINK_NETFILTER
netfilter.send(struct.pack("=IHHIIBBH", 20, 1 << 8 | 2, 5, 1, 0, 0, 0, 0))              # IPCTNL_MSG_CT_DELETE, all
error = struct.unpack_from("=i", netfilter.recv(4096), 16)[0]
assert error == 0, error
"""
"""What `conntrack --flush` does, where that program is not installed: the NAT forgets all of its mappings."""


@contextlib.contextmanager
def _behind_a_nat() -> Iterator[Namespaces]:
    """Make a host `a` in a private network, a NAT `r`, and a server's host `b` that knows no way back to `a`."""
    with namespaces("a", "r", "b") as hosts:
        hosts.join("a", "r", network="10.0.1")
        hosts.join("r", "b", network="10.0.2")
        hosts.route("a", via="10.0.1.2")
        hosts.sysctl("r", ip_forward=1)
        hosts.run("r", "nft", "-f", "-", input=_MASQUERADE)
        yield hosts


@contextlib.contextmanager
def _served(hosts: Namespaces, protocol: str, listen: str, folder: Path) -> Iterator[None]:
    argv = [*COMMAND, "measure", "serve", "--protocol", protocol, "--listen", listen, "-o", str(folder)]
    with hosts.start("b", *argv, stdout=subprocess.PIPE, env=ENVIRONMENT) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == f"the {protocol} server listens at {listen}\n"
        try:
            yield
        finally:
            child.terminate()


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "transactions.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def _run(protocol: str, where: str, folder: Path, *more: str) -> list[str]:
    sizes = ("--vary", "reply", "--sizes", "64,4096", "--timeout", "3")
    return [*COMMAND, "measure", "run", "--protocol", protocol, "--server", where, "-o", str(folder), *sizes, *more]


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_client_behind_a_nat_is_served(protocol: str, tmp_path: Path) -> None:
    with _behind_a_nat() as hosts, _served(hosts, protocol, "10.0.2.2:5100", tmp_path / "served"):
        hosts.run("a", *_run(protocol, "10.0.2.2:5100", tmp_path / "run", "--sessions", "3"), env=ENVIRONMENT)
    assert [row["outcome"] for row in _rows(tmp_path / "run")] == ["ok"] * 6
    served = [json.loads(line) for line in (tmp_path / "served" / "transactions.jsonl").read_text().splitlines()]
    assert {record["client"].split(":")[0] for record in served} == {"10.0.2.1"}, "the NAT's address"


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nat_that_forgets_costs_what_is_under_way_and_no_more(protocol: str, tmp_path: Path) -> None:
    """The mapping is flushed in the middle: what the client sends next comes from another port."""
    folder = tmp_path / "run"
    with _behind_a_nat() as hosts, _served(hosts, protocol, "10.0.2.2:5100", tmp_path / "served"):
        argv = _run(protocol, "10.0.2.2:5100", folder, "--sessions", "150")
        with hosts.start("a", *argv, stdout=subprocess.DEVNULL, env=ENVIRONMENT) as client:
            _wait_for_rows(folder, 20)
            hosts.run("r", sys.executable, "-c", _FORGET)
            assert client.wait(120) == 0
    rows = _rows(folder)
    dropped = [row for row in rows if row["outcome"] == "dropped"]
    assert len(rows) == 300
    assert len(dropped) <= 4
    assert all(row["why"] for row in dropped)
    assert rows[-1]["outcome"] == "ok"
    served = [json.loads(line) for line in (tmp_path / "served" / "transactions.jsonl").read_text().splitlines()]
    assert len({record["client"] for record in served}) > 1, "the NAT kept its mapping, so nothing is shown"


def _wait_for_rows(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    path = folder / "transactions.csv"
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_global_and_link_local_addresses_of_ipv6_are_served(protocol: str, tmp_path: Path) -> None:
    with namespaces("a", "b") as hosts:
        hosts.join("a", "b", network="10.0.1")
        for label, device, address in (("a", "to-b", "2001:db8::1/64"), ("b", "to-a", "2001:db8::2/64")):
            hosts.run(label, "sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=0")
            hosts.run(label, "ip", "-6", "address", "add", address, "dev", device, "nodad")
            hosts.run(label, "ip", "-6", "address", "add", f"fe80::{address[10]}/64", "dev", device, "nodad")
        with _served(hosts, protocol, "[fe80::2%to-a]:5100", tmp_path / "served-alone"):
            hosts.run(
                "a", *_run(protocol, "[fe80::2%to-b]:5100", tmp_path / "alone", "--sessions", "1"), env=ENVIRONMENT
            )
        with _served(hosts, protocol, "[::]:5100", tmp_path / "served"):
            for name, where in (("global", "[2001:db8::2]:5100"), ("local", "[fe80::2%to-b]:5100")):
                hosts.run("a", *_run(protocol, where, tmp_path / name, "--sessions", "2"), env=ENVIRONMENT)
                assert [row["outcome"] for row in _rows(tmp_path / name)] == ["ok"] * 4
    served = [json.loads(line) for line in (tmp_path / "served" / "transactions.jsonl").read_text().splitlines()]
    hosts_seen = [record["client"].rpartition(":")[0] for record in served]
    assert hosts_seen[0] == "[2001:db8::1]"
    assert hosts_seen[-1].startswith("[fe80::1")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_address_of_ipv6_is_told_as_it_is_given(protocol: ProtocolName) -> None:
    made, where = server(protocol, ["[::1]:0"], folder=None, options=TransportOptions())
    with contextlib.closing(made):
        host, port = host_port(where)
    assert host == "::1"
    assert port > 0


def test_address_without_brackets_is_refused_with_the_reason() -> None:
    with pytest.raises(InputError, match=r"an IPv6 address stands in brackets, \[2001:db8::1\]:5100"):
        host_port("2001:db8::1:5100")


def test_first_address_with_a_route_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name often has addresses of both kinds, and many machines have no route for IPv6."""
    found = [
        (socket.AF_INET6, socket.SOCK_DGRAM, 17, "", ("2001:db8:ffff::1", 5100, 0, 0)),
        (socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("127.0.0.9", 5100)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr("multitracer.measure.endpoint._has_route", lambda host, _: ":" not in host)
    assert resolved("two.example", 5100) == ("127.0.0.9", 5100)


@pytest.mark.parametrize("name", ["..", "a" * 70 + ".example"])
def test_name_that_cannot_be_one_is_one_sentence(name: str) -> None:
    with pytest.raises(InputError, match="host not found"):
        resolved(name, 5100)
