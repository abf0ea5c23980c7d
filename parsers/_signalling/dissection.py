"""Dissection of messages by one tshark process, limited to the few fields that the tables need.

Columns give the names of messages and causes in tshark's own words, fields the numbers. None of them is an
identity of a subscriber or of a phone, or the text of a short message: fields not named here are never read.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from multitracer.errors import PreflightError
from multitracer.protocols.pcap_file import interface_block, packet_block, section_header
from parsers._text.times import BEYOND, integer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from parsers._signalling.gsmtap import Numbered

# Starts a program of others with bounds on its time, memory and output, and keeps what it wrote.
#
# A diagnostic log is hostile input for a program that we do not maintain: it runs in a process group of its
# own, without a shell, writes into a folder of ours that nobody else can read, and is ended with its
# children.


_MOST_MEMORY_BYTES = 4 << 30
"""Maximum address space of tshark: it needs 0.3 GB and 0.7 kB a packet, a quarter of it for a million."""
_LAST_WORDS_BYTES = 500
_GRACE_S = 2.0  # after each signal; not measured
_INSTALL = {"tshark": "sudo apt-get install tshark", "scat": "pip install 'multitracer[signalling]'"}


@dataclass(frozen=True, slots=True)
class ProgramBounds:
    """Resource limits of a program."""

    seconds: float
    output_bytes: int
    """Maximum size of each file that it writes."""


def program(name: str) -> str:
    """Return the path of a program, found on PATH or where this Python is installed.

    Raises
    ------
    PreflightError
        If it is not installed; the message names the command that installs it.
    """
    own = Path(sys.executable).parent / name
    path = shutil.which(name) or (str(own) if os.access(own, os.X_OK) else None)
    if path is None:
        raise PreflightError(
            f"{name} is not installed, but MultiTracer needs {name} to read signalling; {_INSTALL[name]}"
        )
    return path


def run(command: Sequence[str], *, into: Path, bounds: ProgramBounds, env: Mapping[str, str] | None = None) -> str:
    """Run a program to its end, with its standard output in a file.

    Parameters
    ----------
    command : sequence of str
        Its path and its arguments.
    into : Path
        The file of its standard output.
    bounds : ProgramBounds
    env : mapping of str to str, optional
        Added to the environment.

    Returns
    -------
    str
        Why it ended before its work was done, in words that follow its name; "" if it was done.
    """
    words = into.with_suffix(".err")
    with into.open("wb") as output, words.open("wb") as errors:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=os.environ | dict(env or {}),
            cwd=into.parent,
            start_new_session=True,
        )
        try:
            _limit(process.pid, bounds)
            process.wait(timeout=bounds.seconds)
        except subprocess.TimeoutExpired:
            return f"did not end within {bounds.seconds:.0f} s and was stopped"
        finally:
            _end(process)
    return _failure(process.returncode, words)


def _limit(pid: int, bounds: ProgramBounds) -> None:
    try:
        import resource  # noqa: PLC0415  # Windows has none
    except ModuleNotFoundError:
        return
    limits = (
        (resource.RLIMIT_AS, _MOST_MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, bounds.output_bytes),
        (resource.RLIMIT_CORE, 0),
    )
    with contextlib.suppress(OSError, AttributeError):  # it has ended; another system than Linux
        for which, most in limits:
            resource.prlimit(pid, which, (most, most))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a running program and its children.

    First by the signal of Ctrl-C, so that it can write its output.
    """
    if not hasattr(os, "killpg"):  # Windows
        process.kill()
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GRACE_S)


def _failure(returncode: int, words: Path) -> str:
    if returncode == 0:
        return ""
    if returncode == -getattr(signal, "SIGXFSZ", 0):
        return "was stopped because its output was too large"
    how = f"was ended by signal {-returncode}" if returncode < 0 else f"failed with status {returncode}"
    with words.open("rb") as file:
        file.seek(max(words.stat().st_size - _LAST_WORDS_BYTES, 0))
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    last = "".join(c for c in lines[-1] if c.isprintable())[:160] if lines else ""
    return how + (f" ({last})" if last else "")


_RAW, _UPPER_PDU = 101, 252
"""LINKTYPE_RAW, and LINKTYPE_WIRESHARK_UPPER_PDU for what no link carries (IANA link types)."""
_MOST_MESSAGES = 1_000_000
"""Maximum number of messages of one capture; a drive of eight hours has half as many (15 a second). Further messages
are only counted."""
_LONGEST_BYTES = 1 << 16  # of a UDP packet
_MIN_S, _MESSAGES_PER_S = 60.0, 500
"""tshark dissects 8,000 messages a second on one core of 2020: a machine 16 times slower may finish."""
_BYTES_PER_MESSAGE = 4096
"""Maximum output for a message; a measurement report of NR with eight cells takes 600 bytes."""

COLUMNS = {
    "lte": "lte-rrc.c1",
    "lte_extended": "lte-rrc.c2 or lte-rrc.c3",
    "nr": "nr-rrc.c1",
    "nr_extended": "nr-rrc.c2",
    "umts": "rrc.message",
    "emm": "nas_eps.nas_msg_emm_type",
    "esm": "nas_eps.nas_msg_esm_type",
    "mm_5g": "nas_5gs.mm.message_type",
    "sm_5g": "nas_5gs.sm.message_type",
    "rr": "gsm_a.dtap.msg_rr_type",
    "dtap": " or ".join(f"gsm_a.dtap.msg_{each}_type" for each in ("mm", "gmm", "cc", "sm", "ss")),
    "sms": "gsm_a.dtap.msg_sms_type",
    "rlc_mac": "gsm_rlcmac.dl.message_type or gsm_rlcmac.ul.message_type",
    "rrc_cause": " or ".join(
        (
            "lte-rrc.releaseCause",
            "lte-rrc.reestablishmentCause",
            "lte-rrc.establishmentCause",
            "nr-rrc.reestablishmentCause",
            "nr-rrc.establishmentCause",
            "lte-rrc.resumeCause_r13",
            "lte-rrc.resumeCause_r15",
            "nr-rrc.resumeCause",
            "rrc.releaseCause",
            "rrc.cellUpdateCause",
            "rrc.failureCause",
            "rrc.establishmentCause",
            "gsm_a.rr.RRcause",
        )
    ),
    "scg_failure": "lte-rrc.failureType_r15 or lte-rrc.failureType_r12 or nr-rrc.failureType",
    "emm_cause": "nas_eps.emm.cause",
    "esm_cause": "nas_eps.esm.cause",
    "mm_5g_cause": "nas_5gs.mm.5gmm_cause",
    "sm_5g_cause": "nas_5gs.sm.5gsm_cause",
    "dtap_cause": "gsm_a.gm.gmm.cause or gsm_a.gm.sm.cause or gsm_a.dtap.rej_cause",
}
"""Names of columns, and the tshark fields whose values they show in words."""
FIELDS = {
    "number": "frame.number",
    "protocols": "frame.protocols",
    "lte_extension": "lte-rrc.messageClassExtension",
    "nr_extension": "nr-rrc.messageClassExtension",
    "lte_transaction": "lte-rrc.rrc_TransactionIdentifier",
    "nr_transaction": "nr-rrc.rrc_TransactionIdentifier",
    "umts_transaction": "rrc.rrc_TransactionIdentifier",
    "nr_reconfiguration": "nr-rrc.RRCReconfiguration_element",
    "nr_complete": "nr-rrc.RRCReconfigurationComplete_element",
    "mobility_control": "lte-rrc.mobilityControlInfo_element",
    "target_cell": "lte-rrc.targetPhysCellId",
    "target_channel": "lte-rrc.dl_CarrierFreq",
    "target_channel_extended": "lte-rrc.dl_CarrierFreq_v1090",
    "nr_config": "lte-rrc.nr_Config_r15",
    "with_sync": "nr-rrc.reconfigurationWithSync_element",
    "nr_cell": "nr-rrc.physCellId",
    "nr_channel": "nr-rrc.absoluteFrequencySSB",
    "redirected": "lte-rrc.redirectedCarrierInfo",
    "redirected_lte": "lte-rrc.eutra",
    "redirected_umts": "lte-rrc.utra_FDD",
    "redirected_nr": "lte-rrc.carrierFreq_r15",
    "nr_redirected": "nr-rrc.redirectedCarrierInfo",
    "target_rat": "lte-rrc.targetRAT_Type",
    "nr_target_rat": "nr-rrc.targetRAT_Type",
    "lte_cell": "lte-rrc.physCellId",
    "lte_rsrp": "lte-rrc.rsrpResult",
    "lte_rsrq": "lte-rrc.rsrqResult",
    "secondary_rsrp": "lte-rrc.rsrpResultSCell_r10",
    "secondary_rsrq": "lte-rrc.rsrqResultSCell_r10",
    "nr_serving_count": "nr-rrc.measResultServingMOList",
    "nr_rsrp": "nr-rrc.measQuantityResults.rsrp",
    "nr_rsrq": "nr-rrc.measQuantityResults.rsrq",
    "nr_sinr": "nr-rrc.measQuantityResults.sinr",
    "nr_beams": "nr-rrc.resultsSSB_Indexes",
    "lte_cell_id": "lte-rrc.cellIdentity",
    "lte_area": "lte-rrc.trackingAreaCode",
    "nr_cell_id": "nr-rrc.cellIdentity",
    "nr_area": "nr-rrc.trackingAreaCode",
    "umts_scrambling": "rrc.primaryScramblingCode",
    "umts_channel": "rrc.uarfcn_DL",
    "umts_added": "rrc.rl_AdditionInformationList",
    "umts_removed": "rrc.rl_RemovalInformationList",
    "umts_rscp": "rrc.cpich_RSCP",
    "umts_ecno": "rrc.cpich_Ec_N0",
    "umts_frequency": "rrc.frequencyInfo_element",
    "gsm_rxlev": "gsm_a.rr.rxlev_full_serv_cell",
    "gsm_rxlev_valid": "gsm_a.rr.meas_valid",
    "gsm_target_channel": "gsm_a.rr.bcch_arfcn",
    "gsm_ncc": "gsm_a.rr.ncc",
    "gsm_bcc": "gsm_a.rr.bcc",
    "emm_cause_number": "nas_eps.emm.cause",
    "esm_cause_number": "nas_eps.esm.cause",
    "mm_5g_cause_number": "nas_5gs.mm.5gmm_cause",
    "sm_5g_cause_number": "nas_5gs.sm.5gsm_cause",
    "esm_transaction": "nas_eps.esm.proc_trans_id",
    "sm_5g_transaction": "nas_5gs.proc_trans_id",
    "esm_bearer": "nas_eps.bearer_id",
    "sm_5g_bearer": "nas_5gs.pdu_session_id",
    "emm_switch_off": "nas_eps.emm.switch_off",
    "emm_detach_up": "nas_eps.emm.detach_type_ul",
    "emm_detach_down": "nas_eps.emm.detach_type_dl",
    "mm_5g_switch_off": "nas_5gs.mm.switch_off",
    "nr_suspended": "nr-rrc.suspendConfig_element",
    "lte_inactive": "lte-rrc.rrc_InactiveConfig_r15_element",
    "lte_secondary_added": "lte-rrc.sCellToAddModList_r10",
    "lte_secondary_released": "lte-rrc.sCellToReleaseList_r10",
    "lte_secondary_added_index": "lte-rrc.sCellIndex_r10",
    "lte_secondary_released_index": "lte-rrc.SCellIndex_r10",
    "nr_secondary_added": "nr-rrc.sCellToAddModList",
    "nr_secondary_released": "nr-rrc.sCellToReleaseList",
    "nr_secondary_added_index": "nr-rrc.sCellIndex",
    "nr_secondary_released_index": "nr-rrc.SCellIndex",
}
"""Name, and the field of tshark."""
_UNKNOWN = re.compile(r"^\s+([\w.-]+)$", re.MULTILINE)


class DissectedMessage(NamedTuple):
    """One message as tshark describes it: values by the name of a column or field."""

    numbered: Numbered
    values: dict[str, str]

    def integers(self, name: str) -> list[int]:
        """Return the values of a field, in their order in the message; empty if the field is absent."""
        if name not in self.values:
            return []
        texts = self.values[name].split(",")
        return [number for each in texts if each and (number := integer(each, 0)) != BEYOND]

    def first(self, name: str) -> int | None:
        """Return the first value of a field; None if the field is absent."""
        values = self.integers(name)
        return values[0] if values else None

    def bits(self, name: str, bits: int) -> int | None:
        """Return the first value of a bit-string field of `bits` bits as an integer; None if it is absent."""
        text = self.values.get(name, "").split(",")[0].replace(":", "")
        if not text or not re.fullmatch("[0-9a-fA-F]{1,16}", text):
            return None
        return int(text, 16) >> max(len(text) * 4 - bits, 0)


class Dissection:
    """Iterates over the messages of a capture, each with tshark's description.

    Attributes
    ----------
    warnings : list of str
        Warnings, a sentence each; complete when the iteration has ended.
    left_out : int
        Messages beyond the maximum number.
    """

    def __init__(self, messages: Iterable[Numbered]) -> None:
        self._messages = messages
        self.warnings: list[str] = []
        self.left_out = 0

    def __iter__(self) -> Iterator[DissectedMessage]:
        """Yield the messages in order; a message that tshark did not reach has no values.

        Raises
        ------
        PreflightError
            If tshark is not installed.
        """
        tshark = program("tshark")
        with TemporaryDirectory(prefix="multitracer-") as folder:
            written = self._written(Path(folder))
            yield from self._dissected(tshark, Path(folder), written)

    def _written(self, folder: Path) -> list[Numbered]:
        """Write the messages into a capture file for tshark; return the written messages."""
        written: list[Numbered] = []
        with (folder / "messages.pcapng").open("wb") as file:
            file.write(section_header() + interface_block(link_type=_RAW))
            file.write(interface_block(link_type=_UPPER_PDU))
            for each in self._messages:
                if len(written) >= _MOST_MESSAGES:
                    self.left_out += 1
                    continue
                packet = each.message.packet()[:_LONGEST_BYTES]
                file.write(packet_block(packet, time_ns=0, interface=int(bool(each.message.exported))))
                written.append(each)
        if self.left_out:
            self.warnings.append(
                f"there are {len(written) + self.left_out:,} messages of signalling, but only the "
                f"first {len(written):,} are used; split the log into files"
            )
        return written

    def _dissected(self, tshark: str, folder: Path, written: list[Numbered]) -> Iterator[DissectedMessage]:
        bounds = ProgramBounds(_MIN_S + len(written) / _MESSAGES_PER_S, (1 << 20) + _BYTES_PER_MESSAGE * len(written))
        output, env = folder / "fields.txt", tshark_environment(folder)
        failure = ""
        if written:
            fields = _known_fields(tshark, folder, env)
            command = _command(tshark, folder, [FIELDS[name] for name in fields])
            failure = run(command, into=output, bounds=bounds, env=env)
        done = 0
        if output.exists():
            for numbered, values in zip(written, _lines(output, fields), strict=False):
                if values.get("number") != str(done + 1):
                    break  # the line that was being written when it ended
                done += 1
                yield DissectedMessage(numbered, values)
        for numbered in written[done:]:
            yield DissectedMessage(numbered, {})
        if failure or done < len(written):
            self.warnings.append(
                f"tshark {failure or 'ended early'}; it dissected {done:,} of {len(written):,} "
                "messages; the other messages have no name"
            )


def tshark_environment(folder: Path) -> dict[str, str]:
    """Return the environment for tshark, in which the user's settings of tshark have no effect."""
    empty = str(folder / "settings")
    return {"WIRESHARK_CONFIG_DIR": empty, "WIRESHARK_DATA_DIR": "", "HOME": empty, "LC_ALL": "C"}


def _command(tshark: str, folder: Path, fields: list[str]) -> list[str]:
    columns = ",".join(f'"{name}","%Cus:{source}:0:R"' for name, source in COLUMNS.items())
    command = [tshark, "-n", "-r", str(folder / "messages.pcapng"), "-o"]
    command += [f'gui.column.format:{columns},"info","%i"']
    command += ["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=,"]
    for name in (*(f"_ws.col.{each}" for each in (*COLUMNS, "info")), *fields):
        command += ["-e", name]
    return command


def _known_fields(tshark: str, folder: Path, env: dict[str, str]) -> list[str]:
    """Return those of `FIELDS` that this version of tshark supports.

    An attempt with all fields fails, and its error message names the unknown ones.
    """
    empty = folder / "none.pcapng"
    empty.write_bytes(section_header() + interface_block(link_type=_RAW))
    command = [tshark, "-r", str(empty), "-T", "fields"]
    for field in FIELDS.values():
        command += ["-e", field]
    failure = run(command, into=folder / "none.txt", bounds=ProgramBounds(_MIN_S, 1 << 20), env=env)
    if not failure:
        return list(FIELDS)
    words = (folder / "none.err").read_text(errors="replace")
    lacking = set(_UNKNOWN.findall(words.partition("aren't valid")[2]))
    return [name for name, field in FIELDS.items() if field not in lacking]


def _lines(output: Path, fields: list[str]) -> Iterator[dict[str, str]]:
    """Yield the values of each message by field name; absent fields are left out."""
    names = [*COLUMNS, "info", *fields]
    with output.open(encoding="utf-8", errors="replace", newline="\n") as file:
        for line in file:
            cells = line.removesuffix("\n").split("\t")
            yield {name: cell for name, cell in zip(names, cells, strict=False) if cell}
