"""The consistency student: neighbors outvote noise, seeds decide everything, wrong input is one line."""

import numpy as np
import pytest
import torch

from sfumato.errors import InputError
from sfumato.students._consistency import ConsistencyStudent, NetworkStudent, edge_network
from sfumato.students._histograms import edge_histograms, upright


def bars(count, seed=0):
    """Images of one vertical or one horizontal bar, somewhere, with speckles."""
    draw = np.random.default_rng(seed)
    x, y = draw.random((count, 1, 28, 28)).astype(np.float32) * 0.1, np.arange(count) % 2
    for image, label, at in zip(x[:, 0], y, draw.integers(6, 20, count), strict=True):
        (image.T if label else image)[4:24, at : at + 3] = 1
    return x, y


TINY = {"num_classes": 2, "width": 4, "steps": 60, "batch_size": 32}


def test_learns_from_noisy_labels():
    x, y = bars(160)
    noisy = y[:40].copy()
    noisy[:8] = 1 - noisy[:8]
    student = ConsistencyStudent(**TINY).fit(x[:40], noisy, x[40:])
    fresh, truth = bars(60, seed=1)
    found = student.predict(fresh)
    assert found.dtype == np.int64
    assert (found == truth).mean() > 0.9  # 0.8 of the labels are right
    assert np.allclose(student.predict_proba(fresh).sum(1), 1, atol=1e-5)


def test_seed_decides_the_student_and_leaves_the_global_generator():
    x, y = bars(40)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, second, other = (
        ConsistencyStudent(**{**TINY, "steps": 3, "seed": seed}).fit(x[:10], y[:10], x[10:]).predict_proba(x)
        for seed in (0, 0, 1)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


def test_progress_and_no_unlabeled_images():
    x, y = bars(12)
    seen = []
    ConsistencyStudent(**{**TINY, "steps": 3, "mirror": True, "slanted": True}).fit(
        x, y, x[:0], progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_edges_tell_directions_apart_and_uprightness_undoes_slant():
    x, y = bars(20)
    rows = edge_histograms(torch.from_numpy(x))
    assert torch.allclose(rows.norm(dim=1), torch.ones(20))
    cosines = (rows @ rows.T).numpy()
    same = y[:, None] == y
    assert cosines[same].mean() > cosines[~same].mean() + 0.2
    blank = torch.zeros(1, 1, 28, 28)
    assert torch.isfinite(edge_histograms(blank)).all()
    assert torch.isfinite(upright(blank)).all()


@pytest.mark.parametrize(
    ("fragment", "change"),
    [
        ("x_labeled", {"x": np.zeros((4, 784), np.float32)}),
        ("x_labeled", {"x": np.zeros((4, 1, 32, 32), np.float32), "pool": np.zeros((4, 1, 32, 32), np.float32)}),
        ("x_unlabeled", {"pool": np.zeros((4, 3, 28, 28), np.float32)}),
        ("y_noisy", {"y": np.array([0, 1, 2, 1])}),
    ],
)
def test_wrong_input_is_named(fragment, change):
    x, y = bars(8)
    given = {"x": x[:4], "y": y[:4], "pool": x[4:], **change}
    with pytest.raises(InputError, match=fragment):
        ConsistencyStudent(**TINY).fit(given["x"], given["y"], given["pool"])


@pytest.mark.parametrize("change", [{"steps": 0}, {"threshold": 1.5}, {"width": 0}, {"max_degrees": -1.0}])
def test_wrong_settings_are_named(change):
    with pytest.raises(InputError, match=next(iter(change))):
        ConsistencyStudent(**{**TINY, **change})


@pytest.mark.parametrize("shape", [(4, 784), (4, 28, 28), (4, 1, 32, 32), (28, 28), ()])
def test_images_of_another_shape_are_named(shape):
    with pytest.raises(InputError, match=r"Expected x to have the shape \[n, channels, 28, 28\], got \("):
        NetworkStudent(edge_network(4, 2)).predict_proba(np.zeros(shape, np.float32))
