"""What is audited outside of plans of a trusted curator: randomizers of users, votes of teachers, and histories of days."""

from functools import partial

import numpy as np
from test_frequencies import SHARES
from test_histories import FORMS

import sfumato as sf
from sfumato.audit._auditor import audit
from sfumato.audit._evidence import Audit
from sfumato.audit._frequencies import audit_randomizer, log_ratios
from sfumato.audit._histories import audit_history
from sfumato.audit._newcomers import audit_newcomers
from sfumato.audit._teachers import audit_teachers
from sfumato.audit._thresholds import Split, audit_runs
from sfumato.catalog import method_named
from sfumato.collect._drawing import Values, draw
from sfumato.collect._schema import Schema
from sfumato.collect._wire import decode
from sfumato.noise.coins import SecretWords
from sfumato.pate._aggregation import GNMax, LNMax
from sfumato.randomizers import NeighborLists

FOUR = sf.Budget(4.0, 1e-6)
_VOTES = ((LNMax(0.5), 1), (LNMax(2.0), 1), (GNMax(22.0), 200))


def _of_randomizer(one, runs=20_000):
    claim = one.realized_epsilon if isinstance(one, NeighborLists) else one.total_epsilon
    return Audit(type(one).__name__, "", claim, getattr(one, "delta", 0.0), 0.999, (audit_randomizer(one, runs=runs),))


_ASKED = {
    "collection": "audit", "purpose": "An audit.", "opens": "2026-01-01T00:00:00Z", "closes": "2126-01-01T00:00:00Z",
    "server_key": "00" * 32, "label": {"name": "genre", "classes": ["a", "b", "c"], "epsilon": 1.0},
    "features": {"columns": [{"name": "age", "min": 0, "max": 120}], "epsilon": 1.0},
}  # fmt: skip


def _collected(runs=20_000):
    """What devices send, as the server reads it: half of them hold the highest age and class a, half the lowest and class b."""
    asked, kinds = Schema.from_dict(_ASKED), []
    for side in (0, 1):
        users = tuple(f"u{side}-{number}" for number in range(runs))
        values = Values(users, np.full((runs, 1), 120.0 * (1 - side)), (side,) * runs)
        read = [decode(asked, message).answers for message in draw(asked, values, SecretWords())]
        kinds.append(np.array([[*one["features"], *one["label"]] for one in read]))
    both = log_ratios(*kinds)
    found = audit_runs(*both, name="answers of devices", knowledge="all messages", delta=0.0, policy=Split())
    return Audit("collection", "", 2.0, 0.0, 0.999, (found,))


def _named(one):
    columns = getattr(one, "num_features", None)
    return type(one).__name__ + (f", {columns} column{'s' * (columns > 1)}" if columns else "")


OTHERS = (
    *((_named(one), "one user's value", partial(_of_randomizer, one)) for one, _ in SHARES),
    *(
        (f"PATE, {votes.name}, {queries} answer{'s' * (queries > 1)}", "record, replaced",
         partial(audit_teachers, votes, queries=queries, delta=1e-6, runs=20_000))
        for votes, queries in _VOTES
    ),
    *((f"daily-messages, {name}", "undirected edge", partial(audit_history, method, sf.Budget(4.0, 1e-6)))
      for name, method in FORMS.items()),
    *(("label-messages, arrivals", unit, partial(audit_newcomers, FOUR, directed=unit == "arc"))
      for unit in ("arc", "undirected edge")),
    ("collection, a feature and a label", "one user's values", _collected),
)  # fmt: skip
"""A name, a unit, and what audits it."""
DRAWN = (("mlp", "record", partial(audit, method_named("mlp"), sf.RecordLevel(), FOUR, attacks=("sampled",), size=4)),)
TIGHT = (
    ("gap", "undirected edge",
     partial(audit, sf.GAP(epochs=1), sf.EdgeLevel(directed=False), sf.Budget(1.0, 1e-6), fits=30)),
)  # fmt: skip
