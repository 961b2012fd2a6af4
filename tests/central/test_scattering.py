"""Method scattering: what it learns, what it refuses, what leaves, and that each image's row is its own."""

import numpy as np
import pytest
import torch

import sfumato as sf
from sfumato.bounded.exact import ROW_BITS
from sfumato.central.scattering import Scattering, _Rows, coefficients, num_coefficients
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.graph import stochastic_block_model
from sfumato.graph.images import from_arrays
from sfumato.verify import verify

UNIT = sf.RecordLevel()
QUICK = {"epochs": 4, "batch_size": 100, "learning_rate": 0.02}


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


@pytest.mark.parametrize("unit", [UNIT, sf.NodeLevel(arcs="incident"), sf.NoPrivacy()], ids=lambda unit: unit.name)
def test_it_tells_orientations_apart_and_the_run_verifies(unit, tmp_path):
    graph = stripes()
    fitted = plan_of(graph, unit).fit(graph)
    assert accuracy(fitted, graph) > 0.9
    result = verify(fitted.save(tmp_path / "run"))
    assert result.problems == ()
    loaded = sf.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict_proba(graph), fitted.predict_proba(graph))


def test_one_dp_sgd_run_over_all_coefficients_is_released():
    graph = stripes()
    (release,) = plan_of(graph).releases
    assert release.shape == (81 * 3 * 3 * 2 + 2,)
    assert (release.event.sampling_prob, release.event.steps) == (100 / 300, 12)
    assert release.event.relation == "add-remove"


def test_replacing_needs_more_noise():
    graph = stripes()
    noise = [
        plan_of(graph, sf.RecordLevel(relation=relation), 0.5).releases[0].event
        for relation in ("add-remove", "replace")
    ]
    assert noise[1].relation == "replace"
    assert noise[1].noise_multiplier > 1.5 * noise[0].noise_multiplier


def test_data_that_are_no_images_and_units_without_a_proof_are_refused():
    graph = stochastic_block_model(60, 3, mean_degree=4, homophily=0.8, num_features=4, seed=0).with_split()
    with pytest.raises(InputError, match="image_shape to be the channels, height and width"):
        plan_of(graph)
    with pytest.raises(InputError, match=r"read them with sfumato\.graph\.images"):
        Scattering().check(graph)
    with pytest.raises(UnsupportedUnitError):
        plan_of(stripes(), sf.EdgeLevel(directed=False))


@pytest.mark.parametrize("setting", [{"epochs": 0}, {"learning_rate": 0.0}, {"batch_size": 0}, {"l2_clip_norm": -1.0}])
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(InputError, match=next(iter(setting))):
        Scattering(**setting)


def test_rows_of_a_batch_are_those_of_the_images_in_both_forms():
    graph = stripes(60)
    ids = np.flatnonzero(graph.train_mask)
    expected = coefficients(graph, ids[[3, 0, 3]])
    assert expected.shape == (3, num_coefficients((1, 12, 12)))
    plain = _Rows(graph, ids, None, whole=False)(ids[[3, 0, 3]])
    assert (plain - expected).abs().max() < 0.01
    whole = _Rows(graph, ids, None, whole=True)(ids[[3, 0, 3]])
    assert torch.equal(whole.matrix, whole.matrix.round())
    squares = whole.matrix.square().sum(1) + whole.ones.square()
    assert (squares <= 4**ROW_BITS).all()
    assert (whole.matrix * whole.norms[:, None] / 2**ROW_BITS - expected).abs().max() < 0.01


def test_one_image_changes_no_bit_of_the_rows_of_others():
    graph = stripes(60)
    x = graph.x.copy()
    x[7] = 0.0
    other = from_arrays(x.reshape(60, 12, 12), graph.y, classes=graph.classes, roles=graph.roles)
    ids = np.flatnonzero(graph.train_mask)
    one, two = (_Rows(data, ids, None, whole=True)(ids) for data in (graph, other))
    rest = ids != 7
    for left, right in zip((one.matrix, one.ones, one.norms), (two.matrix, two.ones, two.norms), strict=True):
        assert torch.equal(left[rest], right[rest])
    assert not torch.equal(one.matrix[~rest], two.matrix[~rest])


def test_colored_images_have_three_times_the_coefficients():
    images = np.random.default_rng(0).random((40, 3, 8, 12))
    graph = from_arrays(images, np.arange(40) % 2, classes=("a", "b"), roles=np.repeat([0, 2], 20))
    assert coefficients(graph, np.arange(5)).shape == (5, 3 * 81 * 2 * 3)
    fitted = plan_of(graph, epochs=1).fit(graph)
    assert fitted.predict_proba(graph).shape == (40, 2)
