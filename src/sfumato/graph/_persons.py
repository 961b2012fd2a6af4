r"""How many edges of one person a graph holds, and which: a choice that only this person's own rows decide.

A row of an edge table names the person who owns it: the patient of a referral, the subscriber of a call. With a public bound k,
the graph holds at most k distinct edges of each person. Let :math:`h(p, e)` be 64 bits of a fixed public hash of the words of
person p and of the ends of edge e (equal values are put in the order of the ends). Of p's distinct edges those with the k
smallest values stay, and the graph holds the union over all persons.

**Claim.** If all rows of one person are taken out of the table, the graph loses at most k edges, and gains none.

*Proof.* The hash of (p, e) reads p and e alone, and so does the order of the ends. So the set :math:`K_p` of the edges that stay
for p is a function of p's own rows, of at most k edges. The graph is the union of all :math:`K_q`; without p's rows it is that of
all :math:`K_q, q \ne p`. Both differ in edges of :math:`K_p` that no other person keeps. :math:`\square`

What would break it, and is tested: one cap for all rows of an edge table, the first k rows of a person *after* rows that repeat
edges of others were merged (another person's rows would then decide), or a bound on the edges at a node.

The hash needs no secret: the proof holds for every fixed order. A public one lets the same table give the same graph again.

With weights, rows of one edge add up, over rows and persons, before they are clipped: an edge in :math:`K_p` changes its weight
or vanishes, as one edge does anywhere (:mod:`sfumato.graph._weights`).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int, fail
from sfumato.errors import DataError, InputError

Words = NDArray[np.uint64]
_KEY = b"sfumato: edges of a person"


def words_of(names: Any) -> Words:
    """Hash names, texts or integers, to 64 bits each; an integer is hashed as it is printed. Shape: [n] to uint64 [n].

    >>> words = words_of(["ann", "7", "ann"])
    >>> bool(words[0] == words[2]), bool(words[1] == words_of(np.array([7]))[0])
    (True, True)
    """
    hashed = (int.from_bytes(blake2b(str(name).encode(), digest_size=8, key=_KEY).digest(), "little") for name in names)
    return np.fromiter(hashed, np.uint64, len(names))


def kept_edges(
    persons: NDArray[np.int64], words: Words, source: NDArray[Any], target: NDArray[Any], ends: Words, most: int, *,
    directed: bool,
) -> NDArray[np.bool_]:  # fmt: skip
    """Mark the rows of the edges that stay, at most ``most`` distinct edges of each person: bool [num_rows].

    Args:
        persons: number of the person who owns each row, [num_rows]; equal numbers are one person.
        words: hash of each person, by number (:func:`words_of`).
        source: number of each row's first node, [num_rows].
        target: that of the second node.
        ends: hash of each node, by number.
        most: the public bound.
        directed: whether a row is one arc, or an undirected edge whose two ends may be swapped.

    >>> rows, nodes = np.zeros(3, np.int64), words_of(range(4))
    >>> int(kept_edges(rows, words_of(["ann"]), np.array([0, 1, 0]), np.array([1, 0, 2]), nodes, 1, directed=False).sum())
    2
    """
    check_int(low=1, edges_per_person=most)
    one, two = np.asarray(source, np.int64), np.asarray(target, np.int64)
    if not directed:  # by their words, so that the order of the node table plays no part
        swapped = (ends[one] > ends[two]) | ((ends[one] == ends[two]) & (one > two))
        one, two = np.where(swapped, two, one), np.where(swapped, one, two)
    values = mixed(words[persons] ^ mixed(ends[one] ^ mixed(ends[two])))
    order = np.lexsort((two, one, values, persons))
    person, low, high = persons[order], one[order], two[order]
    begins = np.ones(len(order), bool)
    begins[1:] = person[1:] != person[:-1]
    another = begins.copy()
    another[1:] |= (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    count = np.cumsum(another)  # of edges up to each row, of which those before the person's first do not count
    before = np.maximum.accumulate(np.where(begins, count - 1, 0))
    kept = np.zeros(len(order), bool)
    kept[order] = count - before <= most
    return kept


def mixed(words: Words) -> Words:
    """Spread every bit of 64 over all of them, by a fixed permutation (splitmix64)."""
    words = (words + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def with_persons(
    fields: dict[str, Any], source: Any, target: Any, num_nodes: int, *, directed: bool
) -> tuple[Any, ...]:
    """Return ends, and fields of a graph in which ``person`` (one a row) was read, with the rows that stay under its bound."""
    owners, most = fields.get("person"), fields.get("edges_per_person")
    rest = {name: value for name, value in fields.items() if name != "person"}
    if owners is None:
        check_unbounded(fields)
        return source, target, rest
    if most is None:
        raise fail("edges_per_person", None, "to stand beside person", TELL)
    source, target = np.asarray(source), np.asarray(target)
    if np.ndim(owners) != 1 or not len(owners) == len(source) == len(target):
        raise DataError(
            f"Expected one person a row ({len(source)}), got {np.shape(owners)}. Name the owner of every row."
        )
    persons, names = numbered(owners)
    ids = fields.get("node_ids")
    ends = words_of(range(num_nodes) if ids is None else ids)
    kept = kept_edges(persons, words_of(names), source, target, ends, most, directed=directed)
    if rest.get("edge_weight") is not None:
        rest["edge_weight"] = np.asarray(rest["edge_weight"])[kept]
    return source[kept], target[kept], rest


def numbered(owners: Any) -> tuple[NDArray[np.int64], list[str]]:
    """Number the persons who own rows, and name each as its own cell alone says: a text as it is, an integer as it is printed.

    No array of another type is made of them: whether 7 became 7.0 would depend on the owners of other rows.
    """
    names: dict[str, int] = {}
    persons = np.empty(len(owners), np.int64)
    for row, owner in enumerate(owners):
        if isinstance(owner, bool | np.bool_) or not isinstance(owner, str | int | np.integer):
            raise DataError(
                f"Expected persons to be texts or integers, got another type in row {row} (rows are counted from 0). Write their "
                "ids as texts, and give every row an owner."
            )
        persons[row] = names.setdefault(str(owner), len(names))
    return persons, list(names)


def check_unbounded(fields: dict[str, Any]) -> None:
    """Refuse a bound on the edges of persons where none are named: nothing would enforce it."""
    if fields.get("edges_per_person") is not None or fields.get("person") is not None:
        raise InputError(
            "Expected persons and edges_per_person together, of a table or of from_edges, where so many edges of each are "
            f"kept; got one of them, or a graph that is built otherwise. {TELL}"
        )


def declared_owner(column: str | None, most: int | None, declared: Any) -> tuple[str, int] | None:
    """Return the column of the owners of edges and their public bound; None where rows have no owners.

    ``column`` and ``most`` are those that were asked for, and ``declared`` what a schema says.
    """
    said = (None, None) if declared is None else (declared.person, declared.edges_per_person)
    for name, asked, other in (("person", column, said[0]), ("edges_per_person", most, said[1])):
        if asked is not None and other is not None and asked != other:
            raise InputError(f"Expected one {name}, got {asked!r} beside {other!r} in the schema. Correct one of them.")
    column, most = column if column is not None else said[0], most if most is not None else said[1]
    if column is None and most is None:
        return None
    if column is None or most is None:
        raise InputError(
            "Expected the column of persons and edges_per_person together, got "
            f"{'person' if most is None else 'edges_per_person'} alone. {TELL}"
        )
    check_int(low=1, edges_per_person=most)
    return column, most


TELL = (
    "Declare the most edges that one person adds, from what is known without this data: edges_per_person=5 "
    "(--edges-per-person 5). Where persons own nodes instead, nodes_per_person=3 (--nodes-per-person 3)."
)
