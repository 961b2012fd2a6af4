"""One evaluation from end to end: load, split, calibrate, fit, score, controls.

The command line, tuning and experiments all come through here. Scores read true labels: they are outside the guarantee.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from sfumato._validate import fail
from sfumato.catalog import CARDS, WORDS, words_under
from sfumato.errors import InputError, SfumatoError, UnsupportedTargetError, UnsupportedUnitError
from sfumato.evaluation._controls import controls, repeats
from sfumato.evaluation._outcome import Evaluation, Outcome
from sfumato.graph._declared import check_declared, with_public_degrees
from sfumato.graph._targets import CLASS
from sfumato.privacy.units import Declared, Unit, class_for, unit_named
from sfumato.scoring._answers import answers_of, mean_loss
from sfumato.scoring._detail import RUN, detail
from sfumato.scoring._scores import (
    SCORES,
    UNBOUNDED,
    Summary,
    check_scorable,
    scores_of,
    target_kind,
    without_information,
)

if TYPE_CHECKING:
    from sfumato.evaluation._source import Source
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted, Plan
    from sfumato.method.contract import Listed, Progress
    from sfumato.privacy._unit import Partition
    from sfumato.privacy.budget import Budget
    from sfumato.scoring._groups import Groups

KMEANS = "kmeans"
"""The word for cells that are clusters of the private images, which the unit takes for declared."""
FOLDERS = "folders"
"""The word for cells that the data declare: those of a folder of images are the subfolders of its classes."""


@dataclass(frozen=True)
class Request:
    """What to evaluate: plain values, parsed once."""

    source: Source
    method: Listed  # its noise is not calibrated yet
    unit: str  # the word of a privacy unit; a method with a unit of its own keeps that
    budget: Budget | None  # None without privacy, or if the method's own settings say it
    max_degree: int | None = None  # None takes what the graph promises
    seeds: tuple[int, ...] = (0,)  # each gives one split and one fit
    controls: bool = False
    measure: bool = False  # keep accuracies after every step of training
    public_degrees: bool = False  # true degrees are declared public
    subclasses: int | None = None  # cells of each class under unit subclass; None takes the unit's own
    partition: str | None = (
        None  # how these are found; kmeans: clusters of the private images; folders: the data declare them
    )
    relation: str | None = None  # how neighboring data sets differ; None takes the unit's own
    assume_public: bool = False  # what nobody declared is taken for public

    def unit_on(self, graph: Graph) -> Unit:
        max_degree = self.max_degree if self.max_degree is not None else graph.max_degree
        persons: dict[str, Any] = {
            "edges_per_person": graph.edges_per_person,
            "nodes_per_person": graph.nodes_per_person,
        }
        declared = Declared(graph.directed, max_degree, **persons)
        if self.subclasses is not None:
            declared = replace(declared, cells=self.subclasses)
        if self.partition == KMEANS:
            declared = replace(declared, cells=declared.cells * graph.num_classes, partition="declared")
        elif self.partition == FOLDERS:
            if graph.cells is None:
                raise fail(
                    "partition", FOLDERS, f"to come with cells that {graph.name!r} declares", "Sort the images of each class "
                    "into subfolders, one for each cell.",
                )  # fmt: skip
            declared = replace(declared, cells=int(graph.cells.max()) + 1, partition="declared")
        elif self.partition is not None:
            declared = replace(declared, partition=cast("Partition", self.partition))
        unit = self.method.unit or unit_named(self.unit, declared)
        return unit if self.relation is None else replace(cast("Any", unit), relation=self.relation)

    def declared(self, graph: Graph) -> Graph:
        """Return the graph with the bounds on degrees that the request declares public."""
        if self.public_degrees:
            graph = with_public_degrees(graph)
        if self.max_degree is None or self.unit not in class_for(self.unit).takes_promise:
            return graph
        return graph.changed(max_degree=self.max_degree)


@dataclass(frozen=True)
class Prepared:
    """A request whose graph is read and whose noise is calibrated. Nothing is charged yet."""

    request: Request
    graph: Graph  # without the roles of a seed
    plan: Plan
    load_seconds: float
    scores_later: ClassVar[bool] = False  # whether edges from a day on are what it scores

    @classmethod
    def drawn(cls, source: Source, graph: Graph, seed: int) -> Graph:
        """Return a graph as it is learned from: with the roles of a seed."""
        return source.with_roles(graph, seed)

    def split(self, seed: int) -> Graph:
        return self.drawn(self.request.source, self.graph, seed)

    @property
    def first(self) -> Graph:
        """The graph from which the fit that is kept learns."""
        return self.split(self.request.seeds[0])

    @property
    def learned(self) -> Prepared:
        """The same with the graph that the fit which is kept learns from."""
        return self

    def evaluate(self, first: Fitted | None = None, report: Progress | None = None) -> Any:  # that of the task
        """Run the request: score the first fit (made here unless it is given), further seeds, and the controls."""
        outcome = self._repeat(self.plan, first, report)
        beside, left_out = self._beside(outcome, report) if self.request.controls else ({}, ())
        return Evaluation(self.plan, outcome, beside, left_out=left_out)

    def detail(self, evaluation: Evaluation, by: Groups | None = None) -> dict[str, Any]:
        """Return what metrics.json holds beyond scores of whole test sets: one answer for all, and of classes the parts."""
        told: dict[str, Any] = {"without_information": without_information(self.first)}
        if target_kind(self.graph) == CLASS:
            found = {
                RUN: evaluation.outcome.answers,
                **{name: one.answers for name, one in evaluation.controls.items()},
            }
            told["detail"] = detail(self.first, found, by)
        return told

    def _repeat(self, plan: Plan, first: Fitted | None, report: Progress | None) -> Outcome:
        answers, scores, held_out, seconds = [], [], [], 0.0
        for number, seed in enumerate(self.request.seeds):
            split, fitted, start = self.split(seed), first, time.perf_counter()
            if number > 0 or fitted is None:
                ours = plan if number == 0 else on_graph(plan, split)
                fitted = ours.fit(split, seed=seed, progress=report, measure=self.request.measure)
            if first is None:
                first, seconds = fitted, time.perf_counter() - start
            found = answers_of(fitted, split, split.test_mask | split.val_mask)
            answers.append(found.among(split.test_mask))
            scores.append(scores_of(answers[-1], split))
            kept = found.among(split.val_mask)
            kept = kept if len(kept.nodes) else answers[-1]
            held_out.append(mean_loss(kept))
        assert first is not None
        kind = target_kind(self.graph)
        over = {name: Summary.of([one[name] for one in scores], share=name not in UNBOUNDED) for name in SCORES[kind]}
        return Outcome(first, over, seconds, tuple(answers), sum(held_out) / len(held_out))

    def _beside(self, own: Outcome, report: Progress | None) -> tuple[dict[str, Outcome], tuple[str, ...]]:
        """Fit the candidates for each control, but those without a proof under the unit, and those that repeat the method.

        Those that need an absent package are left out, too, and are told of. Without privacy the run is its own candidate for the
        ceiling: ``own`` is taken, and not fitted again.
        """
        outcomes: dict[str, Outcome] = {}
        left_out: dict[str, str] = {}
        fewer: dict[str, str] = {}
        for name, title, method, unit, budget in controls(own.first.plan):
            label = name.replace("_", " ")
            if isinstance(method, ModuleNotFoundError):
                left_out.setdefault(name, f"{label} is left out. {method}")
                fewer[name] = f"{label} is chosen among fewer models, and may be weaker for it. {method}"
                continue
            try:
                control: Plan = method.calibrate(budget, unit, self.first.public_facts(unit, assume_public=True))
            except (UnsupportedUnitError, UnsupportedTargetError):
                continue
            except InputError as error:
                left_out[name] = f"{label} is left out. {error}"
                continue
            if repeats(control, self.plan):
                continue
            try:
                found = own if control == self.plan else self._repeat(control, None, _prefixed(report, title))
            except (
                SfumatoError
            ) as error:  # of a control: what the run itself released is kept, and compared with the others
                left_out[name] = f"{label} is left out. {error}"
                continue
            if name not in outcomes or found.held_out < outcomes[name].held_out:
                outcomes[name] = found
        missing = [left_out[name] for name in left_out if name not in outcomes]
        return outcomes, (*missing, *(fewer[name] for name in fewer if name in outcomes))


def prepare(
    request: Request,
    *,
    kind: type[Prepared] = Prepared,
    load: Callable[[Source], Graph] | None = None,
    look: Callable[[Graph], None] | None = None,
) -> Prepared:
    """Read the graph of a request, calibrate its method, and refuse what could not be scored. Nothing is charged.

    ``load`` reads the graph, ``look`` refuses one, and ``kind`` says what is prepared: the task of the method scores it.
    """
    if request.source.split_by_time is not None and not kind.scores_later:
        raise fail(
            "split_by_time", request.source.split_by_time, "to come with a method that learns links", "Train link-messages, or "
            "pgc, with `task` link. Nodes that come later can arrive: `sfumato predict --new-nodes`.",
        )  # fmt: skip
    start = time.perf_counter()
    graph = request.source.load() if load is None else load(request.source)
    graph = request.declared(graph)
    seconds = time.perf_counter() - start
    if look is not None:
        look(graph)
    unit = request.unit_on(graph)
    request = replace(request, source=replace(request.source, labeled="labels" in unit.public))
    first = kind.drawn(request.source, graph, request.seeds[0])
    try:
        facts = first.public_facts(unit, assume_public=True)
        plan: Plan = request.method.calibrate(request.budget, unit, facts)
    except UnsupportedUnitError as error:
        words = words_under(unit.name)
        if request.method.name not in CARDS or request.method.name in (WORDS[word] for word in words):
            raise
        raise UnsupportedUnitError(
            f"{error} Methods with a proof under unit {unit.name}: {', '.join(words)}."
        ) from None
    for seed in request.seeds:  # all, before the first is charged
        split = first if seed == request.seeds[0] else kind.drawn(request.source, graph, seed)
        plan.check(split)
        if request.method.card.reads_labels and request.method.card.learns:
            check_scorable(split)
    if not request.assume_public:
        check_declared(first, plan.unit, request.source.tables)
    return kind(request, graph, plan, seconds)


def on_graph(plan: Plan, graph: Graph) -> Plan:
    """Return the plan for a ``graph`` with the roles, or without the links, that another seed draws: its counts, where public."""
    found, stated = graph.public_facts(plan.unit, assume_public=True), ("num_arcs", "untrained_classes")
    counts: dict[str, Any] = {name: getattr(found, name) for name in stated if getattr(plan.public, name) is not None}
    return replace(plan, public=replace(plan.public, **counts)) if counts else plan


def _prefixed(report: Progress | None, title: str) -> Progress | None:
    label = title.partition(",")[0]
    return None if report is None else lambda stage, done, total: report(f"{label}, {stage}", done, total)
