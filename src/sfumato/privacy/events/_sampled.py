"""What DP-SGD by Poisson sampling has in common, whether a record is one example or reaches several terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sfumato._validate import check_choice
from sfumato.privacy.events._event import Event, shown

if TYPE_CHECKING:
    from sfumato.privacy._pairs import Pair

_SAMPLED_RANGE = (1e-3, 1e8)  # noise multipliers outside it are accounted as if every record were drawn
_MOST_DRAWN = 1e6  # terms drawn at once, on average; more are accounted as if all were


class SampledEvent(Event):
    """Noisy sums over Poisson samples; ``occurrences`` terms of a record at most, and ``relation`` is one of ``relations``."""

    relations: ClassVar[tuple[str, ...]] = ("add-remove", "replace")
    if TYPE_CHECKING:
        sampling_prob: float
        noise_multiplier: float
        steps: int
        relation: str
        occurrences: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.relations, relation=self.relation)

    @property
    def apart(self) -> int:
        """How far a record moves a sum that draws all its terms, over the clip norm."""
        terms = int(getattr(self, "occurrences", 1))
        return {"add-remove": terms, "replace": 2 * terms, "leave": 2 * terms - 1}[self.relation]

    def pair(self) -> Pair:
        """The pair of sampled terms. For a single exchanged term it is tighter than the pair that reveals the draw."""
        from sfumato.privacy._pairs import Mixture, Revealed, Swapped

        q, z, terms = float(self.sampling_prob), float(self.noise_multiplier), int(getattr(self, "occurrences", 1))
        if q == 1 or terms * q > _MOST_DRAWN or not _SAMPLED_RANGE[0] <= z <= _SAMPLED_RANGE[1]:
            return Revealed(self.apart / z)
        if self.relation == "add-remove" or self.apart == 1:
            return Mixture(q, terms, z)
        return Swapped(q, z) if terms == 1 else Revealed(2 / z, q, terms, self.relation == "leave")

    def repeats(self) -> int:
        return self.steps

    def describe(self) -> str:
        terms = f", each record in at most {self.occurrences} terms" if hasattr(self, "occurrences") else ""
        return (
            f"DP-SGD, {self.steps:,} steps on Poisson samples with probability {shown(self.sampling_prob)}{terms}; "
            f"Gaussian noise, standard deviation {shown(self.noise_multiplier)} times the clip norm"
        )
