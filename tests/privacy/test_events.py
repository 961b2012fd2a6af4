import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import InputError
from sfumato.privacy.events import (
    KINDS,
    ComposedEvent,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedGaussianEvent,
    ZCDPEvent,
    event_from_dict,
    flatten,
)

MULTIPLIERS = st.floats(1e-300, 1e300)
COUNTS = st.integers(1, 10**12)
PROBS = st.floats(1e-300, 1.0)
RELATIONS = st.sampled_from(["add-remove", "replace"])
SIMPLE = st.one_of(
    st.builds(GaussianEvent, MULTIPLIERS, COUNTS),
    st.builds(PoissonGaussianEvent, PROBS, MULTIPLIERS, COUNTS, RELATIONS),
    st.builds(RepeatedGaussianEvent, PROBS, COUNTS, MULTIPLIERS, COUNTS, RELATIONS),
    st.builds(LaplaceEvent, MULTIPLIERS, COUNTS),
    st.builds(RandomizedResponseEvent, MULTIPLIERS, st.integers(2, 10**9), COUNTS),
    st.builds(ExponentialEvent, MULTIPLIERS, COUNTS),
    st.builds(PureEvent, MULTIPLIERS, COUNTS),
    st.builds(ZCDPEvent, MULTIPLIERS, COUNTS),
)
ANY = st.recursive(
    SIMPLE,
    lambda inner: st.builds(ComposedEvent, st.lists(inner, max_size=3).map(tuple), st.integers(1, 9)),
    max_leaves=6,
)


@given(ANY)
def test_round_trip_through_json(event):
    assert event_from_dict(json.loads(json.dumps(event.to_dict()))) == event


def test_every_kind_is_told_apart():
    assert len({*KINDS.values()}) == len(KINDS) >= 9
    assert PureEvent(1.0).to_dict() != ExponentialEvent(1.0).to_dict()


@given(ANY)
def test_flattening_keeps_every_release(event):
    leaves = list(flatten([event]))
    assert not any(isinstance(leaf, ComposedEvent) for leaf, _ in leaves)
    assert event.repeats() == sum(times * leaf.repeats() for leaf, times in leaves)


def test_a_tree_multiplies_its_counts():
    tree = ComposedEvent((PureEvent(0.1, 2), ComposedEvent((GaussianEvent(2.0), PureEvent(0.2)), 5)), 3)
    assert list(flatten([tree])) == [(PureEvent(0.1, 2), 3), (GaussianEvent(2.0), 15), (PureEvent(0.2), 15)]
    assert tree.repeats() == 36


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: GaussianEvent(0.0), "noise_multiplier"),
        (lambda: GaussianEvent(float("nan")), "noise_multiplier"),
        (lambda: GaussianEvent(1.0, 0), "count"),
        (lambda: GaussianEvent(1.0, 1.5), "count"),
        (lambda: PoissonGaussianEvent(0.0, 1.0, 1), "sampling_prob"),
        (lambda: PoissonGaussianEvent(1.1, 1.0, 1), "sampling_prob"),
        (lambda: PoissonGaussianEvent(0.1, -1.0, 1), "noise_multiplier"),
        (lambda: PoissonGaussianEvent(0.1, 1.0, 0), "steps"),
        (lambda: PoissonGaussianEvent(0.1, 1.0, 1, "swap"), "relation"),
        (lambda: RepeatedGaussianEvent(0.1, 0, 1.0, 1), "occurrences"),
        (lambda: RepeatedGaussianEvent(0.1, 2, 1.0, 1, "swap"), "relation"),
        (lambda: LaplaceEvent(0.0), "noise_multiplier"),
        (lambda: RandomizedResponseEvent(0.0), "epsilon"),
        (lambda: RandomizedResponseEvent(1.0, 1), "num_outcomes"),
        (lambda: ExponentialEvent(-1.0), "epsilon"),
        (lambda: PureEvent(float("inf")), "epsilon"),
        (lambda: ZCDPEvent(0.0), "rho"),
        (lambda: ComposedEvent((PureEvent(1.0),), 0), "count"),
        (lambda: ComposedEvent((1.0,)), "events"),
        (lambda: event_from_dict({"type": "laplacian"}), "type"),
        (lambda: event_from_dict({"noise_multiplier": 1.0}), "type"),
    ],
)
def test_errors_name_the_argument(make, named):
    with pytest.raises(InputError, match=f"Expected {named} to (be|hold)"):
        make()
