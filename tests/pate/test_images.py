"""IDX files are read as published, and damaged ones say what is wrong."""

import gzip

import numpy as np
import pytest
from scipy.io import savemat

from sfumato.datasets._image_files import read_idx
from sfumato.errors import DataError, InputError
from sfumato.pate._images import load_images, load_svhn


def idx(array, head=None):
    """The bytes of an IDX file."""
    array = np.asarray(array, np.uint8)
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return (head or bytes([0, 0, 8, array.ndim])) + sizes + array.tobytes()


def write(folder, train=3, test=2, **changed):
    """A tiny data set of the published file names."""
    files = {}
    for prefix, count in (("train", train), ("t10k", test)):
        files[f"{prefix}-images-idx3-ubyte.gz"] = idx(np.arange(count * 784).reshape(count, 28, 28) % 256)
        files[f"{prefix}-labels-idx1-ubyte.gz"] = idx(np.arange(count) % 10)
    (folder / "mnist").mkdir()
    for name, content in {**files, **changed}.items():
        (folder / "mnist" / name).write_bytes(gzip.compress(content))


def test_four_files_become_arrays(tmp_path):
    write(tmp_path)
    images = load_images("mnist", tmp_path)
    assert (images.train_x.shape, images.test_x.shape) == ((3, 1, 28, 28), (2, 1, 28, 28))
    assert images.train_x.dtype == np.float32
    assert images.train_x[0, 0, 0, :3].tolist() == pytest.approx([0, 1 / 255, 2 / 255])
    assert images.train_x.max() == 1
    assert (images.train_y.tolist(), images.train_y.dtype) == ([0, 1, 2], np.int64)


def test_plain_files_are_read(tmp_path):
    (tmp_path / "plain").write_bytes(idx([[1, 2], [3, 4]]))
    assert read_idx(tmp_path / "plain").tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (b"", "nothing"),
        (idx([1, 2], head=bytes([0, 0, 13, 1])), "00000d01"),
        (idx([1, 2])[:-1], "2 bytes, got 1"),
        (idx([1, 2]) + b"x", "got 3"),
        (bytes([0, 0, 8, 3, 0]), "00000803"),
        (gzip.compress(idx([1, 2]), mtime=0)[:-3], "Fetch the file again"),
        (gzip.compress(idx([1, 2]), mtime=0)[:12] + b"xxxxxxxxxxxxxx", "Fetch the file again"),
    ],
    ids=["empty", "kind", "short", "long", "header", "cut", "garbled"],
)
def test_damage_is_named(tmp_path, content, fragment):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataError) as error:
        read_idx(tmp_path / "file")
    assert fragment in str(error.value)
    assert "file'" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changed", "fragment"),
    [
        ({"train-labels-idx1-ubyte.gz": idx([1, 2])}, "(2,)"),
        ({"train-images-idx3-ubyte.gz": idx(np.zeros((3, 27, 28)))}, "(3, 27, 28)"),
        ({"t10k-labels-idx1-ubyte.gz": idx([1, 10])}, "label 1, from 0, is none"),
    ],
)
def test_files_that_do_not_fit(tmp_path, changed, fragment):
    write(tmp_path, **changed)
    with pytest.raises(DataError) as error:
        load_images("mnist", tmp_path)
    assert fragment in str(error.value)


def test_unknown_name_and_missing_file(tmp_path):
    with pytest.raises(InputError, match="fashion_mnist"):
        load_images("cifar", tmp_path)
    with pytest.raises(DataError, match="train-images"):
        load_images("fashion_mnist", tmp_path)


@pytest.mark.data
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_published_files(data_dir, name):
    images = load_images(name, data_dir)
    assert (len(images.train_x), len(images.test_x)) == (60_000, 10_000)
    assert images.train_y[:3].tolist() == {"mnist": [5, 0, 4], "fashion_mnist": [9, 0, 0]}[name]
    mean = {"mnist": 0.1307, "fashion_mnist": 0.2860}[name]  # the figures that the two data sets are known by
    assert images.train_x.mean(dtype=np.float64) == pytest.approx(mean, abs=5e-5)


def test_svhn_is_private_and_public_images_in_color(tmp_path):
    (tmp_path / "svhn").mkdir()
    for name, digits in (("train", [1, 10, 3]), ("test", [9, 10])):
        x = np.zeros((32, 32, 3, len(digits)), np.uint8)
        x[5, 7, 2] = 255  # row 5, column 7, blue
        savemat(tmp_path / "svhn" / f"{name}_32x32.mat", {"X": x, "y": np.array(digits)[:, None]})
    images = load_svhn(tmp_path)
    assert (images.name, images.train_x.shape, images.test_x.shape) == ("svhn", (3, 3, 32, 32), (2, 3, 32, 32))
    assert (images.train_y.tolist(), images.test_y.tolist()) == ([1, 0, 3], [9, 0])
    assert np.argwhere(images.test_x[0]).tolist() == [[2, 5, 7]]
