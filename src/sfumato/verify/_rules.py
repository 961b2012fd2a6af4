"""What the verifier knows of a method: rules that are data, and their one interpreter.

Part of the verifier: it needs NumPy and the standard library. **A new method is one entry in** ``_methods.py``: an object of
:class:`Rules` or, if its rules are more than data, a class below it in a file of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from ._caveats import Found, of_the_claim, of_the_graph
from ._kinds import Matrix, Network, Planned
from ._units import edges_in, no_arc_change, owns_arcs, public_parts, unit_rules
from ._values import kind_faults

if TYPE_CHECKING:
    from ._tensors import Stored

Certificate = dict[str, Any]
Audience = dict[str, list[str]]
Tensors = dict[str, list[int]]
Sizes = tuple[dict[str, tuple[int, int]], dict[str, int]]
"""Of linear layers (outputs, inputs) and of batch norms (units), by module."""
TRAINING = {"width": "count", "epochs": "count or null", "learning_rate": "positive up to 10", "batch_size": "count",
            "l2_clip_norm": "positive"}  # fmt: skip
OWN = ["predictions that read the node's own features (joint DP)"]
OF_HOPS: Audience = {"anyone": ["noisy aggregates", "weights", "predictions for all nodes"], "the node itself": [],
                     "never": ["sums before noise"]}  # fmt: skip
_FUNCTIONS = {"hops", "columns", "layers", "order", "sgd", "terms", "releases", "tensors", "demands", "faults", "caveats",
              "weights", "values", "arc_terms", "blocks"}  # fmt: skip


class Known:
    """What a rule reads of a certificate: each setting and each public fact by its name, None where there is none; the unit."""

    def __init__(self, certificate: Certificate) -> None:
        self.certificate, self.unit = certificate, certificate["unit"]

    def __getattr__(self, name: str) -> Any:
        settings = self.certificate["settings"]
        return settings[name] if name in settings else self.certificate["public_facts"].get(name)


def learned(facts: Mapping[str, Any]) -> int:
    """Return how many records DP-SGD draws from: persons who own training nodes, or training nodes; at least 1."""
    return max(int(facts.get("train_persons", facts["num_train"])), 1)


def few_steps(known: Known) -> tuple[float, int]:
    """Return the sampling probability and the steps of DP-SGD where the settings may leave the batch to a public rule."""
    rows = learned(known.certificate["public_facts"])
    batch = min(known.batch_size or max(256, rows // 8), rows)
    epochs = known.epochs or (Rules.epochs if known.batch_size else 25)
    return batch / rows, max(1, epochs * rows // batch)


class Rules:
    """The rules of a method: what must hold of its runs. All of it follows from the certificate; nothing is read off the run.

    ``settings`` are the kinds of its settings (``_values.py``), and ``optional`` those of settings that some runs do not state.
    ``audience`` says who may see what, by the name of each unit under which the method has a proof. ``trust`` replaces the unit's
    trust model (``_sentences.py``). ``facts`` is the form of its public facts in the JSON Schema. ``inductive`` says whether
    weights may come from another run, ``reads_links`` whether it learns from neighbors, ``scores_pairs`` whether it scores pairs
    of nodes, ``reads_weights`` whether weights of edges count, ``reads_types`` under which units their types do,
    ``reads_public_types`` whether those that are public are read without noise, ``arrives`` whether it has releases for nodes
    that arrive later,
    ``targets`` which kinds of targets it learns beside classes, and ``since`` which format is the first that it wrote.
    ``network`` is the kind of release of a trained network, ``epochs`` the passes of DP-SGD if the settings give none, and
    ``routed`` hops send each label along one arc.

    The rest are functions of what is :class:`Known`. ``hops`` is how many aggregates there are, each of so many ``columns`` in so
    many ``blocks``, of which a record changes one;
    ``layers`` are those of each network. DP-SGD draws by ``sgd``, a probability and steps, and reaches ``terms`` of a record;
    ``order`` joins networks and aggregates. ``releases`` and ``tensors`` stand in place of all this. ``demands`` are pairs: what
    must hold, and what is said of ``v``, the known, if it does not; ``faults`` yields further problems, ``weights`` those of the
    trained numbers, ``values`` those of released ones.

    >>> rules = Rules(demands=((lambda v: v.bins == 32, "settings.bins: expected 32, got {v.bins}"),))
    >>> list(rules.faults({"settings": {"bins": 8}, "unit": {}, "public_facts": {}}))
    ['certificate.json: settings.bins: expected 32, got 8']
    """

    settings: ClassVar[Mapping[str, str]] = {}
    optional: ClassVar[Mapping[str, str]] = {}
    audience: ClassVar[Mapping[str, Audience]] = {}
    trust: ClassVar[str | None] = None
    facts: ClassVar[str] = "graph_facts"
    inductive: ClassVar[bool] = False
    reads_links: ClassVar[bool] = True
    scores_pairs: ClassVar[bool] = False
    reads_weights: ClassVar[bool] = False
    reads_types: ClassVar[tuple[str, ...]] = ()
    reads_public_types: ClassVar[bool] = False
    arrives: ClassVar[bool] = False
    targets: ClassVar[tuple[str, ...]] = ()
    network: ClassVar[type[Network]] = Network
    epochs: ClassVar[int] = 10
    routed: ClassVar[bool] = False
    since: ClassVar[int] = 2

    def __init__(self, **data: Any) -> None:
        self.data = {key: data.pop(key) for key in _FUNCTIONS & data.keys()}
        if strange := [key for key in data if not hasattr(Rules, key)]:
            raise TypeError(f"no rule is called {strange}")
        vars(self).update(data)

    def _of(self, key: str, certificate: Certificate, default: Any) -> Any:
        return self.data[key](Known(certificate)) if key in self.data else default

    @property
    def on_graph(self) -> bool:
        return self.facts == "graph_facts"

    def setting_faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for settings that are not exactly those of the method. Other rules apply only if there is none."""
        owner = f"a setting of method {certificate['method']}"
        settings, kinds = certificate["settings"], dict(self.settings)
        kinds |= {name: kind for name, kind in self.optional.items() if name in settings}
        return kind_faults(settings, kinds, "certificate.json: settings", owner)

    def faults(self, certificate: Certificate) -> Iterator[str]:
        known = Known(certificate)
        for holds, text in self.data.get("demands", ()):
            if not holds(known):
                yield f"certificate.json: {text.format(v=known)}"
        yield from self._of("faults", certificate, ())

    def hops(self, certificate: Certificate) -> int:
        return int(self._of("hops", certificate, 0))

    def columns(self, certificate: Certificate) -> int:
        return int(self._of("columns", certificate, certificate["settings"].get("width")))

    def layers(self, certificate: Certificate) -> dict[str, Sizes]:
        """Return the layers and batch norms of each network, in training order."""
        return dict(self._of("layers", certificate, {}))

    def sgd(self, certificate: Certificate) -> tuple[float, int]:
        """Return with which probability DP-SGD draws an example, and its steps: those of passes over the training nodes."""
        if "sgd" in self.data:
            share, steps = self.data["sgd"](Known(certificate))
            return share, steps
        settings, rows = certificate["settings"], learned(certificate["public_facts"])
        batch = min(settings.get("batch_size", rows), rows)
        return batch / rows, max(1, (settings["epochs"] or self.epochs) * rows // batch)

    def terms(self, certificate: Certificate) -> int | None:
        found: int | None = self._of("terms", certificate, None)
        return found

    def releases(self, certificate: Certificate) -> list[Planned]:
        """Return what the method releases under the unit, in order: hops and, where they are trained under privacy, networks.

        They are if labels are private and the weights do not come from another run, which has paid for them. All networks but the
        last come before the hops. Nothing is released without privacy.
        """
        unit, facts, hops = certificate["unit"]["name"], certificate["public_facts"], self.hops(certificate)
        if unit == "none":
            return []
        if "releases" in self.data:
            return list(self.data["releases"](Known(certificate)))
        nodes, aggregates = facts["num_nodes"], []
        if hops:
            columns, rows = self.columns(certificate), self._touched_rows(certificate)
            touched = None if rows is None else min(rows, nodes) * columns
            aggregates = [
                Matrix(
                    f"aggregate/{k}",
                    [nodes, columns * int(self._of("blocks", certificate, 1))],
                    touched,
                    arc_change=self._arc_change(certificate, k),
                    sensitivity=self._sensitivity(certificate, k),
                )
                for k in range(1, hops + 1)
            ]
        trained = "labels" not in public_parts(certificate) and not certificate["composition"]["builds_on"]
        networks = [self._network(certificate, name) for name in self.layers(certificate) if trained]
        if "order" in self.data:
            return list(self.data["order"](networks, aggregates))
        return [*networks[:-1], *aggregates, *networks[-1:]]

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        """Return the shape of every tensor of ``model.safetensors``; what is ``found`` there shows which choice was made."""
        if "tensors" in self.data:
            return dict(self.data["tensors"](Known(certificate), found))
        shapes: Tensors = {}
        for network, (layers, norms) in self.layers(certificate).items():
            for module, (outputs, inputs) in layers.items():
                name = f"{network}.{module}".rstrip(".")
                shapes |= {f"{name}.weight": [outputs, inputs], f"{name}.bias": [outputs]}
            for module, size in norms.items() if "labels" in public_parts(certificate) else ():
                name = f"{network}.{module}"
                shapes |= {f"{name}.{leaf}": [size] for leaf in ("weight", "bias", "running_mean", "running_var")}
                shapes[f"{name}.num_batches_tracked"] = [1]
        return shapes

    def weight_faults(self, certificate: Certificate, weights: Mapping[str, Stored]) -> Iterator[str]:
        """Yield a problem for weights that training cannot give; names and shapes were checked before."""
        yield from self.data["weights"](weights) if "weights" in self.data else ()

    def caveats(self, certificate: Certificate) -> list[str]:
        return list(self._of("caveats", certificate, ()))

    def who_may_see(self, certificate: Certificate) -> Audience:
        """Return who may see what of a run."""
        return self.audience[certificate["unit"]["name"]]

    def doubts(self, certificate: Certificate) -> Found:
        cells, facts = unit_rules(certificate).cells(certificate), certificate["public_facts"]
        if cells:
            yield from of_the_claim(certificate, cells, "cells")
        elif "num_persons" in facts:
            yield from of_the_claim(certificate, facts["num_persons"], "persons")
        else:
            yield from of_the_claim(certificate, facts["num_nodes"], "nodes")
        yield from of_the_graph(certificate, self.reads_links)

    def value_faults(self, certificate: Certificate, released: Mapping[str, Stored]) -> Iterator[str]:
        """Yield a problem for released values that are impossible; names and shapes were checked before."""
        events = {release["name"]: release["event"] for release in certificate["releases"]}
        for planned in self.releases(certificate):
            yield from planned.value_faults(released)
            if isinstance(planned, Matrix) and planned.name in events.keys() & released.keys():
                yield from planned.noise_faults(released[planned.name], events[planned.name])
        if "values" in self.data and certificate["unit"]["name"] != "none":
            yield from self.data["values"](Known(certificate), released)

    def _network(self, certificate: Certificate, name: str) -> Network:
        tensors = self.networks(certificate).items()
        size = sum(prod(shape) for tensor, shape in tensors if tensor.startswith(f"{name}."))
        terms, moved = self.terms(certificate), no_arc_change(certificate)
        if "arc_terms" in self.data and moved is not None and terms is not None:
            moved = self.data["arc_terms"](Known(certificate)) / terms
        return self.network(name, [size], size, *self.sgd(certificate), occurrences=terms, arc_change=moved)

    def _arc_change(self, certificate: Certificate, hop: int) -> float | None:
        """Return how far one arc of another owner moves a hop, over its sensitivity; None where no bound is known.

        A routed row of norm 1 moves, or with a cap of 1 a second one. Else one message may move from a row to another.
        """
        if not owns_arcs(certificate):
            return None
        cap: int | None = certificate["unit"]["max_out_degree"]
        replaced: bool = certificate["unit"]["relation"] == "replace"
        if self.routed:
            return max(1.0, math.sqrt(2 / (cap or 2))) / (1 + replaced)
        moved = (
            1 if not replaced else 4 if hop == 1 else 2
        )  # first messages read the record, later ones what was released
        return None if cap is None else math.sqrt(2 / (moved * cap))

    def _sensitivity(self, certificate: Certificate, hop: int) -> float | None:
        """Return the L2 sensitivity of a hop, in rows of norm 1; None where sums are routed, or have no bound.

        Each row that a record touches moves by one message. If the record is replaced, first messages may turn round.
        """
        rows, replaced = self._touched_rows(certificate), certificate["unit"]["relation"] == "replace"
        if rows is None or self.routed:
            return None
        edges = edges_in(certificate)
        if edges is not None:  # all edges at one node, whose other ends move as well where edges are undirected
            return math.sqrt(edges**2 + rows - edges)
        return math.sqrt(rows * (1 + (replaced and hop == 1)))

    def _touched_rows(self, certificate: Certificate) -> int | None:
        """Return how many rows of an aggregate a record can change; None without a bound on its sensitivity."""
        unit, nodes = certificate["unit"], certificate["public_facts"]["num_nodes"]
        edges = edges_in(certificate)
        if self.routed and edges is not None:
            return edges
        if self.routed and unit["name"] == "node" and unit["max_out_degree"] is None:
            unit = {**unit, "max_out_degree": nodes}
        return unit_rules(certificate).rows(unit)


def sizes(certificate: Certificate) -> tuple[int, int, int]:
    """Return the width (0 if there is none), the number of features and the number of classes."""
    public = certificate["public_facts"]
    return certificate["settings"].get("width", 0), public["num_features"], public["num_classes"]
