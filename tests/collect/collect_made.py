"""Closed collections made in a moment: a small graph, its users' values, and the reports that they draw."""

import hashlib

import numpy as np

from sfumato.collect._closed import Closed
from sfumato.collect._schema import Schema
from sfumato.collect._wire import encode, public_id
from sfumato.graph import stochastic_block_model
from sfumato.local._collection import topology
from sfumato.noise.coins import SecretWords

BASE = {
    "collection": "test-1",
    "purpose": "A test.",
    "opens": "2026-12-01T00:00:00Z",
    "closes": "2027-01-01T00:00:00Z",
    "server_key": "00" * 32,
}
CLASSES = ["a", "b", "c"]
GRAPH = stochastic_block_model(150, 3, mean_degree=8, homophily=0.8, num_features=6, seed=0)
USERS = [f"u{number:03}" for number in range(150)]


def schema(**parts):
    """A schema that asks for these parts."""
    return Schema.from_dict({**BASE, **parts})


def features(epsilon=2.0, mechanism="multi-bit", count=6, **settings):
    """The table of a schema on features from 0 to 1."""
    return {"names": [f"f{number}" for number in range(count)], "epsilon": epsilon, "mechanism": mechanism, **settings}


def label(epsilon=2.0, **settings):
    """The table of a schema on the label."""
    return {"classes": CLASSES, "epsilon": epsilon, **settings}


def links(users=USERS, epsilon=6.0):
    """The table of a schema on links."""
    return {"users": len(users), "roster": hashlib.sha256("".join(f"{u}\n" for u in users).encode()).hexdigest(),
            "epsilon": epsilon}  # fmt: skip


def drawn(asked, rows, labels, users, key=bytes(32)):
    """The messages of these users, who report all that is asked but links."""
    source, ids = SecretWords(key), np.array([public_id(asked, user) for user in users])
    answers = [{} for _ in users]
    if asked.features:
        reports = asked.features.randomizer.encode(rows, source, ids)
        for place, answer in enumerate(answers):
            answer["features"] = reports.key(place)
    if asked.label:
        reports = asked.label.randomizer.encode(labels, source)
        for place, answer in enumerate(answers):
            answer["label"] = reports.key(place)
    return {user: encode(asked, user, answer) for user, answer in zip(users, answers, strict=True)}


def closed(asked, messages):
    """The closed collection of these messages, by user."""
    return Closed(asked, tuple(messages[user] for user in sorted(messages, key=str.encode)))


def collection(users=USERS, **parts):
    """A closed collection in which these users of the graph report."""
    asked, rows = schema(**parts), [USERS.index(user) for user in users]
    return closed(asked, drawn(asked, GRAPH.x[rows], GRAPH.y[rows], users))


def write_tables(folder, users=USERS):
    """Write the links of the graph, and its nodes with label and features."""
    source = np.repeat(np.arange(150), np.diff(GRAPH.indptr))
    pairs = [(users[a], users[b]) for a, b in zip(source, GRAPH.indices, strict=True) if a < b]
    (folder / "edges.csv").write_text("from,to\n" + "".join(f"{a},{b}\n" for a, b in pairs))
    names = ",".join(f"f{number}" for number in range(6))
    rows = (f"{u},{CLASSES[y]},{','.join(map(str, x))}\n" for u, y, x in zip(users, GRAPH.y, GRAPH.x, strict=True))
    (folder / "nodes.csv").write_text(f"id,class,{names}\n" + "".join(rows))
    return folder


def link_collection(users=USERS, epsilon=6.0):
    """A closed collection in which these users of the graph report their links."""
    asked = schema(links=links(epsilon=epsilon))
    reports = asked.links.randomizer.encode(topology(GRAPH), SecretWords(bytes(32)))
    bits = np.unpackbits(reports.bits, axis=1, count=len(USERS), bitorder="little")
    messages = {}
    for user in users:
        row = USERS.index(user)
        answer = (int(reports.degrees[row]), *np.delete(bits[row], row).tolist())
        messages[user] = encode(asked, user, {"links": answer})
    return closed(asked, messages), reports
