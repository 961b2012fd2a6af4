"""What an experiment runs, read from TOML: methods, units, budgets, seeds, and the published numbers to stand beside.

A specification is complete before any data is seen. ``Spec.cells`` lists its *cells*: one fit each, on its own split,
named by a digest of everything that decides the result, so that a cell is run once however often the file is.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato._encoding import decoded
from sfumato._validate import check_int, check_real, fail
from sfumato.errors import InputError
from sfumato.experiments._cells import Cell, check_links, digest, parts_of, store_of
from sfumato.experiments._pate import check_pate
from sfumato.experiments._pate_settings import METHOD as PATE
from sfumato.experiments._runs import LINKS, Run, check_unique, read_run, written
from sfumato.experiments._tables import build, known, single, tables

SPECS = Path(__file__).with_name("specs")
PROFILES = ("full", "quick")
_SMALL = (
    "Small fits of --quick: at most 50 teachers and 100 queries, small networks, few steps, and noise calibrated to a "
    "data-independent epsilon. No published number compares with them."
)

_APART = {
    PATE: ("public", check_pate, "It learns from images."),
    LINKS: ("85/5/10", check_links, "Its score is the AUC."),
}
"""Methods that share a specification with no other, each with its split, the check of its runs, and what sets it apart."""


@dataclass(frozen=True)
class Published:
    """A published number, in percent, and where.

    ``half_width`` is that of its interval, and ``at`` the value of what its run varies.
    """

    label: str
    value: float
    source: str
    epsilon: float | None = None
    half_width: float | None = None
    at: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", written(self.at))
        check_real(low=0, high=100, value=self.value)
        if self.half_width is not None:
            check_real(low=0, high=100, half_width=self.half_width)


@dataclass(frozen=True)
class Quick:
    """What ``--quick`` keeps of an experiment in about so many minutes on two cores; an empty list keeps all.

    If ``small``, cells of method "pate" get the setting quick = true, so that they are no cells of the full profile.
    """

    seeds: int
    minutes: float
    epsilons: tuple[float, ...] = ()
    values: tuple[Any, ...] = ()
    small: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(map(written, self.values)))
        check_int(low=1, seeds=self.seeds)
        check_real(low=0, minutes=self.minutes)


@dataclass(frozen=True)
class Spec:
    """An experiment: its runs on a data set, and what was published.

    The name is that of the results folder. ``dataset`` and ``min_class_size`` are those of
    :class:`~sfumato.experiments._cells.Cell`; ``stands_in_for`` is the published data set, if ``dataset`` is another. ``split``
    are percentages of training, validation and test nodes, or ``public``; for link prediction those of links, 85/5/10. ``axis``
    is what the figure shows to the right: ``epsilon``, or what its runs vary.
    """

    name: str
    title: str
    source: str
    comments: tuple[str, ...]
    dataset: str
    split: str
    seeds: int
    axis: str
    quick: Quick
    runs: tuple[Run, ...]
    published: tuple[Published, ...] = ()
    stands_in_for: str | None = None
    min_class_size: int | None = None

    def __post_init__(self) -> None:
        if not self.name or set(self.name) - set("abcdefghijklmnopqrstuvwxyz0123456789-"):
            raise fail(
                "name", self.name, "to be lower-case letters, digits and hyphens", "It names the results folder."
            )
        check_int(low=1, seeds=self.seeds)
        if self.min_class_size is not None:
            check_int(low=0, min_class_size=self.min_class_size)
            if self.images or self.links or store_of(self.dataset) is not None:
                remedy = "It filters the nodes of a named data set, for methods that classify nodes."
                raise fail("min_class_size", self.min_class_size, "to be left out here", remedy)
        check_int("The quick profile is part of the full one.", low=1, high=self.seeds, quick_seeds=self.quick.seeds)
        if not self.images:
            _check_dataset(self.dataset)
        if self.split != "public":
            from sfumato.graph._splits import parse_fractions

            parse_fractions(self.split)
        for method, (split, check, remedy) in _APART.items():
            if not any(run.method == method for run in self.runs):
                continue
            if self.split != split or any(run.method != method for run in self.runs):
                raise fail("method", method, f"to have a specification of its own, with split {split}", remedy)
            for run in self.runs:
                check(run, self.dataset)
        labels = [run.label for run in self.runs]
        check_unique("label", labels)
        known("axis", self.axis, ("epsilon", *sorted({run.vary for run in self.runs if run.vary})))
        if not labels:
            raise fail("run", [], "to be one table or more", "Write each under its own [[run]].")
        self._check_quick()
        self._check_published()

    @property
    def images(self) -> bool:
        return any(run.method == PATE for run in self.runs)

    @property
    def links(self) -> bool:
        return any(run.method == LINKS for run in self.runs)

    @property
    def measure(self) -> str:
        """The word for its scores: accuracy, or AUC for link prediction."""
        return "AUC" if self.links else "accuracy"

    def _check_quick(self) -> None:
        if self.quick.small and not self.images:
            raise fail("quick small", True, f"to be left out without method {PATE}")
        for key, known_values in (
            ("epsilons", [one for run in self.runs for one in run.epsilons]),
            ("values", [one for run in self.runs for one in run.values]),
        ):
            for value in getattr(self.quick, key):
                if value not in known_values:
                    raise fail(f"quick {key}", value, "to be among those of a run", "Correct it, or leave it out.")
        lost = {run.label for run in self.runs} - {cell.label for cell in self.cells("quick")}
        if lost:
            raise fail(
                "quick", sorted(lost), "to keep something of every run", "Keep one of their epsilons and values."
            )

    def _check_published(self) -> None:
        rows = {(cell.label, cell.epsilon, cell.at) for cell in self.cells()}
        for number in self.published:
            known("published label", number.label, [run.label for run in self.runs])
            if (number.label, number.epsilon, number.at) not in rows:
                raise fail("published", number, "to have the epsilon and the at of one of its run's rows")
        check_unique("published", [(number.label, number.epsilon, number.at) for number in self.published])

    @classmethod
    def read(cls, path: str | Path) -> Spec:
        """Read the specification in a file."""
        path = Path(path)
        try:
            values = tomllib.loads(decoded(path.read_bytes()))
        except OSError as error:
            raise InputError(
                f"Expected {str(path)!r} to be a specification: {error.strerror}. Check the path."
            ) from error
        except ValueError as error:
            raise InputError(f"Expected {str(path)!r} to be TOML: {error}") from error
        names = ["run" if field.name == "runs" else field.name for field in fields(cls)]
        for key in values:
            known(f"key in {path}", key, names)

        def found(key: str) -> list[dict[str, Any]]:
            return tables(str(path), key, values.pop(key, []))

        runs = (read_run(f"{path}: run {i}", table) for i, table in enumerate(found("run"), 1))
        published = (build(Published, f"{path}: published {i}", table) for i, table in enumerate(found("published"), 1))
        quick = single(str(path), "quick", values.pop("quick", {}), "Write its keys under [quick].")
        built = {"runs": tuple(runs), "published": tuple(published), "quick": build(Quick, f"{path}: quick", quick)}
        spec: Spec = build(cls, str(path), values, **built)
        return spec

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the canonical JSON form, which names ``min_class_size`` only where it is set."""
        values = asdict(self)
        if self.min_class_size is None:
            del values["min_class_size"]
        return digest(values)

    def on(self, dataset: str | None = None, seeds: int | None = None) -> Spec:
        """Return the specification on another data set, or with another number of seeds in both profiles."""
        quick = self.quick if seeds is None else replace(self.quick, seeds=seeds)
        spec = replace(self, seeds=seeds or self.seeds, quick=quick)
        if dataset in (None, self.dataset):
            return spec
        same = parts_of(str(dataset))[0] == parts_of(self.dataset)[0]
        least = self.min_class_size if same else None
        return replace(spec, dataset=str(dataset), stands_in_for=None, min_class_size=least)

    def shrunk(self) -> Spec:
        """Return what ``--quick`` runs if it is small, without published numbers; else the specification itself."""
        if not self.quick.small:
            return self
        runs = tuple(replace(run, settings=(*run.settings, ("quick", True))) for run in self.runs)
        quick = replace(self.quick, small=False)
        return replace(self, runs=runs, published=(), comments=(_SMALL, *self.comments), quick=quick)

    def cells(self, profile: str = "full") -> tuple[Cell, ...]:
        """Return every fit of a profile, all fits of a seed before the next seed. Fits of ``quick`` are also fits of ``full``."""
        quick = known("profile", profile, PROFILES) == "quick"
        seeds = self.quick.seeds if quick else self.seeds
        return tuple(cell for seed in range(seeds) for run in self.runs for cell in self._cells(run, seed, quick))

    def _cells(self, run: Run, seed: int, quick: bool) -> Iterator[Cell]:
        for at, epsilon in run.points:
            if quick and not (_kept(epsilon, self.quick.epsilons) and _kept(at, self.quick.values)):
                continue
            settings, max_degree = run.at(at, epsilon)
            settings = run.completed(settings, self.dataset)
            where = self.name, run.label, run.method, self.dataset, self.split, run.unit
            what = settings, run.first_seed + seed, at, run.curves, self.min_class_size
            yield Cell(*where, epsilon, run.delta, max_degree, *what)


def find(name: str) -> Spec:
    """Find a specification by its name, or by the path of its file."""
    if name.endswith(".toml"):
        return Spec.read(name)
    names = [path.stem for path in sorted(SPECS.glob("*.toml"))]
    return Spec.read(SPECS / f"{known('experiment', name, names)}.toml")


def _kept(value: Any, kept: Sequence[Any]) -> bool:
    return value is None or not kept or value in kept


def _check_dataset(name: str) -> None:
    from sfumato.datasets._listing import list_datasets

    if store_of(name) is not None:
        return
    names = [row.name for row in list_datasets()]
    name, texts = parts_of(name)
    if texts is not None:
        from sfumato.text._encoders import encoder_named

        encoder_named(texts)
    if name.partition("/")[0] not in {one.partition("/")[0] for one in names}:
        known("dataset", name, names)
