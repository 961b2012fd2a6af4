"""Images become a graph without arcs: every image is a node, its pixels are the features, its class is the label.

So all that is made for nodes works on them: units, plans, ledgers, certificates, evaluation. Pixels are numbers from 0 to 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._optional import require
from sfumato._validate import check_choice, check_int, fail
from sfumato.datasets._image_files import CIFAR_CLASSES, center_crop, joined, read_cifar10, read_parts, read_svhn
from sfumato.errors import DataError
from sfumato.graph._checks import ROLES
from sfumato.graph._graph import Graph

IDX_DATASETS = ("mnist", "fashion_mnist")
IMAGE_DATASETS = (*IDX_DATASETS, "cifar10", "svhn", "orl_faces")
"""Image data sets with a loader. Each has a published split, or a public rule that stands for one."""
_KINDS = (".pgm", ".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".webp")
_ORL_TRAIN = 7  # images 1 to 7 of each person train, 8 to 10 test
_PARTS = ("train", "test")
_CHANNELS = {1: "L", 3: "RGB"}
_CIFAR_SIDE = 24
_SIDES = {"cifar10": _CIFAR_SIDE, "svhn": 32}
_DIGITS = tuple(str(digit) for digit in range(10))


def pixels(images: NDArray[Any]) -> NDArray[np.float32]:
    """Return images as float32 [n, channels, height, width] from 0 to 1.

    Args:
        images: bytes (0 to 255), or floats from 0 to 1, [n, height, width] or [n, channels, height, width].

    Raises:
        DataError: the array has another shape or type, or a float is not from 0 to 1.

    >>> pixels(np.array([[[0, 255]]], np.uint8)).tolist()
    [[[[0.0, 1.0]]]]
    """
    found = np.asarray(images)
    found = found[:, None] if found.ndim == 3 else found
    if found.ndim != 4 or not found.size or (found.dtype != np.uint8 and found.dtype.kind != "f"):
        raise DataError(
            "Expected images of shape [n, height, width] or [n, channels, height, width], as bytes or as floats from 0 to 1, got "
            f"shape {np.shape(images)} of {found.dtype}. Convert them."
        )
    if found.dtype == np.uint8:
        return (found / np.float32(255)).astype(np.float32, copy=False)
    outside = ~((found >= 0) & (found <= 1)).all(axis=(1, 2, 3))
    if outside.any():
        row = int(outside.argmax())
        raise DataError(f"Expected pixels from 0 to 1, but image {row} has others. Divide bytes by 255.")
    return found.astype(np.float32, copy=False)


def from_arrays(
    images: Any, labels: Any, *, classes: Sequence[str] = (), name: str = "images", roles: Any = None
) -> Graph:
    """Build a graph without arcs from arrays of images and labels.

    Args:
        images: bytes, or floats from 0 to 1, [n, height, width] or [n, channels, height, width].
        labels: class numbers from 0, [n]; -1 for a missing one.
        classes: names of the classes; without them their number is read off the labels, which the certificate says.
        name: name of the data set in messages.
        roles: 0 train, 1 val, 2 test or 3 none, [n]; None while not split.

    Raises:
        DataError: images and labels do not fit each other, or hold wrong values.

    >>> graph = from_arrays(np.zeros((3, 28, 28), np.uint8), [0, 1, 1])
    >>> graph.image_shape, graph.num_classes
    ((1, 28, 28), 2)
    """
    x, y = pixels(np.asarray(images)), np.asarray(labels)
    if y.shape != (len(x),):
        raise DataError(f"Expected one label for each of {len(x)} images, got shape {y.shape}. Give as many.")
    if y.dtype.kind not in "iu" and not (y.dtype.kind == "f" and (y == np.rint(y)).all()):
        raise DataError(f"Expected labels to be class numbers from 0, got others, of {y.dtype}. Name them by classes.")
    _, channels, height, width = x.shape
    return Graph(
        np.zeros(len(x) + 1, np.int64),
        np.zeros(0, np.int32),
        directed=False,
        x=x.reshape(len(x), -1),
        y=y.astype(np.int64),
        classes=tuple(classes),
        roles=roles,
        name=name,
        image_shape=(channels, height, width),
    )


def from_folder(
    path: str | Path, *, size: tuple[int, int] | None = None, channels: int = 1, name: str | None = None
) -> Graph:
    """Read images from a folder with one subfolder for each class; ``train/`` and ``test/`` above them set the roles.

    The names of the subfolders are the classes. Node ids are the paths of the files below the folder. What begins with a dot is
    skipped. A class may have subfolders in turn, such as one for each user: each is a declared *cell*, and so are the images that
    lie beside them.

    Args:
        path: the folder of images.
        size: height and width that every image is scaled to, which makes them public; None keeps the size, which all images
            have to share.
        channels: 1 for gray images, 3 for colored ones; files are converted.
        name: name of the data set in messages; None takes that of the folder.

    Raises:
        DataError: there is no such folder, fewer than two classes, no image, or a file that is no whole image.
        InputError: a size below 1, or another number of channels.

    >>> from_folder("nowhere")
    Traceback (most recent call last):
    ...
    sfumato.errors.DataError: Expected 'nowhere' to be a folder with one subfolder of images for each class. Correct the path.
    """
    root = Path(path)
    if channels not in _CHANNELS:
        raise fail("channels", channels, "to be 1 (gray) or 3 (colored)")
    for side in size or ():
        check_int(low=1, size=side)
    folders = _subfolders(root)
    split = {folder.name for folder in folders} == {*_PARTS}
    files: list[tuple[Path, str, str, int]] = []
    for part in folders if split else [root]:
        for folder in _subfolders(part):
            role = ROLES.index(part.name) if split else 0
            for cell, home in [("", folder), *((inner.name, inner) for inner in _subfolders(folder))]:
                images = [file for file in _sorted(home) if file.is_file() and file.suffix.lower() in _KINDS]
                files += [(file, folder.name, cell, role) for file in images]
    classes = sorted({kind for _, kind, _, _ in files}, key=_natural)
    if len(classes) < 2:
        raise DataError(
            f"Expected images of at least two classes in {str(root)!r}, one subfolder for each, got {len(classes)} with images. "
            f"Files are {', '.join(_KINDS)}."
        )
    graph = from_arrays(
        _read_all([file for file, *_ in files], size, channels),
        [classes.index(kind) for _, kind, _, _ in files],
        classes=classes,
        name=name or root.name,
        roles=[role for *_, role in files] if split else None,
    )
    ids = np.array([file.relative_to(root).as_posix() for file, *_ in files])
    names = [(kind, cell) for _, kind, cell, _ in files]
    known = {one: number for number, one in enumerate(sorted(set(names)))}
    cells = np.array([known[one] for one in names]) if any(cell for _, cell in names) else None
    return replace(
        graph, node_ids=ids, cells=cells, assumed_public=("classes",) if size else ("classes", "num_features")
    )


def load_images(name: str, data_dir: str | Path, *, size: tuple[int, int] | None = None) -> Graph:
    """Read a named image data set with its split: ``mnist``, ``fashion_mnist``, ``cifar10``, ``svhn`` or ``orl_faces``.

    CIFAR-10: the center of each image, 24 x 24, as Abadi et al. (2016) crop it. SVHN: 32 x 32, in color.
    ORL faces: 40 people, 10 images of each; images 1 to 7 train, 8 to 10 test. The others have their published split.

    Args:
        name: the name of the data set, a folder under ``data_dir``.
        data_dir: the data directory.
        size: height and width that faces are scaled to; None keeps 112 x 92.

    Raises:
        InputError: another name, or a size for images that have one.
        DataError: a file is missing, damaged, or does not fit the others.

    >>> load_images("mnist", "nowhere")
    Traceback (most recent call last):
    ...
    sfumato.errors.DataError: No file 'nowhere/mnist/train-images-idx3-ubyte.gz'.
    """
    folder = Path(data_dir) / check_choice(IMAGE_DATASETS, name=name)
    if name == "orl_faces":
        graph = from_folder(folder, size=size, name=name)
        assert graph.node_ids is not None
        number = np.array([int(Path(file).stem) for file in graph.node_ids])
        return replace(graph, roles=np.where(number <= _ORL_TRAIN, 0, 2), assumed_public=())
    if size is not None:
        side = _SIDES.get(name, 28)
        raise fail("size", size, f"to be None for {name}", f"Its images are {side} x {side}.")
    if name == "cifar10":
        images, labels, roles = read_cifar10(folder)
        return from_arrays(center_crop(images, _CIFAR_SIDE), labels, classes=CIFAR_CLASSES, name=name, roles=roles)
    if name == "svhn":
        images, labels, roles = read_svhn(folder)
        return from_arrays(images, labels, classes=_DIGITS, name=name, roles=roles)
    images, labels, roles = joined(read_parts(folder), (0, 2))
    return from_arrays(images, labels, classes=_DIGITS, name=name, roles=roles)


def _read_all(files: Sequence[Path], size: tuple[int, int] | None, channels: int) -> NDArray[np.uint8]:
    image_module = require("PIL.Image")
    found = []
    for file in files:
        if not str(file).isprintable():
            raise DataError(f"Expected names of images to be printable, got {str(file)!r}. Rename it.")
        try:
            with image_module.open(file) as image:
                image = image.convert(_CHANNELS[channels])
                if size is not None and (image.height, image.width) != size:
                    image = image.resize((size[1], size[0]), image_module.Resampling.BOX)
                found.append(
                    np.asarray(image, np.uint8).reshape(image.height, image.width, channels).transpose(2, 0, 1)
                )
        except (OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as error:
            reason = str(error).rstrip(".")
            raise DataError(f"Cannot read the image {str(file)!r}: {reason}. Replace it, or remove it.") from error
        if found[-1].shape != found[0].shape:
            sizes = [f"{part.shape[2]} x {part.shape[1]}" for part in (found[0], found[-1])]
            raise DataError(
                f"Expected images of one size, {sizes[0]} as in {str(files[0])!r}, but {str(file)!r} has {sizes[1]}. Name a size "
                "that all are scaled to, by size or --image-size."
            )
    return np.stack(found)


def _subfolders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise DataError(
            f"Expected {str(folder)!r} to be a folder with one subfolder of images for each class. Correct the path."
        )
    return [path for path in _sorted(folder) if path.is_dir()]


def _sorted(folder: Path) -> list[Path]:
    shown = (path for path in folder.iterdir() if not path.name.startswith("."))
    return sorted(shown, key=lambda path: _natural(path.name))


def _natural(name: str) -> list[tuple[int, str]]:
    """Order s2 before s10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
