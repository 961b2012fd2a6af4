"""CIFAR-10: files of the published form become images, labels and roles; others are refused in one line."""

import os
import pickle

import numpy as np
import pytest

from sfumato.datasets._cifar import center_crop, read_cifar10
from sfumato.datasets._listing import list_datasets
from sfumato.datasets._loading import load_dataset
from sfumato.datasets.images import load_images
from sfumato.errors import DataError, InputError

ROWS = 4
NAMES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


def write(folder, keys=str, **changes):
    """Six small files, with red, green and blue planes of a known order; ``changes`` go into the third one."""
    rng = np.random.default_rng(0)
    written = []
    for number, name in enumerate(NAMES):
        pixels = rng.integers(0, 256, (ROWS, 3072), dtype=np.uint8)
        content = {"data": pixels, "labels": [(number + row) % 10 for row in range(ROWS)], "batch_label": name}
        written.append(pixels)
        content.update(changes if number == 2 else {})
        (folder / name).write_bytes(pickle.dumps({keys(key): value for key, value in content.items()}, protocol=2))
    return np.concatenate(written)


def test_images_labels_and_roles_come_in_the_order_of_the_files(tmp_path):
    pixels = write(tmp_path)
    images, labels, roles = read_cifar10(tmp_path)
    assert images.shape == (24, 3, 32, 32)
    assert images.dtype == np.uint8
    assert labels[:5].tolist() == [0, 1, 2, 3, 1]
    assert roles.tolist() == [0] * 20 + [2] * 4
    for channel, row, column in ((0, 0, 0), (1, 2, 3), (2, 31, 31)):
        np.testing.assert_array_equal(images[:, channel, row, column], pixels[:, 1024 * channel + 32 * row + column])


def test_text_of_python_2_is_read(tmp_path):
    write(tmp_path)
    expected = read_cifar10(tmp_path)
    path = tmp_path / "test_batch"
    content = pickle.loads(path.read_bytes())
    stream = pickle.dumps(content, protocol=2).replace(b"X\x04\x00\x00\x00data", b"U\x04data")
    assert b"U\x04data" in stream
    path.write_bytes(stream.replace(b"X\x06\x00\x00\x00labels", b"U\x06labels"))
    for found, same in zip(read_cifar10(tmp_path), expected, strict=True):
        np.testing.assert_array_equal(found, same)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": np.zeros((ROWS, 3072), np.int64)}, r"'data' of .*data_batch_3 as bytes \[n, 3072\], got int64"),
        ({"data": np.zeros((ROWS, 100), np.uint8)}, r"got uint8 \[4, 100\]"),
        ({"labels": [0, 1]}, "'labels' of .*data_batch_3 as 4 numbers from 0 to 9"),
        ({"labels": [0, 1, 2, 10]}, "from 0 to 9"),
        ({"labels": [0, 1, 2, -1]}, "from 0 to 9"),
        ({"labels": ["a", "b", "c", "d"]}, "from 0 to 9"),
    ],
)
def test_another_form_is_refused(tmp_path, changes, said):
    write(tmp_path, **changes)
    with pytest.raises(DataError, match=said):
        read_cifar10(tmp_path)


def test_a_batch_without_labels_and_a_missing_file_are_refused(tmp_path):
    write(tmp_path)
    (tmp_path / "data_batch_4").write_bytes(pickle.dumps({"data": np.zeros((1, 3072), np.uint8)}, protocol=2))
    with pytest.raises(DataError, match="'data' and 'labels'"):
        read_cifar10(tmp_path)
    (tmp_path / "data_batch_4").unlink()
    with pytest.raises(DataError, match="data_batch_4, found none"):
        read_cifar10(tmp_path)


class _Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_a_malicious_batch_runs_nothing(tmp_path):
    write(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(_Touch(tmp_path / "owned"), protocol=2))
    with pytest.raises(DataError, match="nothing was run"):
        read_cifar10(tmp_path)
    assert not (tmp_path / "owned").exists()


def test_the_crop_is_the_center():
    images = np.arange(2 * 3 * 32 * 32).reshape(2, 3, 32, 32)
    crop = center_crop(images, 24)
    assert crop.shape == (2, 3, 24, 24)
    assert crop[0, 0, 0, 0] == images[0, 0, 4, 4]
    assert crop[1, 2, -1, -1] == images[1, 2, 27, 27]
    with pytest.raises(InputError, match="side"):
        center_crop(images, 33)


def test_the_named_data_set_is_the_centers_as_a_graph_of_images(tmp_path):
    (tmp_path / "cifar10").mkdir()
    bytes_read = write(tmp_path / "cifar10").reshape(-1, 3, 32, 32)
    graph = load_dataset("cifar10", tmp_path, split="public")
    assert graph.image_shape == (3, 24, 24)
    np.testing.assert_allclose(graph.x, bytes_read[:, :, 4:28, 4:28].reshape(24, -1) / 255, rtol=1e-6)
    assert (graph.num_classes, graph.classes[3]) == (10, "cat")
    assert graph.y[:5].tolist() == [0, 1, 2, 3, 1]
    assert (graph.train_mask.sum(), graph.test_mask.sum(), graph.num_arcs) == (20, 4, 0)
    with pytest.raises(InputError, match=r"cifar10.* 24 x 24"):
        load_images("cifar10", tmp_path, size=(32, 32))


def test_without_its_files_it_is_shown_as_absent_and_says_which_file_is_missing(tmp_path):
    (row,) = (row for row in list_datasets(tmp_path) if row.name == "cifar10")
    assert row.present is False
    with pytest.raises(DataError, match=r"cifar10/data_batch_1, found none"):
        load_dataset("cifar10", tmp_path)


@pytest.mark.data
def test_the_published_files_have_50000_and_10000_images(data_dir):
    folder = data_dir / "cifar10"
    if not (folder / "test_batch").exists():
        pytest.skip(f"No CIFAR-10 in {folder}: the six files of the version for Python are not part of the test data.")
    _, labels, roles = read_cifar10(folder)
    assert np.bincount(roles).tolist() == [50_000, 0, 10_000]
    assert np.bincount(labels).tolist() == [6000] * 10
