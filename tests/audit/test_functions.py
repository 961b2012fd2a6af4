"""Functions from elsewhere: sound ones stand, those that are wrong in published ways do not, whatever they return."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

import sfumato as sf
from sfumato.audit import audit_function
from sfumato.errors import InputError

ONE = sf.Budget(1.0, 0.0)
PAGE = Path(__file__).parents[2] / "docs" / "attacks.md"


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """The file of the page, whose noise is that of a fixed seed here."""
    text = PAGE.read_text().partition("```python\n# toys.py\n")[2].partition("```")[0]
    path = tmp_path_factory.mktemp("toys") / "toys.py"
    path.write_text(text.replace("default_rng()", "default_rng(0)"))
    return path


@pytest.mark.parametrize(("name", "pair", "most"), [("bare", "pair", 3.0), ("one_end", "links", 1.4)])
def test_mechanisms_that_are_wrong_in_published_ways_are_refuted(toys, name, pair, most):
    found = runpy.run_path(str(toys))
    audit = audit_function(found[name], found[pair](), ONE)
    assert audit.flagged
    assert audit.epsilon_lower_bound > most
    assert audit.method == name


@pytest.mark.parametrize(("name", "pair"), [("sparse", "pair"), ("both_ends", "links")])
def test_sound_ones_stand(toys, name, pair):
    found = runpy.run_path(str(toys))
    assert not audit_function(found[name], found[pair](), ONE).flagged


def test_any_output_is_read():
    coin = np.random.default_rng(1)

    def lists(bit):  # of another length for each bit, and with what is no number
        return [None, "x"] * (1 + (bit ^ (coin.random() < 0.02)))

    def infinite(bit):
        return np.inf if bit ^ (coin.random() < 0.02) else np.nan

    def whole(bit):
        return {"answer": bit}

    for mechanism in (lists, infinite, whole):
        assert audit_function(mechanism, (0, 1), ONE, runs=900).epsilon_lower_bound > 2
    assert audit_function(lambda _: 7, (0, 1), ONE, runs=60).epsilon_lower_bound == 0


def test_delta_pays_for_what_is_rare():
    coin = np.random.default_rng(2)

    def leaks(bit):
        return bit if coin.random() < 0.05 else -1

    assert audit_function(leaks, (0, 1), ONE, runs=3000).flagged
    assert not audit_function(leaks, (0, 1), sf.Budget(1.0, 0.1), runs=3000).flagged


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(InputError, match="runs"):
        audit_function(lambda bit: bit, (0, 1), ONE, runs=3)
    with pytest.raises(InputError, match="as many numbers"):
        audit_function(lambda size: np.zeros(size), (1, 2), ONE, runs=30)


def near(value):
    """A number with so little noise that few runs tell it from the other."""
    return value + DRAWS.laplace(scale=0.05, size=np.shape(value))


DRAWS, THREE = np.random.default_rng(3), (np.zeros(3), np.ones(3))
BUFFER = np.zeros(3)


def reused(value):
    BUFFER[:] = near(value)
    return BUFFER


@pytest.mark.parametrize(
    "mechanism",
    [
        lambda value: (near(value), 1.0),
        lambda value: {"noisy": near(value), "said": "x"},
        lambda value: ["x", [float(near(value)[0])], None],
        lambda value: 1j * near(value),
        lambda value: torch.tensor(near(value), requires_grad=True),
        lambda value: {"weights": torch.tensor(near(value)).bfloat16()},
        lambda value: pd.DataFrame({"noisy": near(value), "name": list("abc")}),
        lambda value: sp.csr_matrix(near(value)),
        lambda value: {"long": np.r_[np.zeros(600), near(value)[0], np.zeros(600)]},
        reused,
    ],
)
def test_what_hides_in_outputs_of_any_form_is_found(mechanism):
    assert audit_function(mechanism, THREE, ONE, runs=450).epsilon_lower_bound > 2


def test_sound_mechanisms_may_change_what_they_are_given():
    """Noise that adds up in the data of later runs would tell which of both they are."""

    def in_place(values):
        values += DRAWS.laplace(scale=2.0, size=values.shape)
        return values

    pair = np.zeros(1), np.ones(1)
    assert not audit_function(in_place, pair, ONE, runs=1500).flagged
    assert (pair[0].item(), pair[1].item()) == (0.0, 1.0)


@pytest.mark.parametrize("output", [object(), iter([1]), {"a": [object()]}])
def test_objects_of_which_nothing_is_known_are_refused(output):
    with pytest.raises(InputError, match="what others see"):
        audit_function(lambda _: output, (0, 1), ONE, runs=30)


def test_errors_of_the_function_are_named_without_what_they_say():
    def failing(bit):
        if bit:
            raise ValueError("a private value")
        return bit

    with pytest.raises(InputError, match=r"raised ValueError on the second one\.") as caught:
        audit_function(failing, (0, 1), ONE, runs=30)
    assert "private" not in str(caught.value)
