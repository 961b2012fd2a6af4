"""The named data sets, and which of them are there; nothing is loaded."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from sfumato.errors import DataError

EVERY_SCHOOL = "all"
"""The name that stands for every school in the folder; there is no school of this name."""


@dataclass(frozen=True)
class DatasetRow:
    """A row of :func:`list_datasets` has counts after the default preparation; None where not known without loading.

    ``num_arcs`` counts both arcs of an undirected edge; ``present`` says whether the files are there.
    """

    name: str
    num_nodes: int | None = None
    num_arcs: int | None = None
    num_features: int | None = None
    num_classes: int | None = None
    present: bool = False
    note: str = ""


KNOWN = (
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
        note="profiles in Slovak; features by --text-features",
    ),
    DatasetRow(
        "text/reddit",
        23296,
        None,
        602,
        41,
        note="a tenth of the posts",
    ),
    DatasetRow(
        "elliptic",
        203769,
        468710,
        166,
        2,
        note="157,205 nodes without label",
    ),
    DatasetRow(
        "flickr",
        89250,
        899756,
        500,
        7,
    ),
    DatasetRow(
        "reddit",
        num_features=602,
        num_classes=8,
    ),
    DatasetRow(
        "amazon",
        num_features=100,
        num_classes=10,
        note="ogbn-products",
    ),
    DatasetRow("mnist", 70000, 0, 784, 10, note="images of 28 x 28, without edges"),
    DatasetRow("fashion_mnist", 70000, 0, 784, 10, note="images of 28 x 28, without edges"),
    DatasetRow(
        "cifar10",
        60000,
        0,
        1728,
        10,
        note="centers of 24 x 24 in color, without edges",
    ),
    DatasetRow(
        "svhn",
        99289,
        0,
        3072,
        10,
        note="images of 32 x 32 in color, without edges",
    ),
    DatasetRow("orl_faces", 400, 0, 10304, 40, note="images of 92 x 112, without edges; --image-size scales them"),
)
GENERATED = ("campus", "interests")
"""Data sets that need no files."""


@dataclass(frozen=True)
class DatasetCard:
    """What is known of the data sets in one folder; a name is a folder, and in most folders a slash and an item.

    ``reader`` is the module and function of this package that makes a graph of folder and item. ``cites`` has keys of
    ``references.bib`` by item, and ``split`` lists the items with published roles; "" stands for every other item. Classes of
    fewer than ``min_class_size`` nodes are left out.
    """

    reader: str = ""
    cites: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    split: tuple[str, ...] = ()
    min_class_size: int = 0


CARDS: Mapping[str, DatasetCard] = {
    "facebook100": DatasetCard(cites={"": ("traud2012social",)}, min_class_size=1000),
    "planetoid": DatasetCard("_parsers:planetoid", {"": ("sen2008collective", "yang2016revisiting")}, split=("",)),
    "npz": DatasetCard("_parsers:npz", {"cora_ml": ("bojchevski2018deep",), "": ("shchur2018pitfalls",)}),
    "musae": DatasetCard("_parsers:musae", {"": ("rozemberczki2021multiscale",)}),
    "lastfm_asia": DatasetCard("_parsers:lastfm_asia", {"": ("rozemberczki2020characteristic",)}),
    "directed": DatasetCard(
        "_parsers:directed", {"email-Eu-core": ("yin2017local",), "polblogs": ("adamic2005political",)}
    ),
    "elliptic": DatasetCard("_large_parsers:elliptic"),
    "flickr": DatasetCard("_large_parsers:flickr", split=("",)),
    "reddit": DatasetCard("_large_parsers:reddit", min_class_size=10_000),
    "amazon": DatasetCard("_large_parsers:amazon", min_class_size=100_000),
    "text": DatasetCard(cites={"cora_cane": ("tu2017cane",)}, split=("reddit",)),
    "mnist": DatasetCard(),
    "fashion_mnist": DatasetCard(),
    "cifar10": DatasetCard(),
    "svhn": DatasetCard(),
    "orl_faces": DatasetCard(),
}


def card_of(name: str) -> tuple[DatasetCard | None, str]:
    """Return the card of a data set's folder, None of a name that no card can have, and its item."""
    folder, slash, item = name.partition("/")
    single = folder in {row.name for row in KNOWN}
    return (None if single == bool(slash) else CARDS.get(folder)), item


def list_datasets(data_dir: str | Path | None = None) -> tuple[DatasetRow, ...]:
    """List the known data sets, and any other school or npz file found under ``data_dir``, without loading them.

    Raises:
        DataError: ``data_dir`` is no folder.

    >>> [row.name for row in list_datasets() if row.present]
    ['campus', 'interests']
    """
    names = {row.name for row in KNOWN}
    if data_dir is None:
        return tuple(replace(row, present=row.name in GENERATED) for row in KNOWN)
    root = Path(data_dir)
    if not root.is_dir():
        raise DataError(f"Expected data_dir to be a folder, got {str(root)!r}. Create it or correct the path.")
    found = [
        f"{family}/{path.stem}"
        for family, suffix in (("facebook100", "mat"), ("npz", "npz"))
        for path in sorted((root / family).glob(f"*.{suffix}"))
    ]
    known = [replace(row, present=not missing(row.name, root)) for row in KNOWN]
    return (*known, *(DatasetRow(name, present=True) for name in found if name not in names))


def missing(name: str, data_dir: str | Path) -> list[str]:
    """Return the files of a data set that it needs and that are not there; it is there if none is missing."""
    return [path for path, needed in files_of(name) if needed and not any(Path(data_dir).glob(path))]


def files_of(name: str) -> list[tuple[str, bool]]:
    """Return the files of a data set, or patterns of them, below the data folder, each with whether it is needed."""
    folder, _, item = name.partition("/")
    wanted = "*" if item == EVERY_SCHOOL else item
    files = origin_of(name).get("files", "").replace("{}", wanted).split()
    return [(f"{folder}/{file.removesuffix('?')}", not file.endswith("?")) for file in files]


def origin_of(name: str) -> dict[str, str]:
    """Return what the table of origins says of a data set; nothing of one that is generated, or that it does not know."""
    origins = origin_table()["origin"]
    return {} if name in GENERATED else origins.get(name) or origins.get(name.partition("/")[0], {})


@cache
def origin_table() -> dict[str, Any]:
    """Read the table of origins."""
    return tomllib.loads(Path(__file__).with_name("origins.toml").read_text(encoding="utf-8"))
