"""The contract that is the same for every method: what a method file provides, and what one fit holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.errors import InputError
from sfumato.graph._accounts import owners_digest
from sfumato.method._graph_key import GraphKey
from sfumato.method._scored_pairs import ScoredPairs
from sfumato.method._settings import read_settings
from sfumato.method._stages import in_words
from sfumato.noise.keys import Key, derive_key, operand_mac

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method.card import Card
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.events import Event
    from sfumato.privacy.promises import Caveat
    from sfumato.privacy.units import Unit
    from sfumato.record._arrivals import Arrival
    from sfumato.record._resume import FitState
    from sfumato.record.ledger import Ledger, Release

E = TypeVar("E", bound="Event")
Arrays = dict[str, NDArray[Any]]
Progress = Callable[[str, int, int], None]
Accuracies = dict[str, dict[str, list[float]]]
"""For each stage and role (train, validation) the accuracy after every step. It reads true labels: evaluation alone."""


@dataclass(frozen=True)
class Listed(ABC):
    """An entry of the catalog is a frozen dataclass of public settings with a card, from which a run is planned."""

    card: ClassVar[Card]

    @property
    def name(self) -> str:
        """Return the name of the method in certificates."""
        return self.card.name

    @property
    def settings(self) -> dict[str, Any]:
        """Return the public settings, as certificates hold them."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
            if isinstance(value, (int, float, str, bool, tuple, type(None)))
        }

    @property
    def unit(self) -> Unit | None:
        """Return the only unit with a proof, where the settings decide it; None where a caller chooses."""
        return None

    @classmethod
    def from_options(cls, options: Mapping[str, Any], dataset: str = "") -> Listed:
        """Build the method that a command line names.

        Args:
            options: by their names on the command line, without hyphens in front; None stands for one that is not given.
            dataset: name of the graph, on which published settings may depend.
        """
        return cls(**cls._asked(options))

    @classmethod
    def _asked(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that a command line gives, by options of their own or by ``set``."""
        taken = ((name, setting) for name, setting in cls.card.options.items() if setting)
        by_option = {setting: options[name] for name, setting in taken if options.get(name) is not None}
        return {**by_option, **read_settings(cls, options.get("set") or ())}

    def charged_to(self, composition: str) -> Listed:
        """Return the method as it is best where a ledger adds up by a rule, ``basic`` or ``gdp``: a choice by public settings."""
        return self

    @abstractmethod
    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Any:
        """Find the noise for a budget before any data is seen, and return the :class:`~sfumato.method._plan.Plan`.

        Args:
            budget: the most that may be spent; None without privacy.
            unit: the unit of privacy.
            public: what may be known of the graph under this unit.

        Raises:
            UnsupportedUnitError: there is no proof under this unit.
            InputError: the budget does not fit.
        """


@dataclass(frozen=True)
class Method(ScoredPairs, Listed):
    """A method defines everything that is its own. It shares all else: accounting, ledger, certificate, saving and loading.

    A method is a frozen dataclass of public settings below this class, with a ``card``. It has to define
    :meth:`releases`, :meth:`run`, :meth:`scores` and :meth:`calibrate`
    (:class:`~sfumato.method.curator.CuratorMethod` has that one); the other answers have defaults.
    """

    @property
    def shares(self) -> dict[str, Any]:
        """Return how the settings divide what is spent; reports show it beside the claim."""
        return {}

    @property
    def choices(self) -> tuple[Method, ...]:
        """Return the candidates that a charged selection chooses from; most methods have none."""
        return ()

    @property
    def reads_types(self) -> tuple[str, ...] | None:
        """What has to be public so that types of links count under these settings; None if they never do."""
        return self.card.reads_types

    @property
    def limits(self) -> tuple[str, ...]:
        """Return limits of the claim that follow from the settings; certificates list them."""
        return ()

    @property
    def origin(self) -> Origin | None:
        """Return the trained model that is applied to another graph; None for a method that learns."""
        return None

    @property
    def arrival(self) -> Arrival | None:
        """Return which nodes arrived after a run whose claim covers this; None for a run that pays by itself."""
        return None

    def data_set(self, graph: Graph) -> GraphKey:
        """Return the key of the data set that a run on ``graph`` is charged to."""
        return GraphKey.of(graph)

    def told_by(self, unit: Unit) -> tuple[str, ...]:
        """Return which public values tell the fitted graph from others with its node ids; ``unit`` is the privacy unit.

        Links that were held out of training are no other graph: where pairs are scored, arcs do not tell.
        """
        return tuple(name for name in unit.public if name != "arcs" or not self.card.scores_pairs)

    def cells_key(self, unit: Unit, graph: Graph) -> str:
        """Return a digest of the public values that decide which node is in which cell, or of which person; empty if none do.

        Claims of runs with different cells do not add up, so ledgers of data sets compare it.

        Args:
            unit: the unit of privacy.
            graph: the data set, of which public values are read.
        """
        return "" if unit.nodes_per_person is None else owners_digest(graph)

    def view(self, graph: Graph) -> Graph:
        """Return what the method is given of a graph: all of it, or all but labels where the card says that none is read."""
        return graph if self.card.reads_labels else replace(graph, y=None, classes=(), targets=None)

    def check(self, graph: Graph) -> None:
        """Refuse a graph that the method cannot learn from, before anything is charged."""
        return

    def calibrated_again(self, plan: Any) -> Any:
        """Return what :meth:`calibrate` gives for the budget, unit and public facts of a ``plan`` of this method."""
        return self.calibrate(plan.budget, plan.unit, plan.public)

    def check_noise(self, events: Sequence[Event], unit: Unit) -> None:
        """Refuse ``events`` of a plan under a ``unit`` if their noise cannot be drawn; calibration tries noise far from it."""
        return

    def inductive(self, origin: Origin) -> Method:
        """Return the private inference of a trained model on another graph.

        Args:
            origin: the trained model.

        Raises:
            InputError: the method has none.
        """
        raise InputError(f"{self.name!r} has no private inference on another graph. Train on that graph instead.")

    def doubts(self, plan: Any) -> tuple[Caveat, ...]:
        """Say what is implausible about a ``plan`` of this method, beside what holds for all; no certificate says it."""
        return ()

    @abstractmethod
    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List what leaves at a noise multiplier, in order, from public facts alone.

        Args:
            unit: the unit of privacy.
            public: what may be known of the graph under this unit.
            noise_multiplier: z, from which the noise of all releases follows. Noisy sums have this multiplier; other parts
                may have another (:mod:`~sfumato.privacy._splitting`). The event of each release says what its number means.

        Raises:
            UnsupportedUnitError: there is no proof under this unit.
        """

    @abstractmethod
    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Train on private data, charge each release before anything of it is computed, and return weights and releases.

        Args:
            plan: what was fixed before data: the public facts, and each release with its event.
            graph: the private data.
            session: the ledger, the secret key and the public seed of this fit.
        """

    @abstractmethod
    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Compute scores of every node, float32 [num_nodes, num_classes].

        They read weights, releases and the node's own features.

        Args:
            plan: the plan that the weights come from.
            weights: the trained weights, by name.
            released: the released arrays, by name.
            graph: the nodes with their features.
        """

    def pixel_network(self, plan: Planned, weights: Arrays) -> nn.Module:
        """Return the trained network, where one maps rows of pixels to scores: attacks invert it.

        ``plan`` and ``weights`` are those of :meth:`scores`.

        Raises:
            InputError: the method makes its scores in another way.
        """
        raise fail("method", self.name, "to be a network of pixels", "Train cnn, class-dp or subclass-dp.")

    def predicts_alone(self, unit: Unit) -> bool:
        """Return whether scores of a node read nothing of a graph but the node's own features; ``unit`` is that of the run."""
        return not self.card.reads_links

    def drops_messages(self, plan: Planned, weights: Arrays) -> bool:
        """Return whether a finished run read messages, and kept a model without them; arguments are those of :meth:`scores`."""
        return False

    def unused(self, plan: Planned, weights: Arrays, released: Arrays) -> tuple[str, ...]:
        """Say in whole sentences what a finished run does not use, though it read or released it; most methods use all.

        Certificates note it, so it follows from what is released and from public facts alone. ``plan``, ``weights`` and
        ``released`` are those of :meth:`scores`.
        """
        return ()

    def who_may_see(self, unit: Unit) -> dict[str, list[str]]:
        """Say who may be shown what of a run; the certificate prints it."""
        return unit.audience(**vars(self.card.audience))

    def audience_of(self, plan: Planned) -> dict[str, list[str]]:
        """Return :meth:`who_may_see` of a ``plan``, where that depends on what it releases."""
        return self.who_may_see(plan.unit)


@dataclass(frozen=True)
class Planned:
    """A planned run is what a method may know before data: every release with its event, and what they cost together.

    Args:
        method: the method that runs.
        unit: the unit of privacy.
        budget: that was allowed; None without privacy.
        public: facts of the graph.
        releases: what will be released, in order.
        epsilon: claimed; None without privacy, and for a part of a plan.
        delta: claimed; None where epsilon is.
    """

    method: Method
    unit: Unit
    budget: Budget | None
    public: PublicFacts
    releases: tuple[Release, ...]
    epsilon: float | None
    delta: float | None

    def event(self, name: str) -> Event:
        """Return the event of one planned release; ``name`` is the release's name."""
        return next(release.event for release in self.releases if release.name == name)

    def event_of(self, kind: type[E], name: str) -> E:
        """Return the event of one planned release, which is of this ``kind``."""
        event = self.event(name)
        assert isinstance(event, kind)
        return event


class Outcome(NamedTuple):
    """An outcome ends a run: weights, released arrays and, after a selection, the plan of the chosen candidate."""

    weights: Arrays
    released: Arrays
    chosen: Planned | None = None


@dataclass(frozen=True)
class Watch:
    """A watch receives the progress and the learning curves of a fit, which are outside the guarantee.

    Args:
        report: a function, called with (stage, done, total); None if nobody watches.
        curves: receives losses by stage.
        accuracies: receives the accuracy after every step of training, by stage and role; None measures nothing.

    >>> Watch().stage("network") is None
    True
    """

    report: Progress | None = None
    curves: dict[str, list[float]] = field(default_factory=dict)
    accuracies: Accuracies | None = None

    def stage(self, name: str) -> Callable[[int, int], None] | None:
        """Return a callback (done, total) for one stage of the work, or None if nobody watches."""
        report, words = self.report, in_words(name)
        return None if report is None else lambda done, total: report(words, done, total)


@dataclass(frozen=True)
class Session:
    """A session is what one fit holds: its ledger, its secret key, and a public seed for initialization.

    ``state`` is there if the fit can be resumed. ``spend`` notes, in the data set's ledger, the mark of what a release is
    drawn from. ``reports`` are those that devices sent, where nobody is asked again.
    ``ledger`` holds the charges, ``key`` is the secret key of the noise, ``seed`` is public, and ``watch`` receives progress.
    """

    ledger: Ledger
    key: Key
    seed: int
    state: FitState | None = None
    spend: Callable[[str, str], None] | None = None
    watch: Watch = field(default_factory=Watch)
    reports: Mapping[str, NDArray[Any]] | None = None

    def charge(self, name: str) -> Key:
        """Charge the next planned release and return its own key; nothing of it may be computed before."""
        self.ledger.charge(name)
        return derive_key(self.key, name)

    def bind(self, name: str, *operand: NDArray[Any]) -> None:
        """Record what a charged release reads; a resumed fit that reads something else stops here."""
        if self.state is None:
            return
        self.state.bind(name, operand_mac(derive_key(self.key, "resume"), *operand))
        if self.spend is not None:
            self.spend(name, self.state.mark(name))


@dataclass(frozen=True)
class Origin:
    """An origin is a trained model, in the form that inference on another graph takes.

    Args:
        weights: the arrays of the model, by name.
        graph: that it was trained on.
        builds_on: the certified runs that the weights come from: ``ledger_head``, ``epsilon`` and ``delta`` of each.
    """

    weights: Arrays
    graph: GraphKey
    builds_on: tuple[dict[str, Any], ...] = ()
