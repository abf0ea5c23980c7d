"""Names of packet contents, and properties and counts of capture files."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag


class Flag(IntFlag):
    """TCP flags as in the header (RFC 9293, section 3.1; RFC 3540 for NS).

    Examples
    --------
    >>> segments = session.tcp_segments()
    >>> int(((segments["flags"] & mt.Flag.SYN) > 0).sum())
    2
    """

    __iter__ = None  # type: ignore[assignment]  # pandas takes what iterates for a column, not for a number

    FIN = 0x01
    SYN = 0x02
    RST = 0x04
    PSH = 0x08
    ACK = 0x10
    URG = 0x20
    ECE = 0x40
    CWR = 0x80
    NS = 0x100

    # A number, not a set: asked six times for each packet, and ten times faster.
    __and__ = __rand__ = int.__and__  # type: ignore[assignment]


class IpProtocol(IntEnum):
    """Protocol numbers of IP that the program names (IANA, Assigned Internet Protocol Numbers)."""

    ICMP = 1
    IGMP = 2
    TCP = 6
    UDP = 17
    GRE = 47
    ESP = 50
    ICMPV6 = 58
    OSPF = 89
    SCTP = 132


class OptionKind(IntEnum):
    """Kinds of TCP options (RFC 9293, section 3.1; RFC 7323, 2018, 8684, 7413 and 4727)."""

    END = 0
    NOP = 1
    MSS = 2
    WINDOW_SCALE = 3
    SACK_PERMITTED = 4
    SACK = 5
    TIMESTAMPS = 8
    MPTCP = 30
    FAST_OPEN = 34
    EXPERIMENTAL = 254


class CaptureMark(IntFlag):
    """Properties of a captured segment that limit its analysis."""

    HAS_TIMESTAMPS = 0x001
    HEADER_CUT = 0x002
    """The snap length cut the TCP header: options may be missing."""
    PAYLOAD_CUT = 0x004
    """The snap length cut the payload (typical with -s 96)."""
    LENGTH_FROM_CAPTURE = 0x008
    """The IP length is 0 (TSO): the payload length comes from the record's original length."""
    FRAGMENT = 0x010
    """First fragment of a fragmented IP packet; the payload length is that of all fragments."""
    TUNNELLED = 0x020
    """Found inside a tunnel (GRE, IP-in-IP, GTP-U, VXLAN and others)."""
    MPTCP = 0x040
    """An MPTCP option is present."""
    BAD_LENGTH = 0x080
    """Header lengths contradict each other; the payload length is that of the captured part."""
    URGENT = 0x100
    """URG is set with a non-zero pointer."""
    LENGTH_OVERWRITTEN = 0x200
    """The file's original lengths were overwritten by the captured ones; the IP length gives the payload."""


GSMTAP = "gsmtap"
"""Protocol name for datagrams to the GSMTAP port, which may contain signalling; counted separately from UDP."""
WTCP_SYN = "wtcp syn"
"""Protocol name for a datagram that begins a WTCP connection, counted separately from UDP."""


@dataclass(frozen=True, slots=True)
class ContentWay:
    """The packets of a content from one host to another."""

    source: str
    destination: str
    packets: int
    bytes: int
    """Sum of their lengths on the wire."""
    duration_ns: int
    """From the first packet to the last."""
    peak_bytes: int | None
    """Maximum bytes in a second; None without two seconds."""
    step_s: int
    """Length of a step of `bytes_by_step`: a second, longer for a capture of more than an hour."""
    bytes_by_step: tuple[int, ...]
    """Bytes in each step since the first packet of the file."""


@dataclass(frozen=True, slots=True)
class Content:
    """What some packets of a capture without TCP, or with little, are that hold no TCP segment."""

    name: str
    """The protocol, or the reason why a packet was not decoded."""
    packets: int
    bytes: int
    """Sum of their lengths on the wire."""
    ways: tuple[ContentWay, ...] = ()
    """The directions with the most bytes, most bytes first; empty for what is not IP."""


Address = tuple[int, int]
"""Both halves of an IP address, as 64-bit numbers; of IPv4 the address and 0."""


@dataclass(slots=True)
class Tunnel:
    """The packets of a file that were read inside one kind of tunnel."""

    packets: int = 0
    tcp_packets: int = 0
    """Packets that hold a TCP segment."""
    unread_packets: int = 0
    """Further packets in the same frames, which were not read (QMAP)."""
    ends: set[tuple[Address, Address]] = field(default_factory=set)
    """Pairs of the outer addresses, the smaller one first; empty for a tunnel below IP."""
    identifiers: set[int] = field(default_factory=set)
    """Numbers of the tunnels: TEIDs, VNIs, session or mux ids; empty for a kind without them."""


@dataclass(slots=True)
class CaptureInterface:
    """A capture interface as the file describes it."""

    link_type: int
    snap_length: int | None = None
    name: str | None = None
    description: str | None = None
    filter: str | None = None
    resolution_ns: float = 1000.0
    dropped_packets: int | None = None
    """`isb_ifdrop` + `isb_osdrop` of the interface statistics block; None if absent."""


@dataclass(frozen=True, slots=True)
class CaptureDuplicates:
    """The segments of a file that were captured more than once; all but the first of each are left out."""

    packets: int
    """Number of copies that are left out."""
    times: int
    """How often most of the packets with copies were captured."""
    are_of_all: bool
    """Whether nearly all segments of the file were captured so often."""
    where: str
    """The points at which they were seen, in words: "interfaces 9, 5 and 2"."""

    @property
    def sentence(self) -> str:
        """A sentence for people that says how many copies there are, and where they were seen."""
        often = "twice" if self.times == 2 else f"{self.times} times"
        one = self.packets == 1
        copies = "1 TCP segment is a copy" if one else f"{self.packets:,} TCP segments are copies"
        if self.are_of_all:
            copies = f"Each packet was captured {often} ({self.where}): {copies}"
        else:
            copies = f"{copies} of packets that were captured {often} ({self.where})"
        return f"{copies}, left out of all numbers."


@dataclass(slots=True)
class SourceFile:
    """Properties and packet counts of one input file."""

    path: str
    format: str
    """Format as named by `multitracer formats`: pcap, pcapng."""
    compression: str | None = None
    variant: str | None = None
    """Byte order, resolution and dialect, for example "little-endian, ns"."""
    packets: int = 0
    """Complete packet records, decoded or not."""
    bytes: int = 0
    """Number of decompressed bytes that were read."""
    link_types: dict[int, int] = field(default_factory=dict)
    """Packets by LINKTYPE number."""
    protocols: dict[str, int] = field(default_factory=dict)
    """Packets by protocol, for example {"tcp": 90, "udp": 8, "arp": 2}."""
    not_decoded: dict[str, int] = field(default_factory=dict)
    """Packets that could not be decoded down to the transport, by reason."""
    first_ns: int | None = None
    """Smallest packet time."""
    last_ns: int | None = None
    """Largest packet time."""
    time_steps_back: int = 0
    """Number of packets with an earlier time than the previous packet."""
    largest_step_back_ns: int = 0
    time_repeats: int = 0
    """Number of packets with the same time as the previous packet."""
    time_grain_ns: int = 0
    """Greatest common divisor of the differences between successive times; 1 if it is below 1 ms, 0 if all
    times are equal."""
    without_time: int = 0
    """Number of packets without a time stamp, or with an impossible one."""
    time_faults: dict[str, int] = field(default_factory=dict)
    """Number of packets with an impossible time stamp, by reason; packets without a time stamp do not count."""
    damaged: str | None = None
    """Damage with its offset, if reading stopped early or bytes were lost; None for a complete file."""
    lost_ranges: list[tuple[int, int]] = field(default_factory=list)
    """Begin and end of each unreadable range of the (decompressed) file that is followed by packets."""
    stopped: bool = False
    """Whether reading stopped at the requested number of packets; more packets may follow."""
    interfaces: list[CaptureInterface] = field(default_factory=list)
    comments: list[tuple[int | None, str]] = field(default_factory=list)
    """Comments of the file: packet number (None: comment on a section or interface), and text."""
    hardware: str | None = None
    operating_system: str | None = None
    application: str | None = None
    expansion_ratio: float | None = None
    """Ratio of decompressed to compressed size; None for an uncompressed file. Above 200 there is a warning."""
    warnings: list[str] = field(default_factory=list)
    guessed_unit: str = ""
    """A clause on the unit of the time stamps, if another one is read than the file names; "" otherwise."""
    guessed_link: str = ""
    """A clause on the link type, if the frames show another one than the file names; "" otherwise."""
    tunnels: dict[str, Tunnel] = field(default_factory=dict)
    """Tunnels whose packets were read inside, by name; of nested ones each."""
    duplicates: CaptureDuplicates | None = None
    """What is known of packets that the file holds more than once; None if there are none."""
    vpn: str = ""
    """The program whose VPN inside the phone made the packets, such as PCAPdroid; "" otherwise."""
    has_trailers: bool = False
    """Whether packets have a trailer that names their program (PCAPdroid)."""
    programs: dict[int, str] = field(default_factory=dict)
    """Names of a phone's programs by user number."""
    users_of_flows: dict[tuple[str, int, str, int], int] = field(default_factory=dict)
    """User number by source, port, destination and port of the first packet that names it."""
    users: dict[int, int] = field(default_factory=dict)
    """User number by the number of a packet that is not decoded yet (comments of pcapng)."""
    secrets: int = 0
    """Blocks with the secrets of encrypted connections (pcapng); they stay in the file, and are not used."""
    contents: list[Content] = field(default_factory=list)
    """What the packets without TCP are, the most bytes first; only of a capture with few segments, or none."""

    @property
    def untimed(self) -> str:
        """Text on the reasons why packets have no time; "" if all packets have one."""
        faults = dict(self.time_faults)
        faults["pcapng's simple packets"] = self.without_time - sum(faults.values())
        return ", ".join(f"{reason}: {n:,}" for reason, n in faults.items() if n > 0)

    def program_of(self, src: str, sport: int, dst: str, dport: int) -> str:
        """Return the program of a phone to which a connection belongs; empty if it is not known."""
        known = self.users_of_flows
        user = known.get((src, sport, dst, dport), known.get((dst, dport, src, sport)))
        return "" if user is None else self.programs.get(user) or f"user {user}"

    def in_order_of_names(self) -> None:
        """Sort the counts by name, so that their order does not depend on the chunk size."""
        self.link_types = dict(sorted(self.link_types.items()))
        self.protocols = dict(sorted(self.protocols.items()))
        self.not_decoded = dict(sorted(self.not_decoded.items()))
        self.tunnels = dict(sorted(self.tunnels.items()))

    def no_time(self, reason: str, packets: int) -> None:
        """Count packets with an impossible time stamp."""
        if packets:
            self.time_faults[reason] = self.time_faults.get(reason, 0) + packets
