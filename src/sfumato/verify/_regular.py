"""The interpreter of methods whose rules are data: entries of ``METHODS`` that name what is not as everywhere.

Part of the verifier: it needs the standard library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._central import Central, Sizes

if TYPE_CHECKING:
    from ._kinds import Planned
    from ._rules import Certificate, Tensors
    from ._tensors import Stored

_FUNCTIONS = {"hops", "columns", "layers", "order", "sgd", "terms", "releases", "tensors", "demands", "faults", "caveats",
              "weights", "values"}  # fmt: skip


class Known:
    """What a rule reads of a certificate: each setting and each public fact by its name, None where there is none; the unit."""

    def __init__(self, certificate: Certificate) -> None:
        self.certificate, self.unit = certificate, certificate["unit"]

    def __getattr__(self, name: str) -> Any:
        settings = self.certificate["settings"]
        return settings[name] if name in settings else self.certificate["public_facts"].get(name)


class Regular(Central):
    """A method whose rules are data: attributes of :class:`Rules` and :class:`Central`, and functions of what is :class:`Known`.

    ``hops`` is how many aggregates there are, each of so many ``columns``; ``layers`` are those of each network. DP-SGD draws by
    ``sgd``, a probability and steps, and reaches ``terms`` of a record; ``order`` joins networks and aggregates. ``releases`` and
    ``tensors`` stand in place of all this. ``demands`` are pairs of what must hold and what is said of ``v``, the known, if it
    does not; ``faults`` yields further problems, ``weights`` those of the trained numbers, ``values`` those of released ones.

    >>> rules = Regular(demands=((lambda v: v.bins == 32, "settings.bins: expected 32, got {v.bins}"),))
    >>> list(rules.faults({"settings": {"bins": 8}, "unit": {}, "public_facts": {}}))
    ['certificate.json: settings.bins: expected 32, got 8']
    """

    def __init__(self, **data: Any) -> None:
        self.data = {key: data.pop(key) for key in _FUNCTIONS & data.keys()}
        if strange := [key for key in data if not hasattr(Central, key)]:
            raise TypeError(f"no rule is called {strange}")
        vars(self).update(data)

    def _of(self, key: str, certificate: Certificate, default: Any) -> Any:
        return self.data[key](Known(certificate)) if key in self.data else default

    def hops(self, certificate: Certificate) -> int:
        """Return how many aggregates the data name."""
        return int(self._of("hops", certificate, 0))

    def columns(self, certificate: Certificate) -> int:
        """Return how many columns the data name, or the width."""
        return int(self.data["columns"](Known(certificate)) if "columns" in self.data else super().columns(certificate))

    def layers(self, certificate: Certificate) -> dict[str, Sizes]:
        """Return the networks that the data name."""
        return dict(self._of("layers", certificate, {}))

    def order(self, networks: list[Planned], hops: list[Planned]) -> list[Planned]:
        """Return releases in the order that the data name."""
        return list(self.data.get("order", super().order)(networks, hops))

    def sgd(self, certificate: Certificate) -> tuple[float, int]:
        """Return what the data say of DP-SGD."""
        return self.data["sgd"](Known(certificate)) if "sgd" in self.data else super().sgd(certificate)

    def terms(self, certificate: Certificate) -> int | None:
        """Return how many terms of a record the data name."""
        found: int | None = self._of("terms", certificate, None)
        return found

    def releases(self, certificate: Certificate) -> list[Planned]:
        """Return the releases that the data name, or else aggregates and networks; nothing without privacy."""
        if "releases" not in self.data or certificate["unit"]["name"] == "none":
            return super().releases(certificate)
        return list(self.data["releases"](Known(certificate)))

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        """Return the tensors that the data name, or else those of the layers."""
        if "tensors" not in self.data:
            return super().networks(certificate, found)
        return dict(self.data["tensors"](Known(certificate), found))

    def faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for each demand that does not hold."""
        known = Known(certificate)
        for holds, text in self.data.get("demands", ()):
            if not holds(known):
                yield f"certificate.json: {text.format(v=known)}"
        yield from self._of("faults", certificate, ())

    def caveats(self, certificate: Certificate) -> list[str]:
        """Return the limits that the data name."""
        return list(self._of("caveats", certificate, ()))

    def weight_faults(self, certificate: Certificate, weights: Mapping[str, Stored]) -> Iterator[str]:
        """Yield what the data find wrong with weights."""
        yield from self.data["weights"](weights) if "weights" in self.data else ()

    def value_faults(self, certificate: Certificate, released: Mapping[str, Stored]) -> Iterator[str]:
        """Yield a problem for values that no mechanism gives, and what the data find wrong."""
        yield from super().value_faults(certificate, released)
        if "values" in self.data and certificate["unit"]["name"] != "none":
            yield from self.data["values"](Known(certificate), released)
