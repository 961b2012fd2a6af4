"""The options that say what columns of the edge table mean, beside its two ends, and who owns rows of either table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from sfumato.cli._table import DATA, option

_tables = partial(option, panel=DATA, commands="train check tune describe", again=True)
_trained = partial(option, panel=DATA, commands="train check", again=True)


@dataclass(frozen=True, kw_only=True)
class EdgeOptions:
    """Weights, types, times and owners."""

    edge_weight: str | None = _tables(
        "The column of the edge table that holds weights of at least 0 (default: as the schema says, else every edge counts "
        "the same). Rows of one edge are added.",
        first_in={"describe": DATA},
    )
    max_weight: float | None = _tables(
        "With --edge-weight: the largest weight that counts in full, such as 100; larger ones are clipped to it. It is "
        "public: choose it without looking at the data.",
        first_in={"describe": DATA},
    )
    window: str | None = _tables(
        "COLUMN=WINDOW: read only the edges whose time in that column of the edge table lies in this day, week, month, quarter "
        "or year of UTC, such as date=2026-03. With --ledger and, at its first run, --population: each window has the totals of "
        "the ledger for itself, and a record is one edge, or one person, in one window. With --unit edge, arc or person."
    )
    split_by_time: str | None = _trained(
        "COLUMN:DATE, such as date:2026-03-01: learn links from the edges whose time in that column of the edge table is before "
        "this day of UTC, and score those that are new from it on (with --task link). Nothing that leaves reads these; the "
        "guarantee covers them too."
    )
    recency: str | None = _tables(
        "COLUMN:HALFLIFE@DATE, such as date:90d@2026-03-01: the weight of an edge halves with each half-life (days d, weeks w, "
        "years y) of its age on that day, and is at most 1; with a column of weights both count, up to their bound. The day is "
        "public, never the newest one of the table; without it, that of the split by time, or the last one of the window."
    )
    person: str | None = _tables(
        "The column that says who owns a row, with --unit person. Beside --edges-per-person, of the edge table, such as the "
        "patient of a referral (it may be one of the ends): all edges that one person owns are one record. Beside "
        "--nodes-per-person, of the node table, such as the customer of an account: all nodes that one person owns are one "
        "record."
    )
    edges_per_person: int | None = _tables(
        "With --person: the most distinct edges that one person adds to the graph. Of a person with more, a fixed choice that "
        "reads this person's rows alone keeps so many. It is public: choose it without looking at the data."
    )
    nodes_per_person: int | None = _tables(
        "With --person: the most nodes of one person that are read. Of a person with more, a fixed choice by this person's own "
        "ids keeps so many, and the others are left out with all of their edges. It is public, as is who owns which node: "
        "choose it without looking at the data."
    )
    edge_type: str | None = _tables(
        "The column of the edge table that names the type of each edge, where there are several kinds of links (default: as the "
        "schema says, else all edges are of one kind). A record then is one edge of one type. COLUMN:PERIOD, such as "
        "date:quarter, takes days, weeks, months, quarters or years of UTC as types."
    )
    edge_types: tuple[str, ...] = _tables(
        "With --edge-type: a type that there may be, known without this data. Repeat it for each type.", default=()
    )
    edges_of: tuple[str, ...] = _tables(
        "TYPE=FILE, such as friend=friends.csv: the table of the edges of one type, where each type has its own. Repeat it for "
        "each; the names are the types, and no other table of edges is read.",
        default=(),
    )
    public_types: tuple[str, ...] = _tables(
        "Where edges have types: a type whose edges are no secret. They are read without noise and not protected. May be "
        "repeated.",
        default=(),
    )
