"""What some unit protects (a feature, a label, an end of an edge) stands in no error, log, output or released file.

Marked values are planted in tables of every kind, and the tables broken in many ways. Ids of nodes are public.
"""

import csv
import struct
import traceback
import warnings
from contextlib import suppress

import numpy as np
import pytest

from sfumato.cli import invoke
from sfumato.errors import InputError
from sfumato.graph import Graph, from_networkx, from_pyg, read_csv, read_parquet, read_sql
from sfumato.graph._targets import Targets
from sfumato.pate._teachers import check_records
from sfumato.pate._votes import check_votes, count_votes

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
duckdb = pytest.importorskip("duckdb")
nx = pytest.importorskip("networkx")

NUMBER, INTEGER = 5.606133713375, 7741903
LABEL, DORM, GHOST = "zebrafinch", "quokka", "ghostuser"
CANARIES = "5.60613", "7741903", LABEL, DORM, GHOST, "n9 -> n3", "'n9'", "'n3'", "n3x"
SCHEMA = {
    "id": "id",
    "classes": ["2004", "2005"],
    "columns": {
        "age": {"min": 0, "max": 5},
        "size": {"min": 0, "max": 2000},
        "dorm": {"categories": ["north", "south"]},
    },
}
OPEN = {"id": "id"}
WAYS = [
    {"schema": SCHEMA},
    {"schema": OPEN},
    {"schema": {**SCHEMA, "max_degree": 2}, "directed": True, "self_loops": "keep"},
    {"schema": {**SCHEMA, "columns": {"age": {"categories": ["1", "2"]}}}, "self_loops": "error"},
    {"schema": OPEN, "text": ["dorm"], "text_features": "hashing:8"},
    {"schema": OPEN, "text": ["dorm"], "text_features": "bag-of-words"},
]


def told(text):
    """Which planted values a text holds."""
    return [canary for canary in CANARIES if canary in text]


def tables():
    """Twelve nodes n0, ..., n11 on a path; no row of either table is planted yet."""
    nodes = [
        {
            "id": f"n{v}",
            "age": 1 + v / 4,
            "size": 1700 + v,
            "dorm": ("north", "south")[v % 2],
            "year": str(2004 + v % 2),
        }
        for v in range(12)
    ]
    return nodes, [{"source": f"n{v}", "target": f"n{v + 1}"} for v in range(11)]


def put(row, **values):
    return lambda nodes, edges: nodes[row].update(values)


def link(source, target):
    return lambda nodes, edges: edges.append({"source": source, "target": target})


def every(column, value):
    return lambda nodes, edges: [node.update({column: value}) for node in nodes]


def degrees(nodes, edges):
    edges += [{"source": "n9", "target": f"n{v}"} for v in (1, 2, 3)]


BREAKS = {
    "number out of range": put(4, age=NUMBER),
    "whole number out of range": put(4, size=INTEGER),
    "every number out of range": every("age", NUMBER),
    "text beside numbers": put(4, age=DORM),
    "text behind a number": put(4, age=f"{NUMBER}x"),
    "numbers beside one text": put(4, size=f"{INTEGER} cm"),
    "number too large": put(4, age=NUMBER * 1e300),
    "number too large for float32": put(4, age=NUMBER * 1e38),
    "infinite beside a planted number": lambda nodes, edges: (put(4, age=np.inf)(nodes, edges), put(5, age=NUMBER)(nodes, edges)),
    "nan beside a planted number": lambda nodes, edges: (put(4, age=np.nan)(nodes, edges), put(5, age=NUMBER)(nodes, edges)),
    "missing number": lambda nodes, edges: (put(4, age=None)(nodes, edges), put(5, age=NUMBER)(nodes, edges)),
    "unknown category": put(4, dorm=DORM),
    "every category unknown": every("dorm", DORM),
    "number as a category": put(4, dorm=str(NUMBER)),
    "unknown class": put(4, year=LABEL),
    "every class unknown": every("year", LABEL),
    "class with a fraction": every("year", NUMBER),
    "numeric class unknown": put(4, year=str(INTEGER)),
    "missing label": lambda nodes, edges: (put(4, year=None)(nodes, edges), put(5, year=LABEL)(nodes, edges)),
    "a node twice": lambda nodes, edges: nodes.append({**nodes[3], "age": NUMBER, "dorm": DORM, "year": LABEL, "id": "n0"}),
    "no id": lambda nodes, edges: nodes.append({**nodes[3], "age": NUMBER, "dorm": DORM, "year": LABEL, "id": None}),
    "dangling arc": link("n9", GHOST),
    "dangling number": link(str(INTEGER), "n9"),
    "no target": link(GHOST, None),
    "self-loop": link("n9", "n9"),
    "arc twice": lambda nodes, edges: (link("n9", "n3")(nodes, edges), link("n3", "n9")(nodes, edges)),
    "too many arcs": degrees,
}  # fmt: skip


def write_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def arrow(rows):
    """A column of one kind as it is, a mixed one as text."""
    columns = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            columns[name] = pa.array([None if value is None else str(value) for value in values])
    return pa.table(columns)


def by_csv(nodes, edges, folder, how):
    write_csv(folder / "nodes.csv", nodes)
    write_csv(folder / "edges.csv", edges)
    return read_csv(folder / "nodes.csv", folder / "edges.csv", **how)


def by_parquet(nodes, edges, folder, how):
    pq.write_table(arrow(nodes), folder / "nodes.parquet")
    pq.write_table(arrow(edges), folder / "edges.parquet")
    return read_parquet(folder / "nodes.parquet", folder / "edges.parquet", **how)


def by_sql(nodes, edges, folder, how):
    people, links = arrow(nodes), arrow(edges)
    with duckdb.connect() as connection:
        connection.register("people", people)
        connection.register("links", links)
        return read_sql(connection, "SELECT * REPLACE (age::DOUBLE AS age) FROM people", "FROM links", **how)


def by_networkx(nodes, edges, folder, how):
    g = nx.Graph()
    for node in nodes:
        g.add_node(node["id"] or "none", **{name: value for name, value in node.items() if name != "id"})
    ends = [(edge["source"], edge["target"]) for edge in edges]
    g.add_edges_from((u, v) for u, v in ends if u in g and v in g)  # another end would be a node, and ids are public
    how = {name: value for name, value in how.items() if name != "directed"}
    with suppress(InputError):
        from_networkx(g, features="age", **how)
    return from_networkx(g, features=["age", "size", "dorm"], **how)


READERS = by_csv, by_parquet, by_sql, by_networkx


def outcome(read):
    """The graph, if any, and all that was said: the error with its chain, warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            graph, said = read(), ""
        except InputError as error:
            graph, said = None, "".join(traceback.format_exception(error))
    return graph, said + "".join(str(one.message) for one in caught)


@pytest.mark.parametrize("broken", BREAKS)
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_readers_tell_no_private_value(reader, broken, tmp_path, capfd, caplog):
    for way in WAYS if reader is by_csv else WAYS[:2]:
        nodes, edges = tables()
        BREAKS[broken](nodes, edges)
        how = {"label": "year", **way}
        graph, said = outcome(lambda how=how, nodes=nodes, edges=edges: reader(nodes, edges, tmp_path, how))
        assert not told("".join([said, *capfd.readouterr(), caplog.text, repr(graph)]))


def test_the_planted_values_would_be_seen():
    """Each break is there to be told of: a message that quotes the tables would hold a planted value."""
    for name, broken in BREAKS.items():
        nodes, edges = tables()
        broken(nodes, edges)
        quoted = repr([row for row in nodes if row["id"] != "n3" and row["id"] != "n9"] + edges)
        assert told(quoted), name


def late_text(folder):
    """A column that DuckDB takes for numbers, until long after the rows that it looks at."""
    rows = "".join(f"n{i},{i}\n" for i in range(25_000))
    (folder / "nodes.csv").write_text(f"id,age\n{rows}m,{DORM}\n")
    (folder / "edges.csv").write_text("source,target\n")
    return read_csv(folder / "nodes.csv", folder / "edges.csv")


def cast_in_a_query(folder):
    pq.write_table(arrow([{"id": "a", "age": DORM}]), folder / "nodes.parquet")
    query = f"SELECT id, age::INT AS age FROM '{folder / 'nodes.parquet'}'"
    with duckdb.connect() as connection:
        return read_sql(connection, query, "SELECT 1 AS a, 1 AS b")


def headless(folder):
    (folder / "nodes.csv").write_text(f"id,age\n{INTEGER},1\n")
    (folder / "edges.csv").write_text(f"{INTEGER},12\n")
    return read_csv(folder / "nodes.csv", folder / "edges.csv")


def ragged(folder):
    (folder / "nodes.csv").write_text(f"id,age\na,1\nb,{NUMBER},{DORM}\n")
    (folder / "edges.csv").write_text("source,target\n")
    return read_csv(folder / "nodes.csv", folder / "edges.csv")


def roles(folder):
    write_csv(folder / "nodes.csv", [{"id": "a", "role": "train"}, {"id": "b", "role": DORM}])
    (folder / "edges.csv").write_text("source,target\n")
    return read_csv(folder / "nodes.csv", folder / "edges.csv", role="role")


def fractions_as_roles(folder):
    pq.write_table(arrow([{"id": "a", "role": NUMBER}]), folder / "nodes.parquet")
    pq.write_table(arrow([{"source": "a", "target": "a"}]), folder / "edges.parquet")
    return read_parquet(folder / "nodes.parquet", folder / "edges.parquet", role="role")


def pyg(**fields):
    def read(folder):
        torch, data = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
        return from_pyg(data.Data(**{name: torch.tensor(value) for name, value in fields.items()}), directed=False)

    return read


def graph(**fields):
    return lambda folder: Graph.from_edges([0], [1], 3, directed=False, **fields)


def edges(*rows, directed=True, num_nodes=3, **more):
    return lambda folder: Graph.from_edges(*zip(*rows, strict=True), num_nodes, directed=directed, **more)


HUGE = 7741903 * 10**300  # too large for float64 beside fractions, and for 64 bits
CALLS = {
    "late text": late_text,
    "cast in a query": cast_in_a_query,
    "no header": headless,
    "ragged row": ragged,
    "roles": roles,
    "fractions as roles": fractions_as_roles,
    "pyg label": pyg(edge_index=[[0], [1]], y=[NUMBER, 1.0]),
    "pyg arc": pyg(edge_index=[[0], [INTEGER]], num_nodes=2),
    "pyg feature": pyg(edge_index=[[0, 1], [1, 0]], x=[[float("inf")], [NUMBER]]),
    "label": graph(y=[0, 1, INTEGER], classes=("a", "b")),
    "negative label": graph(y=[0, 1, -INTEGER]),
    "fraction": graph(y=[0.0, 1.0, NUMBER]),
    "role": graph(roles=[0, 1, INTEGER]),
    "feature": graph(x=[[1.0], [2.0], [NUMBER * 1e300]]),
    "arc": edges((0, INTEGER)),
    "negative arc": edges((0, -INTEGER)),
    "loop": edges((INTEGER, INTEGER), num_nodes=INTEGER + 1, self_loops="error"),
    "no reverse": lambda folder: Graph.from_arcs([2, INTEGER], [1, 0], INTEGER + 1, directed=False),
    "degree": lambda folder: Graph.from_edges([0] * 7, range(1, 8), INTEGER + 1, directed=True, max_degree=6),
    "vector": lambda folder: from_networkx(nx.Graph([(1, 2)]), features="v"),
    "vectors": lambda folder: from_networkx(vectors([NUMBER], [NUMBER, 1.0]), features="v"),
    "text vectors": lambda folder: from_networkx(vectors([NUMBER], DORM), features="v"),
    "huge": lambda folder: from_networkx(vectors(1, HUGE), features=["v"]),
    "mixed": lambda folder: from_networkx(vectors(1, DORM), features=["v"]),
    "votes": lambda folder: check_votes(np.array([[1.0, 1.0], [NUMBER, 1.0]])),
    "sums": lambda folder: check_votes(np.array([[1, 1], [INTEGER, 0]])),
    "predictions": lambda folder: count_votes(np.array([[0, INTEGER]]), 2),
    "one number": lambda folder: Targets("number", [[NUMBER], [NUMBER]]),
    "a number too large": lambda folder: Targets("number", [[1.0], [NUMBER * 1e30]]),
    "records": lambda folder: check_records(np.zeros((2, 1)), np.array([0, INTEGER]), [1, 2], 2),
}


def vectors(*values):
    g = nx.empty_graph(len(values))
    for node, value in enumerate(values):
        g.nodes[node]["v"] = value
    return g


@pytest.mark.parametrize("call", CALLS)
def test_errors_tell_no_private_value(call, tmp_path, capfd):
    found, said = outcome(lambda: CALLS[call](tmp_path))
    assert found is None
    assert said
    # Lines of source code are no message: a traceback quotes them where a call is written out above.
    lines = [line for line in said.splitlines() if not line.startswith("    ")]
    assert not told("\n".join([*lines, *capfd.readouterr()]))


@pytest.mark.parametrize(("unit", "options"), [("edge", ()), ("node", ("--max-degree", "5"))])
def test_a_run_on_values_beyond_the_schema_tells_none(unit, options, tmp_path, capfd):
    """They are clipped, or taken as missing; `evaluation/` alone counts them."""
    nodes, edges = tables()
    nodes = [{**node, "id": f"m{copy}{node['id']}"} for copy in range(8) for node in nodes]
    edges = [{name: f"m{copy}{end}" for name, end in edge.items()} for copy in range(8) for edge in edges]
    nodes[0] |= {"age": NUMBER, "dorm": DORM}
    nodes[1] |= {"size": INTEGER, "year": LABEL}
    write_csv(tmp_path / "nodes.csv", nodes)
    write_csv(tmp_path / "edges.csv", edges)
    (tmp_path / "schema.toml").write_text(
        'id = "id"\nlabel = "year"\nclasses = ["2004", "2005"]\n[columns.age]\nmin = 0\nmax = 5\n'
        '[columns.size]\nmin = 0\nmax = 2000\n[columns.dorm]\ncategories = ["north", "south"]\n'
    )
    files = [f"--{name}={tmp_path / name}.csv" for name in ("nodes", "edges")]
    privacy = ["--unit", unit, "--epsilon", "8", "--delta", "1e-5", *options]
    run = tmp_path / "run"
    arguments = ["train", "label-messages", *files, f"--schema={tmp_path / 'schema.toml'}", "--label=year", *privacy]
    assert invoke([*arguments, "--out", str(run), "--verbose"]) == 0
    assert invoke(["predict", str(run)]) == 0
    assert invoke(["verify", str(run)]) == 0
    out, err = capfd.readouterr()
    assert not told(out + err)
    released = [path.read_bytes() for path in (run / "release").rglob("*") if path.is_file()]
    assert released
    marks = [canary.encode() for canary in CANARIES] + [struct.pack(f"<{kind}", NUMBER) for kind in "fd"]
    assert not [mark for mark in marks for content in released if mark in content]
    metrics = (run / "evaluation" / "metrics.json").read_text()
    assert '"outside_schema"' in metrics
    assert '"outside_schema"' not in out
    assert not told(metrics)
