"""Locally private methods on the command line: what their options imply, and what contradicts them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sfumato._validate import check_choice, check_real
from sfumato.catalog import PAIR_METHODS, words_under
from sfumato.cli._table import spelled
from sfumato.errors import DataError, InputError
from sfumato.privacy.units import class_for

if TYPE_CHECKING:
    from sfumato.cli._options import Options
    from sfumato.graph._graph import Graph

OF_VALUES, OF_LINKS, OF_SERVERS = words_under("local"), words_under("link"), words_under("servers")
OF_TRUST = {"local": OF_VALUES, "link": OF_LINKS, "servers": OF_SERVERS}
WORDS = (*OF_VALUES, *OF_LINKS, *OF_SERVERS)
LINKS = "pgc-links"
_NOT_OF_LINKS = ("epsilon_y", "split", "preset")


def implied(values: dict[str, Any]) -> dict[str, Any]:
    """Return the unit, split and budgets of a local method: those that are given, and those that it implies.

    PGC reads labels in the clear, unless a budget for them is given. The default form of lpgnn asks for no
    features, unless a budget, a randomizer or a preset for them is given.
    """
    if values["method"] == LINKS:
        _refuse_beside_links(values)
    found = {"split": values["split"] or "50/25/25"}
    if values["method"] in OF_LINKS:
        return {**found, "unit": values["unit"] or "link"}
    if values["method"] in OF_SERVERS:
        return {**found, "unit": values["unit"] or "servers"}
    labels_only, published = (
        values["method"] == "label-only",
        "pgc" in (values["method"][:3], (values.get("preset") or "")[:3]),
    )
    in_clear = math.inf if values["unit"] is not None and not class_for(values["unit"]).private else None
    about_features = in_clear is not None or any(values.get(name) is not None for name in ("preset", "mechanism"))
    default = values["method"] == "lpgnn" and not about_features
    for name, absent in (
        ("epsilon_x", 0.0 if labels_only or default else None),
        ("epsilon_y", math.inf if published else None),
    ):
        given = values.get(name)
        found[name] = given if given is not None else absent if absent is not None else in_clear
    clear = found["epsilon_y"] == math.inf and (labels_only or found["epsilon_x"] == math.inf)
    return {**found, "unit": values["unit"] or ("none" if clear else "local")}


def _refuse_beside_links(values: dict[str, Any]) -> None:
    for name in _NOT_OF_LINKS:
        if values.get(name) is not None:
            raise InputError(
                f"Expected no {spelled(name)} with --task link: no label is read, and nodes have no roles. Drop it."
            )


def check_task(options: Options) -> None:
    """Refuse a task that the method does not have."""
    check_choice(("node", "link"), task=options.task)
    if options.task == "link" and options.method not in PAIR_METHODS:
        words = " or ".join(word if word != LINKS else "pgc" for word in PAIR_METHODS)
        raise InputError(
            f"Expected --task link with method {words}, got {options.method!r}. Drop it, or name one of them."
        )
    if options.task != "link" and options.method in PAIR_METHODS:
        raise InputError(f"Expected --task link with method {options.method}, which scores pairs of nodes. Add it.")


def check(options: Options) -> None:
    """Refuse what contradicts local privacy, before any file is read."""
    word = options.method
    if options.resumable:
        raise InputError(
            f"Expected no --resumable with {word}: devices draw their reports once, and no key of theirs is kept. Drop it; "
            "what a stopped run charged stays charged."
        )
    if word in OF_LINKS:
        _check_links(options)
        return
    if word in OF_SERVERS:
        _check_servers(options)
        return
    clear = in_clear(options.epsilon_y) and (word == "label-only" or in_clear(options.epsilon_x))
    unit = class_for(options.unit)
    if unit.private if clear else unit.trust != "local":
        raise InputError(
            f"Expected --unit local with {word}, or none with both epsilons inf, got {options.unit}: users trust nobody "
            "here. Drop it, or name another method, such as auto."
        )
    if options.epsilon is not None:
        raise InputError(f"Expected --epsilon-x and --epsilon-y with {word}, got --epsilon. Split it between the two.")
    if options.delta is not None and options.mechanism != "gaussian":
        raise InputError(
            f"Expected --delta with --mechanism gaussian only, got {options.delta:g}: here delta is 0. Drop it."
        )
    for name in ("epsilon_x", "epsilon_y"):
        if getattr(options, name) is None:
            raise InputError(
                f"Expected {spelled(name)} with {word}, got none. 1 is a common choice; inf reads in the clear."
            )
    _check_form(options)
    _check_range(options)


def _check_links(options: Options) -> None:
    word = options.method
    check_task(options)
    if class_for(options.unit).trust != "link":
        raise InputError(
            f"Expected --unit link with {word}, got {options.unit}: users trust nobody with their neighbor lists here. Drop "
            "it, or name another method, such as auto."
        )
    if options.epsilon is None:
        raise InputError(
            f"Expected --epsilon with {word}, got none. 5 is a common choice; a relationship costs twice as much."
        )
    if options.delta is not None:
        raise InputError(f"Expected no --delta with {word}, got {options.delta:g}: here delta is 0. Drop it.")


def _check_servers(options: Options) -> None:
    word = options.method
    check_task(options)
    if class_for(options.unit).trust != "servers":
        raise InputError(
            f"Expected --unit servers with {word}, got {options.unit}: users split their labels between two servers here. "
            "Drop it, or name another method, such as auto."
        )
    if options.epsilon_y is None or in_clear(options.epsilon_y):
        raise InputError(
            f"Expected --epsilon-y as a number with {word}, the budget of a label. 0.5 is a common choice."
        )
    for name in ("epsilon", "delta", "epsilon_x", "mechanism", "preset"):
        if getattr(options, name) is not None:
            raise InputError(
                f"Expected no {spelled(name)} with {word}, which asks for labels alone, by --epsilon-y. Drop it."
            )


def _check_form(options: Options) -> None:
    word = options.method
    if options.preset is not None:
        from sfumato.local._presets import PRESETS

        check_choice(PRESETS, preset=options.preset)
        if word == "label-only" or (word == "pgc" and options.preset != "pgc-2020"):
            raise InputError(
                f"Expected --preset {options.preset} with lpgnn, got method {word!r}. Drop one of the two."
            )
    if options.mechanism is not None and word == "label-only":
        raise InputError("Expected no --mechanism with label-only, which asks for no features. Drop it.")
    check_task(options)


def _check_range(options: Options) -> None:
    for name, none_allowed in (("epsilon_x", options.method != LINKS), ("epsilon_y", False)):
        value = getattr(options, name)
        if not in_clear(value):
            remedy = "For values in the clear pass inf."
            check_real(remedy, low=0, open_low=not none_allowed, high=1e4, **{spelled(name): value})


def look(graph: Graph, asked: Any, *, features: bool = True, links: bool = False) -> None:
    """Refuse a graph that lacks what users are asked for. Only public facts of the graph decide."""
    if not links and graph.num_classes < 2:
        raise DataError(f"Expected labels of 2 classes or more, got {graph.num_classes}. Name another --label column.")
    if not features:
        return
    if not graph.num_features:
        remedy = (
            "Links are told apart by features: add columns to the node table."
            if links
            else "Ask for none: lpgnn with --epsilon-x 0, without --preset."
        )
        raise DataError(f"Expected graph {graph.name!r} to have features, got none. {remedy}")
    if asked.epsilon_x is not None and asked.mechanism == "gaussian":
        _check_gaussian(asked, graph.num_features)


def _check_gaussian(asked: Any, num_features: int) -> None:
    from sfumato.noise._rectangles import SAMPLER_TAU

    total = asked.epsilon_x + (asked.epsilon_y or 0.0)
    most = math.log(asked.delta) - math.log(SAMPLER_TAU * num_features)
    if total + math.log1p(math.exp(-total)) >= most:
        raise InputError(
            f"Expected --epsilon-x and --epsilon-y below {most:.1f} together for mechanism gaussian with delta "
            f"{asked.delta:g} and {num_features} features, got {total:g}: too large for its noise sampler. Lower them, or "
            "take multi-bit."
        )


def in_clear(epsilon: float | None) -> bool:
    """Return whether a budget asks for values without noise: whether it is infinite."""
    return epsilon == math.inf
