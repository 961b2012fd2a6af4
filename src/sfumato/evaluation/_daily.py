r"""A folder in which a history of edges is kept, released day by day, and learned from: `sfumato daily`.

* ``plan.json`` is public: settings, budget, what the noise is, and where the nodes are. ``nodes.csv`` (or .parquet) and
  ``schema.toml`` are the tables as they were when the history began, and ``no-edges.csv`` has none.
* ``private/`` is for the owner alone: the key, and one file for each day with the edges that came and went, sealed and chained.
  The first is chained to the plan and to the tables, so none of them can be changed between days.
* ``released.npz`` is what was released so far: one number for each node and class, the day, and the marks.
* ``charge.json``, of a history that is charged to the ledger of a population (:mod:`sfumato.evaluation._charged`), is public too.

**Order of a day.** Its edges are on disk before anything of it is drawn, and a day on disk is never taken again with other edges.
What is released follows from these files and the key. So after a crash at any moment, the next command draws the same noise for
the same rows, once more, and goes on where it stopped: no day is lost, and no noise is ever on two different rows. An old copy of
the folder must not be put back: days that are given again with other edges would be released twice (with independent noise).
A history that is charged to a ledger refuses them, if the ledger is the newest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from filelock import FileLock, Timeout

from sfumato._files import make_folders, whole_file, write_json
from sfumato._validate import fail
from sfumato.bounded._history import History, Reader, Stream, noisy_day
from sfumato.bounded._refreshes import MOST_DAYS, Ints
from sfumato.central._daily import DailyMessages, ToldGraph
from sfumato.errors import DataError, InputError, LedgerError, SfumatoError
from sfumato.evaluation._begun import copied, digest_of, emptied, key_of, naming
from sfumato.evaluation._charged import CHARGE, Charged
from sfumato.evaluation._edges import Edges
from sfumato.evaluation._kept import DREW_NOTHING, Kept
from sfumato.evaluation._source import Source
from sfumato.graph._graph import Graph
from sfumato.noise.keys import Key, derive_key, new_key
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import EdgeLevel
from sfumato.record._days import NOTHING, Changes, Days

if TYPE_CHECKING:
    from sfumato.method._plan import Fitted, Plan
    from sfumato.method.contract import Progress
    from sfumato.record._dataset_ledger import DatasetLedger

PLAN, RELEASED, PRIVATE = "plan.json", "released.npz", "private"
_FORMAT, _CHARGED = (
    2,
    3,
)  # 1: nothing noticed that the plan, a table or the last day was changed; 3: charged to a ledger
_ONCE = (
    "A history is never begun twice. A folder without plan.json, as after a stop, has released nothing and is charged nowhere: "
    "remove it. One with plan.json is begun: go on with sfumato daily add."
)
_COUNTED = "Days are counted from the first of the history on, and those that are left out cannot be given later."
_AGAIN = "A new history of the same edges costs again: sfumato daily init."


@dataclass(frozen=True)
class Daily:
    """A history in a folder. Edges are given day by day; what was released of them is read as often as one likes.

    **Formal guarantee.** That of :class:`~sfumato.central._daily.DailyMessages`, for all days and all that is learned together,
    if the key stays secret and no old copy of the folder is put back.

    ``folder`` is where all of it is, and ``values`` are those of ``plan.json``.
    """

    folder: Path
    values: dict[str, Any]

    @classmethod
    def begin(
        cls,
        folder: Path,
        source: Source,
        method: DailyMessages,
        budget: Budget,
        *,
        directed: bool = False,
        ledger: DatasetLedger | None = None,
    ) -> Daily:
        """Begin a history over the nodes of a source.

        Args:
            folder: new or empty.
            source: the table of nodes with labels, and its schema; no edges.
            method: days, refreshes, deletions, form of noise.
            budget: the most that the whole history may cost.
            directed: whether an edge is one arc.
            ledger: of a population, to which the whole claim is charged, once. Where squares of mu add up (rule ``gdp``), noise
                ``auto`` is that of sums.

        Raises:
            InputError: the folder is taken, or the budget or the ledger does not fit.
            BudgetExceededError: the ledger has less left.
            DataError: the table has no labels to send, or cannot be read.
        """
        if folder.exists() and any(folder.iterdir()):
            raise fail("out", str(folder), "to be a new or an empty folder", _ONCE)
        if ledger is not None and ledger.rule == "gdp" and method.noise == "auto" and budget.delta:
            method = replace(
                method, noise="sums"
            )  # of one mu, however few the refreshes, they leave less than increments
        made = make_folders(folder)
        try:
            kept = copied(folder, source)
            values: dict[str, Any] = {"format": _FORMAT, "method": method.settings, "budget": asdict(budget)}
            values |= {"directed": directed, "source": asdict(kept)}
            daily = cls(folder, values)
            with naming(folder, kept, source):
                plan = daily.plan()
            values["method"] = {**plan.method.settings, "day": None}
            if ledger is not None:
                charged = Charged.begin(folder, ledger, plan, daily.nodes)
                values |= {"format": _CHARGED, "charged": charged.values}
            (folder / PRIVATE).mkdir(mode=0o700)
            (folder / PRIVATE / "days").mkdir(mode=0o700)
            with whole_file(folder / PRIVATE / "key", 0o600) as file:
                file.write(new_key())
            write_json(folder / PLAN, values)  # the last: without it there is no history
        except BaseException:
            emptied(folder, made)
            raise
        try:
            if ledger is not None:
                charged.charge(ledger, plan, daily.nodes)
        except SfumatoError:  # refused; after any other error the ledger may hold the charge, and the folder its name
            emptied(folder, made)
            raise
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Daily:
        """Open a history.

        Raises:
            InputError: there is none.
        """
        try:
            values = json.loads((folder / PLAN).read_text())
            known = values["format"] == (_CHARGED if "charged" in values else _FORMAT)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise fail("folder", str(folder), "to hold a history", "Begin one with sfumato daily init.") from error
        if not known:
            raise fail(
                "folder",
                str(folder),
                f"to be of format {_FORMAT} or {_CHARGED}",
                "Use the version of Sfumato that began it.",
            )
        return cls(folder, values)

    @cached_property
    def method(self) -> DailyMessages:
        """The method, with the form of noise that was chosen when the history began."""
        return DailyMessages(**self.values["method"])

    @property
    def unit(self) -> EdgeLevel:
        """The unit: one edge, or one arc if edges are directed."""
        return EdgeLevel(directed=self.values["directed"])

    @cached_property
    def source(self) -> Source:
        """Where the nodes are: the tables in the folder."""
        stored = self.values["source"]
        lists = {name: tuple(stored[name]) for name in ("text", "drop")}
        inside = {name: str(self.folder / stored[name]) for name in ("nodes", "edges", "schema") if stored[name]}
        return Source(**{**stored, **lists, **inside})

    @cached_property
    def nodes(self) -> Graph:
        """The nodes with labels and roles, without an edge."""
        return self.source.with_roles(self.source.load(), 0)

    def plan(self, day: int | None = None) -> Plan:
        """Return the plan through a day, which is the same for all days but for that."""
        method = replace(self.method, day=day)
        public = self.nodes.public_facts(self.unit, assume_public=True)
        return method.calibrate(Budget(**self.values["budget"]), self.unit, replace(public, num_arcs=None))

    @cached_property
    def charged(self) -> Charged | None:
        """The line of a ledger that the history is charged to, if it is charged to one."""
        return Charged(self.folder, self.values["charged"]) if "charged" in self.values else None

    def _check(self, following: Iterable[Changes] = ()) -> None:
        """Refuse days, before anything is written, of which the ledger of a charged history says something else."""
        released, days = self.released_through, self._days
        if self.charged is None:
            return
        own = [days.marked(day) for day in range(1, days.last + 1)]
        self.charged.check(enumerate([*own, *map(days.mark, days.following(following))], 1), released)
        if not days.last:
            self.charged.check_plan(self.plan())

    @property
    def day(self) -> int:
        """The last day that was given; 0 before the first."""
        return self._days.last

    @property
    def released_through(self) -> int:
        """The last day that was released."""
        return self._read()[0]

    @property
    def _days(self) -> Days:
        return Days(self.folder / PRIVATE / "days", derive_key(self._key, "days"), self._begun)

    @property
    def _key(self) -> Key:
        return key_of(self.folder / PRIVATE / "key", _AGAIN)

    @cached_property
    def _begun(self) -> str:
        """SHA-256 of what the history was begun with: the plan, and the tables of the nodes."""
        charge = CHARGE if "charged" in self.values else None
        names = (PLAN, charge, *(self.values["source"][name] for name in ("nodes", "edges", "schema")))
        return digest_of([self.folder / name for name in names if name])

    def add(self, came: Ints | None = None, went: Ints | None = None, day: int | None = None) -> int:
        """Take the edges of a day, and release the rows that are due; days between, without edges, are released before.

        Args:
            came: row numbers of both ends of each edge that came, int64 [2, m]; None for none.
            went: those of each edge that went.
            day: the day; None for the one after the last, or for the last if it had these edges.

        Returns:
            The day.

        Raises:
            InputError: an edge came before, goes without having come or a second time, ends at no node or is a loop; the day
                was given before with other edges, or is beyond the horizon of sums. Nothing is taken, and nothing released.
            LedgerError: the files of the history do not belong together, or its ledger knows the day with other edges.
        """
        changes = Changes(
            *(NOTHING.came if one is None else np.asarray(one, np.int64).reshape(2, -1) for one in (came, went))
        )
        with self._held():
            last = self.day
            if day is None:
                day = last if self._is_last(changes) else last + 1
            if day <= last:
                self._check()
                return self._given_before(day, changes)
            most = min(last + self.method.days, MOST_DAYS)
            if day > most:
                raise fail("day", day, f"to be at most {most}", f"The last one was {last}. {_COUNTED}")
            if self.method.noise == "sums" and day > self.method.days:
                remedy = f"The noise of sums was found for these days; increments have no horizon. {_AGAIN}"
                raise fail("day", day, f"to be at most {self.method.days}, the last day of the history", remedy)
            self._edges().check(changes)
            following = [*[NOTHING] * (day - last - 1), changes]
            self._check(following)
            for number, one in enumerate(following, last + 1):
                self._days.write(number, one)
            self._release()
            return day

    def told(self) -> ToldGraph:
        """Return the nodes with what was released of them, through the last day that was given."""
        with self._held():
            list(self._days)  # noise that was drawn for another plan must not be claimed
            self._check()
            self._release()
            day, kept = self._read()
            marks = self._days.marks(0 if self.charged is None else day)
        reading, done = self.plan(day=day or None), self.method.schedule.done(self.method.phases(self.nodes), day)
        own = {one.name: getattr(self.nodes, one.name) for one in fields(Graph)}
        return ToldGraph(**own, told=Reader(kept).read(done, self.method.form(reading)), marks=marks)

    def fit(self, *, seed: int = 0, progress: Progress | None = None) -> Fitted:
        """Train a head on what was released: this costs nothing more, as often as it is done.

        Args:
            seed: public seed of initialization.
            progress: a function, called with (stage, done, total).

        Raises:
            InputError: no day was given yet.
        """
        told = self.told()
        ledger = None if self.charged is None else self.charged.ledger
        return self._trained().fit(told, seed=seed, progress=progress, dataset_ledger=ledger)

    def _trained(self) -> Plan:
        if not self.day:
            raise InputError("Expected a day that was given, got none. Give one with sfumato daily add.")
        return self.plan(day=self.day)

    def save(
        self, out: Path, *, seed: int = 0, progress: Progress | None = None, sign_key: Path | None = None
    ) -> Fitted:
        """Train a head, and write a run folder with its certificate, which says what the whole history costs.

        Args:
            out: the run folder, new.
            seed: public seed of initialization.
            progress: a function, called with (stage, done, total).
            sign_key: private key that signs the release.
        """
        told = self.told()
        ledger = None if self.charged is None else self.charged.ledger
        plan, kept = self._trained(), Kept(out, ledger, sign_key, hint=DREW_NOTHING)

        def fit(**how: Any) -> Fitted:
            return plan.fit(told, seed=seed, **how)

        with kept.held():
            found: Fitted = kept.release(fit, self.source, progress=progress)
        return found

    def history(self) -> History:
        """Return the arcs that carry a message, with their days; private."""
        return self.method.history(self.unit, self.nodes, *self._edges().arcs())

    def _edges(self) -> Edges:
        return Edges.of(self._days, self.nodes.num_nodes, self.unit.directed)

    def _given_before(self, day: int, changes: Changes) -> int:
        if day < 1:
            raise fail("day", day, "to be 1 or later")
        if not self._edges().same(dict(self._days)[day], changes):
            remedy = f"A day is given once. Edges that were missed can be given on day {self.day + 1}."
            raise fail("day", day, "to be new, or to come with the edges that it had", remedy)
        self._release()
        return day

    def _is_last(self, changes: Changes) -> bool:
        """Whether these are the edges of the last day, given again after a stop; a day without edges is a new one."""
        days = list(self._days) if changes.came.size + changes.went.size else []
        return bool(days) and self._edges().same(days[-1][1], changes)

    def _release(self) -> None:
        """Release every day that was given and is not released yet."""
        day, kept = self._read()
        if day == self.day:
            return
        key, method, plan = self._key, self.method, self.plan()
        form, classes = method.form(plan), plan.public.num_classes
        stream, reader = Stream.of(self.history(), method.schedule, method.phases(self.nodes), classes), Reader(kept)
        marks = self._days.marks(0 if self.charged is None else self.day)
        for one in range(day + 1, self.day + 1):
            if self.charged is not None:
                self.charged.spend(one, self._days.marked(one))
            reader.add(*noisy_day(stream, one, form, key), form)
            content = BytesIO()
            np.savez(content, day=np.int64(one), kept=reader.kept, marks=marks[:one])
            with whole_file(self.folder / RELEASED) as file:
                file.write(content.getvalue())

    def _read(self) -> tuple[int, np.ndarray]:
        path, shape = self.folder / RELEASED, (self.nodes.num_nodes, self.nodes.num_classes)
        if not path.exists():
            return 0, np.zeros(shape)
        try:
            with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as found:
                day, kept = int(found["day"]), found["kept"]
        except (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile) as error:
            raise DataError(
                f"Cannot read {str(path)!r}: {error}. Remove it: it is made again from the days."
            ) from error
        if kept.shape != shape or not 0 <= day <= self.day:
            raise LedgerError(
                f"Expected {str(path)!r} to hold rows of {shape[0]} nodes through a day that was given, got day {day}. Files of "
                "the history do not belong together: put back what is missing."
            )
        return day, kept

    @contextmanager
    def _held(self) -> Iterator[None]:
        lock = FileLock(self.folder / PRIVATE / "lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise fail(
                "folder", str(self.folder), "to be used by one process at a time", "Wait for the other."
            ) from None
        try:
            yield
        finally:
            lock.release()
