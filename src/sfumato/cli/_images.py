"""The options of methods for images, and of cells under unit subclass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from sfumato._validate import check_choice, check_int
from sfumato.catalog import words_with
from sfumato.errors import InputError
from sfumato.privacy.units import class_for

if TYPE_CHECKING:
    from sfumato.cli._options import Options

_OWN = {option: words_with(option) for option in ("network", "steps", "augment", "public_rows")}
_OF_CELLS = ("subclasses", "partition")
_PARTITIONS = ("directions", "centroids", "kmeans")
NETWORK = typer.Option(
    None, "--network", help="Methods for images: cnn (default), mlp (one hidden layer) or softmax (softmax regression)."
)
STEPS = typer.Option(None, "--steps", help="Methods for images: the number of noisy steps.")
AUGMENT = typer.Option(
    None,
    "--augment",
    help="Methods for images: how many changed copies of each training image to train on (default: 0).",
)
SUBCLASSES = typer.Option(
    None, "--subclasses", help="With --unit subclass: into how many cells each class is divided (default: 50)."
)
PARTITION = typer.Option(
    None,
    "--partition",
    help="With --unit subclass: how the cell of an image is found. directions (default): by public random directions. centroids: "
    "by centroids fitted on the images of --public-rows. kmeans: by clusters of the private images, as published; what the "
    "clusters tell is then not protected, and the certificate says so.",
)
PUBLIC_ROWS = typer.Option(
    None,
    "--public-rows",
    help="With --partition centroids: declare that the first so many training images are public. They fit the centroids, and "
    "nothing is trained on them.",
)


def check(options: Options) -> None:
    """Refuse options of images that the method or the unit does not take."""
    for name, words in _OWN.items():
        if getattr(options, name) is not None and options.method not in words:
            raise InputError(
                f"Expected {_option(name)} with one of {', '.join(words)}, got method {options.method!r}. Drop it."
            )
    for name in _OF_CELLS:
        if getattr(options, name) is not None and not class_for(options.unit).takes_cells:
            raise InputError(f"Expected {_option(name)} with --unit subclass, got unit {options.unit!r}. Drop it.")
    if options.subclasses is not None:
        check_int(low=1, subclasses=options.subclasses)
    if options.partition is not None:
        check_choice(_PARTITIONS, partition=options.partition)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
