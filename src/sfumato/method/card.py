"""A method's card holds what the command line, tuning, reports, experiments and documentation say of it.

The card stands beside the class that it describes. All tables of methods are derived from the cards, so a method is one
file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class CardHead:
    """A card head is the part of a card that is read before its method is imported: literals, each as ``field=value``.

    Args:
        name: the name of the method in certificates, stored runs and experiments.
        summary: what the method does, in a few words for help texts.
        words: on the command line, where they are not the name.
        options: options of the command line that only some methods take, each with the setting that it sets;
            empty for one that sets several (:meth:`~sfumato.method.contract.Listed.from_options`).
        defaults: the default in words, for an option that means another thing for each method.
        units: names of the privacy units under which the method has a proof.
        targets: kinds of :class:`~sfumato.graph._targets.Targets` that it learns, beside classes.
        candidates: settings that tuning chooses from unless told others; None where the method cannot be tuned.
        citations: keys in ``report/references.bib`` of the works that it rests on.
        reads_labels: whether it reads labels, or other targets; otherwise it is given a graph without them.
        scores_pairs: whether it scores pairs of nodes, and no single nodes.

    >>> CardHead("gap", "noisy aggregates", options={"hops": "num_hops"}).spoken
    ('gap',)
    """

    name: str
    summary: str
    words: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    units: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    candidates: tuple[Mapping[str, Any], ...] | None = None
    citations: tuple[str, ...] = ()
    reads_labels: bool = True
    scores_pairs: bool = False

    @property
    def spoken(self) -> tuple[str, ...]:
        """Return the words that name the method on the command line."""
        return self.words or (self.name,)


@dataclass(frozen=True)
class Audience:
    """An audience names what a method releases and hides.

    :meth:`~sfumato.privacy.units.Unit.audience` turns it into who may see what.

    Args:
        outputs: what is released.
        predictions: how predictions are called where anyone may see them.
        never: what stays hidden beside the data.
        never_of_nodes: what else stays hidden where the features of single nodes are protected.
        own: what is for the node itself alone, beside its prediction.
    """

    outputs: tuple[str, ...] = ()
    predictions: str = "predictions for all nodes"
    never: tuple[str, ...] = ()
    never_of_nodes: tuple[str, ...] = ()
    own: tuple[str, ...] = ()


@dataclass(frozen=True)
class Control:
    """A control is a run to compare a method's results with. It is described relative to that method.

    Args:
        name: its name in metrics.json, such as ``floor`` or ``ceiling``. Of several with one name the best is shown.
        title: its title in tables, the same for one name.
        method: its name in the catalog; empty for the method itself.
        settings: the settings of the control; with an empty ``method``, beside all those of the method itself.
        keeps: settings that it shares with the method.
        private: whether it runs under the unit and within the budget of the method; without privacy otherwise.
        only: settings of the method for which the control is made.
        unless: settings of the method for which it is not made.

    >>> Control("ceiling", "ceiling: no privacy", "reference", private=False).keeps
    ()
    """

    name: str
    title: str
    method: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    keeps: tuple[str, ...] = ()
    private: bool = True
    only: Mapping[str, Any] = field(default_factory=dict)
    unless: Mapping[str, Any] = field(default_factory=dict)


CEILING = Control("ceiling", "ceiling: no privacy", "reference", private=False)
FLOORS = (
    Control("floor", "floor: no graph, same budget", "graph-free"),
    Control("floor", "floor: no graph, same budget", "mlp"),
    Control("floor", "floor: no graph, same budget", "linear"),
)
CONTROLS = (
    *FLOORS,
    Control("label_control", "control: one hop of labels, same budget", "label-messages", {"num_hops": 1}),
    Control("ceiling", "ceiling: no privacy", private=False),
    CEILING,
)
"""What stands beside a method with a trusted curator. Of controls with one name the best is shown."""


@dataclass(frozen=True)
class Card(CardHead):
    """A card has more facts than its head: who may see what, the controls, what is read, and how training nodes are answered.

    Args:
        audience: what the method releases and what it hides.
        controls: runs to compare with, the ceiling last.
        reads_links: whether the method reads links at all.
        learns: whether it learns from the labels of training nodes; a method that only counts needs neither.
        reads_weights: whether the weights of links count, if a graph has any; a proof has to cover them.
        reads_types: what has to be public so that the types of links count, if a graph has several; None if they never do.
        reads_public_types: whether links of types that are declared public are read without noise, where labels are public; else
            they are protected as all others.
        returns_known: whether training nodes are answered by their known labels where these are public, because the
            method's own predictions for them lean on features.
        explains: whether scores of a node follow from its own features and its released rows alone, so that parts of them can
            be left out to tell what moved a prediction.
        notes: what certificates say outside the claim, such as which data chose the method's constants.

    >>> Card("gap", "noisy aggregates").controls[-1].method
    'reference'
    """

    audience: Audience = Audience()
    controls: tuple[Control, ...] = CONTROLS
    reads_links: bool = True
    learns: bool = True
    reads_weights: bool = False
    reads_types: tuple[str, ...] | None = None
    reads_public_types: bool = False
    returns_known: bool = False
    explains: bool = False
    notes: tuple[str, ...] = ()
