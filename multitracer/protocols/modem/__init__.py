"""What modems say of their radio: a conversation in AT commands, and the decoding of its answers.

Read first: `conversation.py` (questions, answers, and what comes unasked), then `decode.py`. One module per
vendor decodes its commands; which commands are asked of which modem is data (collectors/profiles).
"""

from multitracer.protocols.modem.conversation import Answer, Conversation, Unsolicited
from multitracer.protocols.modem.decode import UNSOLICITED, Decoded, decode, tells
from multitracer.protocols.modem.grammar import AnswerError, command_name

__all__ = [
    "UNSOLICITED",
    "Answer",
    "AnswerError",
    "Conversation",
    "Decoded",
    "Unsolicited",
    "command_name",
    "decode",
    "tells",
]
