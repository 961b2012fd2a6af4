"""Images become graphs without arcs, from arrays, from folders and from the published files."""

import numpy as np
import pytest

from sfumato.datasets._loading import default_split, load_dataset
from sfumato.datasets.images import from_arrays, from_folder, load_images, pixels
from sfumato.errors import DataError, InputError
from sfumato.graph._graph import Graph

image_module = pytest.importorskip("PIL.Image")


def folder_of(root, sizes=((4, 3), (4, 3)), parts=("",), suffix="png"):
    """A folder with classes a and b, two images each, all black but for the first pixel."""
    for part in parts:
        for kind, size in zip("ab", sizes, strict=True):
            (root / part / kind).mkdir(parents=True)
            for number in (2, 10):
                picture = np.zeros(size[::-1], np.uint8)
                picture[0, 0] = 10 * number
                image_module.fromarray(picture).save(root / part / kind / f"{number}.{suffix}")
    return root


def test_arrays_keep_their_pixels():
    graph = from_arrays(np.arange(24, dtype=np.uint8).reshape(2, 3, 4), [1, 0])
    assert (graph.image_shape, graph.num_arcs, graph.num_features) == ((1, 3, 4), 0, 12)
    assert graph.x[1, 0] == pytest.approx(12 / 255)
    assert "classes" in graph.assumed_public
    assert from_arrays(np.zeros((2, 3, 4, 4)), [0, 1]).image_shape == (3, 4, 4)


@pytest.mark.parametrize(
    ("images", "labels", "fragment"),
    [
        (np.zeros((2, 3)), [0, 1], "shape"),
        (np.zeros((2, 3, 3), int), [0, 1], "int64"),
        (np.full((2, 3, 3), 1.5), [0, 1], "image 0"),
        (np.full((2, 3, 3), np.nan), [0, 1], "image 0"),
        (np.zeros((2, 3, 3)), [0], "2 images"),
        (np.zeros((0, 3, 3)), [], "shape"),
    ],
)
def test_bad_arrays_get_one_line(images, labels, fragment):
    with pytest.raises(DataError) as error:
        from_arrays(images, labels)
    assert fragment in str(error.value)
    assert "\n" not in str(error.value)


def test_subfolders_of_a_class_are_its_cells(tmp_path):
    root = folder_of(tmp_path, parts=("train", "test"))
    assert from_folder(root).cells is None
    for part in ("train", "test"):
        (root / part / "a" / "ann").mkdir()
        (root / part / "a" / "2.png").rename(root / part / "a" / "ann" / "2.png")
    graph = from_folder(root)
    names = [one.rpartition("/")[0] for one in graph.node_ids]
    assert dict(zip(names, graph.cells.tolist(), strict=True)) == {
        "train/a": 0, "train/a/ann": 1, "train/b": 2, "test/a": 0, "test/a/ann": 1, "test/b": 2,
    }  # fmt: skip
    assert graph.y.tolist() == [0, 0, 1, 1] * 2


def test_folders_are_read_in_natural_order(tmp_path):
    graph = from_folder(folder_of(tmp_path))
    assert graph.classes == ("a", "b")
    assert graph.node_ids.tolist() == ["a/2.png", "a/10.png", "b/2.png", "b/10.png"]
    assert (graph.image_shape, graph.roles) == ((1, 3, 4), None)
    assert graph.x[:, 0].tolist() == pytest.approx([20 / 255, 100 / 255, 20 / 255, 100 / 255])
    assert graph.assumed_public == ("classes", "num_features")


def test_train_and_test_folders_set_roles(tmp_path):
    graph = from_folder(folder_of(tmp_path, parts=("train", "test")))
    assert graph.train_mask.sum() == graph.test_mask.sum() == 4
    assert default_split(str(tmp_path)) == "public"
    assert load_dataset(str(tmp_path), split="public").train_mask.sum() == 4
    assert load_dataset(str(tmp_path)).roles is None


def test_sizes_have_to_agree_or_are_scaled(tmp_path):
    root = folder_of(tmp_path, sizes=((4, 3), (8, 6)))
    with pytest.raises(DataError, match="one size"):
        from_folder(root)
    assert from_folder(root, size=(6, 2)).image_shape == (1, 6, 2)


def test_damaged_images_are_named(tmp_path):
    root = folder_of(tmp_path)
    (root / "a" / "3.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"3\.png"):
        from_folder(root)


@pytest.mark.parametrize("what", ["nowhere", "flat", "empty"])
def test_folders_without_classes_are_refused(tmp_path, what):
    (tmp_path / "flat").mkdir()
    (tmp_path / "empty" / "a").mkdir(parents=True)
    with pytest.raises(DataError):
        from_folder(tmp_path / what)


def test_shape_has_to_fit_the_columns():
    with pytest.raises(DataError, match="product"):
        Graph(np.zeros(3, np.int64), np.zeros(0, np.int32), False, x=np.zeros((2, 5)), image_shape=(1, 2, 3))


def test_saved_graphs_keep_the_shape(tmp_path):
    graph = from_arrays(np.zeros((2, 3, 4), np.uint8), [0, 1])
    assert Graph.load(graph.save(tmp_path / "saved")).image_shape == (1, 3, 4)


def test_other_names_and_sizes_are_refused(tmp_path):
    with pytest.raises(InputError):
        load_images("cifar", tmp_path)
    with pytest.raises(InputError, match="28 x 28"):
        load_images("mnist", tmp_path, size=(3, 3))
    with pytest.raises(InputError, match="image_size"):
        load_dataset("campus", image_size=(3, 3))


def test_bytes_and_floats_agree():
    picture = np.arange(6, dtype=np.uint8).reshape(1, 2, 3)
    assert np.array_equal(pixels(picture), pixels(picture / np.float32(255)))


@pytest.mark.data
def test_published_files(data_dir):
    digits = load_dataset("mnist", data_dir, split="public")
    assert (digits.train_mask.sum(), digits.test_mask.sum(), digits.image_shape) == (60_000, 10_000, (1, 28, 28))
    faces = load_dataset("orl_faces", data_dir, split="public", image_size=(70, 60))
    assert (faces.num_classes, faces.train_mask.sum(), faces.image_shape) == (40, 280, (1, 70, 60))
    assert faces.assumed_public == ()


@pytest.mark.parametrize("labels", [["a", "b"], [0.5, 1.0], [None, 1]])
def test_labels_have_to_be_class_numbers(labels):
    with pytest.raises(DataError, match="class numbers from 0"):
        from_arrays(np.zeros((2, 4, 4), np.uint8), labels)


@pytest.fixture
def two_classes(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for kind in "ab":
        (tmp_path / kind).mkdir()
        image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / kind / "1.png")
    return tmp_path


def test_hidden_files_and_folders_are_skipped(two_classes):
    (two_classes / "a" / "._1.png").write_bytes(b"no image")
    (two_classes / ".git").mkdir()
    assert from_folder(two_classes).num_nodes == 2


def test_names_that_no_text_can_hold_are_refused(two_classes):
    (two_classes / "a" / "1.png").rename(two_classes / "a" / "x\n.png")
    with pytest.raises(DataError, match="printable"):
        from_folder(two_classes)


def test_images_that_claim_too_many_pixels_get_one_line(two_classes, monkeypatch):
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 4)
    with pytest.raises(DataError, match="Cannot read the image"):
        from_folder(two_classes)
