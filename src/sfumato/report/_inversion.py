"""The page about model inversion: reconstructions beside training images, and distances beside their held-out control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.attacks._reconstruction import MEANS
from sfumato.report._html import to_html
from sfumato.report._page import Facts, Items, Page, Section, Table
from sfumato.report._pictures import picture_grid
from sfumato.report._words import claim_words, percent, plain, unit_words

if TYPE_CHECKING:
    from sfumato.attacks._reconstruction import Reconstructions
    from sfumato.report._drawing import Figure

_READ = (
    "A reconstruction shows what the model associates with a class. It is found from the weights alone.",
    "A training distance smaller than the held-out distance is a sign of memorisation; equal ones show the class, not the "
    "records.",
    "Compare the second and the third column: both are smallest distances among equally many images. The smallest distance to "
    "all training images falls with their number, whatever the model remembers.",
    "Confidence is the probability that the model gives the reconstruction to be of its class. Where it is low, the attack found "
    "nothing. A blank image is often nearer to some training image than a good reconstruction: a smaller distance is no better "
    "picture.",
    "A poor picture proves nothing: another attack may find a better one. What holds against every attack is the claim of the "
    "certificate, for its unit alone. A claim for one record says nothing about the look of a whole class.",
)
_DISTANCES = {"euclidean": "Euclidean, over pixels in [0, 1]", "ssim": "1 - SSIM, windows of 7 x 7 pixels"}
_SOURCES = "Zhang (2021), Differentially Private Deep Learning, algorithm 4; Fredrikson, Jha and Ristenpart (2015)"


@dataclass(frozen=True)
class Attacked:
    """A run that was attacked, as the page shows it."""

    title: str
    certificate: Mapping[str, Any]
    found: Reconstructions
    accuracy: float | None = None

    def words(self) -> str:
        private = self.certificate["claim"]["epsilon"] is not None
        unit = [unit_words(self.certificate["unit"]["name"])] * private
        accuracy = [] if self.accuracy is None else [f"{percent(self.accuracy)} % of test images right"]
        return ", ".join([*unit, claim_words(self.certificate["claim"]), *accuracy])


def inversion_figure(runs: Sequence[Attacked]) -> Figure:
    """Draw a training image of each class above the reconstructions of each of the ``runs``, which have the same classes."""
    rows = [
        ("a training image", runs[0].found.samples),
        *((f"{run.title}: {run.words()}", run.found.images) for run in runs),
    ]
    classes = list(runs[0].found.nearest)
    title = "Reconstructions by model inversion"
    words = [f"{row}, for each of the {len(classes)} classes {', '.join(classes)}" for row, _ in rows[:1]]
    words += [
        f"{row}; mean distance {one['matched_distance']:.3f} to training and {one['heldout_distance']:.3f} to held-out images"
        for (row, _), one in zip(rows[1:], (run.found.to_dict() for run in runs), strict=True)
    ]
    return picture_grid("inversion", title, f"{title}. Rows: {'. '.join(words)}.", rows, classes)


def inversion_page(runs: Sequence[Attacked], dataset: str, settings: Mapping[str, Any], distance: str) -> str:
    """Return an HTML page about the reconstructions in a single file. It shows training images."""
    shown = "This page shows training images and distances to them. It must not leave with the release."
    pictures = Section("pictures", "Reconstructions", (shown, inversion_figure(runs)), kind="outside")
    tables = tuple(_table(number, run, distance) for number, run in enumerate(runs, 1))
    distances = Section("distances", "Distances", tables, kind="outside")
    attack = ", ".join(f"{name} {plain(value)}" for name, value in settings.items())
    facts = [(run.title, f"{run.certificate['method']}; {run.words()}") for run in runs]
    facts += [("Attack", attack), ("Distance", _DISTANCES[distance]), ("Source", _SOURCES)]
    about = Section("attacked", "What was attacked", (Facts(tuple(facts)),))
    lead = f"What the weights show of the classes of {dataset}, for {len(runs)} {'run' if len(runs) == 1 else 'runs'}."
    reading = Section("reading", "How to read it", (Items(_READ),))
    return to_html(Page(f"Model inversion on {dataset}", lead, (pictures, distances, reading, about)))


def _table(number: int, run: Attacked, distance: str) -> Table:
    values = run.found.to_dict()
    lines = [("all classes, mean", [values[title] for title in MEANS])]
    lines += [(name, [one[key] for key in MEANS.values()]) for name, one in values["classes"].items()]
    return Table(
        f"distances-{number}",
        f"{run.title}: smallest distance of the reconstruction to images of its class ({_DISTANCES[distance]})",
        (
            "Class",
            "All training images",
            "As many training images",
            "Held-out images",
            "A blank image instead",
            "Confidence",
        ),
        tuple((name, *(f"{value:.3f}" for value in numbers)) for name, numbers in lines),
    )
