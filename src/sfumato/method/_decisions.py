"""What a user may ask to be decided from probabilities, and what a run refuses to decide, before anything is read or spent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sfumato._validate import check_choice, check_int, check_real, fail
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.privacy.units import Unit

_NUMBER = r"(\d+\.?\d*|\.\d+)"
_WAYS = "to be a number from 0 to 1, recall=R such as recall=0.8, or cost=FP:FN such as cost=1:10"


@dataclass(frozen=True)
class Decision:
    """A decision says what is made of probabilities, beside the most probable class.

    Args:
        coverage: the share of new nodes whose set shall hold their class, between 0 and 1; None makes no sets.
        each_class: whether every class shall be covered by itself, and not only all nodes together.
        positive: the class that a threshold or the top is about.
        threshold: its least probability to be chosen: a number, ``recall=R`` or ``cost=FP:FN``, the costs of a node that is
            chosen wrongly and of one that is missed.
        top_share: the share of the ranked nodes that is chosen.
        top_count: the number of nodes that are chosen.
        class_weight: ``balanced`` tells each node the class whose probability is largest beside the class's share of training
            nodes, as if all classes were equally many; None tells it the most probable class.

    >>> Decision(positive="yes", threshold="recall=0.8").reads_labels
    True
    """

    coverage: float | None = None
    each_class: bool = False
    positive: str | None = None
    threshold: float | str | None = None
    top_share: float | None = None
    top_count: int | None = None
    class_weight: str | None = None

    def __post_init__(self) -> None:
        if self.coverage is not None:
            check_real("Such as 0.9.", low=0, high=1, open_low=True, open_high=True, coverage=self.coverage)
        elif self.each_class:
            raise fail("each_class", True, "to stand beside a coverage", "Give one, such as coverage 0.9.")
        ways = {name: getattr(self, name) for name in ("threshold", "top_share", "top_count")}
        given = [name for name, value in ways.items() if value is not None]
        if len(given) > 1:
            raise InputError(
                f"Expected one of threshold, top_share and top_count, got {' and '.join(given)}. Drop one."
            )
        if bool(given) != (self.positive is not None):
            raise InputError(
                "Expected positive, the class to look for, together with threshold, top_share or top_count, got "
                f"{given[0] if given else 'positive'} alone. Give both."
            )
        if self.threshold is not None:
            parsed(self.threshold)
        if self.top_share is not None:
            check_real("Such as 0.05.", low=0, high=1, open_low=True, top_share=self.top_share)
        if self.top_count is not None:
            check_int(low=1, top_count=self.top_count)
        if self.class_weight is not None:
            check_choice(("balanced",), class_weight=self.class_weight)

    @property
    def asked(self) -> bool:
        """Whether anything is decided beside the most probable class."""
        return self.coverage is not None or self.positive is not None or self.class_weight is not None

    @property
    def ranks(self) -> bool:
        """Whether nodes are compared with each other."""
        return self.top_share is not None or self.top_count is not None

    @property
    def reads_labels(self) -> bool:
        """Whether labels of training or validation nodes are needed; a cost can do without."""
        recall = isinstance(self.threshold, str) and self.threshold.startswith("recall")
        return self.coverage is not None or recall or self.class_weight is not None

    def check(
        self, unit: Unit, kind: str | None, classes: Sequence[str], *, elsewhere: bool = False, calibrated: bool = False
    ) -> None:
        """Refuse what a run cannot decide, before anything is read or spent.

        ``elsewhere`` says that other nodes than those of the run's graph are predicted, ``calibrated`` that counts were
        released that calibrate sets where labels are protected.
        """
        if not self.asked:
            return
        if kind is not None:
            raise InputError(
                "Expected a run that predicts one class for each node, for sets, thresholds, the top and balanced classes, got "
                "labels or a number. Take its probabilities or numbers as they are."
            )
        if self.positive is not None:
            check_choice(tuple(classes), positive=self.positive)
        if calibrated and self.coverage is not None and not self.each_class:
            replace(self, coverage=None).check(unit, kind, classes, elsewhere=elsewhere)
            return
        if self.reads_labels and "labels" not in unit.public:
            raise InputError(
                "Expected public labels for a coverage, a recall or balanced classes: they follow from labels of training or "
                f"validation nodes, which unit {unit.name} protects, and no release of this run pays for that. At node level "
                "`sfumato predict --coverage C --epsilon E` (sf.calibrate_sets in Python) charges one that pays for a coverage. "
                "Or ask for a threshold that reads no label: a number, or cost=FP:FN."
            )
        if self.ranks and unit.private and "features" not in unit.public:
            raise InputError(
                "Expected public features for top_share and top_count: who is among the first depends on the features of all "
                f"others, which unit {unit.name} protects. Ask for a threshold, which each node's own line decides."
            )
        if self.reads_labels and elsewhere:
            raise InputError(
                "Expected the graph of the run for a coverage, a recall or balanced classes, got other nodes: its validation "
                "nodes say nothing sure of nodes that were not drawn with them. Predict the graph of the run, or ask for a "
                "threshold that is a number or cost=FP:FN."
            )


def parsed(threshold: float | str) -> tuple[str, float, float]:
    """Return the way that a threshold is chosen (number, recall or cost) and its one or two numbers.

    >>> parsed("cost=1:10"), parsed("0.2")
    (('cost', 1.0, 10.0), ('number', 0.2, 0.0))
    """
    if not isinstance(threshold, str):
        return "number", check_real(low=0, high=1, threshold=threshold), 0.0
    if found := re.fullmatch(_NUMBER, threshold):
        return "number", check_real(low=0, high=1, threshold=float(found[1])), 0.0
    if found := re.fullmatch(f"recall={_NUMBER}", threshold):
        return "recall", check_real(low=0, high=1, open_low=True, open_high=True, recall=float(found[1])), 0.0
    found = re.fullmatch(f"cost={_NUMBER}:{_NUMBER}", threshold)
    if found is None:
        raise fail("threshold", threshold, _WAYS)
    wrong, missed = (check_real(low=0, high=1e12, open_low=True, cost=float(found[at])) for at in (1, 2))
    return "cost", wrong, missed
