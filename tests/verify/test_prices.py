"""The verifier's prices near their limits: what a sampler may take of delta, and where null is written."""

import pytest

from sfumato.privacy.accounting import epsilon
from sfumato.privacy.events import GaussianEvent
from sfumato.record._prices import prices
from sfumato.record.ledger import Release
from sfumato.verify._claim import price_faults

OWNED = {"name": "node", "relation": "remove", "arcs": "owned", "max_out_degree": 2}


def certificate(noise, delta, stated=None):
    release = Release("aggregate/1", GaussianEvent(noise), (4, 16), 32, arc_change=1.0)
    claim = {"epsilon": epsilon([release.event], delta / 2), "delta": delta}
    found = prices([release], claim) if stated is None else stated
    return {"format": 3, "unit": OWNED, "claim": claim, "releases": [release.to_dict()], "prices": found}


def of(noise, delta):
    """Prices without any share for the sampler."""
    return [{"arcs": k, "epsilon": epsilon([GaussianEvent(noise / (1 + k))], delta)} for k in (1, 5, 25)]


@pytest.mark.parametrize(("noise", "delta"), [(15.0, 1e-5), (30.0, 1e-15), (5.0, 1e-5)])
def test_prices_of_the_library_are_confirmed(noise, delta):
    assert list(price_faults(certificate(noise, delta))) == []


@pytest.mark.parametrize("left", [1.0, 0.73])
def test_the_sampler_takes_its_share_at_the_largest_price_of_all_entries(left):
    """Of a delta of 1e-15 it takes 8.1e-16: (1 + e^30) 2^-100 for each of 32 + 64 draws. For the record alone it were 2.7e-16."""
    found = list(price_faults(certificate(30.0, 1e-15, of(30.0, left * 1e-15))))
    assert [text.rpartition(": ")[0].endswith("too small") for text in found] == [True] * 3, found
    assert list(price_faults(certificate(30.0, 1e-15, of(30.0, 0.19 * 1e-15)))) == []


def test_null_stands_for_prices_above_30_alone():
    stated = certificate(5.8, 1e-5)["prices"]
    assert 28 < stated[2]["epsilon"] < 29.5
    found = list(price_faults(certificate(5.8, 1e-5, [*stated[:2], {"arcs": 25, "epsilon": None}])))
    assert [text[:47] for text in found] == ["certificate.json: prices[2].epsilon: is null, e"], found
