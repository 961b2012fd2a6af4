r"""The ledger of a data set: every run that reads it reserves its whole claim here before its first release.

A header fixes the unit, the data set, the totals and the rule by which claims add up; then follows one entry for each run,
in the hash-chained form of :mod:`sfumato.record.ledger`. Entries are never removed: a killed run stays charged.

**Formal guarantee.** However later runs choose their methods, budgets and number after seeing earlier results, all runs
together are (total epsilon, total delta)-DP under the ledger's unit, if all of them reserve here: rule ``basic`` is
:class:`~sfumato.privacy._filters.BasicFilter`, rule ``gdp`` (plans of Gaussian and pure releases only) is
:class:`~sfumato.privacy._filters.GaussianFilter`. The rule is fixed in the header, because the better of two filters, chosen
afterwards, is not a filter. A number counts as the decimal that ledger and certificate print; sums are exact.

**A claim pays for one draw.** Before noise is drawn under a claim, a line with a *mark* says that the claim is spent. A
process that draws under it later must show the same mark, or is refused. *So, after any sequence of kills, copies and
restored copies of run folders, all that was ever released under one claim is one draw.* Proof. Lines are appended under
the lock and never removed, so all calls of :meth:`DatasetLedger.spend` for one run and one name that ever return carry
one mark. Marks are of two kinds.

* A run without kept key draws the mark at random, and a key for the noise beside it, which is not written. Another process
  has the same mark with probability 2^-128. So the process that wrote the mark alone draws, once. It may keep the mark with
  what it drew: a process that continues from there shows the mark, and draws nothing.
* A resumable fit derives its marks from its stored key by HMAC-SHA256: that of the first noise from the MACs of plan, settings,
  versions, threads and graph, and that of a release from the MAC of its operand. Equal marks mean an equal key and equal
  operands (else HMAC collides), and noise is a function of these: it is the same noise. A release has its mark before it is
  computed; a DP-SGD run and a selection, each one release, before their result is stored. Local reports are functions of
  the key and of the graph alone.

If a process is killed after the mark and before anything is kept, the claim stays spent: a run of the second kind draws the
same bits again, and a run of the first kind is refused. Marks reveal nothing: they are random, or pseudo-random to everyone
who lacks the key, which is removed with the run.

**Populations.** The data set is a list of ids, or a name that the curator declares, where people join, leave and change
(:mod:`sfumato.record._population`, with the proof). :meth:`DatasetLedger.declare` makes the first into the second: what was
charged stays charged, and the ids of its first graph are those of a snapshot like any other. Where the first run of a population
reads a window of time, each window has the totals for itself (:mod:`sfumato.record._windows`, with the proof).

**Nodes that arrive later.** An arrival at edge level reads edges that no earlier release of its run read
(:mod:`sfumato.central._arrivals`). So the run's claim covers it, and it adds a line and no cost: :meth:`DatasetLedger.cover`
refuses it if it costs more than the claim, or if a node arrives twice after one run.

**Histories of edges.** A history is charged like a run, once, before its first day (:mod:`sfumato.evaluation._charged`). Each day
leaves a mark before it is drawn, and models of any day are covered: they reserve the same claim under the same name.

**Damage.** ``FILE.head`` names the last whole entry, and is there before the first line is. So a file that lost entries (a cut,
an old copy) differs from a file whose last line was being written by a process that died: that line is dropped, because its run
had drawn nothing yet. And a file beside which there is no ``.head`` is never taken for a new ledger, whatever it holds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._validate import check_choice, check_int, check_real, fail
from sfumato.errors import InputError, LedgerError
from sfumato.privacy.units import class_named
from sfumato.record import _population as population
from sfumato.record import _windows as windows
from sfumato.record._claims import FIRST_NOISE, Account, Claim, Made
from sfumato.record._ledger_file import Tail, append, begin, begun, locked
from sfumato.record._reading import FORMATS, RULES, followed, read_for
from sfumato.record._reading import read_account as read_account
from sfumato.record.ledger import canonical_json

if TYPE_CHECKING:
    from sfumato.record._arrivals import Arrival
    from sfumato.record._schedule import Schedule

_NO_RUN = "no run"


@dataclass(frozen=True)
class DatasetLedger:
    """The ledger file of a data set.

    Options may be left out once the file exists. If they are given, they must agree with the file.

    A symbolic link is followed first, so that all names of a file share one lock and one ``.head``. ``total_delta`` is ten
    times the first run's by default, ``composition`` is ``basic``. With ``population`` a new ledger is of all who are ever in
    it under this name; without, it is of the ids of the first run's graph. A ``schedule`` fixes totals and rule, and what each
    run may spend. ``history`` is the name under which a history of edges is charged, once: runs that name it are models of it.
    """

    path: Path
    total_epsilon: float | None = None
    total_delta: float | None = None
    composition: str | None = None
    population: str | None = None
    schedule: Schedule | None = None
    history: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", followed(self.path))
        if self.schedule is not None:
            for name in ("total_epsilon", "total_delta", "composition"):
                given, fixed = getattr(self, name), getattr(self.schedule, name)
                if given not in (None, fixed):
                    raise fail(name, given, f"to be {fixed}, as the schedule says", "Leave it out.")
                object.__setattr__(self, name, fixed)
        if self.total_epsilon is not None:
            object.__setattr__(
                self, "total_epsilon", check_real(low=0, open_low=True, total_epsilon=self.total_epsilon)
            )
        if self.total_delta is not None:
            delta = check_real(low=0, high=1, open_high=True, total_delta=self.total_delta)
            object.__setattr__(self, "total_delta", delta)
        if self.composition is not None:
            check_choice(RULES, composition=self.composition)
        if self.population is not None:
            population.check_name(self.population)
        if not self.path.parent.is_dir():
            raise InputError(
                f"Expected the folder of the ledger to exist, got {str(self.path.parent)!r}. Make it, or check the path."
            )
        if self.total_epsilon is None and not begun(self.path):
            raise InputError(
                f"Expected a ledger at {str(self.path)!r}, got none. To start one, say what all runs on this data set "
                "together may spend: --total-epsilon E (total_epsilon). One that was there must be put back, with its .head "
                "file: what it held is still spent."
            )

    @property
    def rule(self) -> str:
        """Return the rule by which claims add up: that of the file, or the one that the first run will write into it."""
        if begun(self.path):
            return str(self._sound(_NO_RUN)[0].header["composition"])
        return self.composition or "basic"

    def stated(self, delta: float, unit: Mapping[str, Any], window: str | None = None) -> dict[str, Any] | None:
        """Return what a run that claims ``delta`` states of the population it is charged to; None if that is a list of ids."""
        if begun(self.path):
            header = self._sound(_NO_RUN)[0].header
        else:
            header = self._header(delta, unit, {"name": "", "ids_digest": ""}, window)
        return population.stated(header, windows.charged(header, window, self.path))

    def begin(self, claim: Claim, *, unit: Mapping[str, Any], dataset: Mapping[str, Any]) -> None:
        """Write the first line of a new ledger if it can take a claim, of which nothing is charged yet; an old one stays."""
        dataset, window = _apart(dataset)
        with locked(self.path):
            if not begun(self.path):
                account = self._opened(claim, unit, dataset, window)
                self._first(
                    account, account.check(claim, self.path, windows.charged(account.header, window, self.path))
                )

    def _first(self, account: Account, sums: Mapping[str, Fraction]) -> None:
        begin(self.path)
        append(self.path, {"kind": "header", "header": account.header}, dict.fromkeys(sums, Fraction(0)))

    def reserve(
        self,
        claim: Claim,
        *,
        unit: Mapping[str, Any],
        dataset: Mapping[str, Any],
        mark: str | None = None,
        folder: Path | None = None,
        stated: Mapping[str, Any] | None = None,
        begins: bool = True,
    ) -> None:
        """Charge the whole claim of a run, under an exclusive lock. It is on disk before this returns; a run is charged once.

        Args:
            claim: what the run may spend.
            unit: its unit, which must be that of the ledger.
            dataset: name, ids and cells of the graph that it reads, and its window of time.
            mark: what its first noise is drawn from, of a run that may have been charged before.
            folder: the folder of the run, which the line names.
            stated: what its plan says of the population (:meth:`stated`).
            begins: whether a new ledger may be begun: not by a run that may have been charged before, whose ledger is lost then.

        Raises:
            InputError: the ledger is of something else, or is lost.
            BudgetExceededError: it has less left.
            LedgerError: it is damaged, or knows the run with another claim or mark.
        """
        dataset, window = _apart(dataset)
        with locked(self.path):
            exists = begun(self.path)
            if not exists and not begins:
                raise InputError(
                    f"Expected the ledger with which this run began at {str(self.path)!r}, got none. Nothing was drawn. Put it "
                    "back there with its .head file: what it held is still spent, so no other is begun in its place."
                )
            account, tail = self._sound(claim.run) if exists else (self._opened(claim, unit, dataset, window), None)
            self._agree(account.header, unit, dataset)
            charged = windows.charged(account.header, window, self.path)
            self._same_population(account.header, stated, charged)
            known = next((old for old in account.claims if old.run == claim.run), None)
            if known is not None and known in (
                claim,
                replace(claim, mu=None),
            ):  # earlier versions knew no mu of pure events
                account.marked(claim.run, FIRST_NOISE, mark, self.path)
                return
            if known is not None:
                raise LedgerError(f"Run {claim.run} is in the ledger {self.path} with another claim. Start a new run.")
            sums = account.check(claim, self.path, charged)
            if not exists:
                self._first(account, sums)
            made = self._made(account.header, folder, dataset)
            made |= {} if charged is None else {"window": charged}
            append(self.path, {"kind": "run", "claim": asdict(claim), **made}, sums, tail)

    def look(self, claim: Claim, *, unit: Mapping[str, Any], dataset: Mapping[str, Any]) -> Account:
        """Refuse what :meth:`reserve` would refuse of a new run now, and return the account as it stands. Nothing is written."""
        dataset, window = _apart(dataset)
        account = self._whole() if begun(self.path) else self._opened(claim, unit, dataset, window)
        self._agree(account.header, unit, dataset)
        charged = windows.charged(account.header, window, self.path)
        account.check(claim, self.path, charged)
        return account.within(charged)

    def spend(self, run: str, mark: str, what: str) -> None:
        """Record on disk that noise is drawn under a run's claim, by a ``mark`` of 128 (pseudo-)random bits or more, once."""
        with locked(self.path):
            account, tail = self._sound(run)
            if all(claim.run != run for claim in account.claims):
                raise LedgerError(
                    f"The ledger {self.path} holds no claim of run {run[:8]}, which reserved one: an older copy was put in its "
                    "place. Nothing was drawn. Restore the newest ledger with its .head file."
                )
            if not account.marked(run, what, mark, self.path):
                append(self.path, {"kind": "spent", "run": run, "what": what, "mark": mark}, account.spent(), tail)

    def cover(
        self,
        claim: Claim,
        arrival: Arrival,
        *,
        unit: Mapping[str, Any],
        dataset: Mapping[str, Any],
        folder: Path | None = None,
        stated: Mapping[str, Any] | None = None,
    ) -> None:
        """Record that a run's claim covers nodes that arrive after it: 0 more is charged. It is on disk before this returns."""
        dataset, _ = _apart(dataset)
        with locked(self.path):
            account = self._whole()
            self._agree(account.header, unit, dataset)
            windows.charged(account.header, None, self.path)  # the edges of nodes that arrive have no time
            self._same_population(account.header, stated)
            account.check_arrival(claim, arrival, self.path)
            made = self._made(account.header, folder, None)
            arrived = {"kind": "arrival", "arrival": arrival.to_dict(), "claim": asdict(claim), **made}
            append(self.path, arrived, account.spent())

    def declare(self, name: str) -> None:
        """Declare that the ids of this ledger were a snapshot of a population of this name. All charges stay."""
        population.check_name(name)
        with locked(self.path):
            account = self._whole()
            if population.is_population(account.header):
                raise InputError(
                    f"Expected a ledger of a list of ids, got {str(self.path)!r}, which is of the population "
                    f"{account.header['dataset']['name']!r} already. Its runs may read any snapshot."
                )
            append(self.path, {"kind": "population", "name": name, **Made.now().to_dict()}, account.spent())

    def delete(self, records: int) -> None:
        """Log that so many records are deleted: later snapshots lack them, and nothing of what was charged is given back."""
        records = check_int(low=1, records=records)
        with locked(self.path):
            account = self._whole()
            if not population.is_population(account.header):
                raise InputError(
                    f"Expected the ledger of a population, got {str(self.path)!r}, whose node ids are fixed, so that nobody can "
                    f"leave. Say once that it is one: sfumato ledger declare {self.path} NAME."
                )
            append(self.path, {"kind": "deletion", "records": records, **Made.now().to_dict()}, account.spent())

    def _made(
        self, header: Mapping[str, Any], folder: Path | None, dataset: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """When, by whom and in which folder a run is charged, and which snapshot of a population it reads."""
        snapshot = dict(dataset) if dataset is not None and population.is_population(header) else None
        where = None
        if folder is not None:
            try:
                where = Path(os.path.relpath(folder.resolve(), self.path.parent.resolve())).as_posix()
            except ValueError:  # on another drive
                where = folder.name
        return Made.now(where, snapshot).to_dict()

    def _sound(self, run: str) -> tuple[Account, Tail | None]:
        """All that the ledger says of a run, and the sums; every line is read only where the file is not as its head notes it."""
        account, tail = read_for(self.path, run)
        return self._refused(account), tail

    def _whole(self) -> Account:
        return self._refused(read_account(self.path))

    def _refused(self, account: Account) -> Account:
        if account.problem:
            raise LedgerError(
                f"The ledger {self.path} is damaged: {account.problem}. Nothing was released or charged. What to do: sfumato "
                f"ledger check {self.path}"
            )
        return account

    def _opened(self, claim: Claim, unit: Mapping[str, Any], dataset: Mapping[str, Any], window: str | None) -> Account:
        return Account(self._header(claim.delta, unit, dataset, window), ())

    def _header(
        self, first: float, unit: Mapping[str, Any], dataset: Mapping[str, Any], window: str | None
    ) -> dict[str, Any]:
        """The first line of a new ledger, whose ``first`` run claims this delta, and reads a window or all times."""
        windowed = {} if window is None else {"windows": windows.declared(window)}
        if windowed:
            windows.check_new(unit["name"], self.population, self.schedule)
        delta = self.total_delta
        if delta is None:
            delta = float(min(10 * Fraction(repr(first)), Fraction(1, 2)))
            pure = "delta" not in class_named(unit.get("name")).budget  # a whole ledger of delta 0
            if not delta and not pure:
                raise fail(
                    "total_delta",
                    None,
                    "for a new ledger whose first run claims delta 0",
                    "The run claims no delta: pass --total-delta (total_delta in Python); 0 admits runs without delta alone.",
                )
        return {
            "format": FORMATS[-1],
            "unit": dict(unit),
            "dataset": dict(dataset) if self.population is None else population.declared(self.population, dataset),
            "total_epsilon": self.total_epsilon,
            "total_delta": delta,
            "composition": self.composition or "basic",
            **({} if self.schedule is None else {"schedule": self.schedule.header()}),
            **windowed,
        }

    def _agree(self, header: dict[str, Any], unit: Mapping[str, Any], dataset: Mapping[str, Any]) -> None:
        for name in ("total_epsilon", "total_delta", "composition"):
            given = getattr(self, name)
            if given is not None and given != header[name]:
                raise InputError(
                    f"Expected --{name.replace('_', '-')} {header[name]}, which the ledger {self.path} was made with, got "
                    f"{given}. Leave the option out: the totals were fixed with the first run."
                )
        if self.schedule is not None and self.schedule.header() != header.get("schedule"):
            raise InputError(
                f"Expected the schedule that the ledger {self.path} was made with, got another one. Leave --schedule out: it was "
                "fixed with the first run."
            )
        if header["unit"] != dict(unit):
            raise InputError(
                f"Expected the unit of the ledger {self.path}, {canonical_json(header['unit'])}, got "
                f"{canonical_json(dict(unit))}: claims about different units do not add up. Use the same unit, or keep a "
                "ledger for each; what one protects the other may still spend."
            )
        found, living = header["dataset"], population.is_population(header)
        if self.population is not None and (not living or self.population != found["name"]):
            other = f"which is of {'the population' if living else 'the ids of'} {found['name']!r}"
            remedy = (
                "Leave the option out, or name this population's own ledger."
                if living
                else "If these ids were the first of this population, say so once: sfumato ledger declare "
                f"{self.path} {self.population!r}. What was spent stays spent."
            )
            raise InputError(f"Expected --population to be that of the ledger {self.path}, {other}. {remedy}")
        if (population.declared(found["name"], dataset) if living else dict(dataset)) != found:
            raise InputError(
                f"Expected the data set of the ledger {self.path}, {found.get('name')!r}, got {dataset.get('name')!r}, other "
                "node ids, another order of them, or other cells or owners. If these are the same nodes, put the rows back in "
                "order and spend from this ledger. If people joined, left or changed since, say once that this ledger is of a "
                f"population: sfumato ledger declare {self.path} NAME. For another data set use that data set's own ledger; "
                "for records in both, the two ledgers' epsilons add up."
            )

    def _same_population(
        self, header: Mapping[str, Any], stated: Mapping[str, Any] | None, window: str | None = None
    ) -> None:
        if population.stated(header, window) != (None if stated is None else dict(stated)):
            raise LedgerError(
                f"The plan of this run was made for another ledger than {self.path}: what it says of a population is not what "
                "the ledger says. Nothing was charged. Start the run again."
            )


def _apart(dataset: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """What identifies a data set, and the window of time that is read of it."""
    found = dict(dataset)
    return found, found.pop("window", None)
