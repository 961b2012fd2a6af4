"""Splits over public ids."""

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.graph._splits import random_roles, split_sizes, stratified_roles


def test_sizes_add_up_to_the_whole():
    for num_nodes in range(1, 200):
        assert sum(split_sizes(num_nodes)) == num_nodes
        assert sum(split_sizes(num_nodes, (0.5, 0.25, 0.25))) == num_nodes
    assert split_sizes(7, (1 / 3, 1 / 3, 1 / 3)) == (2, 3, 2)


def test_roles_depend_on_the_seed_alone():
    assert np.array_equal(random_roles(50, seed=3), random_roles(50, seed=3))
    assert not np.array_equal(random_roles(50, seed=3), random_roles(50, seed=4))
    assert random_roles(8, seed=0).tolist() == [0, 1, 0, 0, 0, 0, 0, 2]


def test_what_fractions_leave_has_no_role():
    assert np.bincount(random_roles(10, (0.2, 0.1, 0.3), seed=0)).tolist() == [2, 1, 3, 4]


def test_every_node_is_equally_likely_to_train():
    train = np.mean([random_roles(8, (0.5, 0.25, 0.25), seed) == 0 for seed in range(2000)], axis=0)
    assert np.abs(train - 0.5).max() < 0.05


def test_roles_over_some_nodes_leave_the_others_none():
    chosen = np.arange(40) % 4 != 0
    roles = random_roles(chosen, (0.5, 0.2, 0.3), seed=3)
    assert (roles[~chosen] == 3).all()
    assert roles[chosen].tolist() == random_roles(30, (0.5, 0.2, 0.3), seed=3).tolist()


@pytest.mark.parametrize("fractions", [(0.5, 0.5), (0.9, 0.2, 0.1), (-0.1, 0.5, 0.5), (0.5, 0.5, float("nan"))])
def test_fractions_are_checked(fractions):
    with pytest.raises(InputError, match="fractions"):
        random_roles(10, fractions)


def test_counts_and_seeds_are_checked():
    with pytest.raises(InputError, match="num_nodes"):
        random_roles(0)
    with pytest.raises(InputError, match="seed"):
        random_roles(5, seed=-1)


def test_stratified_roles_keep_every_class_in_proportion():
    y = np.repeat([0, 1, -1], [40, 20, 5])
    roles = stratified_roles(y, (0.5, 0.25, 0.25), seed=1, labels="public")
    assert np.bincount(roles[y == 0], minlength=4).tolist() == [20, 10, 10, 0]
    assert np.bincount(roles[y == 1], minlength=4).tolist() == [10, 5, 5, 0]
    assert (roles[y == -1] == 3).all()
    other = stratified_roles(y, (0.5, 0.25, 0.25), seed=2, labels="public")
    assert not np.array_equal(roles, other)


def test_stratified_roles_want_public_labels():
    with pytest.raises(InputError, match=r"labels .* public.*random_roles"):
        stratified_roles([0, 1], labels="private")
    with pytest.raises(TypeError, match="labels"):
        stratified_roles([0, 1])
    with pytest.raises(InputError, match=r"Pass graph\.y"):
        stratified_roles([0.5, 1.0], labels="public")
