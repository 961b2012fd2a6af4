"""Named benchmark graphs are read from the original public files under a data directory."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sfumato._validate import check_choice, check_int, fail
from sfumato.errors import DataError, InputError
from sfumato.graph import _large_parsers, _parsers, _text_parsers
from sfumato.graph._facebook import EVERY_SCHOOL, facebook100
from sfumato.graph.graph import Graph
from sfumato.graph.images import IMAGE_DATASETS, from_folder, load_images
from sfumato.graph.subgraph import induced_arcs
from sfumato.graph.synthetic import campus, interests
from sfumato.graph.text import with_texts

if TYPE_CHECKING:
    from sfumato.graph.documents import Documents, Report

_FACEBOOK_MIN_CLASS_SIZE = 1000
_SMALL_SCHOOLS = ("Caltech36", "Haverford76", "Reed98", "Simmons81")
_MIN_CLASS_SIZES = {"reddit": 10_000, "amazon": 100_000}
_FAMILIES: dict[str, Callable[[Path, str], Graph]] = {
    "planetoid": _parsers.planetoid,
    "npz": _parsers.npz,
    "musae": _parsers.musae,
    "lastfm_asia": _parsers.lastfm_asia,
    "directed": _parsers.directed,
    "elliptic": _large_parsers.elliptic,
    "flickr": _large_parsers.flickr,
    "reddit": _large_parsers.reddit,
    "amazon": _large_parsers.amazon,
}
_SINGLE = ("lastfm_asia", "elliptic", "flickr", "reddit", "amazon")
_SPLIT = ("text/reddit", "flickr")


@dataclass(frozen=True)
class DatasetRow:
    """A row of :func:`list_datasets` has counts after the default preparation; None where not known without loading.

    ``num_arcs`` counts both arcs of an undirected edge; ``present`` says whether the files are there.

    ``name`` is the name of the data set, ``num_nodes``, ``num_features`` and ``num_classes`` are counts, ``note`` is a remark.
    """

    name: str
    num_nodes: int | None = None
    num_arcs: int | None = None
    num_features: int | None = None
    num_classes: int | None = None
    present: bool = False
    note: str = ""


_KNOWN = (
    DatasetRow("campus", 4000, 225252, 71, 6, note="generated; needs no files"),
    DatasetRow("interests", 20000, 199836, 60, 5, note="generated; features matter, edges hardly"),
    DatasetRow("facebook100/Rutgers89", 20064, 1219462, 376, 5),
    DatasetRow("facebook100/Berkeley13", 18980, 1354934, 437, 6),
    DatasetRow("facebook100/BU10", 17415, 1116776, 403, 6),
    DatasetRow("facebook100/Cornell5", 15374, 1303452, 349, 6),
    DatasetRow("facebook100/Harvard1", 9787, 1262572, 168, 6),
    DatasetRow("facebook100/Duke14", 7469, 815792, 276, 5),
    DatasetRow("facebook100/UCSC68", 6283, 284896, 128, 4),
    DatasetRow("facebook100/Caltech36", 655, 29674, 79, 17),
    DatasetRow("facebook100/Haverford76", 1341, 109666, 126, 13),
    DatasetRow("facebook100/Reed98", 817, 30410, 117, 17),
    DatasetRow("facebook100/Simmons81", 1359, 58936, 124, 11),
    DatasetRow("facebook100/all", num_classes=6, note="every school that is there, as one graph"),
    DatasetRow("planetoid/cora", 2708, 10556, 1433, 7),
    DatasetRow("planetoid/citeseer", 3327, 9104, 3703, 6),
    DatasetRow("planetoid/pubmed", 19717, 88648, 500, 3, note="features need ind.pubmed.allx"),
    DatasetRow("npz/cora_ml", 2995, 16316, 2879, 7),
    DatasetRow("npz/coauthor_cs", 18333, 163788, 6805, 15),
    DatasetRow("npz/amazon_cs", 13752, 491722, 767, 10),
    DatasetRow("musae/facebook", 22470, 341646, 4714, 4),
    DatasetRow("musae/twitch_ENGB", 7126, 70648, 3170, 2),
    DatasetRow("musae/wiki_chameleon", 2277, 62742, 3132, 5, note="traffic in five classes"),
    DatasetRow("lastfm_asia", 7624, 55612, 0, 18, note="features need lastfm_asia_features.json"),
    DatasetRow("directed/email-Eu-core", 1005, 25571, 0, 42, note="directed; no features"),
    DatasetRow("directed/polblogs", 1490, 19025, 0, 2, note="directed; no features"),
    DatasetRow("text/citeseer_text", 3186, 8450, 0, 6, note="titles and abstracts; features by --text-features"),
    DatasetRow(
        "text/cora_cane", 2277, 9542, 0, 7, note="abstracts; features by --text-features; 66 nodes without label"
    ),
    DatasetRow(
        "text/pokec",
        20000,
        None,
        0,
        2,
        note="soc-pokec-profiles.txt and soc-pokec-relationships.txt, or their .gz, from "
        "https://snap.stanford.edu/data/soc-Pokec.html; features by --text-features",
    ),
    DatasetRow(
        "text/reddit",
        23296,
        None,
        602,
        41,
        note="reddit-G.json, -class_map.json, -id_map.json and -feats.npy from http://snap.stanford.edu/graphsage/reddit.zip; "
        "a tenth of the posts",
    ),
    DatasetRow(
        "elliptic",
        203769,
        468710,
        166,
        2,
        note="elliptic_txs_features.csv, _classes.csv and _edgelist.csv from "
        "https://www.kaggle.com/ellipticco/elliptic-data-set; 157,205 nodes without label",
    ),
    DatasetRow(
        "flickr",
        89250,
        899756,
        500,
        7,
        note="adj_full.npz, feats.npy, class_map.json and role.json from https://github.com/GraphSAINT/GraphSAINT",
    ),
    DatasetRow(
        "reddit",
        num_features=602,
        num_classes=8,
        note="reddit_data.npz and reddit_graph.npz from https://data.dgl.ai/dataset/reddit.zip",
    ),
    DatasetRow(
        "amazon",
        num_features=100,
        num_classes=10,
        note="raw/edge.csv.gz, node-feat.csv.gz and node-label.csv.gz of ogbn-products from "
        "http://snap.stanford.edu/ogb/data/nodeproppred/products.zip",
    ),
    DatasetRow("mnist", 70000, 0, 784, 10, note="images of 28 x 28, without edges"),
    DatasetRow("fashion_mnist", 70000, 0, 784, 10, note="images of 28 x 28, without edges"),
    DatasetRow(
        "cifar10",
        60000,
        0,
        1728,
        10,
        note="centers of 24 x 24 in color, without edges; the six files of cifar-10-python.tar.gz from "
        "https://www.cs.toronto.edu/~kriz/cifar.html",
    ),
    DatasetRow(
        "svhn",
        99289,
        0,
        3072,
        10,
        note="images of 32 x 32 in color, without edges; train_32x32.mat and test_32x32.mat from "
        "http://ufldl.stanford.edu/housenumbers/",
    ),
    DatasetRow("orl_faces", 400, 0, 10304, 40, note="images of 92 x 112, without edges; --image-size scales them"),
)
_GENERATED = ("campus", "interests")
_DRAWN_SPLIT = "75/10/15"
_MARKER_FILES = {
    "facebook100": "facebook100/{}.mat",
    "planetoid": "planetoid/ind.{}.graph",
    "npz": "npz/{}.npz",
    "musae": "musae/{}/*.json",
    "lastfm_asia": "lastfm_asia/lastfm_asia_edges.csv",
    "directed": "directed/{}.*",
    "elliptic": "elliptic/elliptic_txs_features.csv",
    "flickr": "flickr/adj_full.npz",
    "reddit": "reddit/reddit_graph.npz",
    "amazon": "amazon/raw/edge.csv.gz",
    "text": "text/{}/*",
    "mnist": "mnist/*",
    "fashion_mnist": "fashion_mnist/*",
    "cifar10": "cifar10/test_batch",
    "svhn": "svhn/test_32x32.mat",
    "orl_faces": "orl_faces/s1/*",
}


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
      without arcs (:mod:`sfumato.graph.images`). ``split="public"`` sets their roles.

    Elsewhere ``min_class_size`` (default 0) drops the nodes of smaller classes and keeps nodes without a label.

    The preparation of a benchmark reads the data, and its results (classes, feature columns, binning, this filter) are
    declared public: they are outside any privacy claim, and ``assumed_public`` is empty. A vocabulary that ``text_features``
    reads off the documents is listed there.

    Args:
        name: the name of the data set.
        data_dir: the data directory; not needed for ``campus`` and ``interests``.
        min_class_size: smaller classes are dropped; None takes the default of the data set.
        split: "public" for the published roles; None sets no roles.
        text_features: names the encoder of the documents, such as ``hashing`` (see :mod:`sfumato.graph.text`).
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
    if split is not None and family != "planetoid" and name not in _SPLIT:
        remedy = "Only planetoid/, text/reddit, flickr and images have one: use with_split()."
        raise fail("split", split, f"to be None for {name}", remedy)
    if text_features is not None and family != "text":
        raise fail(
            "text_features", text_features, f"to be None for {name}", "Only the data sets under text/ have documents."
        )
    if name in _GENERATED:
        return _drop_small_classes(campus() if name == "campus" else interests(), min_class_size or 0)
    folder = _folder(name, family, item, data_dir)
    try:
        if family == "facebook100":
            default = None if item == EVERY_SCHOOL else 0 if item in _SMALL_SCHOOLS else _FACEBOOK_MIN_CLASS_SIZE
            graph = facebook100(folder, item, default if min_class_size is None else min_class_size)
        elif family == "text":
            graph, documents = _text_parsers.text(folder, item)
            if text_features is not None:
                graph = with_texts(graph, _documents(name, documents), text_features, report)
            graph = _drop_small_classes(graph, min_class_size or 0)
        else:
            least = _MIN_CLASS_SIZES.get(name, 0) if min_class_size is None else min_class_size
            graph = _drop_small_classes(_FAMILIES[family](folder, item), least)
    except DataError as error:
        raise DataError(f"Cannot load {name}: {error}") from error
    return replace(graph, name=name, roles=graph.roles if split else None)


def default_split(name: str) -> str:
    """Return the split of a named data set that the command line takes unless told: images have one of their own.

    >>> default_split("mnist"), default_split("campus")
    ('public', '75/10/15')
    """
    split_there = _is_folder(name) and Path(name, "train").is_dir()
    return "public" if name in IMAGE_DATASETS or split_there else _DRAWN_SPLIT


def _is_folder(name: str) -> bool:
    """Whether a name is the path of a folder; known names are no paths."""
    return name not in {row.name for row in _KNOWN} and Path(name).is_dir()


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
        graph = load_images(name, data_dir, size=size)
    return graph if split else replace(graph, roles=None)


def _folder(name: str, family: str, item: str, data_dir: str | Path | None) -> Path:
    known = family in ("facebook100", "text") or family in _FAMILIES
    if not known or not re.fullmatch("" if family in _SINGLE else r"\w[\w.-]*", item):
        raise fail(
            "dataset", name, "to be a name such as campus, facebook100/Berkeley13 or planetoid/cora, or a folder of images",
            "`sfumato datasets` lists all of them.",
        )  # fmt: skip
    if data_dir is None:
        raise InputError(f"Expected data_dir for dataset {name}, got None. Pass the folder that holds {family}/.")
    return Path(data_dir) / family


def _documents(name: str, documents: Documents | None) -> Documents:
    if documents is None:
        raise DataError(f"Expected no text_features for {name}: vectors are published, and no texts. Leave it out.")
    return documents


def _drop_small_classes(graph: Graph, min_class_size: int) -> Graph:
    if graph.y is None or min_class_size == 0:
        return graph
    labelled = graph.y >= 0
    large = np.bincount(graph.y[labelled], minlength=graph.num_classes) >= min_class_size
    keep = ~labelled | large[graph.y]
    _parsers.require_nodes(keep & labelled, min_class_size)
    if large.all():
        return graph
    source, target = induced_arcs(graph.indptr, graph.indices, keep)
    renumbered = np.append(np.cumsum(large) - 1, -1)
    return Graph.from_arcs(
        source,
        target,
        int(keep.sum()),
        directed=graph.directed,
        self_loops="keep",
        x=None if graph.x is None else graph.x[keep],
        y=renumbered[graph.y[keep]],
        classes=tuple(np.asarray(graph.classes)[large]),
        node_ids=np.flatnonzero(keep) if graph.node_ids is None else graph.node_ids[keep],
        feature_names=graph.feature_names,
        roles=None if graph.roles is None else graph.roles[keep],
        name=graph.name,
    )


def list_datasets(data_dir: str | Path | None = None) -> tuple[DatasetRow, ...]:
    """List the known data sets, and any other school or npz file found under ``data_dir``, without loading them.

    Raises:
        DataError: ``data_dir`` is no folder.

    >>> [row.name for row in list_datasets() if row.present]
    ['campus', 'interests']
    """
    names = {row.name for row in _KNOWN}
    if data_dir is None:
        return tuple(replace(row, present=row.name in _GENERATED) for row in _KNOWN)
    root = Path(data_dir)
    if not root.is_dir():
        raise DataError(f"Expected data_dir to be a folder, got {str(root)!r}. Create it or correct the path.")
    found = [
        f"{family}/{path.stem}"
        for family, suffix in (("facebook100", "mat"), ("npz", "npz"))
        for path in sorted((root / family).glob(f"*.{suffix}"))
    ]
    known = [replace(row, present=_is_present(root, row.name)) for row in _KNOWN]
    return (*known, *(DatasetRow(name, present=True) for name in found if name not in names))


def _is_present(root: Path, name: str) -> bool:
    family, _, item = name.partition("/")
    wanted = "*" if name == f"facebook100/{EVERY_SCHOOL}" else item
    return name in _GENERATED or any(root.glob(_MARKER_FILES[family].format(wanted)))
