"""The price of arcs that other nodes own: closed forms, what has none, and what the certificate says of it."""

import math

import pytest

from sfumato.privacy import accounting
from sfumato.privacy.events import (
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
)
from sfumato.record._certificate import price_words
from sfumato.record._prices import ARCS, MOST, prices
from sfumato.record.ledger import Release

DELTA = 1e-5
SGD = PoissonGaussianEvent(0.1, 4.0, 100)


def hop(noise=20.0, change=1.0, shape=(100, 6)):
    return Release("aggregate/1", GaussianEvent(noise), shape, 600, arc_change=change)


def head(event=SGD, change=0.0):
    return Release("head", event, (70,), 70, arc_change=change)


def claim_of(*releases):
    return {"epsilon": accounting.epsilon([release.event for release in releases], DELTA), "delta": DELTA}


def test_a_gaussian_release_costs_what_less_noise_would():
    for k, price in zip(ARCS, prices([hop()], claim_of(hop())), strict=True):
        assert price["arcs"] == k
        assert price["epsilon"] == pytest.approx(accounting.epsilon([GaussianEvent(20 / (1 + k))], DELTA), rel=1e-6)


def test_a_release_that_reads_no_arcs_costs_what_it_cost():
    claim = claim_of(head())
    assert prices([head()], claim) == [{"arcs": k, "epsilon": claim["epsilon"]} for k in ARCS]
    both = prices([hop(), head()], claim_of(hop(), head()))
    for k, price in zip(ARCS, both, strict=True):
        assert price["epsilon"] == pytest.approx(
            accounting.epsilon([GaussianEvent(20 / (1 + k)), SGD], DELTA), rel=1e-3
        )


def test_more_arcs_cost_more_and_one_above_the_largest_price_is_null():
    found = [price["epsilon"] for price in prices([hop(4.0)], claim_of(hop(4.0)))]
    assert claim_of(hop(4.0))["epsilon"] < found[0] < found[1] <= MOST
    assert found[2] is None


def test_the_sampler_takes_its_share_at_the_largest_price():
    wide = hop(shape=(10**12, 10**6))
    assert [price["epsilon"] for price in prices([wide], claim_of(wide))] == [None, None, None]
    assert (1 + math.exp(MOST)) * 2.0**-100 * 1e6 < DELTA / 1000


SELECTION = SelectionEvent(((GaussianEvent(5.0),), (GaussianEvent(7.0),)), "logarithmic", 10)


@pytest.mark.parametrize(
    "release",
    [
        hop(change=None),
        head(change=None),
        *(head(event, 1.0) for event in (SGD, LaplaceEvent(2.0), ExponentialEvent(0.1), ZCDPEvent(0.1), SELECTION)),
        head(SELECTION, None),
        hop(shape=(None, 3)),
    ],
    ids=str,
)
def test_no_price_is_stated_without_a_proof(release):
    assert prices([hop(), release], {"epsilon": 1.0, "delta": DELTA}) is None


def test_without_privacy_there_is_no_price():
    assert prices([hop()], {"epsilon": None, "delta": None}) is None


def test_the_certificate_says_so_where_no_price_is_known():
    values = {"unit": {"name": "node", "arcs": "owned"}, "claim": {"epsilon": 1.0, "delta": DELTA}}
    assert price_words(values) == ["With arcs that others own and that point at it: no epsilon is known."]
    assert price_words({**values, "unit": {"name": "node", "arcs": "incident"}}) == []
    assert price_words({**values, "claim": {"epsilon": None, "delta": None}}) == []
    assert price_words({**values, "unit": {"name": "edge", "directed": False}}) == []


def test_a_release_keeps_its_change_in_files():
    for release in (hop(), hop(change=None), head()):
        assert Release.from_dict(release.to_dict()) == release
    assert "arc_change" not in hop(change=None).to_dict()
