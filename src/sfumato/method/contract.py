"""What a method file provides, and what one fit holds: the contract that is the same for every method."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.noise.keys import Key, derive_key, operand_mac

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph, PublicFacts
    from sfumato.method.card import Card
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.events import Event
    from sfumato.privacy.units import Unit
    from sfumato.record.ledger import Ledger, Release
    from sfumato.record.resume import FitState

Arrays = dict[str, NDArray[Any]]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Listed(ABC):
    """What the catalog lists: public settings with a card, from which a run is planned. A frozen dataclass of settings."""

    card: ClassVar[Card]

    @property
    def name(self) -> str:
        """Of the method, in certificates."""
        return self.card.name

    @property
    def settings(self) -> dict[str, Any]:
        """The public settings, as certificates hold them."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
            if isinstance(value, (int, float, str, bool, tuple, type(None)))
        }

    @property
    def unit(self) -> Unit | None:
        """The only unit under which there is a proof, where the settings decide it; None where a caller chooses."""
        return None

    @classmethod
    def from_options(cls, options: Mapping[str, Any], dataset: str = "") -> Listed:
        """The method that a command line names.

        Args:
            options: by their names on the command line, without hyphens in front; None stands for one that is not given.
            dataset: name of the graph, on which published settings may depend.
        """
        taken = cls.card.options.items()
        return cls(**{setting: options[name] for name, setting in taken if options.get(name) is not None})

    @abstractmethod
    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Any:
        """Find the noise for a budget before any data is seen.

        Args:
            budget: the most that may be spent; None without privacy.
            unit: of privacy.
            public: what may be known of the graph under this unit.

        Returns:
            A :class:`~sfumato.method.plan.Plan`.

        Raises:
            UnsupportedUnitError: there is no proof under this unit.
            InputError: the budget does not fit.
        """


@dataclass(frozen=True)
class Method(Listed):
    """A method: everything that is its own. All else (accounting, ledger, certificate, saving, loading) is shared.

    A method is a frozen dataclass of public settings below this class, with a ``card``. It has to define
    :meth:`releases`, :meth:`run`, :meth:`scores` and :meth:`calibrate`
    (:class:`~sfumato.method.curator.CuratorMethod` has that one); the other answers have defaults.
    """

    @property
    def shares(self) -> dict[str, Any]:
        """How the settings divide what is spent, for reports beside the claim."""
        return {}

    @property
    def choices(self) -> tuple[Method, ...]:
        """What a charged selection chooses from."""
        return ()

    @property
    def origin(self) -> Origin | None:
        """The trained model that is applied to another graph; None for a method that learns."""
        return None

    def check(self, graph: Graph) -> None:
        """Refuse a graph that the method cannot learn from, before anything is charged."""
        return

    def inductive(self, origin: Origin) -> Method:
        """The private inference of a trained model on another graph.

        Raises:
            InputError: the method has none.
        """
        raise InputError(f"Method {self.name!r} has no private inference on another graph.")

    @abstractmethod
    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List what leaves at a noise multiplier, in order, from public facts alone.

        Raises:
            UnsupportedUnitError: there is no proof under this unit.
        """

    @abstractmethod
    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Learn from private data; charge each release before anything of it is computed."""

    @abstractmethod
    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Scores of every node [num_nodes, num_classes], from weights, releases and the node's own features."""

    def who_may_see(self, unit: Unit) -> dict[str, list[str]]:
        """Who may be shown what, for the certificate."""
        shown = self.card.audience
        return unit.audience(
            shown.outputs, predictions=shown.predictions, never=shown.never, never_of_nodes=shown.never_of_nodes
        )


@dataclass(frozen=True)
class Planned:
    """What a method may know when it runs, fixed before data: every release with its event, and what they cost.

    Args:
        method: that runs.
        unit: of privacy.
        budget: that was allowed; None without privacy.
        public: facts of the graph.
        releases: in order.
        epsilon: claimed; None without privacy, and for a part of a plan.
        delta: the same.
    """

    method: Method
    unit: Unit
    budget: Budget | None
    public: PublicFacts
    releases: tuple[Release, ...]
    epsilon: float | None
    delta: float | None

    def event(self, name: str) -> Event:
        """The event of one planned release."""
        return next(release.event for release in self.releases if release.name == name)


class Outcome(NamedTuple):
    """What a run leaves: weights, released arrays, and, after a selection, the plan of the candidate that it chose."""

    weights: Arrays
    released: Arrays
    chosen: Planned | None = None


@dataclass(frozen=True)
class Watch:
    """Where progress and learning curves of a fit go. They are outside the guarantee.

    >>> Watch().stage("network") is None
    True
    """

    report: Progress | None = None
    curves: dict[str, list[float]] = field(default_factory=dict)

    def stage(self, name: str) -> Callable[[int, int], None] | None:
        """A callback (done, total) for one stage of the work; None if nobody watches."""
        report = self.report
        return None if report is None else lambda done, total: report(name, done, total)


@dataclass(frozen=True)
class Session:
    """What one fit holds: its ledger, its secret key, and a public seed for initialization.

    ``state`` is there if the fit can be resumed. ``spend`` notes, in the data set's ledger, the mark of what a release is
    drawn from.
    """

    ledger: Ledger
    key: Key
    seed: int
    state: FitState | None = None
    spend: Callable[[str, str], None] | None = None
    watch: Watch = field(default_factory=Watch)

    def charge(self, name: str) -> Key:
        """Charge the next planned release and return its own key; nothing of it may be computed before."""
        self.ledger.charge(name)
        return derive_key(self.key, name)

    def bind(self, name: str, *operand: NDArray[Any]) -> None:
        """Tell what a charged release reads; a resumed fit that reads something else stops here."""
        if self.state is None:
            return
        self.state.bind(name, operand_mac(derive_key(self.key, "resume"), *operand))
        if self.spend is not None:
            self.spend(name, self.state.mark(name))


@dataclass(frozen=True)
class GraphKey:
    """What identifies a graph for reusing its released aggregates, and lets features be lined up: all public."""

    name: str
    num_nodes: int
    ids_digest: str
    classes: tuple[str, ...]
    feature_names: tuple[str, ...]

    @classmethod
    def of(cls, graph: Graph) -> GraphKey:
        """The key of a graph, from its ids and names alone."""
        ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
        digest = hashlib.sha256("\n".join(map(str, ids.tolist())).encode()).hexdigest()
        return cls(graph.name, graph.num_nodes, digest, graph.classes, graph.feature_names)

    def check_columns(self, graph: Graph) -> None:
        """Refuse another graph whose feature columns (or classes, if labeled) are not those of training, in order."""
        for what in ("feature_names", "classes"):
            trained, found = getattr(self, what), getattr(graph, what)
            if trained != found and (found or what != "classes"):
                raise InputError(
                    f"Expected graph {graph.name!r} to have the {len(trained)} {what} of training in their order, got others. "
                    "Read both tables with one schema."
                )


@dataclass(frozen=True)
class Origin:
    """A trained model, as inference on another graph takes it.

    Args:
        weights: of the model.
        graph: that it was trained on.
        builds_on: the certified runs that the weights come from: ``ledger_head``, ``epsilon`` and ``delta`` of each.
    """

    weights: Arrays
    graph: GraphKey
    builds_on: tuple[dict[str, Any], ...] = ()
