"""`multitracer measure plan`: measures all tuples of a product of variables, in random order."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import click

from multitracer.cli._measure import measure_over, progress_line
from multitracer.cli._messages import warn
from multitracer.cli._output import page, standard_output
from multitracer.errors import InputError
from multitracer.measure.run import carry_out
from multitracer.measure.transports import client
from multitracer.measure.variables import PLAN, MeasuredTuples
from multitracer.words import count, portable, printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from multitracer.cli._measure import Over
    from multitracer.measure.live_logs import RunningRecording
    from multitracer.measure.outcome import Client
    from multitracer.measure.plan import MeasurementPlan
    from multitracer.measure.run import MeasureJournal, Progress
    from multitracer.measure.transports import TransportOptions
    from multitracer.measure.variables import Product, Tuple
    from multitracer.tables import Document

SCHEMA = "multitracer.measure-plan/1"
_EVERY_S = 10.0
"""Interval of progress lines in the log of a batch job, in s."""
_MOST_SHOWN = 10
"""Maximum remaining blocks that are listed."""


@dataclass(frozen=True, slots=True)
class PlanRun:
    """A plan (all combinations of variables) that is measured into a campaign."""

    plan: Product
    folder: Path
    link: Over
    at: dict[str, str]
    """The present level of each variable: only tuples with these levels are measured."""
    options: TransportOptions
    recording: RunningRecording | None = None
    """The recording that this plan is measured in."""

    @property
    def blocks(self) -> list[str]:
        """Names of the variables whose level a person must change by hand."""
        return self.plan.by_hand(is_modelled=is_modelled(self.plan))

    def order(self) -> list[Tuple]:
        """Return the combinations to measure at the current levels of variables set by hand, in random order.

        Raises
        ------
        InputError
            If a level does not exist.
        """
        for name, level in self.at.items():
            if level not in self.plan.variables.get(name, ()):
                raise InputError(
                    f"--at {printable(name)}={printable(level)}: the plan has no variable with this name and this level"
                )
        ordered = self.plan.ordered(self.blocks)
        return [each for each in ordered if all(each.levels[name] == self.at[name] for name in self.at)]

    def check(self) -> None:
        """Raise an error if the plan cannot be measured, before the first measurement.

        Raises
        ------
        InputError
            If the present level of a variable that is changed by hand is not given, or a setting is missing
            or impossible.
        FormatError
            If a level sets a key that the scenario of its link does not have.
        """
        order = self.order()
        for name in self.blocks:
            if name not in self.at:
                levels = ", ".join(self.plan.variables[name][:_MOST_SHOWN])
                raise InputError(
                    f"{name}: no setting controls this variable; set one of its levels ({levels}) "
                    f"by hand, then give --at {name}=LEVEL"
                )
        links = {}
        for each in order:
            changes = self._changes(each)
            links[self.plan.plan_of(each).over, repr(changes)] = changes
        for (over, _), changes in links.items():
            if over is not None:
                from multitracer.lab.scenario.library import load_scenario

                load_scenario(over, changes)

    def measure(self, *, as_json: bool = False) -> list[str]:
        """Measure the remaining combinations at the current levels, and add the results to the campaign.

        What is measured and what remains is written as text, or as JSON.

        Returns
        -------
        list of str
            Combinations that could not be measured, one sentence each.
        """
        from multitracer.campaign.run import run
        from multitracer.campaign.store import SNAPSHOTS, Store

        order = self.order()
        store = Store(self.folder)
        if store.is_campaign and store.list(SNAPSHOTS) and not (self.folder / PLAN).exists():
            raise InputError(f"{store.name}: this folder holds another kind of campaign; name another folder")
        store.make()
        with MeasuredTuples(self.folder, self.plan) as measured:
            try:
                failures = self._measure_all(order, measured)
            finally:
                sessions = [str(measured.session(name)) for name in sorted(measured.done)]
                if failed := run(sessions, self.folder).failed:
                    warn(f"{count(failed, 'session')} of the campaign could not be read; `campaign status` shows why")
            if as_json:
                self.write_json(measured, failures)
            else:
                self._show(measured)
        return failures

    def _measure_all(self, order: list[Tuple], measured: MeasuredTuples) -> list[str]:
        total = sum(self.plan.plan_of(each).count for each in self.plan.ordered([]))
        failures = []
        with progress_line(every_s=_EVERY_S) as draw:
            for each in order:
                if each.name in measured.done:
                    continue
                plan = self.plan.plan_of(each)
                try:
                    journal = self._measure(each, plan, measured, _complete(draw, measured, total))
                except InputError as error:
                    if plan.over is None:
                        raise
                    failures.append(f"{each.name}: {error}")
                else:
                    measured.add(each.name, len(journal.outcomes), journal.dropped)
        return failures

    def _measure(
        self, each: Tuple, plan: MeasurementPlan, measured: MeasuredTuples, progress: Progress
    ) -> MeasureJournal:
        session = measured.session(each.name)
        if plan.over is None:
            connect = partial(self._client, plan)
            return carry_out(plan, session, connect, progress=progress, recording=self.recording)
        profile = self.plan.settings_of(each).get("tcp_profile")
        seed = self.plan.seed + each.repetition - 1
        link = replace(self.link, over=plan.over, seed=seed, tcp_profile=profile)
        return measure_over(link, plan, session, self.options, progress, self._changes(each))

    def _changes(self, each: Tuple) -> Document:
        """Return the values that a combination of levels changes in the scenario of its link, by key."""
        return {key: value for key, value in self.plan.settings_of(each).items() if "." in key}

    def _client(self, plan: MeasurementPlan, number: int) -> Client:
        return client(plan.protocol, plan.server, run=number, timeout_s=plan.timeout_s, options=self.options)

    def _show(self, measured: MeasuredTuples) -> None:
        """Show how many combinations are measured, and which levels remain."""
        left = self._left(measured)
        transactions, dropped = measured.transactions
        click.echo(
            f"{printable(portable(str(self.folder)))}: {len(measured.done):,} of "
            f"{count(self.plan.count, 'tuple')} measured, {dropped:,} of "
            f"{count(transactions, 'transaction')} dropped"
        )
        for levels, number in left.most_common(_MOST_SHOWN):
            where = ", ".join(f"{name}={level}" for name, level in zip(self.blocks, levels, strict=True))
            click.echo(f"remaining{f' at {where}' if where else ''}: {count(number, 'tuple')}")
        if len(left) > _MOST_SHOWN:
            click.echo(f"{count(len(left) - _MOST_SHOWN, 'block')} more remain")

    def _left(self, measured: MeasuredTuples) -> Counter[tuple[str, ...]]:
        """Return the number of remaining combinations by the levels of the variables that are set by hand."""
        return Counter(
            tuple(each.levels[name] for name in self.blocks)
            for each in self.plan.ordered(self.blocks)
            if each.name not in measured.done
        )

    def write_json(self, measured: MeasuredTuples | None = None, failures: Sequence[str] = ()) -> None:
        """Write the document that docs/schemas/measure-plan.schema.json describes; of a dry run nothing is measured."""
        done = {} if measured is None else measured.done
        left = Counter() if measured is None else self._left(measured)
        transactions, dropped = (None, None) if measured is None else measured.transactions
        order = [
            {"session": each.name, "repetition": each.repetition, "levels": each.levels, "measured": each.name in done}
            for each in self.order()
        ]
        remaining = [
            {"levels": dict(zip(self.blocks, levels, strict=True)), "tuples": number}
            for levels, number in left.most_common()
        ]
        document = {
            "schema": SCHEMA,
            "folder": None if measured is None else portable(str(self.folder)),
            "seed": self.plan.seed,
            "tuples": self.plan.count,
            "order": order,
            "measured": None if measured is None else len(done),
            "transactions": transactions,
            "dropped": dropped,
            "remaining": remaining,
            "failures": [printable(portable(each)) for each in failures],
        }
        json.dump(document, standard_output(), allow_nan=False, indent=1)
        standard_output().write("\n")

    def show_order(self) -> None:
        """Write the combinations in the order in which they are measured."""
        names = list(self.plan.variables)
        rows = [
            (f"{at:,}", str(each.repetition), *(each.levels[name] for name in names), each.name)
            for at, each in enumerate(self.order(), start=1)
        ]
        page().table(("", "repetition", *names, "session"), rows, right=[0, 1])
        click.echo(
            f"{count(len(rows), 'tuple')} of {self.plan.count:,} in this order, from the random seed {self.plan.seed}"
        )


def _complete(draw: Progress, measured: MeasuredTuples, total: int) -> Progress:
    """Return a progress function for one combination that reports the progress of the complete plan."""
    before, dropped_before = measured.transactions

    def add(done: int, dropped: int, _: int) -> None:
        draw(before + done, dropped_before + dropped, total)

    return add


def is_modelled(plan: Product) -> bool:
    """Return whether a plan is measured over modelled links."""
    effects = (each for levels in plan.effects.values() for each in levels.values())
    return "over" in plan.settings or "over" in plan.variables or any("over" in each for each in effects)
