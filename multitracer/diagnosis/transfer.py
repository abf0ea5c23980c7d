"""One transfer, and what several of its logs together say of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.parallel import FEWEST_ROWS, meanwhile
from multitracer.analysis.verdicts import OtherLogs, judge
from multitracer.diagnosis.join.radio_logs import radio_tables
from multitracer.diagnosis.join.recorded_transfer import Recorded
from multitracer.diagnosis.join.segments_and_frames import Fate, Join, join
from multitracer.diagnosis.once import kept
from multitracer.recording.layers import Layers, data_hosts
from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.recording.recording import Recording
    from multitracer.tables import Array, Table


def _begin(work: Callable[[], object]) -> None:
    """Begin some work on a second core; who asks for what it finds waits for it, or does it if it failed."""
    executor = ThreadPoolExecutor(1)
    executor.submit(work)
    executor.shutdown(wait=False)


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
        packets = int(bounds[2 * number] - bounds[2 * number - 2])
        if packets >= FEWEST_ROWS and not recording.inputs.listed:  # logs are parsed by one thread
            _begin(lambda: recording.clocks)
            layers = Layers.before_clocks(recording, part, number, reverse=reverse)
        else:
            with meanwhile(packets, lambda: recording.clocks):
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
        if len(self.sender) >= FEWEST_ROWS:
            with meanwhile(len(self.sender), lambda: (self.data_pairs, self.ack_pairs)):
                assert self.verdicts is not None
        with meanwhile(len(self.sender), work):
            yield

    @kept
    def joined(self) -> Join | None:
        """Segments, packets and frames, joined; None without the link's log at the sender."""
        return join(self)

    @kept
    def verdicts(self) -> Table:
        """VERDICTS: cause and necessity of each retransmission, by all that is known of the transfer.

        The receiver's capture says what arrived, and what the receiver had said by then. But damaged segments
        stand in it under the numbers of others; where there are such, the link's logs say what arrived.
        """
        joined = self.joined if self.receiver is None or self._is_misnumbered else None
        by_link = joined is not None and joined.delivery is not None
        receiver = None if by_link else self.receiver
        logs = OtherLogs(
            receiver=receiver,
            came=self._came,
            came_back=self._came_back,
            arrived=joined.arrived if joined is not None and by_link else None,
            state=self.state if len(self.state) else None,
            events=self.events if len(self.events) else None,
        )
        vantage = self.layers.vantage
        return judge(self.sender, self.sacks, reverse=self.reverse, vantage=vantage, logs=logs)

    def _came(self) -> Array | None:
        """Return per row of `sender` its row in `receiver`, NA for none; None if not compared."""
        return (
            None if self.data_pairs is None else self._paired(self.data_pairs.sent, self.data_pairs.arrived)
        )

    def _came_back(self) -> Array | None:
        """Return the same of what the receiver sent."""
        return None if self.ack_pairs is None else self._paired(self.ack_pairs.arrived, self.ack_pairs.sent)

    def _paired(self, own: Array, theirs: Array) -> Array:
        """Return per row of `sender` its row in `receiver`, of pairs of which one may be NA; NA for none."""
        rows = np.full(len(self.sender), NA, dtype=np.int64)
        both = np.flatnonzero((own != NA) & (theirs != NA))
        rows[own[both]] = theirs[both]
        return rows

    @property
    def _is_misnumbered(self) -> bool:
        """Whether segments arrived with the headers of others: the header decompressor was out of step."""
        return self.joined is not None and bool((self.joined.carriages["fate"] == Fate.DAMAGED).any())
