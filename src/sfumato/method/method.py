"""What a method file provides, and what one fit holds: the contract that is the same for every method."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.graph.graph import Graph, PublicFacts
from sfumato.noise.keys import Key, derive_key, operand_mac
from sfumato.privacy.units import Unit
from sfumato.record.claims import FIRST_NOISE
from sfumato.record.ledger import Ledger, Release
from sfumato.record.resume import FitState

if TYPE_CHECKING:
    from sfumato.method.plan import Plan

Arrays = dict[str, NDArray[Any]]
Progress = Callable[[str, int, int], None]


class Method(Protocol):
    """What a method file provides; everything else is shared.

    ``name`` is its command-line name. ``releases`` lists what would leave at a noise multiplier, in order, and raises
    :class:`~sfumato.errors.UnsupportedUnitError` for a unit without proof. ``run`` trains; ``scores`` predicts from
    weights, releases and features alone.
    """

    name: ClassVar[str]

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]: ...

    def run(self, plan: Plan, graph: Graph, session: Session) -> tuple[Arrays, Arrays]: ...

    def scores(self, plan: Plan, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]: ...

    def who_may_see(self, unit: Unit) -> dict[str, list[str]]: ...


@dataclass
class Session:
    """What one fit holds: its ledger, its secret key, a public seed for initialization, and where progress goes.

    ``state`` is there if the fit can be resumed. ``spend`` notes, in the data set's ledger, the mark of what noise is drawn
    from; ``mark`` is that of the first noise. ``chosen`` is set by a method that picks another: the run becomes its.
    """

    ledger: Ledger
    key: Key
    seed: int
    report: Progress | None = None
    curves: dict[str, list[float]] = field(default_factory=dict)
    state: FitState | None = None
    spend: Callable[[str, str], None] | None = None
    mark: str = ""
    chosen: Method | None = None

    def charge(self, name: str) -> Key:
        """Charge the next planned release and return its own key; nothing of it may be computed before."""
        self.ledger.charge(name)
        if self.spend is not None:
            self.spend(self.mark, FIRST_NOISE)
        return derive_key(self.key, name)

    def bind(self, name: str, *operand: NDArray[Any]) -> None:
        """Tell what a charged release reads; a resumed fit that reads something else stops here."""
        if self.state is None:
            return
        self.state.bind(name, operand_mac(derive_key(self.key, "resume"), *operand))
        if self.spend is not None:
            self.spend(self.state.mark(name), name)

    def progress(self, stage: str) -> Callable[[int, int], None] | None:
        """A callback (done, total) for one stage of the work."""
        report = self.report
        return None if report is None else lambda done, total: report(stage, done, total)


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


def settings_of(method: Method) -> dict[str, Any]:
    """The public hyper-parameters of a method (of its ``base``, for inference with a trained one), JSON-ready."""
    settings: Any = getattr(method, "base", method)
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(settings).items()
        if isinstance(value, (int, float, str, bool, tuple, type(None)))
    }
