"""Histories of edges for tests: a table of nodes, and what comes and goes on each day."""

import numpy as np

import sfumato as sf
from sfumato.evaluation._source import Source

NODES, BUDGET = 24, sf.Budget(2.0, 1e-6)
FORMS = {
    "increments": {"days": 6, "refreshes": 3},
    "sums": {"days": 6, "refreshes": 6, "noise": "sums", "deletions": True},
}


def table(folder):
    coins = np.random.default_rng(0)
    rows = [f"n{i},{'ab'[i % 2]},{coins.random():.3f},{('train', 'train', 'val', 'test')[i % 4]}" for i in range(NODES)]
    (folder / "people.csv").write_text("\n".join(["id,group,size,part", *rows]) + "\n")
    (folder / "schema.toml").write_text('label = "group"\nid = "id"\nrole = "part"\nclasses = ["a", "b"]\n')
    return Source(nodes=str(folder / "people.csv"), schema=str(folder / "schema.toml"), directed=False, labeled=True)


def days(count=4, seed=1):
    """Edges of each day, and those that go."""
    coins, seen, found = np.random.default_rng(seed), [], []
    for _ in range(count):
        came = [pair for pair in coins.integers(0, NODES, (6, 2)).tolist() if pair[0] < pair[1] and pair not in seen]
        came = [list(pair) for pair in dict.fromkeys(map(tuple, came))]
        went = seen[:1]
        seen = seen[1:] + came
        found.append((np.array(came).reshape(-1, 2).T, np.array(went, int).reshape(-1, 2).T))
        seen_ever = [list(pair) for one, _ in found for pair in one.T.tolist()]
        seen = [pair for pair in seen if pair in seen_ever]
    return found


def kept(daily):
    """The day through which a history was released, and its rows."""
    with np.load(daily.folder / "released.npz") as found:
        return int(found["day"]), found["kept"]


class Killed(BaseException):
    """Stands for the end of the process."""
