"""Data waited for the signalling between phone and network: a promotion, a reject, a failure, a release, the NR leg.

The phone's messages or its modem's states are the evidence. Without them, packets alone may suggest promotions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from multitracer.diagnosis.clauses import lasted
from multitracer.diagnosis.finding import BY_PACKETS, Finding, few
from multitracer.diagnosis.limits.names import OF_SIGNALLING, RadioCause
from multitracer.diagnosis.signalling_waits import promotions_of_packets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.signalling_waits import SignallingWait


class SignallingRule(NamedTuple):
    """The rule for one cause."""

    cause: RadioCause

    @property
    def KIND(self) -> str:  # noqa: N802  # a name of Rule
        """Kind of its findings: the word for the cause."""
        return str(self.cause.label)

    @property
    def HELP(self) -> str:  # noqa: N802  # a name of Rule
        """The remedy if no number is known."""
        return _sentence(self.cause.help)

    def find(self, diagnosis: Diagnosis) -> Iterator[Finding]:
        """Yield a finding for each time in which data waited for this cause."""
        waits = [each for each in diagnosis.waits if each.cause is self.cause]
        if self.cause is RadioCause.PROMOTION and diagnosis.signalling is None and not diagnosis.is_link_logged:
            waits = promotions_of_packets(diagnosis.limited)
        for each in waits:
            waited_s = diagnosis.link_s(each.begin_ns, each.end_ns)
            numbers = {"waited_s": waited_s} | ({BY_PACKETS: 1.0} if each.is_inferred else {})
            timer = diagnosis.inactivity_timer if self.cause is RadioCause.PROMOTION else None
            if timer is not None:
                numbers |= {
                    "inactivity_timer_s": timer.seconds, "inactivity_timer_low_s": timer.low_s,
                    "inactivity_timer_high_s": timer.high_s,
                }  # fmt: skip
            sentence = _says(each, lasted(waited_s, 2), f"{diagnosis.at_s(each.begin_ns):.1f} s")
            helps = f"Keep-alives below the inactivity timer of {timer}, or requests in batches." if timer else ""
            if self.cause is RadioCause.REJECTED and each.text:
                helps = f"Ask the operator about cause {each.text}."
            yield Finding(
                self.KIND,
                each.begin_ns,
                each.end_ns,
                waited_s,
                None,
                few(list(each.evidence)),
                sentence,
                helps,
                numbers,
            )


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _says(wait: SignallingWait, waited: str, at: str) -> str:
    """Return what happened; the text of a log is hostile, and is escaped where it is shown."""
    if wait.is_inferred:
        return (
            f"The first packet after an idle time waited at most {waited}, from {at} of the transfer on, and later "
            "ones did not: this may be the promotion of an idle phone, or a radio that sleeps to save power."
        )
    cause = f" (cause {wait.text})" if wait.text else ""
    return {
        RadioCause.PROMOTION: f"Data waited {waited}, from {at} of the transfer on, until the phone had a connection "
        f"({wait.what}).",
        RadioCause.REJECTED: f"The network rejected the phone's {wait.what}{cause}: data waited {waited}, from {at} of "
        "the transfer on.",
        RadioCause.RADIO_LINK_FAILURE: f"The radio link failed ({wait.what}): data waited {waited}, from {at} of the "
        "transfer on.",
        RadioCause.RELEASE: f"The network released the connection while data waited: {waited} more, from {at} of the "
        "transfer on.",
        RadioCause.SECONDARY_LEG: f"The NR leg changed ({wait.what}{cause}): data waited {waited}, from {at} of the "
        "transfer on.",
    }[wait.cause]


RULES = tuple(SignallingRule(cause) for cause in OF_SIGNALLING)
