"""The owners of edges are read from a column, and each keeps at most so many edges (:mod:`sfumato.graph._persons`).

All rows of a person must be seen before any can be dropped, so edges with owners are held whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import DataError
from sfumato.graph._persons import kept_edges, words_of
from sfumato.tables._columns import needed
from sfumato.tables._tables import known

if TYPE_CHECKING:
    from sfumato.tables._reading import Reading


def person_column(names: list[str], ends: tuple[str, str], how: Reading, place: str) -> str | None:
    """Return the column of the owners of edges; None where none is named. It may be one of the ends: who calls owns the call."""
    if how.owner is None:
        return None
    column = known(names, how.owner[0], place)
    if column is not None and column == (how.weight and how.weight[0]):
        raise DataError(f"Expected persons of {place} beside weights, got the column {column!r} as both. Name another.")
    return column if column in ends else needed(str(column), how, place, "person")


def persons_of(column: Any, name: str, place: str, number: Callable[[int], int], what: str = "this edge") -> Any:
    """Return the owner of each row as an Arrow array of texts.

    Raises:
        DataError: a row names nobody.
    """
    import pyarrow as pa

    from sfumato.tables._encode import encode_ids

    values = encode_ids(column, f"column {name!r} of {place}")
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise DataError(
            f"Expected a person in every row of {place}, but row {number(row)} has none in column {name!r}. Nobody would own "
            f"{what}, and nothing would protect it: name its owner, or take it out of the table."
        )
    return values.cast(pa.large_string())


def owners_of_nodes(nodes: Any, name: str, place: str) -> list[str]:
    """Return the owner of each row of a node table.

    Raises:
        DataError: a row names nobody.
    """
    return persons_of(nodes.column(name), name, place, lambda row: row + 1, "this node").to_pylist()


def capped(batches: Iterable[Any], nodes: Any, most: int, *, directed: bool) -> Iterator[Any]:
    """Yield the edges that stay, in one batch: ends, weights and no owners; ``nodes`` are the ids, an Arrow array."""
    import pyarrow as pa

    found = list(batches)
    if not found:
        return
    source, target = (np.concatenate([batch[side] for batch in found]) for side in (0, 1))
    weights = None if found[0][2] is None else np.concatenate([batch[2] for batch in found])
    coded = pa.chunked_array([batch[3] for batch in found]).combine_chunks().dictionary_encode()
    words, ends = words_of(coded.dictionary.to_pylist()), words_of(nodes.to_pylist())
    persons = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    kept = kept_edges(persons, words, source, target, ends, most, directed=directed)
    yield source[kept], target[kept], None if weights is None else weights[kept], None
