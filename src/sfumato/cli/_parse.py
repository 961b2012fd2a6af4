"""Turns the options of a command line into what they ask for. They are checked and parsed once, before any file is read."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._validate import check_choice, check_int
from sfumato.catalog import PAIR_METHODS, WORDS, check_word, method_for, words_under, words_with
from sfumato.cli import _local as local
from sfumato.cli._budget_options import TOTALS
from sfumato.cli._options import Options
from sfumato.cli._stored import again, to_json
from sfumato.cli._table import LOCAL, METHOD, RECORD, rows, spelled
from sfumato.errors import InputError
from sfumato.evaluation._kept import Job, Kept
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import UNITS, Declared, Unit, class_for, unit_named
from sfumato.record._deployment import Deployment

if TYPE_CHECKING:
    from sfumato.record._dataset_ledger import DatasetLedger


def given(values: dict[str, Any], command: str = "train") -> Options:
    """Return the options of a new run, with what its method implies."""
    values = with_arcs(values)
    if values["split"] not in (None, "public"):
        _check_no_roles(values)
    if values["method"] == "pgc" and values.get("task") == "link":
        values = {**values, "method": local.LINKS}
    values = {**values, **local.implied(values)} if values["method"] in local.WORDS else values
    if values.get("sides", "") is None and values["schema"] is not None and values["method"] in words_with("sides"):
        from sfumato.graph._schema import Schema

        values = {**values, "sides": Schema.read(values["schema"]).sides}
    from sfumato.datasets._loading import default_split

    split = values["split"] or default_split(values["dataset"] or "")
    for name, remedy in (
        ("method", "Name one, such as auto"),
        ("unit", "Say what is protected, such as --unit edge"),
        ("out", "Name a new run folder with --out"),
    ):
        if values[name] is None:
            raise InputError(f"Expected {spelled(name)} with {command}, got none. {remedy}.")
    record = values.get("deployment")
    return Options(**{**values, "split": split, "deployment": None if record is None else Deployment.read(record)})


def _check_no_roles(values: dict[str, Any]) -> None:
    """Refuse a split of tables or of a store that say which nodes train: those roles stay."""
    from sfumato.graph._schema import Schema

    schema, graph = values["schema"], values["graph"]
    place = f"the schema {str(schema)!r}" if schema is not None and Schema.read(schema).role else ""
    if graph is not None and (Path(graph) / "roles.npy").is_file():
        place = f"the store {str(graph)!r}"
    if place:
        raise InputError(
            f"Expected no --split, since {place} has roles, got {values['split']!r}. Drop it, or read the tables without roles."
        )


def with_arcs(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a command line with the unit that ``--unit`` and ``--arcs`` name together."""
    values = _with_accounts(values)
    arcs, unit = values.get("arcs"), values["unit"]
    if arcs is None or unit is None:
        return values
    words = class_for(unit).arc_words
    if unit not in words.values():
        raise InputError(f"Expected --arcs with --unit node only, got unit {unit!r}. Drop it.")
    check_choice(tuple(words), arcs=arcs)
    usual, *_ = words.values()
    if unit not in (usual, words[arcs]):
        choices = " or ".join(f"--unit {usual} --arcs {word}" for word in words)
        raise InputError(f"Expected --arcs to agree with --unit {unit}, got {arcs}. Choose one: {choices}.")
    return {**values, "unit": words[arcs]}


def _with_accounts(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the unit of the owners of nodes, where that of owners is asked for and nodes have them."""
    word = None if values["unit"] is None else class_for(values["unit"]).node_words.get(values["unit"])
    if word is None:
        return values
    from sfumato.graph._schema import Schema

    schema = values.get("schema")
    owned = values.get("nodes_per_person") or (schema is not None and Schema.read(schema).nodes_per_person)
    return {**values, "unit": word} if owned else values


def checks(options: Options) -> Iterator[Callable[[], Any]]:
    """Yield what refuses options that contradict each other, whatever the task; each call raises :class:`InputError` or does not.

    The first two say whether method and unit exist: without them the others mean nothing.
    """
    yield partial(check_word, options.method)
    yield partial(unit_named, options.unit, Declared(directed=False))
    yield partial(check_int, low=1, seeds=options.seeds)
    if options.threads is not None:
        yield partial(check_int, low=1, threads=options.threads)
    yield partial(_check_own, options)
    yield partial(local.check if options.method in local.WORDS else local.check_task, options)
    yield partial(check_relation, options)
    yield partial(_check_cells, options)
    yield partial(budget_of, options)
    yield partial(_check_delta, options)
    yield partial(check_degrees, options)
    yield partial(rule_of, options)
    yield partial(_check_scores, options)
    yield partial(check_private, options)
    yield partial(_method, options)
    yield options.source


def _method(options: Options) -> Any:
    return method_for(options.method, asdict(options), options.dataset or "")


def _check_own(options: Options) -> None:
    """Refuse an option of other methods. Methods that ask users for values say themselves what they take."""
    for name, row in rows(Options).items():
        own = options.method in local.OF_VALUES and row.panel == LOCAL
        words = words_with(name) if row.panel in (RECORD, METHOD, LOCAL) and not own else ()
        if words and getattr(options, name) is not None and options.method not in words:
            those = words[0] if len(words) == 1 else f"one of {', '.join(words)}"
            raise InputError(f"Expected {spelled(name)} with {those}, got method {options.method!r}. Drop it.")


def _check_delta(options: Options) -> None:
    """Refuse a delta that is wrong where epsilon is missing or wrong, of which alone the budget tells."""
    if options.delta is not None and not (options.epsilon or 0) > 0:
        Budget(1.0, options.delta)


def check_relation(options: Options) -> None:
    """Refuse a relation that the unit does not have."""
    if options.relation is None:
        return
    choices = _relations(class_for(options.unit))
    if len(choices) < 2:
        words = ", ".join(unit.name for unit in UNITS if len(_relations(unit)) > 1)
        raise InputError(f"Expected --relation with a unit that has two ({words}), got unit {options.unit!r}. Drop it.")
    check_choice(choices, relation=options.relation)


def _relations(unit: type[Unit]) -> tuple[str, ...]:
    """The relations of a unit, its own first."""
    return tuple(dict.fromkeys(form.relation for forms in unit.forms().values() for form in forms))


def _check_cells(options: Options) -> None:
    for name in ("subclasses", "partition"):
        if getattr(options, name) is not None and not class_for(options.unit).takes_cells:
            raise InputError(f"Expected {spelled(name)} with --unit subclass, got unit {options.unit!r}. Drop it.")
    if options.subclasses is not None:
        check_int(low=1, subclasses=options.subclasses)
    if options.partition is not None:
        check_choice(("directions", "centroids", "kmeans", "folders"), partition=options.partition)
    if options.partition == "folders" and options.subclasses is not None:
        raise InputError("Expected no --subclasses with --partition folders, whose subfolders are counted. Drop it.")


def check_degrees(options: Options) -> None:
    """Refuse bounds on degrees that mean nothing under the unit."""
    unit = class_for(options.unit)
    if options.max_degree is not None and options.unit not in (*unit.takes_max_degree, *unit.takes_promise):
        raise InputError(f"Expected --max-degree with --unit node only, got unit {options.unit!r}. Drop it.")
    if options.public_degrees and options.unit not in unit.takes_promise:
        raise InputError(
            f"Expected --public-degrees with --unit node --arcs incident only, got unit {options.unit!r}. Drop it, or protect "
            "every arc of a node."
        )


def _check_scores(options: Options) -> None:
    if options.by is not None and (options.task == "link" or WORDS[options.method] in PAIR_METHODS):
        raise InputError(
            "Expected --by for a run that learns the classes of nodes, got one that scores links. Drop it."
        )
    if options.save_floor is not None:
        _check_floor(options, options.save_floor)


def check_private(options: Options) -> None:
    """Refuse what a run without a privacy unit has no use for."""
    unit = class_for(options.unit)
    if options.resumable and not unit.private:
        raise InputError("Expected --resumable with a privacy unit, got none: there is no noise to repeat. Drop it.")
    if options.deployment is not None and not unit.private:
        raise InputError(
            "Expected --deployment with a privacy unit, got none: nothing of such a run may be published. Drop it."
        )


def parse(options: Options) -> Job:
    """Check the options of a run that learns the classes of nodes, and return what they ask for."""
    for check in checks(options):
        check()
    from sfumato.evaluation._request import Request
    from sfumato.evaluation._source import groups_of

    method, rule = _method(options), rule_of(options)
    method = method if rule is None else method.charged_to(rule)
    beside = options.ledger is None or options.save_floor is not None  # by default: nothing charges controls
    request = Request(
        options.source(),
        method,
        options.unit,
        budget_of(options),
        options.max_degree,
        tuple(range(options.seeds)),
        beside if options.controls is None else options.controls,
        public_degrees=options.public_degrees,
        assume_public=options.assume_public,
        subclasses=options.subclasses,
        partition=options.partition,
        relation=options.relation,
    )
    look = (
        partial(local.look, asked=method, features=options.epsilon_x != 0, links=not method.card.reads_labels)
        if options.method in local.OF_VALUES
        else None
    )
    kept = Kept(
        options.out,
        ledger_of(options),
        options.sign_key,
        options.deployment,
        options.public_ids,
        finished=f"Its scores are not: sfumato evaluate {options.out}",
        hint="" if options.method in local.WORDS else "With --resumable it could.",
    )
    return Job(
        options.method,
        request,
        kept,
        options.threads,
        look,
        options.save_floor,
        None if options.by is None else partial(groups_of, request.source, column=options.by),
        again(options),
        to_json(options) if options.resumable else None,
    )


def budget_of(options: Options) -> Budget | None:
    """Return epsilon and delta. It is None without privacy, and if the method's own options say what is spent."""
    unit = class_for(options.unit)
    if options.method in local.WORDS:
        return None
    if unit.trust != "curator":
        words = ", ".join(local.OF_TRUST[unit.trust])
        raise InputError(
            f"Expected --unit {options.unit} with one of {words}, got method {options.method!r}, which reads values "
            "before noise. Name one of them, or another unit."
        )
    if not unit.private:
        if options.epsilon is not None or options.delta is not None:
            raise InputError(
                "Expected no --epsilon or --delta with --unit none. Choose a unit such as edge to spend them."
            )
        return None
    lacking = []
    if options.epsilon is None:
        lacking.append(f"Expected --epsilon with --unit {options.unit}, got none. 1 is a common choice.")
    if options.delta is None:
        lacking.append(
            f"Expected --delta with --unit {options.unit}, got none. Choose a public number well below 1 / (number of "
            "records), such as 1e-7."
        )
    if options.epsilon is None or options.delta is None:
        raise InputError(" ".join(lacking))
    return Budget(options.epsilon, options.delta)


def _check_floor(options: Options, path: Path) -> None:
    """Refuse to save a floor that would have to be paid for, that is not fitted, or that has no folder of its own."""
    from sfumato.record._release_folder import check_new_run

    unit = unit_named(options.unit, Declared(directed=False))
    if options.controls is False:
        raise InputError("Expected --save-floor with controls, of which the floor is one, got --no-controls. Drop one.")
    if options.task == "link" or WORDS[options.method] in PAIR_METHODS or not unit.private or unit.trust != "curator":
        raise InputError(
            "Expected --save-floor for a run that learns the classes of nodes under a unit with a trusted curator, such as edge: "
            "no other has a floor that may be released. Drop it."
        )
    if not set(unit.public) >= {"features", "labels"}:
        word = next((word for word in ("linear", "mlp") if word in words_under(unit.name)), "METHOD")
        command = shlex.join(("sfumato", "train", word, *again(options), "--out", str(path)))
        raise InputError(
            f"Expected --save-floor where features and labels are public (unit edge or arc), got unit {options.unit!r}: there a "
            "floor learns from what is protected, and the one fitted for comparison is charged to nobody. Buy it, beside what "
            f"this run spends: {command}"
        )
    if path.resolve() == options.out.resolve() or options.out.resolve() in path.resolve().parents:
        raise InputError(f"Expected --save-floor to be a folder apart from --out, got {str(path)!r}. Name another.")
    check_new_run(path)


def ledger_of(options: Options) -> DatasetLedger | None:
    """Return the ledger that options name, with the window that they charge, or None."""
    if options.window is not None:
        _check_window(options, options.window)
    return shared_ledger(options, private=class_for(options.unit).private)


def rule_of(options: Options) -> str | None:
    """The rule of the ledger that options name."""
    ledger = ledger_of(options)
    return None if ledger is None else ledger.rule


def _check_window(options: Options, window: str) -> None:
    """Refuse a window that there is not, without a ledger that adds up what each one spends, and of lasting records."""
    from sfumato._window import Window
    from sfumato.record._windows import check_unit

    Window.parse(window)
    check_unit(class_for(options.unit).name)
    if options.ledger is None:
        raise InputError(
            "Expected --window with --ledger FILE, got none: the ledger adds up what all runs spend on one window. Name a new "
            "one, with --population and --total-epsilon, or drop --window and train on a table of these edges alone."
        )


def shared_ledger(options: Any, *, private: bool = True) -> DatasetLedger | None:
    """Return the ledger that options name, or None if they name none; ``private`` says whether the run has a privacy unit."""
    totals = {name: getattr(options, name) for name in TOTALS}
    if options.ledger is not None and not private:
        raise InputError("Expected --ledger with a privacy unit, got none: nothing bounds what it spends. Drop it.")
    if options.ledger is None:
        for name, value in totals.items():
            if value is not None:
                raise InputError(f"Expected {spelled(name)} with --ledger FILE only. Name the ledger, or drop it.")
        return None
    from sfumato.record._dataset_ledger import DatasetLedger
    from sfumato.record._schedule import Schedule

    if totals["schedule"] is not None:
        totals["schedule"] = Schedule.read(totals["schedule"])
    return DatasetLedger(options.ledger, **totals)
