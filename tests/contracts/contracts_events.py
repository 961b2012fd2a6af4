"""Compares what a recorder noted with the events of a certificate: what one record moves, over the noise that was drawn.

Each branch says in whole steps what one record can move where a mechanism draws: a clipped sum, a message, a copy, an entry of
a row. A mechanism that is not named here fails.
"""

import math
from collections import defaultdict
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from sfumato.privacy.events import (
    ApproximateEvent,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedGaussianEvent,
    SelectionEvent,
    event_from_dict,
)

STEPS, MESSAGE, COPY, ENTRY = 2**24, 32767, 2**26, 2**20
"""What stands for 1, in whole steps: of a clipped sum, a message, a copy along an arc, an entry of a row or a pair."""
ROUNDS = {"sfumato.bounded._gradients": True, "sfumato.classlevel._record": True, "sfumato.bounded._classes": False,
          "sfumato.bounded._split_gradients": False, "sfumato.central._dpsgd": False}  # fmt: skip
"""Whether sums of DP-SGD are rounded to whole steps after they were clipped, by the module that draws."""


def check(recorder, fitted, graph):
    """Compare every release of a finished fit with what was drawn for it; then nothing that was drawn may be left."""
    releases = fitted.certificate.values["releases"]
    session = next(one for one in recorder.sessions if one.ledger.head == fitted.ledger.head)
    drawn = Drawn(recorder, fitted.ran, graph)
    for release in releases:
        drawn.compare(session, release["name"], event_from_dict(release["event"]))
    assert not drawn.left(), "what was drawn belongs to a charged release"
    no_noise_comes_twice(recorder)
    whole = {*recorder.charged, *(one.key for one in recorder.sessions)}
    assert not recorder.streams & whole, "bits come from a key that was derived for one purpose"


def no_noise_comes_twice(recorder):
    """Two draws from one key are of other positions."""
    places = defaultdict(set)
    for frame in recorder.frames:
        for draw in frame.draws:
            if "start" in draw.args:
                span = set(range(draw.args["start"], draw.args["stop"]))
                assert not places[draw.key] & span
                places[draw.key] |= span


class Drawn:
    """What a fit drew, by the release that it belongs to."""

    def __init__(self, recorder, plan, graph):
        self.recorder, self.unit, self.method, self.graph = recorder, plan.unit, plan.method, graph
        unit = plan.unit
        self.twice = 2 if getattr(unit, "relation", None) == "replace" else 1
        self.frames = defaultdict(list)
        for frame in recorder.frames:
            key = frame.draws[0].key if frame.kind == "bare" else frame.key
            for draw in frame.draws:
                assert draw.key is None or recorder.derived(draw.key, key)
            session, name = recorder.owner(key)
            assert session is not None, f"{frame.kind} in {frame.where} draws from a key of its own"
            self.frames[id(session.ledger), name].append(frame)

    def left(self):
        return {key: frames for key, frames in self.frames.items() if any(frame.draws for frame in frames)}

    def compare(self, session, name, event):
        if isinstance(event, SelectionEvent):
            return self._selection(session, name, event)
        if name == "appr/values":  # drawn with the columns, of which it is a part
            name = "appr/columns"
            frames = self.frames[id(session.ledger), name]
        else:
            frames = self.frames.pop((id(session.ledger), name))
        if frames and frames[0].kind == "noisy_day":
            return self._history(frames, event)
        match event:
            case PoissonGaussianEvent() | RepeatedGaussianEvent():
                (frame,) = frames
                self._steps(frame, event)
            case GaussianEvent():
                expected = event.count / event.noise_multiplier**2
                assert sum(self._mu_squared(frame, name) for frame in frames) == pytest.approx(expected, rel=1e-9)
            case LaplaceEvent():
                (frame,) = frames
                (draw,) = frame.of("rounded_laplace")
                top_k = frame.args["top_k"]
                assert draw.args["scale"] / (top_k * ENTRY) == pytest.approx(event.noise_multiplier)
                assert event.count * top_k == draw.args["stop"]
                self.frames.pop((id(session.ledger), name))
            case ExponentialEvent():
                (frame,) = frames
                self._picks(frame, event)
                if "rounded_laplace" in {draw.law for draw in frame.draws}:
                    self.frames[id(session.ledger), name] = frames
            case PureEvent() | RandomizedResponseEvent() | ApproximateEvent():
                assert frames
                for frame in frames:  # several are of disjoint parts of the edges
                    if name == "bounds":
                        self._bound(frame, event)
                    assert self._epsilon(frame, name) == pytest.approx(event.epsilon, rel=1e-6)
                assert event.count == 1
                assert len(frames) <= 2
            case _:
                raise AssertionError(f"say what a release of {type(event).__name__} draws")
        return None

    def _history(self, frames, event):
        """All days together: a row is drawn once a refresh, with one noise; an edge moves a column of what it tells, or two."""
        drawn, form = [draw for frame in frames for draw in frame.draws], frames[0].args["form"]
        stream = frames[0].args["stream"]
        most, left = divmod(sum(draw.args["stop"] for draw in drawn), len(stream.phases) * stream.num_classes)
        assert (most, left) == (stream.schedule.refreshes, 0)
        assert len({frame.args["day"] for frame in frames}) == len(frames)
        told = [np.concatenate([np.zeros(first), form.weights(np.arange(most - first))]) for first in range(most)]
        moved = [*told, *(one - told[j] for i, one in enumerate(told) for j in range(i + 1, most) if form.deletions)]
        if isinstance(event, PureEvent):
            (scale,) = {draw.args["scale"] for draw in drawn}
            assert event.epsilon == pytest.approx(float(max(abs(one).sum() for one in moved) / scale), rel=1e-9)
        else:
            (stddev,) = {draw.args["stddev"] for draw in drawn}
            largest = max(np.linalg.norm(one) for one in moved)
            assert event.noise_multiplier == pytest.approx(stddev / largest, rel=1e-9)

    def _selection(self, session, name, event):
        """Every trial is one of the candidates, and their number has the law of the event."""
        (trials,) = [
            frame for frame in self.frames.pop((id(session.ledger), name)) if frame.draws[0].law == "draw_trials"
        ]
        (drawn,) = trials.draws
        assert (drawn.args["rule"], drawn.args["mean_trials"]) == (event.rule, event.mean_trials)
        ran = {id(one.ledger): one for one in self.recorder.sessions
               if self.recorder.parents.get(one.key) == drawn.args["key"]}.values()  # fmt: skip
        assert len(ran) == drawn.result
        for trial in ran:
            events = tuple(release.event for release in trial.ledger.releases)
            scores = self.frames.pop((id(trial.ledger), None), [])
            for frame in scores:
                (draw,) = frame.of("rounded_gaussian")
                events = (*events, GaussianEvent(draw.args["stddev"]))
                assert draw.args["stop"] == 1
            assert events in event.candidates
            for release in trial.ledger.releases:
                self.compare(trial, release.name, release.event)

    def _steps(self, frame, event):
        """DP-SGD: coins and noise of every step, and the most that one term adds to a step."""
        tossed, noise = frame.of("coins"), frame.of("rounded_gaussian")
        assert len(tossed) == len({draw.key for draw in tossed}) == event.steps
        assert len(noise) == len({draw.key for draw in noise}) == event.steps
        assert {draw.args["probability"] for draw in tossed} == {event.sampling_prob}
        (number,) = {len(draw.args["ids"]) for draw in tossed}
        assert number == self._examples(frame, event)
        (stddev,), (size,) = ({draw.args[name] for draw in noise} for name in ("stddev", "stop"))
        assert stddev == pytest.approx(event.noise_multiplier * self._most(frame, size), rel=1e-12)
        assert max(frame.sums, default=0) <= self._most(frame, size)
        stay = self.twice == 2 or self._unpaid()
        leaves = bool(self._looked_at(frame, "read_arcs"))  # its own term goes, and roots stay when a neighbor goes
        assert event.relation == ("replace" if stay else "leave" if leaves else "add-remove")
        if isinstance(event, RepeatedGaussianEvent):
            assert event.occurrences == self._occurrences(frame)

    def _most(self, frame, size):
        """How far one term moves a sum, in whole steps; sums by the norm trick are rounded to them, others are not."""
        rounds = ROUNDS[frame.where] and getattr(self.method, "head", "linear") == "linear"
        return STEPS * (1 + rounds * 2.0**-24 * math.sqrt(size))

    def _examples(self, frame, event):
        """How many coins a step tosses, by public numbers: one for each training node, group, root or cell."""
        if frame.where == "sfumato.bounded._split_gradients":
            return round(self.method.settings["batch_size"] / event.sampling_prob)
        if self.unit.partition:
            return self.unit.num_cells(self.graph.num_classes)
        if frame.where in ("sfumato.bounded._gradients", "sfumato.central._dpsgd"):
            # A label that is missing is no reason to leave a node out.
            assert np.array_equal(frame.args["ids"], np.flatnonzero(self.graph.train_mask))
        return np.count_nonzero(self.graph.train_mask)

    def _unpaid(self):
        """Whether rows were chosen outside of every release, so that a record may have changed all of them."""
        return any(one.law == "largest_entries" for one in self.recorder.looked)

    def _looked_at(self, frame, name):
        return [one for one in frame.looked or self.recorder.looked if one.law == name]

    def _occurrences(self, frame):
        """How many terms read one record: by the rows that losses read, or by the arcs that each owner kept."""
        if self._unpaid():
            return len(frame.args["ids"])
        for found in self._looked_at(frame, "loss_weights"):
            read = abs(found.result.toarray()) > 0
            read[np.arange(len(read)), found.args["roots"]] = True
            assert read.sum(axis=0).max() <= found.args["most"]
            return found.args["most"]
        (kept,), (rows,) = self._looked_at(frame, "read_arcs"), self._looked_at(frame, "subgraph_rows")
        most = kept.args["max_arcs"]
        assert np.bincount(kept.result.sources).max() <= most
        assert rows.args["arcs"] is kept.result
        return 1 + self.twice * sum(most**hop for hop in range(1, rows.args["num_layers"] + 1))

    def _mu_squared(self, frame, name):
        """One over the square of noise over sensitivity, summed over what a frame released."""
        match frame.kind:
            case "noisy_neighborhood_sum":
                moved = MESSAGE * self._hop(frame, name)
            case "noisy_group_sums":
                moved = MESSAGE * self.twice
            case "noisy_linked_sums":  # a group's row; what its projection may miss; the sums are rounded once
                columns, classes = frame.args["rows"].shape[1], frame.args["num_classes"]
                missed = 4 * self.graph.train_mask.sum() * math.sqrt(columns) / 2**36
                moved = MESSAGE * self.twice * (1 + missed) + 1.01 * math.sqrt(columns * classes)
            case "noisy":
                rows, classes = frame.args["sums"].shape
                moved = COPY * self.twice * (math.sqrt(classes * (classes - 1)) if rows == self.graph.num_nodes else 1)
            case "noisy_steps":
                (stddev,), (size,) = (
                    {draw.args[one] for draw in frame.of("rounded_gaussian")} for one in ("stddev", "stop")
                )
                assert {draw.args["probability"] for draw in frame.of("coins")} == {1.0}
                return len(frame.of("rounded_gaussian")) * (self.twice * self._most(frame, size) / stddev) ** 2
            case "gaussian_rows":
                rows, columns = frame.args["matrix"].shape
                (stddev,) = {draw.args["stddev"] for draw in frame.draws}
                assert sum(draw.args["stop"] - draw.args["start"] for draw in frame.draws) == rows * columns
                return rows * (math.sqrt(2) * ENTRY / stddev) ** 2
            case _:
                raise AssertionError(f"say what one record moves in {frame.kind}")
        (stddev,), (_,) = ({draw.key if one == "key" else draw.args[one] for draw in frame.draws}
                           for one in ("stddev", "key"))  # fmt: skip
        return (moved / stddev) ** 2

    @property
    def _edges(self):
        """How many edges a record holds, where it holds edges alone."""
        return getattr(self.unit, "edges", 1)

    def _hop(self, frame, name):
        """The change of one hop in full messages, not below what emptying a record of this graph changes."""
        arcs, rows = frame.args["arcs"], np.linalg.norm(frame.args["rows"], axis=1)
        if self.unit.name != "node":
            k = self._edges  # of one person, all at one node
            bound, real = math.sqrt(k**2 + (0 if self.unit.directed else k)), rows.max()
        else:
            real = (rows * np.sqrt(np.bincount(arcs.sources, minlength=len(rows)))).max()
            full = 1.0 if frame.where == "sfumato.central._shares" else math.sqrt(self.unit.max_out_degree)
            released = frame.where == "sfumato.method.hops" and name != "aggregate/1"
            bound = full * (1 if self.twice == 1 else math.sqrt(2) if released else 2)
        assert 0 < real <= bound * (1 + 1e-5)
        return bound

    def _picks(self, frame, event):
        """The heaviest candidate over the lightest, of entries that are clipped, and the number of picks."""
        (draw,) = {id(one.args["weights"]): one for one in frame.of("draw_picks")}.values()
        ratio = float(draw.args["weights"].max()) / float(draw.args["lightest"])
        assert 2 * math.log(ratio) == pytest.approx(event.epsilon, rel=1e-6)
        assert frame.result.nnz == event.count

    def _bound(self, frame, event):
        """The two largest degrees are at most the noisy ones and a margin; noise is below it with half the failure."""
        half = event.epsilon / 2
        margin = math.ceil(math.log(2 / event.failure / (1 + math.exp(-half))) / half - 1) + 1
        others = self.graph.num_nodes - 1
        self.tops = sorted((min(max(int(one) + margin, 1), others) for one in frame.result), reverse=True)

    def _total(self, name):
        """By how much one record moves a count of the whole graph."""
        if self.unit.name in ("edge", "person"):
            (first, second), directed = getattr(self, "tops", (0, 0)), self.unit.directed
            shapes = {
                "triangles": second,
                "wedges": first + second,
                "stars": math.comb(first, 2) + math.comb(second, 2),
            }
            found = {"degrees": 2, "bounds": 2, "node-degrees": 2, **shapes}.get(name, 1) if not directed else 1
            return found * self._edges
        if name == "groups":
            return 2
        most = min(self.graph.max_degree, self.graph.num_nodes - 1)
        pairs = math.comb(most, 2)
        return self.twice * {"degrees": 2 * most, "triangles": pairs, "wedges": 3 * pairs}.get(name, most)

    def _epsilon(self, frame, name):
        """The pure cost of one release: what one record moves over the scale of the noise."""
        match frame.kind:
            case "noisy_totals":
                moved, (scale,) = self._total(name), {draw.args["scale"] for draw in frame.draws}
            case "noisy_counts":
                moved = (
                    MESSAGE
                    * {"counts": self._edges, "lpgnet": self.unit.arcs_per_record, "link_messages": 2 * self._edges}[
                        frame.where.split("._")[-1]
                    ]
                )
                (scale,) = {draw.args["scale"] for draw in frame.of("keyed_discrete_laplace")}
            case "noisy_pair_sums":
                moved, (scale,) = 2 * MESSAGE * self._edges, {draw.args["scale"] for draw in frame.draws}
            case "noisy_edge_count":
                moved, (scale,) = 1, {draw.args["scale"] for draw in frame.draws}
            case "largest_pairs":
                moved, (scale,) = ENTRY, {draw.args["scale"] for draw in frame.of("discrete_laplace")}
                rates = [draw.args["rate"].near for draw in frame.of("geometric_from")]
                assert rates == pytest.approx([1 / scale])
            case "randomized_pairs":
                return self._flips(frame)
            case _:
                raise AssertionError(f"say what one record moves in {frame.kind}")
        return float(moved / Fraction(scale))

    def _flips(self, frame):
        """From the chance of a flip; and edges stay where their own coin is below that of randomized response."""
        (flips,), share, present = frame.of("successes"), frame.args["share"], frame.args["present"]
        flip = -math.expm1(-flips.args["rate"].near) / float(share)
        words = [one for one in frame.args["source"].recorded_words if one.shape == present.shape][
            -2 if share < 1 else -1 :
        ]
        kept = words[0] < np.uint64((1 - flip) * 2.0**64)
        if share < 1:
            kept &= words[1] < np.uint64(int(share * 2**64))
        assert np.array_equal(np.intersect1d(frame.result, present), present[kept])
        assert flips.args["trials"] == frame.args["pairs"].total
        return math.log((1 - flip) / flip)


def check_reports(recorder, fitted, graph):
    """Compare the reports of a collection with its certificate: each user is asked once, by a law of this cost."""
    asked = [frame for frame in recorder.frames if frame.kind.endswith(".encode")]
    assert len({id(frame.args["source"]) for frame in asked}) == 1
    assert not [frame for frame in recorder.frames if frame.draws and frame not in asked]
    events = {one["name"]: event_from_dict(one["event"]) for one in fitted.certificate.values["releases"]}
    for name, frame in zip(list(events), asked, strict=True) if "link-reports" not in events else ():
        randomizer, values = frame.args["self"], frame.args["values"]
        assert values.shape[0] == (
            graph.num_nodes if name == "feature-reports" else np.count_nonzero(_has_label(graph))
        )
        event = events[name]
        assert event.count == 1
        if isinstance(event, GaussianEvent):
            (draw,) = frame.draws
            moved = math.sqrt(randomizer.num_features) * randomizer.thresholds["steps"]
            assert draw.args["stddev"] / moved == pytest.approx(event.noise_multiplier)
        elif frame.draws:
            (draw,) = frame.draws
            moved = randomizer.num_features * randomizer.thresholds["steps"]
            assert moved / draw.args["scale"] == pytest.approx(event.epsilon)
        else:
            assert _cost(randomizer) == pytest.approx(event.epsilon, rel=1e-9)
    if "link-reports" in events:
        (frame,) = asked
        (degrees,), (flips,) = frame.of("discrete_laplace"), frame.of("successes")
        flip = -math.expm1(-flips.args["rate"].near)
        assert float(1 / degrees.args["scale"]) == pytest.approx(events["degree-reports"].epsilon)
        assert math.log((1 - flip) / flip) == pytest.approx(events["link-reports"].epsilon, rel=1e-9)
        assert degrees.args["stop"] == graph.num_nodes


def _has_label(graph):
    return (graph.train_mask | graph.val_mask) & (graph.y >= 0)


def _cost(randomizer):
    """The largest log-ratio of a report: of labels by their exact laws, of features by the whole numbers that decide."""
    if hasattr(randomizer, "num_classes"):
        laws = [randomizer.pmf(label) for label in range(randomizer.num_classes)]
        return math.log(max(one[report] / other[report] for one, other in permutations(laws, 2) for report in one))
    hit, favored, others, parts = (randomizer.thresholds[name] for name in ("hit", "favored", "others", "parts"))
    return parts * math.log(Fraction(hit * others, 2**64 - favored * hit))


def check_votes(recorder, events, answers, votes):
    """Compare the noise on counts of votes with the events of a mechanism: one vote moves two counts by 1, their maximum by 1."""
    (frame,) = [one for one in recorder.frames if one.draws]
    assert len({draw.key for draw in frame.draws}) == len(frame.draws) == len(events)
    drawn = {draw.args["stop"]: draw for draw in frame.draws}
    for event in events:
        threshold = event is not events[-1]
        draw = drawn[len(votes) if threshold else votes.size]
        moved = 1 if threshold else 2 if isinstance(event, LaplaceEvent) else math.sqrt(2)
        noise = draw.args["scale" if isinstance(event, LaplaceEvent) else "stddev"]
        assert noise / (ENTRY * moved) == pytest.approx(event.noise_multiplier)
        assert event.count >= (answers.asked if threshold else answers.answered)
        assert draw.law == {LaplaceEvent: "rounded_laplace", GaussianEvent: "rounded_gaussian"}[type(event)]
