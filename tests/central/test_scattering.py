"""Method scattering: what it learns, what it refuses, what leaves, and that each image's row is its own."""

import gc
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

import sfumato as sf
from sfumato.bounded._exact import ROW_BITS
from sfumato.central._scattering import _KEPT, Scattering, coefficients, num_coefficients
from sfumato.datasets.images import from_arrays
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.graph import stochastic_block_model
from sfumato.nn._scattering import group_norm, scattering
from sfumato.verify import verify

UNIT = sf.RecordLevel()
QUICK = {"epochs": 4, "batch_size": 100, "learning_rate": 0.02}
CNN = {"head": "cnn", "epochs": 6, "learning_rate": 0.01}


def stripes(num=400, seed=0, shape=(12, 12)):
    """Images of horizontal or vertical stripes at any offset: alike in every pixel's mean, unlike in orientation."""
    rng = np.random.default_rng(seed)
    y = np.arange(num) % 2
    waves = 0.5 + 0.4 * np.sin(np.arange(max(shape)) * np.pi / 2 + rng.uniform(0, 2 * np.pi, (num, 1)))
    rows, columns = waves[:, : shape[0], None], waves[:, None, : shape[1]]
    images = np.where(
        y[:, None, None] == 0, np.broadcast_to(rows, (num, *shape)), np.broadcast_to(columns, (num, *shape))
    )
    noisy = np.clip(images + rng.normal(0, 0.05, images.shape), 0, 1)
    return from_arrays(noisy, y, classes=("rows", "columns"), roles=np.where(np.arange(num) < num * 3 // 4, 0, 2))


def plan_of(graph, unit=UNIT, epsilon=8.0, **settings):
    budget = sf.Budget(epsilon, 1e-5) if unit.private else None
    return Scattering(**{**QUICK, **settings}).calibrate(budget, unit, graph.public_facts(unit))


def accuracy(fitted, graph):
    found = fitted.predict_proba(graph).argmax(1)
    return float((found == graph.y)[graph.test_mask].mean())


@pytest.mark.parametrize(
    ("unit", "settings"),
    [(UNIT, {}), (sf.NodeLevel(arcs="incident"), {}), (sf.NoPrivacy(), {}), (UNIT, CNN), (sf.NoPrivacy(), CNN)],
    ids=["record", "node", "none", "record, cnn", "none, cnn"],
)
def test_it_tells_orientations_apart_and_the_run_verifies(unit, settings, tmp_path):
    graph = stripes()
    fitted = plan_of(graph, unit, **settings).fit(graph)
    assert accuracy(fitted, graph) > 0.9
    result = verify(fitted.save(tmp_path / "run"))
    assert result.problems == ()
    loaded = sf.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict_proba(graph), fitted.predict_proba(graph))


def test_data_that_are_no_images_and_units_without_a_proof_are_refused():
    graph = stochastic_block_model(60, 3, mean_degree=4, homophily=0.8, num_features=4, seed=0).with_split()
    with pytest.raises(InputError, match="image_shape to be the channels, height and width"):
        plan_of(graph)
    with pytest.raises(InputError, match=r"read them with sfumato\.datasets\.images"):
        Scattering().check(graph)
    with pytest.raises(UnsupportedUnitError):
        plan_of(stripes(), sf.EdgeLevel(directed=False))
    dense = stripes(20)
    with pytest.raises(InputError, match="as a dense array, got a sparse one"):
        Scattering().check(replace(dense, x=csr_matrix(dense.x)))


@pytest.mark.parametrize(
    "setting", [{"head": "mlp"}, {"epochs": 0}, {"learning_rate": 0.0}, {"batch_size": 0}, {"l2_clip_norm": -1.0}]
)
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(InputError, match=next(iter(setting))):
        Scattering(**setting)


def direct(graph, ids):
    return group_norm(scattering(torch.from_numpy(graph.x[ids]).view(-1, *graph.image_shape)), 27)


def test_rows_of_a_batch_are_those_of_the_images_in_both_forms():
    graph = stripes(60)
    ids = np.array([3, 0, 50])
    found, expected = coefficients(graph), direct(graph, ids)
    assert found.plain(ids).shape == (3, num_coefficients((1, 12, 12)))
    assert (found.plain(ids) - expected).abs().max() < 0.01
    whole = found.whole(ids)
    assert (whole.integers().double().square().sum(1) <= 4**ROW_BITS).all()
    assert (whole.plain() - expected).abs().max() < 0.01


def test_one_image_changes_no_bit_of_the_rows_of_others():
    graph = stripes(60)
    x = graph.x.copy()
    x[7] = 0.0
    other = replace(graph, x=x)
    rest = torch.arange(60) != 7
    one, two = coefficients(graph), coefficients(other)
    for left, right in ((one.rows.matrix, two.rows.matrix), (one.rows.norms, two.rows.norms)):
        assert torch.equal(left[rest], right[rest])
    assert not torch.equal(one.rows.matrix[7], two.rows.matrix[7])


def test_coefficients_are_kept_while_the_pixels_are_the_same():
    graph = stripes(20)
    first = coefficients(graph)
    assert coefficients(replace(graph, roles=np.zeros(20, int))) is first
    graph.x[3] = 0.25
    changed = coefficients(graph)
    assert not torch.equal(changed.rows.matrix[3], first.rows.matrix[3])
    before = len(_KEPT)
    del graph
    gc.collect()
    assert len(_KEPT) < before


def test_progress_is_told_once():
    told = []
    graph = stripes(20, seed=5)
    for _ in range(2):
        coefficients(graph, lambda done, total: told.append((done, total)))
    assert told == [(20, 20)]


def test_colored_images_have_three_times_the_coefficients():
    images = np.random.default_rng(0).random((40, 3, 8, 12))
    graph = from_arrays(images, np.arange(40) % 2, classes=("a", "b"), roles=np.repeat([0, 2], 20))
    assert coefficients(graph).rows.plain().shape == (40, 3 * 81 * 2 * 3)
    fitted = plan_of(graph, epochs=1).fit(graph)
    assert fitted.predict_proba(graph).shape == (40, 2)
