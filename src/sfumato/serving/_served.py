"""A run that is served: its predictions by node, and who may be told which."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.method.predictions import Predictions

_TOKEN_BYTES = 16


@dataclass(frozen=True)
class Served:
    """A served run answers for its nodes, and those that arrived ``late``. Answers are computed beforehand, and spend nothing."""

    certificate: Mapping[str, Any]
    predictions: Predictions
    late: tuple[Predictions, ...] = ()
    rows: dict[str, tuple[Predictions, int]] = field(init=False, repr=False)
    is_public: bool = field(init=False)

    def __post_init__(self) -> None:
        seen = self.certificate["who_may_see"]
        public, own = (
            any(one.startswith("predictions") for one in seen.get(who, ())) for who in ("anyone", "the node itself")
        )
        if not public and not own:
            raise InputError(
                "Expected a run whose certificate lets somebody see predictions, got one that shows them to nobody. Train with a "
                "budget."
            )
        object.__setattr__(self, "is_public", public)
        rows = {str(node): (one, row) for one in (self.predictions, *self.late) for row, node in enumerate(one.nodes)}
        object.__setattr__(self, "rows", rows)

    def about(self) -> dict[str, Any]:
        kept = ("method", "protects", "unit", "claim", "who_may_see")
        known = {name: self.certificate[name] for name in kept}
        of_nodes = {"classes": list(self.predictions.classes), "nodes": len(self.rows)}
        return {**known, **of_nodes, "decided": list(self.predictions.notes)}

    def tell(self, node: str) -> dict[str, Any] | None:
        if node not in self.rows:
            return None
        of, row = self.rows[node]
        predicted, source = of.answer(row)
        shares = zip(of.classes, of.probabilities[row].tolist(), strict=True)
        told: dict[str, Any] = {"node": node, "predicted": predicted, "probabilities": dict(shares), "source": source}
        if of.sets is not None:
            told["set"] = list(of.set_of(row))
        if of.chosen is not None:
            told["chosen"] = bool(of.chosen[row])
        return told


def token_of(key: bytes, node: str) -> str:
    """Return the token of a node, 32 hexadecimal digits, which the operator hands to this node alone."""
    return hmac.new(key, b"sfumato node 1\0" + node.encode(), hashlib.sha256).hexdigest()[: 2 * _TOKEN_BYTES]
