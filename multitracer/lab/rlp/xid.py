"""XID parameters: what the two ends negotiate before the link is set up.

Source: 3GPP TS 24.022, clause 5.2.2.6. The information field is a list of parameters, each with a first
octet type << 4 | length; an octet of zero ends the list. Where the two ends ask for different values, the
smaller version and window and the larger timers and attempts hold ("sense of negotiation").
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

from multitracer.errors import LocalProtocolError
from multitracer.protocols.rlp.frame import MODULUS, FrameError

_END = 0  # TS 24.022, 5.2.2.6: ends the parameters
_MS_PER_UNIT = 10  # the same: T1, T2 and T4 in units of 10 ms


class _Type(IntEnum):
    """Types of XID parameters (3GPP TS 24.022, clause 5.2.2.6)."""

    VERSION = 1
    IWF_TO_MS = 2
    MS_TO_IWF = 3
    T1 = 4
    N2 = 5
    T2 = 6
    COMPRESSION = 7
    T4 = 8
    OPTIONAL = 9


@dataclass(frozen=True, slots=True)
class Parameters:
    """The link parameters that XID carries; the defaults are those of version 0 without negotiation."""

    version: int = 0
    """RLP version, 0 or 1."""
    window_iwf_to_ms: int = 61
    """k towards the mobile, in frames, 1 to 61."""
    window_ms_to_iwf: int = 61
    """k towards the network, in frames, 1 to 61."""
    t1_ms: int = 480
    """Acknowledgment timer, a multiple of 10 ms up to 2550."""
    n2: int = 6
    """Retransmission attempts, 1 to 255."""
    t2_ms: int = 80
    """Reply delay: an acknowledgment may wait that long. A multiple of 10 ms up to 2550."""
    compression: bytes = b""
    """V.42bis parameters as they came, 4 octets; empty if none. Kept for the log, never agreed to."""

    def __post_init__(self) -> None:
        checks = {
            "version": self.version in (0, 1),
            "window": all(1 <= k < MODULUS for k in (self.window_iwf_to_ms, self.window_ms_to_iwf)),
            "T1": _is_octet_of_units(self.t1_ms) and self.t1_ms > 0,
            "T2": _is_octet_of_units(self.t2_ms),
            "N2": 1 <= self.n2 <= 255,
            "compression": len(self.compression) in (0, 4),
        }
        wrong = [name for name, fits in checks.items() if not fits]
        if wrong:
            raise LocalProtocolError(f"RLP parameters: {', '.join(wrong)} out of range in {self}")

    def encode(self) -> bytes:
        """Return the information field of an XID frame, without padding."""
        values = (
            (_Type.VERSION, self.version),
            (_Type.IWF_TO_MS, self.window_iwf_to_ms),
            (_Type.MS_TO_IWF, self.window_ms_to_iwf),
            (_Type.T1, self.t1_ms // _MS_PER_UNIT),
            (_Type.N2, self.n2),
            (_Type.T2, self.t2_ms // _MS_PER_UNIT),
        )
        octets = b"".join(bytes((kind << 4 | 1, value)) for kind, value in values)
        return octets + (bytes((_Type.COMPRESSION << 4 | 4,)) + self.compression if self.compression else b"")

    def agreed(self, other: Parameters) -> Parameters:
        """Return what both ends use when one offers this and the other `other`; symmetric."""
        return Parameters(
            version=min(self.version, other.version),
            window_iwf_to_ms=min(self.window_iwf_to_ms, other.window_iwf_to_ms),
            window_ms_to_iwf=min(self.window_ms_to_iwf, other.window_ms_to_iwf),
            t1_ms=max(self.t1_ms, other.t1_ms),
            n2=max(self.n2, other.n2),
            t2_ms=max(self.t2_ms, other.t2_ms),
        )


def _is_octet_of_units(ms: int) -> bool:
    return ms % _MS_PER_UNIT == 0 and 0 <= ms // _MS_PER_UNIT <= 255


_FIELDS: dict[int, tuple[str, int]] = {
    _Type.VERSION: ("version", 1),
    _Type.IWF_TO_MS: ("window_iwf_to_ms", 1),
    _Type.MS_TO_IWF: ("window_ms_to_iwf", 1),
    _Type.T1: ("t1_ms", _MS_PER_UNIT),
    _Type.N2: ("n2", 1),
    _Type.T2: ("t2_ms", _MS_PER_UNIT),
}


def split_parameters(info: bytes) -> list[tuple[int, bytes]]:
    """Return (type, value) of each parameter in `info`, in order, unknown types included.

    Raises
    ------
    FrameError
        If a parameter reaches beyond the end of the information field.
    """
    parameters, at = [], 0
    while at < len(info) and info[at] >> 4 != _END:
        end = at + 1 + (info[at] & 0x0F)
        if end > len(info):
            raise FrameError(f"RLP XID: parameter type {info[at] >> 4} is cut; ignore the frame")
        parameters.append((info[at] >> 4, info[at + 1 : end]))
        at = end
    return parameters


def decode_parameters(info: bytes, *, default: Parameters | None = None) -> Parameters:
    """Return the parameters in the information field of an XID frame.

    Parameters
    ----------
    info : bytes
        The information field, padding included.
    default : Parameters, optional
        Holds where a parameter is absent.

    Raises
    ------
    FrameError
        If a parameter is cut, or its value out of range for versions 0 and 1.
    """
    start = default or Parameters()
    values = {field.name: getattr(start, field.name) for field in fields(Parameters)}
    for kind, value in split_parameters(info):
        if kind in _FIELDS and len(value) == 1:
            name, unit = _FIELDS[kind]
            values[name] = value[0] * unit
        elif kind == _Type.COMPRESSION:
            values["compression"] = value
        elif kind in _FIELDS:
            raise FrameError(f"RLP XID: {_FIELDS[kind][0]} has {len(value)} octets; versions 0, 1 have one")
    values["version"] = min(values["version"], 1)
    try:
        return Parameters(**values)
    except LocalProtocolError as error:
        raise FrameError(f"RLP XID: {error}; ignore the frame") from error
