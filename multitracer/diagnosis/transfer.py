"""One transfer, and what several of its logs together say of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from multitracer.analysis.verdicts import OtherLogs, judge
from multitracer.diagnosis.join.radio_logs import radio_tables
from multitracer.diagnosis.join.recorded_transfer import Recorded
from multitracer.diagnosis.join.segments_and_frames import Fate, Join, join
from multitracer.recording.layers import Layers, data_hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.recording.recording import Recording
    from multitracer.tables import Table


_WORTH_A_THREAD = 200_000
"""Packets from which on two threads are faster than one."""


@contextmanager
def _meanwhile(packets: int, work: Callable[[], object]) -> Iterator[None]:
    """Do some work on a second core, if it is of many packets: NumPy and the kernel mostly let others run.

    What it finds must be kept where the rest looks for it; of few packets, it is done when it is needed.
    """
    if packets < _WORTH_A_THREAD:
        yield
        return
    with ThreadPoolExecutor(1) as executor:
        done = executor.submit(work)
        yield
        done.result()


@dataclass(frozen=True)
class Transfer(Recorded):
    """One direction of one connection in every log of a session, and what is concluded from them.

    Its attributes are those of `Recorded`.
    """

    @classmethod
    def of(
        cls, recording: Recording, connection: int | None = None, *, reverse: bool | None = None
    ) -> Transfer:
        """Return what a recording holds of one transfer.

        Parameters
        ----------
        recording : Recording
        connection : int, optional
            Its number in the recording, from 1; by default the one with the most unique bytes.
        reverse : bool, optional
            Whose data: False the initiator's, True the responder's; by default the one with more bytes.

        Raises
        ------
        InputError
            If there is no such connection.
        """
        part, number = recording.chosen(connection)
        bounds = part.analysis.partition.bounds
        with _meanwhile(int(bounds[2 * number] - bounds[2 * number - 2]), lambda: recording.clocks):
            layers = Layers.of(recording, part, number, reverse=reverse)
        receiver = layers.view.receiver
        sides = recording.hosts.link if recording.inputs.holds("link") else {}
        near, far = data_hosts(recording, layers.view) if sides else (None, None)
        transfer = cls(
            layers,
            layers.segments,
            None if receiver is None else receiver.segments(),
            receiver,
            sides.get(near or ""),
            sides.get(far or ""),
            recording=recording,
        )
        return replace(transfer, radio=tuple(radio_tables(transfer, recording)))

    @contextmanager
    def meanwhile(self, work: Callable[[], object]) -> Iterator[None]:
        """Do some work on a second core, if there are many packets, beside what else is done.

        What became of each packet, and why it was sent again, is found first: all ask for it.
        """
        if len(self.sender) >= _WORTH_A_THREAD:
            with _meanwhile(len(self.sender), lambda: (self.data_pairs, self.ack_pairs)):
                assert self.verdicts is not None
        with _meanwhile(len(self.sender), work):
            yield

    @cached_property
    def joined(self) -> Join | None:
        """Segments, packets and frames, joined; None without the link's log at the sender."""
        return join(self)

    @cached_property
    def verdicts(self) -> Table:
        """VERDICTS: cause and necessity of each retransmission, by all that is known of the transfer.

        The receiver's capture says what arrived, and what the receiver had said by then. But damaged segments
        stand in it under the numbers of others; where there are such, the link's logs say what arrived.
        """
        joined = self.joined if self.receiver is None or self._is_misnumbered else None
        by_link = joined is not None and joined.delivery is not None
        logs = OtherLogs(
            receiver=None if by_link else self.receiver,
            arrived=joined.arrived if joined is not None and by_link else None,
            state=self.state if len(self.state) else None,
            events=self.events if len(self.events) else None,
        )
        vantage = self.layers.vantage
        return judge(self.sender, self.sacks, reverse=self.reverse, vantage=vantage, logs=logs)

    @property
    def _is_misnumbered(self) -> bool:
        """Whether segments arrived with the headers of others: the header decompressor was out of step."""
        return self.joined is not None and bool((self.joined.carriages["fate"] == Fate.DAMAGED).any())
