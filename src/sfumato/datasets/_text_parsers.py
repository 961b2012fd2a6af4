"""Parsers of graphs whose nodes have texts: citations between papers, users of Pokec, posts on Reddit."""

from __future__ import annotations

import gzip
import heapq
import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sfumato._pickles import reading
from sfumato.datasets._parsers import number_labels
from sfumato.errors import DataError
from sfumato.graph._graph import Graph
from sfumato.text._documents import Documents

POKEC_COLUMNS = (
    "user_id", "public", "completion_percentage", "gender", "region", "last_login", "registration", "AGE", "body",
    "I_am_working_in_field", "spoken_languages", "hobbies", "I_most_enjoy_good_food", "pets", "body_type", "my_eyesight",
    "eye_color", "hair_color", "hair_type", "completed_level_of_education", "favourite_color", "relation_to_smoking",
    "relation_to_alcohol", "sign_in_zodiac", "on_pokec_i_am_looking_for", "love_is_for_me", "relation_to_casual_sex",
    "my_partner_should_be", "marital_status", "children", "relation_to_children", "I_like_movies", "I_like_watching_movie",
    "I_like_music", "I_mostly_like_listening_to_music", "the_idea_of_good_evening", "I_like_specialties_from_kitchen",
    "fun", "I_am_going_to_concerts", "my_active_sports", "my_passive_sports", "profession", "I_like_books", "life_style",
    "music", "cars", "politics", "relationships", "art_culture", "hobbies_interests", "science_technologies",
    "computers_internet", "education", "sport", "movies", "travelling", "health", "companies_brands", "more",
)  # fmt: skip
"""The columns of soc-pokec-profiles.txt, which has no header row."""
NO_TEXT = (*POKEC_COLUMNS[:9], "pets")
"""Columns that are left out of the texts: numbers, dates, places and the label. The source keeps 49 of 59 and does not name
them; this choice is ours.
"""
PETS = {
    "cats": "macka macku macky macke mackou maciek macicka macicku macicky maciatko maciatka kocur kocura kocury kocurik "
    "kocurika cica cicu",
    "dogs": "pes psa psy psi psov psom psik psika psikov psicek psicka havo havka fena fenu fenka fenku sucka sucku stenatko "
    "stenatka",
    "other animals": "skrecok skrecka skrecky papagaj papagaja papagaje ryba ryby rybka rybky rybku rybicka rybicky akvarium "
    "zajac zajaca zajko zajka zajacik zajacika kralik kralika morca morce potkan potkana mys mysku mysicku had hada hady "
    "korytnacka korytnacku korytnacky kon kona kone andulka andulku andulky kanarik kanarika cincila cincilu fretka fretku "
    "pavuk pavuka jaster jastera leguan leguana vtak vtaka sliepky",
    "denials": "nemam nechcem neznasam nenavidim ziadne ziadneho",
}
"""Slovak words in the column ``pets``, without accents, in the forms in which they are written there. The rule is ours: a user
prefers cats if the words of the column name cats and nothing else of this table, and dogs likewise.
"""
_MEANING = {word: meaning for meaning, forms in PETS.items() for word in forms.split()}
_POKEC_CLASSES = ("cats", "dogs")
_POKEC_PER_CLASS = 10_000
_REDDIT_SHARE = 0.1
_REDDIT_SEED = 0
_REDDIT_COUNTS = 2


def text(folder: Path, name: str) -> tuple[Graph, Documents | None]:
    """Read a graph and the documents of its nodes, None where vectors are published and no texts."""
    if name == "pokec":
        return _pokec(folder / name)
    if name == "reddit":
        return _reddit(folder / name), None
    return _papers(folder / name)


def _papers(folder: Path) -> tuple[Graph, Documents]:
    """Citations between papers with their abstracts; a blank label is missing."""
    node_ids = None
    if folder.name == "cora_cane":
        edges_path, label_path, text_path = (folder / name for name in ("graph.txt", "group.txt", "data.txt"))
        with reading(label_path):
            labels = [line.strip() for line in label_path.read_text(encoding="utf-8").splitlines()]
        with reading(text_path):
            texts = text_path.read_text(encoding="utf-8", errors="replace").removesuffix("\n").split("\n")
            if len(texts) != len(labels):
                raise ValueError(f"{len(texts)} texts for {len(labels)} labels")
    else:
        edges_path, text_path = folder / "citeseer.cites", folder / "citeseer_texts.txt"
        with reading(text_path):
            lines = text_path.read_text(encoding="utf-8", errors="replace").split("\n")
            node_ids, labels = np.array([line.strip() for line in lines[:-1:3]]), [line.strip() for line in lines[2::3]]
            texts = lines[1::3][: len(labels)]
    with reading(edges_path):
        pairs = [line.split() for line in edges_path.read_text(encoding="utf-8").splitlines()]
        row = {str(node): index for index, node in enumerate(range(len(labels)) if node_ids is None else node_ids)}
        known = [(row[cited], row[citing]) for cited, citing in pairs if cited in row and citing in row]
        edges = np.array(known, dtype=np.int64).reshape(-1, 2)
    y, classes = number_labels(labels)
    graph = Graph.from_edges(edges[:, 0], edges[:, 1], len(y), directed=False, y=y, classes=classes, node_ids=node_ids)
    return graph, Documents(("text",), [(one,) for one in texts])


def _pokec(folder: Path) -> tuple[Graph, Documents]:
    """The most complete profiles of users of Pokec who name only cats, or only dogs; the label is which.

    Ties go to the earlier row. Friendships have a direction in the file; they are read as undirected.
    """
    profiles = _found(folder, "soc-pokec-profiles.txt")
    relationships = _found(folder, "soc-pokec-relationships.txt")
    with reading(profiles):
        kept = [
            (cells, label)
            for label, wanted in enumerate(_POKEC_CLASSES)
            for _, cells in heapq.nlargest(_POKEC_PER_CLASS, _profiles(profiles, wanted), key=lambda found: found[0])
        ]
        ids = np.array([int(cells[0]) for cells, _ in kept], np.int64)
    row = {cells[0]: index for index, (cells, _) in enumerate(kept)}
    with reading(relationships):
        pairs = (line.split() for line in _lines(relationships))
        edges = np.array([(row[a], row[b]) for a, b in pairs if a in row and b in row], np.int64).reshape(-1, 2)
    columns = tuple(name for name in POKEC_COLUMNS if name not in NO_TEXT)
    places = [POKEC_COLUMNS.index(name) for name in columns]
    rows = [tuple("" if cells[place] == "null" else cells[place] for place in places) for cells, _ in kept]
    y = np.array([label for _, label in kept], np.int64)
    graph = Graph.from_edges(
        edges[:, 0], edges[:, 1], len(y), directed=False, y=y, classes=_POKEC_CLASSES, node_ids=ids
    )
    return graph, Documents(columns, rows)


def _profiles(path: Path, wanted: str) -> Iterator[tuple[int, list[str]]]:
    """Completion and cells of each profile that names this animal alone."""
    pets = POKEC_COLUMNS.index("pets")
    for line in _lines(path):
        before = line.split("\t", pets + 1)
        if len(before) > pets and favorite(before[pets]) == wanted:
            cells = line.split("\t")
            if len(cells) < len(POKEC_COLUMNS):
                raise ValueError(f"a profile of {len(cells)} columns, not {len(POKEC_COLUMNS)}")
            yield int(cells[2]) if cells[2].isdigit() else 0, cells


def favorite(pets: str) -> str | None:
    """Say whether a text names cats alone or dogs alone, by the words of ``PETS``; None otherwise."""
    plain = "".join(mark for mark in unicodedata.normalize("NFKD", pets.lower()) if not unicodedata.combining(mark))
    named = {_MEANING[word] for word in re.findall(r"\w+", plain) if word in _MEANING}
    return named.pop() if len(named) == 1 and named <= {*_POKEC_CLASSES} else None


def _reddit(folder: Path) -> Graph:
    """A tenth of the posts on Reddit, by a public seed; the label is the community, features are means of GloVe vectors.

    The first two columns of the features are counts (comments and score): x becomes sign(x) log(1 + |x|).
    """
    names = ("reddit-G.json", "reddit-class_map.json", "reddit-id_map.json", "reddit-feats.npy")
    paths = [_found(folder, name) for name in names]
    with reading(paths[0]):
        content = json.loads(_text(paths[0]), object_hook=_pair)
        ids = [node["id"] for node in content["nodes"]]
        roles = np.array([2 if node.get("test") else int(bool(node.get("val"))) for node in content["nodes"]], np.uint8)
        row = {name: index for index, name in enumerate(ids)}
        ends = [[row[end] if isinstance(end, str) else end for end in link] for link in content["links"]]
        edges = np.array(ends, np.int64).reshape(-1, 2)
    with reading(paths[1]):
        communities = json.loads(_text(paths[1]))
        y, classes = number_labels([int(communities[str(name)]) for name in ids])
    with reading(paths[2]):
        places = json.loads(_text(paths[2]))
        order = np.array([places[str(name)] for name in ids], np.int64)
    generator = np.random.default_rng(_REDDIT_SEED)
    kept = np.sort(generator.permutation(len(ids))[: max(1, round(_REDDIT_SHARE * len(ids)))])
    with reading(paths[3]):
        x = np.load(paths[3], mmap_mode="r", allow_pickle=False)[order[kept]].astype(np.float64)
    x[:, :_REDDIT_COUNTS] = np.sign(x[:, :_REDDIT_COUNTS]) * np.log1p(np.abs(x[:, :_REDDIT_COUNTS]))
    number = np.full(len(ids), -1)
    number[kept] = np.arange(len(kept))
    edges = number[edges]
    edges = edges[(edges >= 0).all(axis=1)]
    return Graph.from_edges(
        edges[:, 0], edges[:, 1], len(kept), directed=False, x=x.astype(np.float32), y=y[kept], classes=classes,
        node_ids=np.array(ids, dtype=str)[kept], roles=roles[kept],
    )  # fmt: skip


def _pair(link: dict[str, Any]) -> Any:
    """A link as a pair, which takes a fifth of the memory of its dictionary."""
    return (link["source"], link["target"]) if "source" in link else link


def _found(folder: Path, name: str) -> Path:
    """The file or its gzip."""
    path = next((one for one in (folder / name, folder / f"{name}.gz") if one.is_file()), None)
    if path is None:
        raise DataError(f"Expected {name} or {name}.gz in {folder}, found neither.")
    return path


def _lines(path: Path) -> Iterator[str]:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", errors="replace", newline="\n") as file:
        for line in file:
            yield line.rstrip("\r\n")


def _text(path: Path) -> str:
    return "\n".join(_lines(path))
