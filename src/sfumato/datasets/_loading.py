"""Named benchmark graphs are read from the original public files under a data directory."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sfumato._validate import check_choice, check_int, fail, nearest
from sfumato.datasets import _text_parsers
from sfumato.datasets._facebook import facebook100
from sfumato.datasets._listing import EVERY_SCHOOL, GENERATED, KNOWN, card_of
from sfumato.datasets._origins import hint, hinting
from sfumato.datasets._parsers import require_nodes
from sfumato.datasets.images import IMAGE_DATASETS, from_folder, load_images
from sfumato.errors import DataError, InputError
from sfumato.graph._subgraph import induced
from sfumato.graph._synthetic import campus, interests
from sfumato.text._encoders import with_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.graph._graph import Graph
    from sfumato.text._documents import Documents, Report

_SMALL_SCHOOLS = ("Caltech36", "Haverford76", "Reed98", "Simmons81")
_DRAWN_SPLIT = "75/10/15"
_NAMES = tuple(row.name for row in KNOWN)


def load_dataset(
    name: str,
    data_dir: str | Path | None = None,
    *,
    min_class_size: int | None = None,
    split: str | None = None,
    text_features: str | None = None,
    image_size: tuple[int, int] | None = None,
    report: Report | None = None,
) -> Graph:
    """Load a named graph; ``"campus"``, the embedded default, and ``"interests"`` need no files.

    A name is a path under ``data_dir``: ``facebook100/Berkeley13`` or any other school, ``planetoid/cora``,
    ``planetoid/citeseer``, ``planetoid/pubmed``, ``npz/cora_ml`` or any npz file of that kind, ``musae/facebook``,
    ``musae/twitch_ENGB``, ``musae/wiki_chameleon``, ``lastfm_asia``, ``directed/polblogs``,
    ``directed/email-Eu-core``, ``text/citeseer_text``, ``text/cora_cane``, ``text/pokec``, ``text/reddit``, ``elliptic``,
    ``flickr``, ``reddit``, ``amazon``.

    * facebook100: the target is the class year. Students without a year and years of fewer than ``min_class_size``
      members (default 1000; 0 for Caltech36, Haverford76, Reed98, Simmons81) are dropped. Features are one-hot status,
      gender, major, minor and dorm, one column for each code in the file before anyone is dropped, none for "missing".
      Isolated nodes stay. ``facebook100/all`` is the disjoint union of every school in the folder: the class years 2004 to
      2009 (or those of at least ``min_class_size`` members), and status, gender and major, whose codes all schools share.
    * Planetoid: Citeseer's 15 test papers without content keep a row of zeros and a missing label. Without the file
      ``allx`` (PubMed) the graph and labels load, ``x`` is None and a warning says so. ``split="public"`` sets the
      published roles.
    * MUSAE: the traffic of ``wiki_chameleon`` is binned into five classes at its quintiles; Twitch predicts ``mature``.
    * LastFM: 7,842 columns, one for each artist, if ``lastfm_asia_features.json`` is there; otherwise no features.
    * ``elliptic``: transactions without a label keep a missing one. ``flickr``: ``split="public"`` sets the published roles.
      ``reddit`` and ``amazon``: classes of at least 10,000 and 100,000 nodes, unless ``min_class_size`` is given.
    * ``directed/``: declared directed, self-loops kept. Everywhere else edges are undirected and self-loops are
      removed (``graph.merged`` counts them).
    * ``text/``: the features are what ``text_features`` makes of the documents; without it there are none. A blank label is
      missing. Pokec: users who name only cats or only dogs as pets (which is the target), the 10,000 most complete profiles
      of each; texts are 49 columns. Reddit: a tenth of the posts, drawn by a public seed, with the published vectors as
      features; ``split="public"`` sets the published roles.
    * ``mnist``, ``fashion_mnist``, ``cifar10``, ``svhn``, ``orl_faces``, and any folder of images (its path is the name): graphs
      without arcs (:mod:`sfumato.datasets.images`). ``split="public"`` sets their roles.

    Elsewhere ``min_class_size`` (default 0) drops the nodes of smaller classes and keeps nodes without a label.

    The preparation of a benchmark reads the data, and its results (classes, feature columns, binning, this filter) are
    declared public: they are outside any privacy claim, and ``assumed_public`` is empty. A vocabulary that ``text_features``
    reads off the documents is listed there.

    Args:
        name: the name of the data set.
        data_dir: the data directory; not needed for ``campus`` and ``interests``.
        min_class_size: smaller classes are dropped; None takes the default of the data set.
        split: "public" for the published roles; None sets no roles.
        text_features: names the encoder of the documents, such as ``hashing`` (see :mod:`sfumato.text._encoders`).
        image_size: height and width that images of a folder or of ``orl_faces`` are scaled to.
        report: is told how far documents are encoded.

    Raises:
        DataError: a file is missing, damaged, or holds a refused pickle.
        InputError: the name is unknown, or an argument does not fit it.

    >>> load_dataset("campus").num_classes
    6
    """
    family, _, item = str(name).partition("/")
    if min_class_size is not None:
        check_int(low=0, min_class_size=min_class_size)
    if split is not None:
        check_choice(("public",), "Leave it out and call graph.with_split() for a random split.", split=split)
    if name in IMAGE_DATASETS or _is_folder(name):
        return _images(name, data_dir, min_class_size, split, image_size)
    if image_size is not None:
        raise fail("image_size", image_size, f"to be None for {name}", "It holds no images of files.")
    card, _ = card_of(name)
    if split is not None and not (card and {item, ""} & {*card.split}):
        remedy = "Only planetoid/, text/reddit, flickr and images have one: use with_split()."
        raise fail("split", split, f"to be None for {name}", remedy)
    if text_features is not None and family != "text":
        raise fail(
            "text_features", text_features, f"to be None for {name}", "Only the data sets under text/ have documents."
        )
    if name in GENERATED:
        return _of_large_classes(campus() if name == "campus" else interests(), min_class_size or 0)[0]
    folder = _folder(name, family, item, data_dir)
    try:
        least = default_min_class_size(name) if min_class_size is None else min_class_size
        if family == "facebook100":
            graph = facebook100(folder, item, None if item == EVERY_SCHOOL and min_class_size is None else least)
        elif family == "text":
            graph, documents = _text_parsers.text(folder, item)
            graph, rows = _of_large_classes(graph, least)
            if text_features is not None:
                graph = with_texts(graph, _documents(name, documents).of(rows), text_features, report)
        else:
            assert card is not None  # _folder refuses other names
            module, _, reader = card.reader.partition(":")
            read = getattr(import_module(f"sfumato.datasets.{module}"), reader)
            graph = _of_large_classes(read(folder, item), least)[0]
    except DataError as error:
        told = hint(name, folder.parent) if name in _NAMES else nearest(name, _NAMES)
        raise DataError(f"Cannot load {name}: {error} {told}".rstrip()) from error
    return replace(graph, name=name, roles=graph.roles if split else None)


def default_split(name: str) -> str:
    """Return the split of a named data set that the command line takes unless told: images have one of their own."""
    split_there = _is_folder(name) and Path(name, "train").is_dir()
    return "public" if name in IMAGE_DATASETS or split_there else _DRAWN_SPLIT


def default_min_class_size(name: str) -> int:
    """Return how many nodes a class of a named data set has at least, unless told; nodes of smaller classes are left out."""
    card, item = card_of(name)
    return 0 if card is None or item in (EVERY_SCHOOL, *_SMALL_SCHOOLS) else card.min_class_size


def _is_folder(name: str) -> bool:
    """Whether a name is the path of a folder; known names are no paths."""
    return name not in _NAMES and Path(name).is_dir()


def _images(
    name: str,
    data_dir: str | Path | None,
    min_class_size: int | None,
    split: str | None,
    size: tuple[int, int] | None,
) -> Graph:
    if min_class_size:
        raise fail(
            "min_class_size", min_class_size, f"to be None for {name}", "Remove folders of small classes instead."
        )
    if name not in IMAGE_DATASETS:
        graph = from_folder(name, size=size)
    elif data_dir is None:
        raise InputError(f"Expected data_dir for dataset {name}, got None. Pass the folder that holds {name}/.")
    else:
        with hinting(name, data_dir):
            graph = load_images(name, data_dir, size=size)
    return graph if split else replace(graph, roles=None)


def _folder(name: str, family: str, item: str, data_dir: str | Path | None) -> Path:
    if card_of(name)[0] is None or not re.fullmatch(r"\w[\w.-]*" if "/" in name else "", item):
        raise fail(
            "dataset", name, "to be a name such as campus, facebook100/Berkeley13 or planetoid/cora, or a folder of images",
            f"{nearest(name, _NAMES)} `sfumato datasets` lists all of them.".lstrip(),
        )  # fmt: skip
    if data_dir is None:
        raise InputError(f"Expected data_dir for dataset {name}, got None. Pass the folder that holds {family}/.")
    return Path(data_dir) / family


def _documents(name: str, documents: Documents | None) -> Documents:
    if documents is None:
        raise DataError(f"Expected no text_features for {name}: vectors are published, and no texts. Leave it out.")
    return documents


def _of_large_classes(graph: Graph, min_class_size: int) -> tuple[Graph, NDArray[np.int64]]:
    """The graph without the nodes of small classes, and the rows that it keeps; what else the graph says of itself stays."""
    every = np.arange(graph.num_nodes)
    if graph.y is None or min_class_size == 0:
        return graph, every
    labelled = graph.y >= 0
    large = np.bincount(graph.y[labelled], minlength=graph.num_classes) >= min_class_size
    keep = ~labelled | large[graph.y]
    require_nodes(keep & labelled, min_class_size)
    if large.all():
        return graph, every
    part = induced(graph, every[keep])
    assert part is not None
    assert part.y is not None
    renumbered = np.append(np.cumsum(large) - 1, -1)
    return replace(part, y=renumbered[part.y], classes=tuple(np.asarray(graph.classes)[large])), every[keep]
