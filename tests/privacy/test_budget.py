import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import InputError
from sfumato.privacy.budget import Budget


@given(st.floats(1e-300, 1e300), st.floats(1e-300, 0.999))
def test_holds_what_it_is_given(epsilon, delta):
    budget = Budget(epsilon, delta)
    assert (budget.epsilon, budget.delta) == (epsilon, delta)


def test_integers_become_floats():
    assert isinstance(Budget(1, 1e-7).epsilon, float)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, "1", None, True])
def test_bad_epsilon(epsilon):
    with pytest.raises(InputError, match=r"Expected epsilon .* > 0, got"):
        Budget(epsilon, 1e-7)


@pytest.mark.parametrize("delta", [1, -1e-9, 1.5, math.nan, "1e-7", False])
def test_bad_delta(delta):
    with pytest.raises(InputError, match=r"Expected delta .* >= 0 and < 1, got"):
        Budget(1.0, delta)


def test_no_delta_asks_for_pure_privacy():
    assert Budget(1.0, 0).delta == 0.0


def test_is_frozen():
    with pytest.raises(AttributeError):
        Budget(1.0, 1e-7).epsilon = 2.0
