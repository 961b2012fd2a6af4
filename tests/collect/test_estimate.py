"""Estimates from reports: no bias, intervals that cover as often as they say, in the units of the schema."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from collect_made import CLASSES, GRAPH, USERS, closed, collection, drawn, features, label, link_collection, schema

from sfumato.cli import invoke
from sfumato.collect import _estimate as module
from sfumato.collect._closed import Closed
from sfumato.collect._estimate import estimate, mean_variance
from sfumato.collect._wire import Message
from sfumato.errors import DataError
from sfumato.noise.coins import SecretWords
from sfumato.randomizers import Laplace, MultiBit, Piecewise

COUNT = 150
ROWS = (np.random.default_rng(0).random((COUNT, 6)) < [0.1, 0.3, 0.5, 0.5, 0.7, 0.9]).astype(np.float64)
RING = sp.csr_matrix(sum(np.roll(np.eye(150), step, axis=1) for step in (1, 2, 3, 4, 5)))
LABELS = np.random.default_rng(1).choice(3, COUNT, p=[0.2, 0.3, 0.5])


def rounds(asked, turns):
    """What many collections of the same users give, each with new coins and new names of users; and the truth about them."""
    (part,) = asked.parts
    values = ROWS if part == "features" else LABELS
    names = [f"{turn}-{user}" for turn in range(turns) for user in range(COUNT)]
    ids = np.array([module.public_id(asked, name) for name in names])
    reports = asked.parts[part].randomizer.encode(np.concatenate([values] * turns), SecretWords(bytes([7]) * 32), ids)
    said = [Message(name, {part: reports.key(place)}) for place, name in enumerate(names)]
    found = [SimpleNamespace(schema=asked, reports=said[turn * COUNT :][:COUNT], sha256=None) for turn in range(turns)]
    truth = values.mean(axis=0) if asked.features else np.bincount(values, minlength=3) / COUNT
    return [estimate(one).answers[part] for one in found], truth


def covered(answers, truth, by=1.0):
    """The share of intervals that hold the truth; ``by`` stretches the variance."""
    hits = []
    for one in answers:
        half = np.array([max(a.high - a.estimate, a.estimate - a.low) for a in one]) * by**0.5  # one end may be cut
        hits.append(np.abs(np.array([a.estimate for a in one]) - truth) <= half)
    return float(np.mean(hits))


EXACT, BOUNDED = ((0.93, 0.968), 2 / 3, 400), ((0.935, 1.0), 0.4, 100)
"""How often intervals hold the truth, the share of their variance with which it is too seldom, and the rounds that tell."""
COVER = {
    "subset": ({"label": label(epsilon=1.0)}, EXACT),
    "randomized response": ({"label": label(epsilon=2.0, mechanism="randomized-response")}, EXACT),
    "laplace": ({"features": features(6.0, "laplace")}, EXACT),
    "collision": ({"features": features(4.0, "collision", cap=6)}, EXACT),
    "multi-bit": ({"features": features(2.0)}, BOUNDED),
    "pgc": ({"features": features(1.0, "pgc", per_feature=True)}, BOUNDED),
    "piecewise": ({"features": features(2.0, "piecewise")}, BOUNDED),
    "direction": ({"features": features(2.0, "direction", cap=6)}, BOUNDED),
    "gaussian": ({"features": features(4.0, "gaussian", delta=1e-4)}, BOUNDED),
}


@pytest.mark.parametrize(("parts", "law"), COVER.values(), ids=COVER)
def test_intervals_cover_as_often_as_they_say(parts, law):
    """Where the variance is only bounded, they may cover more often."""
    (low, high), less, turns = law
    asked = schema(**parts)
    answers, truth = rounds(asked, turns)
    assert low < covered(answers, truth) <= high
    assert covered(answers, truth, less) < low
    assert law is BOUNDED or covered(answers, truth, 3 / 2) > high
    estimates = np.array([[one.estimate for one in turn] for turn in answers])
    assert (np.abs(estimates.mean(axis=0) - truth) < 4.5 * estimates.std(axis=0) / turns**0.5).all()


def test_variances_are_those_of_the_randomizers():
    values = np.linspace(0, 1, 40)[:, None] * np.ones(3)
    means = values.mean(axis=0)
    for randomizer in (Laplace(3, 2.0), MultiBit(3, 2.0), Piecewise(3, 2.0)):
        assert (mean_variance(randomizer, means) >= randomizer.variance(values).mean(axis=0) - 1e-12).all()
    from sfumato.randomizers import Collision, SubsetSelection

    labels = SubsetSelection(3, 1.0)
    exact = labels.variance(LABELS).mean(axis=0)
    np.testing.assert_allclose(mean_variance(labels, np.bincount(LABELS, minlength=3) / COUNT), exact)
    sets = Collision(6, 2.0, 6)
    np.testing.assert_allclose(mean_variance(sets, ROWS.mean(axis=0)), sets.variance(ROWS).mean(axis=0))


def test_means_have_the_units_of_the_schema():
    columns = [{"name": "age", "min": 20.0, "max": 120.0}, {"name": "height", "min": -1.0, "max": 1.0}]
    asked = schema(features={"columns": columns, "epsilon": 200.0, "mechanism": "laplace"})
    rows = np.random.default_rng(0).random((COUNT, 2))
    age, height = estimate(closed(asked, drawn(asked, rows, None, USERS))).answers["features"]
    assert (age.name, age.kind) == ("age", "mean")
    assert age.low < 20 + 100 * rows[:, 0].mean() < age.high
    assert abs(age.estimate - (20 + 100 * rows[:, 0].mean())) < 1
    assert abs(height.estimate - (2 * rows[:, 1].mean() - 1)) < 0.02
    assert (age.high - age.low) / 100 == pytest.approx(2 * 1.96 * (2 * 0.01**2 / COUNT) ** 0.5, rel=1e-3)
    assert (age.high - age.low) / 100 == pytest.approx((height.high - height.low) / 2)


def test_links_are_counted_from_lengths_and_bits():
    made, _ = link_collection(epsilon=8.0)
    degree, total = estimate(made).answers["links"]
    truth = GRAPH.num_arcs / 150
    assert degree.low < truth < degree.high
    assert abs(degree.estimate - truth) < 0.5
    assert total.estimate == 75 * degree.estimate
    half = degree.high - degree.estimate
    asked = made.schema.links
    keep, flip = map(float, asked.randomizer.bit_law)
    of_bits = 149 * keep * flip / (keep - flip) ** 2 / 150
    assert half < 1.96 * of_bits**0.5
    some = estimate(link_collection(USERS[:75], epsilon=8.0)[0]).answers["links"][0]
    assert (some.high - some.estimate) == pytest.approx(half * 2**0.5)


def test_intervals_of_links_cover_as_often_as_they_say():
    from collect_made import links

    from sfumato.local._collection import topology

    asked = schema(links=links(epsilon=4.0))
    matrix, source, hits = topology(GRAPH), SecretWords(bytes(32)), {0.5: 0, 1.0: 0}
    truth = GRAPH.num_arcs / 150
    for _ in range(150):
        reports = asked.links.randomizer.encode(matrix, source)
        bits = np.unpackbits(reports.bits, axis=1, count=150, bitorder="little")
        rows = np.column_stack((reports.degrees, [np.delete(row, place) for place, row in enumerate(bits)]))
        one = module._links(asked.links, module._of_links(asked.links, rows) / len(rows), len(rows))[0]
        for by in hits:
            hits[by] += abs(one.estimate - truth) <= (one.high - one.estimate) * by**0.5
    assert 0.91 < hits[1.0] / 150 < 0.985
    assert hits[0.5] / 150 < 0.91


RARE = {
    "one-bit": {"features": {"names": ["x"], "epsilon": 10.0, "mechanism": "one-bit"}},
    "pgc": {"features": {"names": ["x"], "epsilon": 10.0, "mechanism": "pgc", "per_feature": True}},
}


@pytest.mark.parametrize("parts", RARE.values(), ids=RARE)
def test_a_rare_answer_that_did_not_occur_may_still_be_there(parts):
    """The variance at the estimate itself is next to nothing if no rare answer occurred, and such intervals miss."""
    asked = schema(**parts)
    (part,) = asked.parts
    values = np.full((100, 1), 0.01)
    randomizer, source, hits, old = asked.parts[part].randomizer, SecretWords(bytes(32)), 0, 0
    for _ in range(150):
        reports = randomizer.encode(values, source, np.arange(100))
        rows = [Message(str(i), {part: reports.key(i)}) for i in range(100)]
        one = estimate(SimpleNamespace(schema=asked, reports=rows, sha256=None)).answers[part][0]
        hits += one.low <= 0.01 <= one.high
        half = 1.96 * (mean_variance(randomizer, np.array([one.estimate]))[0] / 100) ** 0.5
        old += abs(one.estimate - 0.01) <= half
    assert hits / 150 > 0.88
    assert old < hits - 15


def test_intervals_of_links_reach_as_far_as_clipping_may_shift():
    """Half their width is that of a normal law, and the largest shift of the mean: that of a user without links."""
    from collect_made import links

    asked = schema(links=links(epsilon=0.2)).links
    keep, flip = map(float, asked.randomizer.bit_law)
    noise = np.arange(-6000, 6001)
    law = np.tanh(float(asked.randomizer.degree_epsilon) / 2) * np.exp(
        -float(asked.randomizer.degree_epsilon) * abs(noise)
    )
    assert law.sum() == pytest.approx(1)
    of_lengths, of_bits = (law * noise**2).sum(), 149 * keep * flip / (keep - flip) ** 2
    share = of_bits / (of_bits + of_lengths)
    shift = share * (law * np.clip(noise, -150, 300)).sum()
    for users in (40, 160):
        one = module._links(asked, module._of_links(asked, np.array([[70] + [0, 1] * 74 + [0]])), users)[0]
        half = 1.959963984540054 * (share * of_lengths / users) ** 0.5
        assert shift <= one.high - one.estimate - half <= 1.06 * shift
        assert one.estimate - one.low == pytest.approx(one.high - one.estimate)
        assert one.estimate == pytest.approx(share * 70 + (1 - share) * (74 - 149 * flip) / (keep - flip))


def test_clipped_numbers_of_links_are_covered():
    """At this epsilon noise is clipped often, which shifts the mean of small numbers far up."""
    from collect_made import links

    asked = schema(links=links(epsilon=0.05))
    source, truth, hits, shifted = SecretWords(bytes(32)), 5, 0, []
    around = np.zeros((150, 149), np.int64)
    for _ in range(60):
        rows = np.column_stack((asked.links.randomizer.encode(RING, source).degrees, around))
        keep, flip = map(float, asked.links.randomizer.bit_law)
        rows[:, 1:] = np.random.default_rng(len(shifted)).random(around.shape) < flip + (keep - flip) * truth / 149
        one = module._links(asked.links, module._of_links(asked.links, rows) / len(rows), len(rows))[0]
        hits += one.low <= truth <= one.high
        shifted.append(rows[:, 0].mean())
    assert np.mean(shifted) > truth + 10
    assert hits >= 55


def test_ends_stay_within_what_is_possible_and_the_estimate_need_not():
    asked = schema(label=label(epsilon=0.1))
    answers = estimate(closed(asked, drawn(asked, None, np.zeros(150, int), USERS))).answers["label"]
    assert all(0 <= one.low <= one.high <= 1 for one in answers)
    assert sum(one.estimate for one in answers) == pytest.approx(1)
    assert [one.name for one in answers] == CLASSES


def test_users_without_a_label_count_among_the_others_alone():
    asked = schema(features=features(), label=label())
    from sfumato.collect._wire import decode, encode

    messages = drawn(asked, GRAPH.x, GRAPH.y, USERS)
    for user in USERS[:50]:
        messages[user] = encode(asked, user, {"features": decode(asked, messages[user]).answers["features"]})
    found = estimate(closed(asked, messages))
    assert found.counts == {"features": 150, "label": 100}


def test_a_collection_without_reports_is_refused():
    with pytest.raises(DataError, match="at least one report"):
        estimate(Closed(schema(label=label()), ()))


def test_blocks_give_the_same(monkeypatch):
    made = collection(features=features(3.0, "direction"))
    whole = estimate(made).answers["features"]
    monkeypatch.setattr(module, "_BLOCK", 60)
    for one, other in zip(whole, estimate(made).answers["features"], strict=True):
        assert one.estimate == pytest.approx(other.estimate)


def test_the_command_prints_and_draws(tmp_path, capsys):
    collection(features=features(), label=label()).write(tmp_path / "closed")
    assert invoke(["collect", "estimate", str(tmp_path / "closed"), "--plot", str(tmp_path / "e.svg"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["answers"]["label"]] == CLASSES
    assert found["counts"] == {"features": 150, "label": 150}
    picture = (tmp_path / "e.svg").read_text()
    assert "Class shares of 150 users, 95 % intervals" in picture
    assert invoke(["collect", "estimate", str(tmp_path / "closed"), "--plot", str(tmp_path / "e.png")]) == 0
    told = capsys.readouterr().out
    assert "of twenty, one is expected to miss" in told
    assert (tmp_path / "e.png").read_bytes()[:4] == b"\x89PNG"
    assert invoke(["collect", "estimate", str(tmp_path / "closed"), "--plot", str(tmp_path / "e.pdf")]) == 2
    assert "ends with .svg or .png" in capsys.readouterr().err
    assert invoke(["collect", "estimate", str(tmp_path / "none")]) == 2


def test_of_many_answers_the_largest_are_drawn():
    from sfumato.report._collection import MOST, answers_figure

    made = collection(features=features(8.0, count=6), label=label())
    found = estimate(made)
    many = {"label": tuple(module.Answer(f"c{one}", "share", one / 100, 0.0, 1.0, 0.0, 1.0) for one in range(60))}
    figure = answers_figure(module.Answers("c", "0" * 64, {"label": 9}, many, 9, None))
    assert figure.description.count("(0 to 1)") == MOST
    assert "c59" in figure.svg
    assert ">c10<" not in figure.svg
    assert "the 40 largest" in figure.description
    assert "f3" in answers_figure(found).svg
