"""Claims on the ledger of one data set, for tests of what it counts and of its file."""

from sfumato.record._claims import Claim, new_run

UNIT = {"name": "edge", "relation": "add-remove", "directed": False}
DATASET = {"name": "campus", "ids_digest": "ab" * 32}


def claim(epsilon=0.1, delta=1e-7, mu=None, draws=32):
    return Claim(new_run(), "gap", epsilon, delta, mu, draws, "0" * 64)


def reserve(ledger, *claims):
    for one in claims:
        ledger.reserve(one, unit=UNIT, dataset=DATASET)


def files(path):
    return {p.name: p.read_bytes() for p in path.parent.iterdir() if not p.name.endswith(".lock")}
