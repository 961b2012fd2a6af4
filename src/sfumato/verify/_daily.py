"""What the verifier knows of method daily-messages: one release for a whole history. Part of the verifier: it needs NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from ._baselines import of_graph_free, tree_faults
from ._kinds import Matrix
from ._rules import OF_HOPS, Rules, sizes

if TYPE_CHECKING:
    from ._kinds import Planned
    from ._rules import Certificate, Tensors
    from ._tensors import Stored

MARKS = "history.marks"
_WIDTH, _STEP = 64, 32767


class DailyMessages(Rules):
    """The rules of method daily-messages.

    Under increments an edge and all of its history is one change of one count, or two if deletions are counted: Laplace noise
    on whole counts, and no horizon. Under sums it is one column of the encoder, or the difference of two: one Gaussian release,
    which it touches once a refresh, and nothing after the last day.
    """

    settings: ClassVar = {
        "days": "count up to 100000",
        "refreshes": "count up to 4096",
        "noise": "one of auto, increments, sums",
        "deletions": "flag",
        "day": "count or null up to 100000",
        "start": "index up to 4294967295",
        "learner_share": "share",
        "epochs": "count",
        "learning_rate": "positive up to 10",
    }
    audience: ClassVar = {"edge": OF_HOPS}
    since = 3

    def faults(self, certificate: Certificate) -> Iterator[str]:
        stated = certificate["settings"]
        if stated["refreshes"] > stated["days"]:
            yield "certificate.json: settings.refreshes: expected at most one a day, as the proof takes for granted"
        if stated["noise"] == "sums" and (stated["day"] or 0) > stated["days"]:
            yield "certificate.json: settings.day: expected no day beyond the horizon, for which the noise of sums was found"

    def caveats(self, certificate: Certificate) -> list[str]:
        stated = certificate["settings"]
        stays = "stays counted, and what it told is protected still"
        return [
            f"The claim covers a whole history of edges that come and go, of {stated['days']} days: on any day, all that was "
            "released of it until then, and every model that was trained on that, costs no more together. Neighboring histories "
            "differ in one edge, with the day on which it came and the day on which it went.",
            f"Rows are refreshed {stated['refreshes']} times, on public days. An edge that goes after a refresh told it "
            f"{'is taken off at the next refresh' if stated['deletions'] else stays}. One secret key draws the noise of all "
            "days, and is kept until the last.",
        ]

    def releases(self, certificate: Certificate) -> list[Planned]:
        if certificate["unit"]["name"] == "none":
            return []
        stated, public = certificate["settings"], certificate["public_facts"]
        pure = stated["noise"] != "sums"
        event, touched = ("pure", 0) if pure else ("gaussian", stated["refreshes"])
        return [Matrix("aggregate/1", [public["num_nodes"], public["num_classes"]], touched, event=event)]

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        (_, _, classes), names, stated = sizes(certificate), list(found), certificate["settings"]
        prior = [name.removeprefix("prior.") for name in names if name.startswith("prior.")]
        shapes = {f"prior.{name}": shape for name, shape in of_graph_free(certificate, _WIDTH, prior).items()}
        if any(name.startswith("head.") for name in names):
            shapes |= {"head.weight": [classes, 4 * classes + 1], "head.bias": [classes], "class.shares": [classes]}
        if "history" in certificate:  # of every day, 256 bits
            shapes[MARKS] = [stated["day"] or stated["days"], 4]
        return shapes

    def weight_faults(self, certificate: Certificate, weights: Mapping[str, Stored]) -> Iterator[str]:
        yield from tree_faults(weights, "prior.")
        if "class.shares" in weights:
            shares = weights["class.shares"].array().astype(float)
            if not (shares > 0).all() or not abs(shares.sum() - 1) < 1e-3:
                yield "class.shares: expected numbers above 0 whose sum is 1"

    def value_faults(self, certificate: Certificate, released: Mapping[str, Stored]) -> Iterator[str]:
        yield from super().value_faults(certificate, released)
        whole = certificate["settings"]["noise"] != "sums" and "aggregate/1" in released
        if whole and (released["aggregate/1"].array() % _STEP).any():
            yield "aggregate/1: holds parts of counts, but increments and their noise are whole counts"
