"""Turns the options of `sfumato describe` into what they ask for, as :mod:`sfumato.cli._parse` does for a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato._validate import check_int
from sfumato.catalog import method_named
from sfumato.cli._options import Options, named_source
from sfumato.cli._parse import budget_of, check_degrees, check_private, check_relation, ledger_of, rule_of, with_arcs
from sfumato.cli._table import spelled
from sfumato.errors import InputError
from sfumato.evaluation._kept import Job, Kept
from sfumato.privacy.units import Declared, class_for, unit_named
from sfumato.record._deployment import Deployment

if TYPE_CHECKING:
    from sfumato.privacy.budget import Budget

STATISTICS = "statistics"
"""The method of `sfumato describe`."""


def asked(values: dict[str, Any]) -> Options:
    """Return the options of a run of statistics."""
    values = {**with_arcs(values), "method": STATISTICS}
    for name, remedy in (("unit", "Say what is protected, such as --unit edge"), ("out", "Name a new run folder")):
        if values[name] is None:
            raise InputError(f"Expected {spelled(name)} with describe, got none. {remedy}.")
    record = values.get("deployment")
    return Options(**{**values, "deployment": None if record is None else Deployment.read(record)})


def statistics_checks(options: Options) -> Iterator[Callable[[], Any]]:
    """Yield what refuses options of a run of statistics that contradict each other, as :func:`checks` does for others."""
    yield partial(_statistics, options)
    yield partial(unit_named, options.unit, Declared(directed=False))
    if options.threads is not None:
        yield partial(check_int, low=1, threads=options.threads)
    yield partial(check_relation, options)
    yield partial(_statistics_budget, options)
    yield partial(check_degrees, options)
    yield partial(rule_of, options)
    yield partial(check_private, options)
    yield partial(_source_of_groups, options)


def _statistics(options: Options) -> Any:
    return method_named(STATISTICS, stats=options.stats, grouped=options.grouped)


def _statistics_budget(options: Options) -> Budget | None:
    """Return epsilon and delta, which is 0 unless it is given."""
    if class_for(options.unit).trust != "curator":
        raise InputError(
            f"Expected --unit edge, or node with --arcs incident, got {options.unit}: describe reads a graph that its holder "
            "has. Where devices randomize their own values, `sfumato collect estimate` gives shares and means."
        )
    private = class_for(options.unit).private
    return budget_of(replace(options, delta=0.0) if options.delta is None and private else options)


def _source_of_groups(options: Options) -> Any:
    """The source of a graph whose label is the column of groups, and of which nothing else is read but edges."""
    from sfumato.evaluation._source import Source

    if options.by is not None and options.nodes is None and options.edges is None:
        raise InputError(
            f"Expected --by with --nodes and --edges, got {options.by!r} for a graph whose groups are its label. Drop it."
        )
    return Source(**{**named_source(options), "split": Source.split, "label": options.by, "features": False}).check(
        labeled=False
    )


def parse_statistics(options: Options) -> Job:
    """Check the options of a run of statistics, and return what they ask for."""
    for check in statistics_checks(options):
        check()
    from sfumato.evaluation._request import Request

    request = Request(
        _source_of_groups(options),
        _statistics(options),
        options.unit,
        _statistics_budget(options),
        options.max_degree,
        assume_public=options.assume_public,
        relation=options.relation,
    )
    said = f"Its answers are not printed: sfumato describe --from-run {options.out}"
    kept = Kept(
        options.out, ledger_of(options), options.sign_key, options.deployment, options.public_ids, finished=said
    )
    return Job(STATISTICS, request, kept, options.threads)
