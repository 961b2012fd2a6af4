"""Whoever reads a store with packed features gets what float32 gives: the same released bytes, and the same attacks."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from contracts_quick import UNITS as EVERY_UNIT
from contracts_quick import proves, quick

import sfumato as sf
from sfumato.attacks._listing import ATTACKS
from sfumato.catalog import METHODS as EVERY_METHOD
from sfumato.catalog import method_named
from sfumato.errors import DataError, InputError
from sfumato.graph import Graph, import_tables
from sfumato.graph._packed import PackedRows
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.local._method import AskingMethod
from sfumato.method import _opening as opening
from sfumato.record import _release_folder as release_folder

METHODS = [name for name, method in EVERY_METHOD.items() if not issubclass(method, AskingMethod)]
BUDGET, KEY = sf.Budget(epsilon=2.0, delta=1e-6), bytes(range(32))
UNITS = {title: EVERY_UNIT[title] for title in ("edge", "node", "node-incident", "record", "class")}
QUICK = {"membership": {"epochs": 5}, "membership-lira": {"num_shadows": 4}, "membership-rmia": {"num_shadows": 2}}


@cache
def graphs():
    """One imported graph, 139 numbers of two bytes and two columns of categories, packed and as float32."""
    made, random = stochastic_block_model(120, 3, mean_degree=20, num_features=1, seed=1), np.random.default_rng(0)
    owner = np.repeat(np.arange(120), np.diff(made.indptr))
    numbers = {f"f{i}": (random.integers(0, 5, 120) + made.y % 2) / 8 for i in range(139)}
    part, kind = random.choice(["a", "b", "c", None], 120), [f"k{label % 2}" for label in made.y]
    with TemporaryDirectory() as folder:
        tables = Path(folder) / "nodes.parquet", Path(folder) / "edges.parquet"
        pq.write_table(
            pa.table({"id": np.arange(120), "part": part, **numbers, "kind": kind, "label": made.y}), tables[0]
        )
        pq.write_table(pa.table({"source": owner, "target": made.indices}), tables[1])
        store = import_tables(*tables, Path(folder) / "store", label="label", name="graph")
        packed = Graph.load(store, mmap=False)
    assert isinstance(packed.stored_x, PackedRows)
    assert (packed.stored_x.numbers.dtype, packed.stored_x.codes.dtype) == (np.float16, np.uint8)
    packed = packed.with_split(seed=0).changed(max_degree=60, image_shape=(1, 12, 12), undeclared=())
    plain = replace(packed)  # which reads the features
    assert isinstance(packed.stored_x, PackedRows)
    assert plain.stored_x is packed.x
    return packed, plain


def planned(name, unit):
    return quick(name).calibrate(BUDGET, unit, graphs()[1].public_facts(unit))


CASES = [
    (name, title)
    for name in METHODS
    for title, unit in UNITS.items()
    if proves(quick(name), unit, graphs()[1].public_facts(unit))
]


@pytest.mark.parametrize(("name", "unit"), CASES)
def test_a_release_has_the_same_bytes(name, unit, tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "new_key", lambda: KEY)
    monkeypatch.setattr(release_folder.secrets, "token_bytes", bytes)  # the salt of what nodes may ask for
    plan, kept, said = planned(name, UNITS[unit]), [], []
    for number, graph in enumerate(graphs()):
        folder = tmp_path / str(number)
        fitted = plan.fit(graph, ledger=folder / "release" / "ledger.jsonl", seed=0)
        said.append(fitted.predict_proba(graph))
        fitted.save(folder)
        kept.append({path.name: path.read_bytes() for path in (folder / "release").iterdir()})
    assert kept[0].keys() == kept[1].keys()
    assert not [name for name in kept[0] if kept[0][name] != kept[1][name]]
    np.testing.assert_array_equal(*said)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_finds_the_same(name):
    unit, found = sf.NoPrivacy(), []
    for graph in graphs():
        method = method_named("sage", width=4, epochs=5)
        fitted = method.calibrate(None, unit, graph.public_facts(unit)).fit(graph, seed=0)
        try:
            one = ATTACKS[name](**QUICK.get(name, {})).run(fitted, graph, seed=0)
        except (InputError, DataError) as error:
            one = error
        found.append(repr(one))
    assert found[0] == found[1]


def test_large_graphs_are_scored_part_by_part(monkeypatch):
    unit = UNITS["edge"]
    fitted = method_named("graph-free").calibrate(BUDGET, unit, graphs()[1].public_facts(unit)).fit(graphs()[0], seed=0)
    whole = fitted.predict_proba(graphs()[1])
    monkeypatch.setattr("sfumato._blocks.ROWS_AT_ONCE", 64)
    parts = [fitted.predict_proba(graph) for graph in graphs()]
    np.testing.assert_array_equal(parts[0], parts[1])
    np.testing.assert_allclose(parts[0], whole, rtol=1e-6)
