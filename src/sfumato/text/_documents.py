"""Documents of nodes, their words, and the features that an encoder makes of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp
    from numpy.typing import NDArray

Report = Callable[[str, int, int], None]
"""Called with the name of a stage, the steps done, and all steps."""
_WORD = re.compile(r"\w{2,100}")


@dataclass(frozen=True)
class Documents:
    """One row of texts for each node: one text a column, which may be empty."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    @property
    def name(self) -> str:
        """The first part of the names of feature columns: the columns of texts, joined by plus signs."""
        return "+".join(self.columns)

    def of(self, nodes: NDArray[np.int64]) -> Documents:
        return Documents(self.columns, [self.rows[node] for node in nodes])

    def joined(self) -> list[str]:
        return [" ".join(filter(None, row)) for row in self.rows]


@dataclass(frozen=True)
class Encoded:
    """The features of documents, float32 [num_nodes, num_columns], dense or CSR; ``assumed`` names what was read off them."""

    x: np.ndarray | sp.csr_matrix
    names: tuple[str, ...]
    assumed: tuple[str, ...] = ()


class Encoder(Protocol):
    """An encoder turns documents into features.

    Its arguments are public. If ``learned`` is false, the row of a node depends on its own texts alone, to the last bit.
    """

    @property
    def learned(self) -> bool:
        """Whether columns are read off the documents."""

    def encode(self, documents: Documents, report: Report | None = None) -> Encoded:
        """Encode every row; a row without a known word is zero."""


def words(text: str) -> list[str]:
    """Split a text into words, in lower case: runs of 2 to 100 letters, digits and underscores (a release may name words)."""
    return _WORD.findall(text.lower())


def numbered(name: str, what: str, count: int) -> tuple[str, ...]:
    """Name feature columns that stand for no single word."""
    return tuple(f"{name}:{what}:{column}" for column in range(count))
