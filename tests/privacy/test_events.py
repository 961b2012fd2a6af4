import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import InputError
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent, event_from_dict, event_to_dict

MULTIPLIERS = st.floats(1e-300, 1e300)
EVENTS = st.one_of(
    st.builds(GaussianEvent, MULTIPLIERS, st.integers(1, 10**12)),
    st.builds(
        PoissonGaussianEvent,
        st.floats(1e-300, 1.0),
        MULTIPLIERS,
        st.integers(1, 10**12),
        st.sampled_from(["add-remove", "replace"]),
    ),
)


@given(EVENTS)
def test_round_trip_through_json(event):
    assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event


def test_the_two_kinds_are_told_apart():
    kinds = {event_to_dict(event)["type"] for event in (GaussianEvent(1.0), PoissonGaussianEvent(0.1, 1.0, 1))}
    assert kinds == {"gaussian", "poisson-gaussian"}


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
        (lambda: event_from_dict({"type": "laplace"}), "type"),
        (lambda: event_from_dict({"noise_multiplier": 1.0}), "type"),
    ],
)
def test_errors_name_the_argument(make, named):
    with pytest.raises(InputError, match=f"Expected {named} to be"):
        make()
