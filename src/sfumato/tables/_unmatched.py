"""Why ends of edges are not among the ids of nodes, as far as both tables tell it: often a program wrote one of them anew.

Who reads ids as numbers loses leading zeros, others add a prefix or count from 0. The reason is told in place of the advice to
add a node, and holds no id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.tables._arrow import positions

if TYPE_CHECKING:
    import numpy as np

_MOST = 10_000  # ends that are looked at: one cause explains them all or none
_ALIKE = (
    (r"^(-?)0+(.)", r"\1\2", "leading zeros", "Read ids as text in both (dtype=str in pandas)"),
    (r"[\"'\s]+", "", "quotes and spaces", "Write them without"),
    (r"[{}\-]+", "", "hyphens and braces", "Write them alike in both"),
    (r"^\D+|\D+$", "", "what stands before or behind their digits", "Write it in both, or in neither"),
)


def remedy(values: Any, codes: np.ndarray, ids: Any) -> str:
    """Return what to do about ends that are no ids; ``codes`` are -1 for them.

    Args:
        values: an Arrow array of ends, integers or text.
        codes: int [num_ends], the number of the node that each end names, -1 for none.
        ids: an Arrow array of the ids of all nodes.
    """
    lost = pc.unique(values.filter(pa.array(codes < 0)).drop_null().cast(pa.large_string()))[:_MOST]
    known = ids.cast(pa.large_string())
    if _within(pc.utf8_lower(lost), pc.utf8_lower(known)):
        return "The ids of both tables are the same but for capitals. Write them alike in both."
    for pattern, kept, what, what_to_do in _ALIKE:
        if _within(*(pc.replace_substring_regex(one, pattern, kept) for one in (lost, known))):
            return f"The ids of both tables are the same but for {what}. {what_to_do}."
    if values.type == ids.type == pa.int64() and len(lost) == 1 and len(ids) > 1:
        low, high, odd = pc.min(ids).as_py(), pc.max(ids).as_py(), int(lost[0].as_py())
        if (odd, low) == (0, 1) or (odd == high + 1 and low == 0):
            first = ("the edges", "the nodes") if low == 1 else ("the nodes", "the edges")
            return f"If {first[0]} count from 0 and {first[1]} from 1, add 1 to the ids of {first[0]}."
    return "Add the node or remove the edge."


def _within(some: Any, known: Any) -> bool:
    """Whether all texts are among those that are known, none of which stands for two ids."""
    found = positions(some, known)
    return bool(len(found) and found.min() >= 0) and int(pc.count_distinct(known).as_py()) == len(known)
