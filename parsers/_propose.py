"""Proposes a map of the columns of a CSV that no format knows."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from multitracer.errors import FormatError
from parsers._stream import open_stream

if TYPE_CHECKING:
    import os


def propose_map(path: str | os.PathLike[str], *, start: str = "", step_s: float = 1.0) -> str:
    """Return a map for a CSV as TOML; if the map lies beside the CSV, the reader uses it.

    Parameters
    ----------
    path : path
        A CSV, plain or compressed; "-" is standard input.
    start : str, optional
        Time of the first line (ISO 8601, or seconds since 1970) of a log without times.
    step_s : float
        Time from one line of such a log to the next, s.

    Raises
    ------
    InputError
        If it cannot be read.
    FormatError
        If it is not a CSV, or has no column with times, or none with a position or a level.
    """
    from parsers._text.proposal import NoProposalError, proposed, proposed_steps  # noqa: PLC0415  reading a capture needs it not

    with open_stream(path) as stream:
        try:
            if start:
                return proposed_steps(io.BufferedReader(stream), start, step_s)
            return proposed(io.BufferedReader(stream))
        except NoProposalError as error:
            raise FormatError(
                stream.path,
                f"cannot propose a column map: {error}; write the column map by hand "
                "(docs/formats.md shows an example)",
            ) from error
