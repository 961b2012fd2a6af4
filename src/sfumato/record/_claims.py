"""The content of a data set's ledger: claims, the marks of claims that are spent, and the rule by which claims add up."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import BudgetExceededError, InputError, LedgerError
from sfumato.privacy._filters import BasicFilter, Charge, GaussianFilter, gaussian_mu, show
from sfumato.record._schedule import check_next

if TYPE_CHECKING:
    from sfumato.record._arrivals import Arrival
    from sfumato.record.ledger import Release

FIRST_NOISE = "first noise"
DAY = "day "
"""What the marks of a history of edges begin with, before the number of the day."""


def new_run() -> str:
    """Return a random name for a run, 128 bits in hexadecimal."""
    return os.urandom(16).hex()


@dataclass(frozen=True)
class Claim:
    """What a run asks of a data set's budget: its claim, and what the rule ``gdp`` needs.

    A ``run`` is charged once; its name is random. ``mu`` is the Gaussian parameter of all events together, rounded up, and None
    unless all of them are Gaussian or pure; ``draws`` are noise draws that a record can touch; ``plan`` is the hash of the plan
    entry in the run's own ledger.
    """

    run: str
    method: str
    epsilon: float
    delta: float
    mu: float | None
    draws: int
    plan: str

    def __post_init__(self) -> None:
        _ = self.charge  # checks the values

    @classmethod
    def of(cls, run: str, method: str, epsilon: float, delta: float, releases: Sequence[Release], plan: str) -> Claim:
        """Make the claim of a plan with these ``releases``, from which ``mu`` and ``draws`` follow."""
        mu = gaussian_mu([release.event for release in releases])
        return cls(run, method, epsilon, delta, mu, sum(release.draws for release in releases), plan)

    @cached_property
    def charge(self) -> Charge:
        return Charge(self.epsilon, self.delta, self.mu, self.draws)


@dataclass(frozen=True)
class Made:
    """When, by whom and where a line of a ledger was made: what an operator reads. Nothing is decided by it.

    ``at`` is a time in UTC, ``by`` the name under which the process ran, ``folder`` that of the run, relative to the ledger's;
    ``snapshot`` names the graph that a run on a population read. All are None in a line of an earlier version.
    """

    at: str | None = None
    by: str | None = None
    folder: str | None = None
    snapshot: Mapping[str, Any] | None = None

    @classmethod
    def now(cls, folder: str | None = None, snapshot: Mapping[str, Any] | None = None) -> Made:
        """Return what is said of a line that is written now."""
        try:
            by = getpass.getuser()
        except (OSError, KeyError, ImportError):  # a user without a name
            by = None
        return cls(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), by, folder, snapshot)

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Made:
        """Read back what a line says."""
        return cls(*(entry.get(name) for name in ("at", "by", "folder", "snapshot")))

    def to_dict(self) -> dict[str, Any]:
        """Return what a line holds: nothing for what is not known."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Account:
    """The sound content of a ledger file: its header, its claims and their marks.

    ``header`` has unit, data set, totals and rule; ``problem`` says what is wrong with the rest of the file. ``marks`` are, by
    run, of what its noise was drawn from: one of its first noise, and one of each release it bound. ``arrivals`` are nodes that
    arrived after a run, and what their release would cost by itself; its run's claim covers it. ``made`` says, by run, when and
    by whom it was charged, and ``deletions`` how many records were deleted, and when. Where not every line was read, ``claims``
    holds those of one run, ``summed`` what all cost and ``counted`` how many there are. ``windows`` says, by run, to which window
    of time it is charged, in a ledger that has them (:mod:`sfumato.record._windows`).
    """

    header: dict[str, Any]
    claims: tuple[Claim, ...]
    problem: str | None = None
    marks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    arrivals: tuple[tuple[Arrival, Claim], ...] = ()
    made: Mapping[str, Made] = field(default_factory=dict)
    deletions: tuple[tuple[int, Made], ...] = ()
    summed: Mapping[str, Fraction] | None = None
    counted: int | None = None
    windows: Mapping[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """How many runs were charged."""
        return len(self.claims) if self.counted is None else self.counted

    def state(self, claim: Claim) -> str:
        """Return ``spent`` if noise was, or may have been, drawn under a claim, else ``reserved``; ``unknown`` in format 1."""
        if self.marks.get(claim.run):
            return "spent"
        return "unknown" if self.header["format"] == 1 else "reserved"

    def drawn_through(self, claim: Claim) -> int | None:
        """Return the day through which a history of edges was drawn under a claim; None if it is not that of one."""
        return max(
            (int(what.removeprefix(DAY)) for what in self.marks.get(claim.run, {}) if what.startswith(DAY)),
            default=None,
        )

    def marked(self, run: str, what: str, mark: str | None, path: Path) -> bool:
        """Return whether a run has this mark already. A run with a different mark is refused."""
        found = self.marks.get(run, {}).get(what)
        if found in (None, mark):
            return found is not None
        raise LedgerError(
            f"The claim of run {run[:8]} in the ledger {path} is spent: its {what} was drawn already, from another state of its "
            "folder or from other data, settings or code, and one claim pays for one draw. Nothing was drawn now. Put folder "
            "and data back as that run left them, or start a new run in a new folder, which costs anew."
        )

    def check_arrival(self, claim: Claim, arrival: Arrival, path: Path) -> None:
        """Refuse nodes that arrive after a run unless a claim of that run covers them.

        It does if it costs no less than their release, and if none of them arrived before. Runs of one plan have equal claims,
        which are counted: each claim may be extended by the arrivals of one run.
        """
        paid = [one for one in self.claims if one.plan == arrival.plan]
        extended = {one.extends for one, _ in self.arrivals if one.plan == arrival.plan} | {arrival.extends}
        if len(paid) < len(extended):
            raise LedgerError(
                f"The ledger {path} holds no claim of the run that these nodes extend. Name the ledger that this run was "
                "charged to. Nothing was released."
            )
        mu = paid[0].mu is None or (claim.mu is not None and claim.mu <= paid[0].mu)
        if not mu or any(getattr(claim, name) > getattr(paid[0], name) for name in ("epsilon", "delta", "draws")):
            raise LedgerError(
                f"The claim of the run in the ledger {path} does not cover these nodes: their release costs more. Nothing was "
                "released."
            )
        if not set(arrival.after) <= {one for one, _ in self.arrivals}:
            raise LedgerError(
                f"The ledger {path} lacks nodes that arrived after this run, whose release its folder holds: an older copy of "
                "the ledger was put in its place, or another one was named. Nothing was released. Restore the newest ledger "
                "with its .head file."
            )
        arrived = {node for one, _ in self.arrivals if one.extends == arrival.extends for node in one.nodes}
        if not arrived.isdisjoint(arrival.nodes):
            raise LedgerError(
                f"The ledger {path} says that some of these nodes arrived before, in a release that the folder of the run does "
                "not hold: an older copy was put in its place, or a prediction was stopped. Nothing was released. Restore the "
                "newest copy, or leave these nodes out."
            )

    def within(self, window: str | None) -> Account:
        """Return what is charged to one window of time; all of it for None, in a ledger without windows."""
        if window is None:
            return self
        header = {name: value for name, value in self.header.items() if name != "windows"}
        claims = tuple(claim for claim in self.claims if self.windows[claim.run] == window)
        return replace(self, header=header, claims=claims)

    def filter(self) -> BasicFilter | GaussianFilter:
        """Return the filter of the header's rule, with all claims counted."""
        rule = BasicFilter if self.header["composition"] == "basic" else GaussianFilter
        charges = [claim.charge for claim in self.claims] if self.summed is None else []
        return rule(self.header["total_epsilon"], self.header["total_delta"], charges, self.summed)

    def left(self) -> dict[str, float]:
        """Return what another claim may cost at most, rounded down; with windows that is of one without a run."""
        return self.total() if "windows" in self.header else self.filter().remaining

    def total(self) -> dict[str, float]:
        """Return the most that all claims may cost together, those of one window where there are windows, rounded down."""
        return replace(self, claims=(), summed=None).filter().remaining

    def spent(self) -> dict[str, Fraction]:
        """Return what all claims cost together, as exact fractions; of all windows the most, so that no record pays more."""
        if "windows" not in self.header:
            return self.filter().spent
        sums = [
            replace(self, claims=()).filter().spent,
            *(self.within(one).spent() for one in {*self.windows.values()}),
        ]
        return {name: max(one[name] for one in sums) for name in sums[0]}

    def cost(self) -> tuple[float, float]:
        """Return (epsilon, delta) of all releases so far, rounded up; under rule ``gdp`` the totals, which bound them."""
        if self.header["composition"] == "gdp":
            return self.header["total_epsilon"], self.header["total_delta"]
        spent = self.spent()
        return float(show(spent["epsilon"])), float(show(spent["delta"]))

    def check(self, claim: Claim, path: Path | str, window: str | None = None) -> dict[str, Fraction]:
        """Refuse a claim that costs more than what is left, and return what all cost with it. The message names the shortfall."""
        if window is not None:
            own, before = self.within(window).check(claim, f"{path}, window {window}"), self.spent()
            return {name: max(amount, before[name]) for name, amount in own.items()}
        if self.header["composition"] == "gdp" and claim.mu is None:
            raise InputError(
                "Expected a plan of Gaussian or pure releases only, as the ledger's rule gdp composes them, got "
                f"{claim.method!r} with others, such as DP-SGD, or bounds on degrees that may fail. Give this data set a ledger "
                "with --composition basic from its first run on."
            )
        if "schedule" in self.header:
            check_next(self.header["schedule"], self.runs, (claim.epsilon, claim.delta), path)
        rule = self.filter()
        try:
            rule.charge(claim.charge)
            return rule.spent
        except BudgetExceededError as error:
            spent = ", ".join(f"{name} {show(amount)}" for name, amount in rule.spent.items())
            raise BudgetExceededError(f"Ledger {path}, with {spent} spent: {error}") from error
