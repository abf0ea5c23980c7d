"""XML of a file that may be hostile, read element by element.

A document type, which could declare entities, is refused; the depth of elements, their texts and their tags are
bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from xml.parsers import expat

from multitracer.errors import FormatError

if TYPE_CHECKING:

    class _Readable(Protocol):
        def read(self, size: int, /) -> bytes: ...


_CHUNK_BYTES = 1 << 16
_DEEPEST = 64
"""Depth of elements; the formats that are read are about 8 deep."""
_LONGEST_TAG_BYTES = 1 << 20


class XmlRefusedError(Exception):
    """XML that is not read further; the argument is the reason."""


class XmlReader:
    """Calls `begin` and `end` for the elements of a document; a format defines them.

    Parameters
    ----------
    longest_text : int
        Number of characters of an element that are kept, at least.
    """

    def __init__(self, longest_text: int) -> None:
        self.names: list[str] = []
        """Names of the open elements, without the prefixes of name spaces."""
        self._longest_text = longest_text
        self._text: list[str] = []
        self._length = self._fed = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._finish
        self._parser.CharacterDataHandler = self._characters
        self._parser.StartDoctypeDeclHandler = self._refuse
        self._parser.EntityDeclHandler = self._refuse

    @property
    def line(self) -> int:
        """Line of the document at which the reader is, from 1."""
        return self._parser.CurrentLineNumber

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        """Use the begin of an element, whose name is the last one of `names`."""

    def end(self, name: str, text: str) -> None:
        """Use the end of an element; `text` is its own, or what follows its last child."""

    def read(self, stream: _Readable) -> str | None:
        """Read the document; return why it was not read to its end, or None."""
        try:
            while chunk := stream.read(_CHUNK_BYTES):
                self._feed(chunk)
            self._feed(b"")
        except FormatError as error:  # of what unpacks the file
            return error.reason
        except expat.ExpatError as error:
            return f"not valid XML at line {error.lineno:,}: {expat.ErrorString(error.code)}"
        except XmlRefusedError as error:
            return str(error)
        except (LookupError, ValueError) as error:
            return f"the character encoding is not supported: {error}"
        return None

    def _feed(self, chunk: bytes) -> None:
        self._fed += len(chunk)
        self._parser.Parse(chunk, not chunk)
        kept = self._fed - max(self._parser.CurrentByteIndex, 0)  # expat keeps a tag that is not whole
        if kept > _LONGEST_TAG_BYTES:
            raise XmlRefusedError(f"a tag or comment of the file is longer than {_LONGEST_TAG_BYTES >> 20} MiB")

    def _refuse(self, *_declared: object) -> None:
        raise XmlRefusedError(
            "document types (DOCTYPE) are not accepted, because they may declare entities; remove the DOCTYPE"
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.names.append(name.rpartition(":")[2])
        if len(self.names) > _DEEPEST:
            raise XmlRefusedError(f"the XML elements are nested more than {_DEEPEST} levels deep")
        self._text, self._length = [], 0
        self.begin(self.names[-1], attributes)

    def _characters(self, text: str) -> None:
        self._length += len(text)
        if self._length <= self._longest_text:
            self._text.append(text)

    def _finish(self, _name: str) -> None:
        name, text = self.names.pop(), "".join(self._text)
        self._text, self._length = [], 0
        self.end(name, text)
