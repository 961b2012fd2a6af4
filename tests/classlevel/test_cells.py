"""The public values that decide cells have a digest, and data without features are refused."""

from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.classlevel._cells import cells_key, cells_of, check_partition
from sfumato.errors import DataError, InputError

Y = np.arange(60) % 3
GRAPH = sf.images.from_arrays(
    np.random.default_rng(0).random((60, 4, 4), np.float32), Y, roles=np.where(np.arange(60) < 45, 0, 2)
)
DIRECTIONS, CENTROIDS = sf.SubclassLevel(2, "directions"), sf.SubclassLevel(2, "centroids")
DECLARED = sf.SubclassLevel(6, "declared")


def test_the_digest_follows_what_decides_cells_and_nothing_else():
    roles = replace(GRAPH, roles=np.roll(GRAPH.roles, 1))
    values = replace(GRAPH, x=GRAPH.x[::-1].copy(), y=np.roll(Y, 1))
    users = [replace(GRAPH, cells=np.roll(np.arange(60) % 6, turn)) for turn in (0, 1)]
    plain = replace(GRAPH, image_shape=None)

    def of(unit, graph, *more, **settings):
        return cells_key(unit, graph, *more, **settings)

    assert of(sf.ClassLevel(), GRAPH) == of(sf.RecordLevel(), GRAPH) == ""
    assert of(DIRECTIONS, GRAPH) == of(DIRECTIONS, values) == of(DIRECTIONS, roles) != of(DIRECTIONS, plain)
    assert of(CENTROIDS, GRAPH, 20) == of(CENTROIDS, values, 20)
    assert len({of(CENTROIDS, GRAPH, 20), of(CENTROIDS, GRAPH, 21), of(CENTROIDS, roles, 20)}) == 3
    assert of(DECLARED, users[0]) == of(DECLARED, replace(users[0], roles=roles.roles, x=values.x, y=values.y))
    assert len({of(DECLARED, users[0]), of(DECLARED, users[1]), of(DECLARED, GRAPH)}) == 3
    assert of(DECLARED, GRAPH, kmeans=True) == of(DECLARED, values, kmeans=True) != of(DECLARED, roles, kmeans=True)
    assert len(of(DECLARED, GRAPH)) == len(of(DIRECTIONS, GRAPH)) == 64


def test_records_that_do_not_train_or_have_no_class_are_in_no_cell():
    y = np.where(np.arange(60) == 4, -1, Y)
    users = replace(GRAPH, y=y, cells=np.arange(60) % 6)
    trains = (np.arange(60) < 45) & (y >= 0)
    for unit, more in ((sf.ClassLevel(), {}), (DIRECTIONS, {}), (DECLARED, {}), (DECLARED, {"kmeans": True})):
        assert np.array_equal(cells_of(unit, users, **more)[0] >= 0, trains)
    shown, _ = cells_of(CENTROIDS, users, 20)
    assert np.array_equal(shown >= 0, trains & (np.arange(60) >= 20))


def test_cells_beyond_those_of_the_unit_are_refused():
    assert cells_of(DECLARED, replace(GRAPH, cells=np.arange(60) % 6))[0].max() == 5
    with pytest.raises(DataError, match="numbers below 6"):
        cells_of(DECLARED, replace(GRAPH, cells=np.arange(60) % 7))


@pytest.mark.parametrize(
    ("unit", "rows", "kmeans", "said"),
    [
        (CENTROIDS, 0, False, "to be above 0 for centroids"),
        (DIRECTIONS, 1, False, "to be 0 without centroids"),
        (DIRECTIONS, 0, True, "to be False unless cells are declared"),
        (CENTROIDS, 1, True, "to be False unless cells are declared"),
    ],
)
def test_settings_fit_the_partition(unit, rows, kmeans, said):
    with pytest.raises(InputError, match=said):
        check_partition(unit, rows, kmeans)
    check_partition(CENTROIDS, 1, False)
    check_partition(DECLARED, 0, True)


@pytest.mark.parametrize(
    ("method", "unit"),
    [(sf.CNN(steps=1, network="softmax"), sf.RecordLevel()), (sf.ClassDP(steps=1, network="softmax"), sf.ClassLevel())],
)
def test_data_without_features_are_refused(method, unit):
    bare = sf.graph.Graph.from_edges([], [], 60, directed=False, y=Y, roles=GRAPH.roles)
    plan = method.calibrate(sf.Budget(8.0, 1e-3), unit, GRAPH.public_facts(unit, assume_public=True))
    with pytest.raises(InputError, match="Expected images or other features"):
        method.check(bare)
    with pytest.raises((InputError, DataError)):
        plan.fit(bare)
