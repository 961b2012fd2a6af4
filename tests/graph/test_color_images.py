"""CIFAR-10 and SVHN: files of the published form become images, labels and roles; others are refused in one line."""

import os
import pickle

import numpy as np
import pytest
import scipy.io

from sfumato.datasets._image_files import center_crop, read_cifar10, read_svhn
from sfumato.datasets._listing import list_datasets
from sfumato.datasets._loading import load_dataset
from sfumato.datasets.images import load_images
from sfumato.errors import DataError, InputError

ROWS = 4
NAMES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
DIGITS = {"train": [1, 10, 3, 9], "test": [10, 2]}


def write_cifar10(folder, **changes):
    """Six small files, with red, green and blue planes of a known order; ``changes`` go into the third one."""
    rng = np.random.default_rng(0)
    written = []
    for number, name in enumerate(NAMES):
        pixels = rng.integers(0, 256, (ROWS, 3072), dtype=np.uint8)
        content = {"data": pixels, "labels": [(number + row) % 10 for row in range(ROWS)], "batch_label": name}
        written.append(pixels)
        (folder / name).write_bytes(pickle.dumps(content | (changes if number == 2 else {}), protocol=2))
    return np.concatenate(written).reshape(-1, 3, 32, 32)


def write_svhn(folder, part="test", **changes):
    """Two small files; ``changes`` go into one of them."""
    rng = np.random.default_rng(0)
    written = []
    for name, labels in DIGITS.items():
        pixels = rng.integers(0, 256, (32, 32, 3, len(labels)), dtype=np.uint8)
        content = {"X": pixels, "y": np.array(labels, np.uint8)[:, None]} | (changes if name == part else {})
        written.append(pixels.transpose(3, 2, 0, 1))
        kept = {key: value for key, value in content.items() if value is not None}
        scipy.io.savemat(folder / f"{name}_32x32.mat", kept)
    return np.concatenate(written)


FORMS = {
    "cifar10": (write_cifar10, read_cifar10, [0] * 20 + [2] * 4, [0, 1, 2, 3, 1], slice(4, 28)),
    "svhn": (write_svhn, read_svhn, [0] * 4 + [2] * 2, [1, 0, 3, 9, 0], slice(None)),
}
"""How files are written and read, roles, the first labels (10 is the digit 0), and what of height and width is kept."""


@pytest.mark.parametrize("name", FORMS)
def test_images_labels_and_roles_come_in_the_order_of_the_files(tmp_path, name):
    write, read, expected, first, kept = FORMS[name]
    (tmp_path / name).mkdir()
    pixels = write(tmp_path / name)
    images, labels, roles = read(tmp_path / name)
    assert images.dtype == np.uint8
    np.testing.assert_array_equal(images, pixels)
    assert (labels[:5].tolist(), roles.tolist()) == (first, expected)
    graph = load_dataset(name, tmp_path, split="public")
    side = len(range(32)[kept])
    assert graph.image_shape == (3, side, side)
    np.testing.assert_allclose(graph.x, pixels[:, :, kept, kept].reshape(len(pixels), -1) / 255, rtol=1e-6)
    assert (graph.num_classes, graph.y[:5].tolist(), graph.num_arcs) == (10, first, 0)
    assert (graph.train_mask.sum(), graph.test_mask.sum()) == (expected.count(0), expected.count(2))
    assert name == "svhn" or graph.classes[3] == "cat"
    with pytest.raises(InputError, match=rf"{name}.* {side} x {side}"):
        load_images(name, tmp_path, size=(28, 28))


@pytest.mark.parametrize(("name", "missing"), [("cifar10", "data_batch_1"), ("svhn", r"train_32x32\.mat")])
def test_without_its_files_it_is_shown_as_absent_and_says_which_file_is_missing(tmp_path, name, missing):
    (row,) = (row for row in list_datasets(tmp_path) if row.name == name)
    assert row.present is False
    with pytest.raises(DataError, match=rf"{name}/{missing}, found none"):
        load_dataset(name, tmp_path)


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        (
            "cifar10",
            {"data": np.zeros((ROWS, 3072), np.int64)},
            r"'data' of .*data_batch_3 as bytes \[n, 3072\], got int64",
        ),
        ("cifar10", {"data": np.zeros((ROWS, 100), np.uint8)}, r"got uint8 \[4, 100\]"),
        ("cifar10", {"labels": [0, 1]}, "'labels' of .*data_batch_3 as 4 numbers from 0 to 9"),
        ("cifar10", {"labels": [0, 1, 2, 10]}, "from 0 to 9"),
        ("cifar10", {"labels": [0, 1, 2, -1]}, "from 0 to 9"),
        ("cifar10", {"labels": ["a", "b", "c", "d"]}, "from 0 to 9"),
        ("svhn", {"X": np.zeros((32, 32, 3, 2))}, r"X of .*test_32x32\.mat as bytes \[32, 32, 3, n\], got float64"),
        ("svhn", {"X": np.zeros((28, 28, 3, 2), np.uint8)}, r"got uint8 \[28, 28, 3, 2\]"),
        ("svhn", {"y": np.array([[1], [2], [3]], np.uint8)}, r"y of .*test_32x32\.mat as 2 numbers from 1 to 10"),
        ("svhn", {"y": np.array([[0], [1]], np.uint8)}, "numbers from 1 to 10"),
        ("svhn", {"y": np.array([[1], [11]], np.uint8)}, "numbers from 1 to 10"),
        ("svhn", {"y": np.array([[1.5], [2]])}, "numbers from 1 to 10"),
        (
            "svhn",
            {"X": np.zeros((32, 32, 3, 0), np.uint8), "y": np.zeros((0, 1), np.uint8)},
            "to hold images, found none",
        ),
        ("svhn", {"y": None}, r"test_32x32\.mat to hold X and y"),
    ],
)
def test_another_form_is_refused(tmp_path, name, changes, said):
    write, read, *_ = FORMS[name]
    write(tmp_path, **changes)
    with pytest.raises(DataError, match=said):
        read(tmp_path)


def test_text_of_python_2_is_read(tmp_path):
    write_cifar10(tmp_path)
    expected = read_cifar10(tmp_path)
    path = tmp_path / "test_batch"
    stream = path.read_bytes().replace(b"X\x04\x00\x00\x00data", b"U\x04data")
    assert b"U\x04data" in stream
    path.write_bytes(stream.replace(b"X\x06\x00\x00\x00labels", b"U\x06labels"))
    for found, same in zip(read_cifar10(tmp_path), expected, strict=True):
        np.testing.assert_array_equal(found, same)


def test_a_batch_without_labels_and_a_truncated_file_are_refused(tmp_path):
    write_cifar10(tmp_path)
    (tmp_path / "data_batch_4").write_bytes(pickle.dumps({"data": np.zeros((1, 3072), np.uint8)}, protocol=2))
    with pytest.raises(DataError, match="'data' and 'labels'"):
        read_cifar10(tmp_path)
    write_svhn(tmp_path)
    path = tmp_path / "train_32x32.mat"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match=r"train_32x32\.mat.*truncated"):
        read_svhn(tmp_path)


class _Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_a_malicious_batch_runs_nothing(tmp_path):
    write_cifar10(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(_Touch(tmp_path / "owned"), protocol=2))
    with pytest.raises(DataError, match="nothing was run"):
        read_cifar10(tmp_path)
    assert not (tmp_path / "owned").exists()


def test_the_crop_is_the_center():
    images = np.arange(2 * 3 * 32 * 32).reshape(2, 3, 32, 32)
    np.testing.assert_array_equal(center_crop(images, 24), images[:, :, 4:28, 4:28])
    with pytest.raises(InputError, match="side"):
        center_crop(images, 33)


@pytest.mark.data
def test_the_published_files_have_50000_and_10000_images(data_dir):
    folder = data_dir / "cifar10"
    if not (folder / "test_batch").exists():
        pytest.skip(f"No CIFAR-10 in {folder}: the six files of the version for Python are not part of the test data.")
    _, labels, roles = read_cifar10(folder)
    assert np.bincount(roles).tolist() == [50_000, 0, 10_000]
    assert np.bincount(labels).tolist() == [6000] * 10
