"""One consultation: advice for the recorded rates, with a burst, and for the rates to come."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs
import numpy as np

from penstock.advice.advise import advise
from penstock.advice.busiest import busiest
from penstock.advice.outlook import Outlook, outlook
from penstock.advice.rates import with_burst
from penstock.advice.replay import replay
from penstock.advice.rows import Replayed
from penstock.advice.values import Aims, Deployment, Report
from penstock.errors import InputError
from penstock.files import Document

APART = 0.25
"""Share by which replayed batches may differ from the recorded ones before it is said."""


@attrs.frozen(kw_only=True)
class Burst:
    """A burst to be ready for: so many times the mean rate, for so long (s)."""

    factor: float = 1.0
    length: float = 60.0

    def checked(self) -> Burst:
        """Return it if it is one."""
        if not (np.isfinite(self.factor) and 0 < self.factor <= 1e6):
            raise InputError(f"expected a factor > 0 and of at most 1e6, got {self.factor:g}", at="--burst")
        if not (np.isfinite(self.length) and 0 < self.length <= 86400):
            raise InputError(f"expected a length > 0 s and of at most a day, got {self.length:g}", at="--burst-length")
        return self


@attrs.frozen(eq=False, kw_only=True)
class Consultation:
    """Advice for the recorded rates, and for those to come where a forecast was asked for.

    `agreement` has the median seconds of a batch by query, as recorded and as replayed at the recorded rates.
    `burst` comes behind the rates of both reports.
    """

    report: Report
    burst: Burst = attrs.field(factory=Burst)
    agreement: Mapping[str, Mapping[str, float]] = attrs.field(factory=dict)
    later: Report | None = None
    outlook: Outlook | None = None

    def document(self) -> Document:
        """Return what ``penstock advise --json`` prints."""
        document = self.report.document()
        for name, seconds in self.agreement.items():
            document["queries"][name]["batch"] = dict(seconds)
        if self.later is not None and self.outlook is not None:
            now, then = _rows(self.report), _rows(self.later)
            document["forecast"] = {
                **self.outlook.document(),
                "advice": [advice.document() for advice in self.later.advice],
                "changes": {
                    "new": [then[key] for key in then if key not in now],
                    "gone": [now[key] for key in now if key not in then],
                    "other": [
                        {**then[key], "now": now[key]["to"]} for key in then if key in now and then[key] != now[key]
                    ],
                },
            }
        return document


def _rows(report: Report) -> dict[tuple[str, str, str], Document]:
    return {
        (p.kind, p.query, p.setting): {"kind": p.kind, "query": p.query, "setting": p.setting, "to": p.new}
        for p in (advice.proposal for advice in report.advice)
    }


def consult(
    deployment: Deployment, aims: Aims, burst: Burst, rng: np.random.Generator, horizon: float | None = None
) -> Consultation:
    """Return advice on a deployment.

    Parameters
    ----------
    deployment
        With its whole history.
    burst
        Comes behind the recorded rates, and behind those to come.
    horizon
        How far to forecast (s); None: not at all.

    Raises
    ------
    InputError
        If the burst is none, or the history too short for the forecast.
    """
    burst = burst.checked()
    later = None if horizon is None else outlook(deployment, horizon)

    def ready(rates: Deployment) -> Deployment:
        return with_burst(rates, burst.factor, burst.length) if burst.factor != 1 else rates

    part = busiest(deployment)
    agreed = agreement(deployment, part.whole or replay(part.deployment))
    off = apart(agreed)
    report = _careful(advise(ready(part.deployment), aims, rng), off)
    notes = (*report.notes, *part.notes, *(later.notes if later is not None else ()))
    return Consultation(
        report=attrs.evolve(report, notes=notes),
        burst=burst,
        agreement=agreed,
        later=None if later is None else _careful(advise(ready(later.deployment), aims, rng), off),
        outlook=later,
    )


def apart(agreed: Mapping[str, Mapping[str, float]]) -> tuple[str, ...]:
    """Return the queries whose replayed batches differ much from the recorded ones."""
    return tuple(name for name, each in agreed.items() if abs(each["replayed"] / each["recorded"] - 1) > APART)


def _careful(report: Report, off: Collection[str]) -> Report:
    """Return the report without advice that frees cores of queries whose replay is off: there may be none to spare."""
    kept = tuple(each for each in report.advice if each.proposal.saves <= 0 or not {*each.proposal.about} & {*off})
    if len(kept) == len(report.advice):
        return report
    note = f"no advice that frees cores is given for {', '.join(off)}, whose batches differ from the recorded ones"
    return attrs.evolve(report, advice=kept, notes=(*report.notes, note))


def agreement(deployment: Deployment, replayed: Mapping[str, Replayed]) -> dict[str, dict[str, float]]:
    """Return the median seconds of a batch by query, recorded and replayed at the recorded rates."""
    return {
        name: {"recorded": recorded, "replayed": float(np.median(rows.end - rows.start))}
        for name, rows in replayed.items()
        if (recorded := deployment.jobs[name].recorded) is not None and rows.start.size
    }
