"""What the verifier knows of method label-messages. Part of the verifier: it needs the standard library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from ._baselines import of_graph_free, tree_faults
from ._kinds import Matrix
from ._rules import OF_HOPS, OWN, Rules, Sizes, sizes
from ._types import protected_types
from ._units import edges_in, public_parts

if TYPE_CHECKING:
    from ._kinds import Planned
    from ._rules import Certificate, Tensors
    from ._tensors import Stored

_WIDTH = 64  # of the graph-free network
_WEIGHTS = (0.0, 0.125, 0.25, 0.5, 1.0)  # of the second hop


class LabelMessages(Rules):
    """The rules of method label-messages: counts or sums of neighbors' labels, and logistic regression on them.

    Where labels are public, counts have Laplace noise, or Gaussian noise if the settings say so: an edge changes one row, in one
    of two parts, by one message, and a person with several edges changes as many.
    """

    settings: ClassVar = {
        "num_hops": "count or null up to 2",
        "learner_share": "share or null",
        "epochs": "count",
        "learning_rate": "positive up to 10",
        "l2_clip_norm": "positive",
    }
    optional: ClassVar = {"noise": "one of laplace, gaussian, auto or null"}
    audience: ClassVar = {
        "edge": OF_HOPS,
        "person": OF_HOPS,
        "node": {"anyone": ["noisy aggregates", "weights"], "the node itself": OWN, "never": ["sums before noise"]},
    }
    routed = True
    inductive = True
    reads_weights = True
    reads_types = ("edge", "none")
    reads_public_types = True
    arrives = True

    def setting_faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for wrong settings. More than one hop is for unit edge only, under which labels are public."""
        found = list(super().setting_faults(certificate))
        yield from found
        hops = certificate["settings"].get("num_hops")
        if not found and certificate["unit"]["name"] == "node" and hops not in (None, 1):
            yield f"certificate.json: settings.num_hops: expected 1 under unit node, got {hops}"
        if not found and "labels" not in public_parts(certificate) and certificate["settings"].get("noise") is not None:
            yield "certificate.json: settings.noise: expected null where labels are protected: there are no counts"

    def hops(self, certificate: Certificate) -> int:
        usual = 1 if certificate["unit"]["name"] == "node" else 2
        return certificate["settings"]["num_hops"] or usual

    def releases(self, certificate: Certificate) -> list[Planned]:
        found = super().releases(certificate)
        if not found or "labels" not in public_parts(certificate):
            return found
        (nodes, columns), hops = found[0].shape, self.hops(certificate)
        gaussian = certificate["settings"].get("noise") == "gaussian"
        event, touched = ("gaussian", found[0].affected) if gaussian else ("pure", 0)  # a row of one of the parts
        moved, kinds = float(edges_in(certificate) or 1), max(len(protected_types(certificate["public_facts"])), 1)
        shape = [nodes, kinds * hops * (columns or 0)]  # an edge is of one type: one block moves
        return [Matrix("aggregate/1", shape, touched, event=event, sensitivity=moved)]

    def columns(self, certificate: Certificate) -> int:
        return sizes(certificate)[2]

    def layers(self, certificate: Certificate) -> dict[str, Sizes]:
        """Return the layers of logistic regression. A linear layer that is the whole network has no name of its own."""
        _, features, classes = sizes(certificate)
        inputs = 3 * classes if "labels" in public_parts(certificate) else classes + features
        return {"head": ({"": (classes, inputs)}, {})}

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        head = super().networks(certificate, found)
        if "labels" not in public_parts(certificate):
            return head
        names = list(found)
        prior = [name.removeprefix("prior.") for name in names if name.startswith("prior.")]
        alone = {f"prior.{name}": shape for name, shape in of_graph_free(certificate, _WIDTH, prior).items()}
        if not any(name.startswith("head.") for name in names):
            return alone
        if "class.shares" in names:  # runs that were saved without them read no rates
            classes = self.columns(certificate)
            kinds = len(certificate["public_facts"].get("edge_types", ()))
            blocks = kinds + 1 if kinds else 1  # one for each type, and one for their sum
            inputs = blocks * (3 * classes + 1) + classes
            head |= {"head.weight": [classes, inputs], "class.shares": [classes]}
        return {**alone, **head, **({"later.weight": [1]} if self.hops(certificate) == 2 else {})}

    def weight_faults(self, certificate: Certificate, weights: Mapping[str, Stored]) -> Iterator[str]:
        yield from tree_faults(weights, "prior.")
        if "later.weight" in weights and float(weights["later.weight"].array()[0]) not in _WEIGHTS:
            yield f"later.weight: expected one of {_WEIGHTS}"
        if "class.shares" in weights:
            shares = weights["class.shares"].array().astype(float)
            if not (shares > 0).all() or not abs(shares.sum() - 1) < 1e-3:
                yield "class.shares: expected numbers above 0 whose sum is 1"
