"""MNIST, Fashion-MNIST and SVHN as PATE takes them: private training images and public test images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_choice
from sfumato.datasets._image_files import read_parts, read_svhn
from sfumato.datasets._origins import hinting
from sfumato.datasets.images import IDX_DATASETS, pixels

IMAGE_DATASETS = IDX_DATASETS
SVHN = "svhn"
"""Teachers of SVHN are not trained here: their official votes are stored."""


@dataclass(frozen=True, eq=False)
class Images:
    """Private training images and public test images: float32 [n, 1, 28, 28], of SVHN [n, 3, 32, 32], 0 to 1.

    Row i is image i of the published file, so that i serves as its id.
    """

    name: str
    train_x: NDArray[np.float32]
    train_y: NDArray[np.int64]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int64]
    num_classes: int = 10


def load_images(name: str, data_dir: str | Path) -> Images:
    """Read ``DATA_DIR/mnist`` or ``DATA_DIR/fashion_mnist``: 60,000 training and 10,000 test images.

    Raises:
        InputError: another name.
        DataError: a file is missing, damaged, or does not fit the others.

    >>> load_images("mnist", "nowhere")  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ...
    sfumato.errors.DataError: No file 'nowhere/mnist/train-images-idx3-ubyte.gz'.
    `sfumato datasets mnist` says where the files come from.
    """
    folder = Path(data_dir) / check_choice(IMAGE_DATASETS, name=name)
    parts: list[Any] = []
    with hinting(name, data_dir):
        for x, y in read_parts(folder):
            parts += [pixels(x), y.astype(np.int64)]
    return Images(name, *parts)


def load_svhn(data_dir: str | Path) -> Images:
    """Read ``DATA_DIR/svhn``: 73,257 training and 26,032 test images in color."""
    with hinting(SVHN, data_dir):
        x, y, roles = read_svhn(Path(data_dir) / SVHN)
    private = roles == 0
    return Images(SVHN, pixels(x[private]), y[private], pixels(x[~private]), y[~private])
