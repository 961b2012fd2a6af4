"""Wrong settings and values are refused with a line that teaches; randomness is new unless a key is given."""

import numpy as np
import pytest
from scipy.stats import chisquare

from sfumato import randomizers as rz
from sfumato.errors import InputError
from sfumato.noise.coins import PublicWords, SecretWords, scaled_down
from sfumato.randomizers._randomized_response import Labels


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: rz.MultiBit(0, 1.0), "num_features"),
        (lambda: rz.MultiBit(3, 0.0), "epsilon"),
        (lambda: rz.MultiBit(3, float("nan")), "epsilon"),
        (lambda: rz.MultiBit(3, 1.0, low=1.0), "high.*Drop constant columns"),
        (lambda: rz.MultiBit(3, 1.0, low=(0.0, 0.0)), "low.*hold 3"),
        (lambda: rz.MultiBit(3, 1.0, high=(1.0, float("inf"), 1.0)), "high.*finite"),
        (lambda: rz.MultiBit(3, 1.0, rule="floor"), "rule.*best, paper"),
        (lambda: rz.MultiBit(3, 1.0, sampled=4), "sampled"),
        (lambda: rz.OneBit(10**6, 1e-16), "epsilon.*grid"),
        (lambda: rz.Piecewise(3, 1.0, cells=1), "cells"),
        (lambda: rz.Gaussian(3, 1.0, delta=0.0), "delta"),
        (lambda: rz.Gaussian(3, 1.0, delta=1e-31), "delta.*sampler"),
        (lambda: rz.RandomizedResponse(1, 1.0), "num_classes"),
        (lambda: rz.Collision(5, 1.0, cap=6), "cap"),
        (lambda: rz.Collision(5, 1.0, cap=3, buckets=3), "buckets"),
        (lambda: rz.Direction(5, 1.0, norm=0.0), "norm"),
        (lambda: rz.PrivUnit(5, 1.0, norm=1.0, candidates=1), "candidates"),
        (lambda: rz.Sketch(5, rz.RandomizedResponse(3, 1.0)), "inner"),
        (lambda: SecretWords(b"short"), "key"),
    ],
)
def test_wrong_settings_are_refused(build, message):
    with pytest.raises(InputError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


def below(kind):
    return {kind}.union(*map(below, kind.__subclasses__()))


def test_labels_outside_the_classes_count_as_the_first():
    kinds = {kind for kind in below(Labels) if kind is not Labels and kind.__module__.startswith("sfumato.")}
    assert {rz.RandomizedResponse, rz.UnaryEncoding, rz.LocalHashing, rz.SubsetSelection} <= kinds
    for randomizer in (kind(3, 1.0) for kind in kinds):
        asked = {
            name: np.full(50, label) for name, label in (("first", 0), ("below", -1), ("above", 3), ("far", 2**62))
        }
        sent = {name: randomizer.encode(labels, SecretWords(bytes(32))) for name, labels in asked.items()}
        for name, reports in sent.items():
            np.testing.assert_array_equal(reports.values, sent["first"].values)
            assert randomizer.pmf(asked[name][0]) == randomizer.pmf(np.array(0))
        assert (randomizer.encode(np.full(50, 2), SecretWords(bytes(32))).values != sent["first"].values).any()
        with pytest.raises(InputError, match="integers"):
            randomizer.encode(np.array([0.5]), SecretWords())


def test_values_outside_the_range_are_clipped():
    low, high = (0.0, -1.0), (1.0, 3.0)
    inside, outside = np.array([[0.0, 3.0]]), np.array([[-np.inf, 1e300]])
    middle, missing = np.array([[0.5, 3.0]]), np.array([[np.nan, np.inf]])
    for randomizer in (
        rz.MultiBit(2, 1.0, low, high),
        rz.OneBit(2, 1.0, low, high),
        rz.Piecewise(2, 1.0, low, high, sampled=1),
    ):
        assert randomizer.pmf(inside[0]) == randomizer.pmf(outside[0])
        assert randomizer.pmf(middle[0]) == randomizer.pmf(missing[0])
    laplace = rz.Laplace(2, 1.0, low, high)
    one, two = (laplace.encode(values, SecretWords(bytes(32))).values for values in (inside, outside))
    assert (one == two).all()


def test_reports_are_new_unless_the_key_is_given():
    values = np.full((200, 5), 0.5)
    one, two = (rz.OneBit(5, 1.0).encode(values, SecretWords()).values for _ in range(2))
    assert (one != two).any()
    three, four = (rz.OneBit(5, 1.0).encode(values, SecretWords(bytes(32))).values for _ in range(2))
    assert (three == four).all()
    source = SecretWords(bytes(32))
    assert (rz.OneBit(5, 1.0).encode(values, source).values != rz.OneBit(5, 1.0).encode(values, source).values).any()


def test_subsets_are_uniform_and_distinct():
    chosen = SecretWords(bytes(32)).subsets(40000, 6, 3)
    assert (np.diff(chosen, axis=1) > 0).all()
    _, counts = np.unique(chosen @ [36, 6, 1], return_counts=True)
    assert len(counts) == 20
    assert chisquare(counts).pvalue > 1e-4
    lopsided = np.sort(np.random.default_rng(0).choice(6, (40000, 3), p=[0.2, 0.2, 0.15, 0.15, 0.15, 0.15]), axis=1)
    _, wrong = np.unique(lopsided[(np.diff(lopsided, axis=1) > 0).all(axis=1)] @ [36, 6, 1], return_counts=True)
    assert chisquare(wrong).pvalue < 1e-4


@pytest.mark.parametrize(("bound", "classes"), [(1, 1), (2, 2), (10, 10), (3 * 2**30, 3), (2**32, 4)])
def test_integers_are_uniform_below_a_bound(bound, classes):
    """3 * 2^30 without rejection would give every third value twice the chance of the others."""
    drawn = SecretWords(bytes(32)).below(bound, (30000,))
    assert 0 <= drawn.min() <= drawn.max() < bound
    assert classes == 1 or chisquare(np.bincount(drawn % classes, minlength=classes)).pvalue > 1e-4


def test_public_words_are_spread_evenly():
    words = PublicWords("c", "p").grid(np.arange(300), 201)
    assert words.shape == (300, 201)
    assert len(np.unique(words)) == words.size
    assert chisquare(np.bincount(scaled_down(words.ravel(), 7))).pvalue > 1e-4
    assert (PublicWords("c", "q").grid(np.arange(3), 4) != words[:3, :4]).all()
