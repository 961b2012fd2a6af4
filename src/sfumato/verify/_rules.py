"""The contract of a rules file: what the verifier knows of one method, from its certificate alone.

Part of the verifier: it needs the standard library. **A new method is one entry in** ``_methods.py``: rules as
data (``_regular.py``), or a class in a file of its own; nothing else of the verifier is edited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ._caveats import Found, of_the_claim, of_the_graph
from ._units import unit_rules
from ._values import kind_faults

if TYPE_CHECKING:
    from ._kinds import Planned
    from ._tensors import Stored

Certificate = dict[str, Any]
Audience = dict[str, list[str]]
Tensors = dict[str, list[int]]


class Rules:
    """The rules of a method: what must hold of its runs. All of it follows from the certificate; nothing is read off the run.

    ``settings`` are the kinds of its settings (``_values.py``), and ``optional`` those of settings that some runs do not state.
    ``audience`` says who may see what, by the name of each unit under which the method has a proof. ``trust`` replaces the unit's
    trust model (``_sentences.py``). ``facts`` is the form of its public facts in the JSON Schema. ``inductive`` says whether
    weights may come from another run, ``reads_links`` whether it learns from neighbors, ``scores_pairs`` whether it scores pairs
    of nodes, ``reads_weights`` whether weights of edges count, ``arrives`` whether it has releases for nodes that arrive later,
    and ``targets`` which kinds of targets it learns beside classes.
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
    arrives: ClassVar[bool] = False
    targets: ClassVar[tuple[str, ...]] = ()

    @property
    def on_graph(self) -> bool:
        """Whether the method learns from a graph."""
        return self.facts == "graph_facts"

    def setting_faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for settings that are not exactly those of the method.

        The other rules are applied only if there is no such problem.
        """
        owner = f"a setting of method {certificate['method']}"
        settings, kinds = certificate["settings"], dict(self.settings)
        kinds |= {name: kind for name, kind in self.optional.items() if name in settings}
        return kind_faults(settings, kinds, "certificate.json: settings", owner)

    def faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield what else is impossible for this method."""
        yield from ()

    def releases(self, certificate: Certificate) -> list[Planned]:
        """Return what the method releases under the unit, in order. Weights that come from another run were charged there."""
        return []

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        """Return the shape of every tensor of ``model.safetensors``.

        ``found`` are the names that the file holds; some of them show which choice was made.
        """
        return {}

    def weight_faults(self, certificate: Certificate, weights: Mapping[str, Stored]) -> Iterator[str]:
        """Yield a problem for weights that training cannot give; names and shapes were checked before."""
        yield from ()

    def caveats(self, certificate: Certificate) -> list[str]:
        """Return limits of the claim that follow from the method."""
        return []

    def doubts(self, certificate: Certificate) -> Found:
        """Yield codes and sentences of what is implausible about claim and public facts."""
        cells = unit_rules(certificate).cells(certificate)
        yield from of_the_claim(
            certificate, cells or certificate["public_facts"]["num_nodes"], "cells" if cells else "nodes"
        )
        yield from of_the_graph(certificate, self.reads_links)

    def value_faults(self, certificate: Certificate, released: Mapping[str, Stored]) -> Iterator[str]:
        """Yield a problem for released values that are impossible; names and shapes were checked before."""
        for planned in self.releases(certificate):
            yield from planned.value_faults(released)
