"""What a collection asks of every user: how features and label are randomized, and on how much budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from sfumato._validate import AT_LEAST_1, SHARE, check_choice, check_fields, check_real, fail, flag, setting
from sfumato.randomizers._collision import Collision
from sfumato.randomizers._direction import Direction
from sfumato.randomizers._gaussian import Gaussian
from sfumato.randomizers._laplace import Laplace
from sfumato.randomizers._multibit import PGC, MultiBit, OneBit
from sfumato.randomizers._piecewise import Piecewise
from sfumato.randomizers._randomized_response import RandomizedResponse
from sfumato.randomizers._subset import SubsetSelection

if TYPE_CHECKING:
    from sfumato.randomizers._randomizer import Randomizer

MECHANISMS = ("multi-bit", "one-bit", "laplace", "gaussian", "piecewise", "pgc", "collision", "direction")
LABEL_MECHANISMS = ("subset", "randomized-response")
NOT_ASKED = {"epsilon_x": (0.0, None)}
"""Where no feature is randomized."""


class Sizes(Protocol):
    """Sizes are how many features and classes there are, which is public."""

    @property
    def num_features(self) -> int:
        """The number of features d."""

    @property
    def num_classes(self) -> int:
        """The number of classes C."""


@dataclass(frozen=True)
class Questions:
    r"""What a collection asks, all of it public: how each user randomizes features and label.

    Args:
        epsilon_x: budget of a user's features; 0 asks for none, None (an option: inf) reads them in the clear (no privacy).
        epsilon_y: budget of the label of a user in the training or validation role; None (an option: inf) reads it in the clear.
        mechanism: randomizer of the features: "multi-bit", "one-bit", "laplace", "gaussian", "piecewise", "pgc", "collision"
            or "direction"; for "pgc", "piecewise" and "laplace" see ``per_feature``.
        label_mechanism: "subset" (subset selection, the better one below about epsilon 2) or "randomized-response". Both tell
            little about one of more than about 30 classes: local hashing would tell more, and no method asks by it yet.
        paper_rule: number m of multi-bit as published, floor(epsilon / 2.18), in place of the best: 4, not 5, at epsilon 10.
        per_feature: spend ``epsilon_x`` on *every* feature (the convention of PGC's paper): d times as much a user.
        low: public lower end of every feature; values outside are clipped on the device.
        high: public upper end.
        cap: public number of non-zero features above which a device drops some ("collision", "direction").
        delta: failure probability, for "gaussian" alone.

    **Formal guarantee.** A user's reports are :math:`(\epsilon, \delta)`-indistinguishable for any two values of the
    features and label, with epsilon the sum over both.

    Raises:
        InputError: a setting is out of range.

    >>> from types import SimpleNamespace
    >>> asked = Questions(epsilon_x=1.0, epsilon_y=None)
    >>> asked.features(SimpleNamespace(num_features=1433, num_classes=7)).bits
    12
    """

    epsilon_x: float | None = 1.0
    epsilon_y: float | None = 1.0
    mechanism: str = setting("multi-bit", unless=NOT_ASKED)
    label_mechanism: str = setting("subset", unless={"epsilon_y": (None,)})
    paper_rule: bool = setting(False, {"mechanism": ("multi-bit",)}, unless=NOT_ASKED)
    per_feature: bool = setting(False, unless=NOT_ASKED)
    low: float = setting(0.0, unless={**NOT_ASKED, "mechanism": ("collision",)})
    high: float = setting(1.0, unless={**NOT_ASKED, "mechanism": ("collision",)})
    cap: int = setting(32, {"mechanism": ("collision", "direction")}, unless=NOT_ASKED)
    delta: float = setting(1e-10, {"mechanism": ("gaussian",)}, unless=NOT_ASKED)

    def __post_init__(self) -> None:
        for name in ("epsilon_x", "epsilon_y"):
            value = getattr(self, name)
            if value is not None:
                least = name == "epsilon_y"
                check_real("For values in the clear use None.", low=0, open_low=least, high=1e4, **{name: value})
        check_choice(MECHANISMS, mechanism=self.mechanism)
        check_choice(LABEL_MECHANISMS, label_mechanism=self.label_mechanism)
        low: dict[str, Any] = {"`low`": self.low}  # in backticks: bounds of the check have these names
        high: dict[str, Any] = {"`high`": self.high}
        check_real(low=-1e6, high=1e6, **low)
        check_real(**high)
        if not self.high > self.low:
            raise fail("high", self.high, f"to be above low = {self.low}", "Name the public range of the features.")
        check_fields(self, delta=SHARE, cap=AT_LEAST_1, paper_rule=flag(), per_feature=flag())
        if self.per_feature and self.mechanism not in ("pgc", "piecewise", "laplace"):
            raise fail("per_feature", True, "with pgc, piecewise or laplace", f"Drop it for {self.mechanism}.")
        if self.mechanism == "pgc" and not self.per_feature:
            raise fail("mechanism", "pgc", "with per_feature=True, its only form", "Its total is d times epsilon_x.")

    def features(self, public: Sizes) -> Randomizer | None:
        """Return the randomizer of feature rows; None where nothing is randomized. ``public`` gives their number."""
        return _features(self, public.num_features) if self.epsilon_x else None

    def labels(self, public: Sizes) -> Any:
        """Return the randomizer of labels; None where they are read in the clear. ``public`` gives the number of classes."""
        if self.epsilon_y is None:
            return None
        kind = SubsetSelection if self.label_mechanism == "subset" else RandomizedResponse
        return kind(public.num_classes, self.epsilon_y)


@lru_cache(maxsize=8)
def _features(asked: Questions, d: int) -> Randomizer:
    epsilon, range_ = float(asked.epsilon_x or 0.0), (asked.low, asked.high)
    match asked.mechanism:
        case "multi-bit":
            return MultiBit(d, epsilon, *range_, rule="paper" if asked.paper_rule else "best")
        case "one-bit":
            return OneBit(d, epsilon, *range_)
        case "collision":
            return Collision(d, epsilon, min(asked.cap, d))
        case "direction":
            return Direction(d, epsilon, norm=math.sqrt(min(asked.cap, d)) * max(abs(asked.low), abs(asked.high)))
        case "gaussian":
            return Gaussian(d, epsilon, *range_, delta=asked.delta)
        case "pgc":
            return PGC(d, epsilon, *range_)
        case "laplace":
            return Laplace(d, epsilon * (d if asked.per_feature else 1), *range_)
        case _:
            if asked.per_feature:
                return Piecewise(d, epsilon * d, *range_, sampled=d)
            return Piecewise(d, epsilon, *range_)
