"""SVHN: files of the published form become images, digits and roles; others are refused in one line."""

import numpy as np
import pytest
import scipy.io

from sfumato.datasets._listing import list_datasets
from sfumato.datasets._loading import load_dataset
from sfumato.datasets._svhn import read_svhn
from sfumato.datasets.images import load_images
from sfumato.errors import DataError, InputError

LABELS = {"train": [1, 10, 3, 9], "test": [10, 2]}


def write(folder, part="both", **changes):
    """Two small files; ``changes`` go into one of them."""
    rng = np.random.default_rng(0)
    pixels = {}
    for name, labels in LABELS.items():
        pixels[name] = rng.integers(0, 256, (32, 32, 3, len(labels)), dtype=np.uint8)
        content = {"X": pixels[name], "y": np.array(labels, np.uint8)[:, None]} | (changes if name == part else {})
        kept = {key: value for key, value in content.items() if value is not None}
        scipy.io.savemat(folder / f"{name}_32x32.mat", kept)
    return pixels


def test_images_digits_and_roles_come_in_the_order_of_the_files(tmp_path):
    pixels = write(tmp_path)
    images, labels, roles = read_svhn(tmp_path)
    assert (images.shape, images.dtype) == ((6, 3, 32, 32), np.uint8)
    assert labels.tolist() == [1, 0, 3, 9, 0, 2], "10 is the digit 0"
    assert roles.tolist() == [0, 0, 0, 0, 2, 2]
    for image, channel, row, column in ((0, 0, 0, 0), (1, 1, 2, 3), (3, 2, 31, 30)):
        assert images[image, channel, row, column] == pixels["train"][row, column, channel, image]
    assert images[5, 2, 4, 7] == pixels["test"][4, 7, 2, 1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"X": np.zeros((32, 32, 3, 2))}, r"X of .*test_32x32\.mat as bytes \[32, 32, 3, n\], got float64"),
        ({"X": np.zeros((28, 28, 3, 2), np.uint8)}, r"got uint8 \[28, 28, 3, 2\]"),
        ({"y": np.array([[1], [2], [3]], np.uint8)}, r"y of .*test_32x32\.mat as 2 numbers from 1 to 10"),
        ({"y": np.array([[0], [1]], np.uint8)}, "numbers from 1 to 10"),
        ({"y": np.array([[1], [11]], np.uint8)}, "numbers from 1 to 10"),
        ({"y": np.array([[1.5], [2]])}, "numbers from 1 to 10"),
        ({"X": np.zeros((32, 32, 3, 0), np.uint8), "y": np.zeros((0, 1), np.uint8)}, "to hold images, found none"),
        ({"y": None}, r"test_32x32\.mat to hold X and y"),
    ],
)
def test_another_form_is_refused(tmp_path, changes, said):
    write(tmp_path, "test", **changes)
    with pytest.raises(DataError, match=said):
        read_svhn(tmp_path)


def test_a_truncated_file_is_refused(tmp_path):
    write(tmp_path)
    path = tmp_path / "train_32x32.mat"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match=r"train_32x32\.mat.*truncated"):
        read_svhn(tmp_path)


def test_the_named_data_set_is_a_graph_of_images(tmp_path):
    (tmp_path / "svhn").mkdir()
    pixels = write(tmp_path / "svhn")
    graph = load_dataset("svhn", tmp_path, split="public")
    assert (graph.image_shape, graph.num_classes, graph.num_arcs) == ((3, 32, 32), 10, 0)
    assert (graph.train_mask.sum(), graph.test_mask.sum()) == (4, 2)
    np.testing.assert_allclose(graph.x[0].reshape(3, 32, 32)[1], pixels["train"][:, :, 1, 0] / 255, rtol=1e-6)
    with pytest.raises(InputError, match=r"svhn.* 32 x 32"):
        load_images("svhn", tmp_path, size=(28, 28))


def test_without_its_files_it_is_shown_as_absent_and_says_which_file_is_missing(tmp_path):
    (row,) = (row for row in list_datasets(tmp_path) if row.name == "svhn")
    assert row.present is False
    with pytest.raises(DataError, match=r"svhn/train_32x32\.mat, found none"):
        load_dataset("svhn", tmp_path)
