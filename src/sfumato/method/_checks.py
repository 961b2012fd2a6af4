"""What is compared before a run is fitted or loaded: names that it would hold, and files that say the same twice."""

from __future__ import annotations

import hashlib
import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._validate import check_kind, fail
from sfumato.errors import DataError, DroppedWarning, InputError, LedgerError, SfumatoError, UnsupportedTargetError
from sfumato.graph._again import checked_again
from sfumato.graph._dropped import UNTYPED, UNWEIGHTED
from sfumato.graph._facts import PublicFacts, labeled_mask
from sfumato.graph._graph import Graph
from sfumato.graph._schema import CATEGORIES
from sfumato.graph._targets import MULTILABEL, RANGE
from sfumato.privacy.budget import Budget
from sfumato.privacy.events import MOST
from sfumato.privacy.units import Unit, check_own_name
from sfumato.record.ledger import OWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.method._graph_key import GraphKey
    from sfumato.method.contract import Method
    from sfumato.record._collected import Collected
    from sfumato.record.ledger import Release

_LONGEST_NAME = 200
_MOST_ASSUMED = 10_000
_MOST_NUMBERS = 2**36  # of eight bytes: half a terabyte
_ALWAYS = (
    "num_nodes", "num_features", "image_shape", "directed", "max_weight", "edge_types", "public_types", "degree_bounds",
    "edges_per_person", "nodes_per_person", "num_persons",
)  # fmt: skip
_OF_LABELS = ("num_train", "train_persons", "split", "num_classes", "target", "target_range")
_IF_STATED = ("num_arcs", "untrained_classes", "max_degree", "mean_degree")
"""Facts of a plan that are compared with those of a graph; a test tells of one that is in none of the three."""
LEARNERS = ("gap", "progap", "mlp")
"""Methods that learn several labels of a node, or a number; a test compares it with the cards."""
_READS = dict.fromkeys(("label-messages", "piloted-messages", "promised-messages", "lpgnet"), "messages are")


def check_spec(spec: dict[str, Any], certificate: dict[str, Any]) -> None:
    """Refuse a spec that says something else than the certificate: unit and budget decide what predicting may read."""
    budget = certificate["budget"]
    stated = {
        "method": certificate["method"],
        "settings": certificate["settings"],
        "unit": certificate["unit"],
        "budget": budget if budget["epsilon"] is not None else None,
        "public": {**certificate["public_facts"], "assumed": certificate["assumed_public"]},
    }
    for name, value in stated.items():
        if spec[name] != value:
            raise LedgerError(f"Field {name!r} of spec.json differs from the certificate. See `sfumato verify`.")


def check_names(graph: Graph, assumed: Sequence[str]) -> None:
    """Refuse names that no release may hold, and facts, read off columns, that the graph does not name."""
    for text in (graph.name, *graph.classes, *graph.feature_names, *assumed):
        if len(text) > _LONGEST_NAME or not text.isprintable():
            raise DataError(
                f"Expected names of graph, classes and columns to have at most {_LONGEST_NAME} characters, all printable, "
                f"since the release holds them; got {text[:20]!r}, of length {len(text)}. Rename it."
            )
    named = [name for name, _, _ in graph.ranges]
    if named != [name for name in dict.fromkeys(graph.feature_names) if name in set(named)]:
        raise DataError(
            "Expected the ranges of a graph to be those of some of its feature_names, each once and in their order, got others. "
            "Readers fill them from a schema: leave them as they are."
        )
    if len(assumed) > _MOST_ASSUMED:
        raise DataError(
            f"Expected at most {_MOST_ASSUMED} facts to be read off the data, got {len(assumed)}. Declare columns in a schema."
        )
    columns = {name[:end] for name in graph.feature_names for end, sign in enumerate(name) if sign == "="}
    for fact in assumed:
        if graph.feature_names and fact.startswith(CATEGORIES) and fact.removeprefix(CATEGORIES) not in columns:
            raise DataError(
                f"Expected feature names COLUMN=CATEGORY for {fact!r}, which the graph assumes public, got none. Rename columns "
                "before the graph is read."
            )


def check_settings(method: Method) -> None:
    """Refuse a number that ledger and certificate cannot hold."""
    for name, value in vars(method).items():
        if isinstance(value, np.generic) and not isinstance(value, (float, str)):
            raise fail(name, value, "to be a number of Python, which a certificate holds", "Pass value.item().")
    for name, value in method.settings.items():
        if isinstance(value, int) and abs(value) > MOST:
            expected = "to be an integer of at most 2**53, the longest that a certificate holds"
            raise fail(name, value, expected, "Write it as a float, or lower it.")


def check_sizes(releases: Sequence[Release]) -> None:
    """Refuse what no machine holds, before anything is charged for it."""
    for release in releases:
        size = math.prod(side for side in release.shape if side)
        if size > _MOST_NUMBERS:
            raise fail(
                f"release {release.name!r}",
                size,
                f"to hold at most {_MOST_NUMBERS:,} numbers",
                "Lower width, hops or roots.",
            )


def check_graph(graph: Graph) -> Graph:
    """Return a graph whose arrays passed their checks just now; refuse what is no graph, such as a table of nodes."""
    check_kind(Graph, "Make one with sf.graph.from_frames or sf.graph.read_csv.", graph=graph)
    return checked_again(graph)


def check_asked(budget: Budget | None, unit: Unit, public: PublicFacts) -> None:
    """Refuse what stands in the place of another argument of ``calibrate``."""
    if budget is not None:
        check_kind(Budget, "Use sf.Budget(epsilon, delta).", budget=budget)
    check_kind(Unit, "Use a unit such as sf.EdgeLevel(directed=False).", unit=unit)
    check_kind(PublicFacts, "Use graph.public_facts(unit).", public=public)
    under(unit, public)


def under(unit: Unit, public: PublicFacts) -> PublicFacts:
    """Return facts as those of a ``unit``, which they must have been made for; facts made by hand become its own.

    What is public under one unit may be protected under another, and a plan states its facts in the certificate. Every plan
    goes through here, whoever makes it.
    """
    check_own_name(unit)
    if public.unit is not None and public.unit != unit:
        raise InputError(
            f"Expected public facts that were made for {unit}, got those of {public.unit}: what is public there may be protected "
            "here. Use graph.public_facts(unit) with this very unit."
        )
    if public.unit is None and public.edges_per_person is None:
        public = replace(public, edges_per_person=unit.edges_per_person)
    if public.unit is None and public.nodes_per_person is None and unit.nodes_per_person is not None:
        # as if each were one node: a graph of other persons is refused
        everyone: dict[str, Any] = {"num_persons": public.num_nodes, "train_persons": public.num_train}
        public = replace(public, nodes_per_person=unit.nodes_per_person, **everyone)
    _check_owners(unit, public.edges_per_person)
    _check_accounts(unit, public)
    return replace(public, unit=unit)


def _check_owners(unit: Unit, kept: int | None) -> None:
    """Refuse a unit of persons on a graph without their bound, and any other on a graph with one, where rows depend on rows."""
    wanted = unit.edges_per_person
    if kept == wanted or not unit.private:
        return
    if wanted is None:
        raise InputError(
            f"Expected unit person for a graph that holds at most {kept} edges of each person, got {unit.name}: where one row is "
            "taken out, another of the same person may come in, so that one record is more than one edge. Use unit person, or "
            "read the table without person and edges_per_person."
        )
    raise InputError(
        f"Expected a graph of which a reader kept at most {wanted} edges of each person, as unit person says, got "
        f"{'one without owners of edges' if kept is None else f'one with {kept} of each'}. Read the edge table with "
        f"person=COLUMN and edges_per_person={wanted} (--person and --edges-per-person). "
        "A person who is one node is protected by node."
    )


def _check_accounts(unit: Unit, public: PublicFacts) -> None:
    """Refuse a unit of persons who own nodes on a graph without them, or with another bound."""
    wanted, kept = unit.nodes_per_person, public.nodes_per_person
    if kept == wanted and (wanted is None or None not in (public.num_persons, public.train_persons)):
        return
    got = "one whose nodes have no owners" if kept is None else f"one with {kept} of each"
    raise InputError(
        f"Expected a graph of which a reader kept at most {wanted} nodes of each person, as unit {unit.name} says, got {got}. "
        f"Read the node table with person=COLUMN and nodes_per_person={wanted} (--person and --nodes-per-person), or use "
        "sf.graph.of_persons. A person who is one node is protected by node."
    )


def check_target(method: Method, unit: Unit, public: PublicFacts) -> None:
    """Refuse targets that a ``method`` does not learn, and limits of a number that a ``unit`` lets nobody read off the data."""
    if public.target is None:
        return
    if method.origin is None and public.target not in method.card.targets:
        what = "several labels of a node" if public.target == MULTILABEL else "a number"
        raise UnsupportedTargetError(
            f"Method {method.name!r} cannot learn {what}: its {_READS.get(method.name, 'loss is')} made for one class a node. "
            f"Use one of {', '.join(LEARNERS)}, or make classes of the target."
        )
    if RANGE in public.assumed and "labels" not in unit.public:
        raise UnsupportedTargetError(
            f"Expected a range of the number that is known without this data under unit {unit.name}, got one that was read off "
            "protected numbers. Declare it: limits=(least, largest), or target_range in the schema."
        )


def as_read(method: Method, public: PublicFacts) -> PublicFacts:
    """Return the facts of a graph without those of edges that the ``method`` does not read under their unit; then warn of it.

    These are the bound of their weights, and their types. A method that reads no links at all reads neither, of which no warning
    tells.
    """
    known = what_it_reads(method, public)
    if method.card.reads_links:
        for name, told in (("max_weight", UNWEIGHTED), ("edge_types", UNTYPED)):
            if getattr(known, name) != getattr(public, name):
                warnings.warn(told.format(f"Method {method.name!r}"), DroppedWarning, stacklevel=2)
    return known


def what_it_reads(method: Method, public: PublicFacts) -> PublicFacts:
    """Return the facts of a graph without those of edges that a ``method`` does not read under the unit of the facts."""
    if public.max_weight is not None and not method.card.reads_weights:
        public = replace(public, max_weight=None)
    needed, told = method.reads_types, () if public.unit is None else public.unit.public
    if public.edge_types is not None and (needed is None or not {*needed} <= {*told}):
        public = replace(public, edge_types=None, public_types=None)
    if public.public_types is not None and not (method.card.reads_public_types and "labels" in told):
        public = replace(public, public_types=None)  # they are protected as all others
    return public


def check_same(planned: PublicFacts, found: PublicFacts, *, labels: bool) -> None:
    """Refuse a graph with other public facts than those that a plan was calibrated for, which its certificate states.

    A fact that the plan leaves out, such as a promise, need not be left out by the graph.
    """
    remedy = "Calibrate with this graph's public_facts(unit)."
    for name in (*_ALWAYS, *(_OF_LABELS if labels else ()), *_IF_STATED):
        expected, got = getattr(planned, name), getattr(found, name)
        if expected != got and not (expected is None and name in _IF_STATED):
            raise DataError(
                f"Expected a graph with {name}={expected} as the plan was calibrated for, got {_told(found, name)}: the "
                f"certificate states it. {remedy}"
            )
    hidden = [fact for fact in found.assumed if fact not in planned.assumed]
    if hidden:
        raise DataError(
            f"Expected a graph that assumes no more to be public than the plan was calibrated for, got {hidden[0]!r}, which the "
            f"certificate would not list. {remedy}"
        )


def as_inferred(trained: PublicFacts, public: PublicFacts) -> PublicFacts:
    """Return the facts of another graph as an inference states them: one without classes has those of training."""
    if public.num_classes:
        return public
    known = {name: getattr(trained, name) for name in ("num_classes", "target", "target_range")}
    return replace(public, num_train=0, split=None, untrained_classes=None, **known)


def check_as_trained(trained: PublicFacts, public: PublicFacts) -> None:
    """Refuse to apply a model to a graph with other features or another target than it was trained with."""
    for name in ("num_features", "num_classes", "target", "target_range", "max_weight", "edge_types", "public_types"):
        expected, found = getattr(trained, name), getattr(public, name)
        if expected != found:
            told = _told(public, name)
            raise fail(f"public.{name}", told, f"to be {expected} as in training", "Read both with one schema.")


def _told(facts: PublicFacts, name: str) -> Any:
    """A fact as a message may name it: limits that were read off protected numbers are two of these numbers."""
    return "others, which are protected" if name == "target_range" and RANGE in facts.assumed else getattr(facts, name)


def check_learnable(graph: Graph, unit: Unit, *, labeled: bool = True) -> None:
    """Refuse a graph from which nothing can be learned; if not ``labeled``, it needs classes alone: reports tell of labels."""
    if not graph.train_mask.any():
        raise DataError(f"Expected graph {graph.name!r} to have nodes in the training role, got none. Check roles.")
    if graph.targets is None and ((labeled and graph.y is None) or graph.num_classes < 2):
        got = "one, which there is nothing to tell from" if graph.num_classes == 1 else "none"
        raise DataError(
            f"Expected graph {graph.name!r} to have labels of at least 2 classes, got {got}. Name another label column, or "
            "declare all classes in the schema."
        )
    if (graph.y is None and graph.targets is None) or "labels" not in unit.public:
        return
    known = int((graph.train_mask & labeled_mask(graph)).sum())
    if known < 2:
        raise DataError(f"Expected at least two labeled training nodes, got {known}. Check the label column and roles.")


def check_collected(unit: Unit, collected: Collected | None) -> None:
    """Refuse reports of devices under a unit whose users trust a curator."""
    if collected is not None and unit.trust == "curator":
        raise fail("collected", "reports of devices", f"to be None under unit {unit.name}", "Take a local method.")


def check_measured(graph: Graph, measure: bool) -> None:
    """Refuse to measure accuracies after every step where targets are no classes."""
    if measure and graph.targets is not None:
        raise fail("measure", True, "to be False for targets that are no classes", "They have no accuracy.")


def check_converged(weights: Mapping[str, Any], *, spent: bool) -> None:
    """Refuse weights that are not finite, of which no run is made."""
    wrong = sorted(name for name, array in weights.items() if not np.isfinite(array).all())
    if wrong:
        raise SfumatoError(
            f"Expected finite weights, got others in {wrong[0]!r}: training diverged, and nothing is saved."
            + (" What was released is spent." if spent else "")
            + " Lower the learning rate, or rescale features."
        )


def check_own(releases: Sequence[Release], released: Mapping[str, object]) -> set[str]:
    """Return the names of releases that are for single nodes; refuse to save a run that lacks one."""
    theirs = {one.name for one in releases if one.visible_to == OWN}
    if theirs - released.keys():
        raise InputError(
            "Expected a run with the rows of its own/ folder, without which a copy would not verify, got none. Copy the run "
            "folder instead, or put own/ beside release/ and load the run again."
        )
    return theirs


def check_ids(lines: str, key: GraphKey) -> str:
    """Return the ids of a graph, one a line, if they may stand in its release."""
    found = lines.split("\n")
    if hashlib.sha256(lines.encode()).hexdigest() != key.ids_digest:
        raise fail(
            "ids_of", f"other ids than {key.name!r}", "to be the fitted graph", "Pass the graph that was fitted."
        )
    if len(found) != key.num_nodes or not lines.replace("\n", "").isprintable():
        raise InputError(
            "Expected printable node ids of one line each, got others. Save without them, or rename the nodes."
        )
    return lines
