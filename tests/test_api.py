"""The five lines of the quick start from every kind of input, the public names, and loading what was saved."""

import os
import subprocess
import sys

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import DataError, InputError
from sfumato.graph._synthetic import stochastic_block_model

UNIT = sf.EdgeLevel(directed=False)


@pytest.fixture(scope="module")
def original():
    return stochastic_block_model(120, 3, mean_degree=25, num_features=4, seed=3)


@pytest.fixture(scope="module")
def tables(original, tmp_path_factory):
    """The graph as CSV and Parquet files, with a schema."""
    import duckdb

    folder = tmp_path_factory.mktemp("tables")
    lines = ["id,f0,f1,f2,f3,year"]
    lines += [",".join(map(str, [v, *original.x[v].tolist(), original.y[v]])) for v in range(120)]
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n")
    source = np.repeat(np.arange(120), np.diff(original.indptr))
    pairs = [f"{u},{v}" for u, v in zip(source, original.indices, strict=True) if u < v]
    (folder / "edges.csv").write_text("\n".join(["source,target", *pairs]) + "\n")
    (folder / "schema.toml").write_text('label = "year"\nclasses = [0, 1, 2]\ndirected = false\n')
    with duckdb.connect() as connection:
        for name in ("nodes", "edges"):
            connection.read_csv(str(folder / f"{name}.csv")).write_parquet(str(folder / f"{name}.parquet"))
    return folder


def from_csv(original, folder):
    return sf.graph.read_csv(folder / "nodes.csv", folder / "edges.csv", schema=folder / "schema.toml")


def from_parquet(original, folder):
    return sf.graph.read_parquet(folder / "nodes.parquet", folder / "edges.parquet", schema=folder / "schema.toml")


def from_pyg(original, folder):
    return sf.graph.from_pyg(sf.graph.to_pyg(original), directed=False)


def from_networkx(original, folder):
    nx = sf.graph.to_networkx(original)
    return sf.graph.from_networkx(nx, label="label", features="x")


@pytest.mark.parametrize("read", [from_csv, from_parquet, from_pyg, from_networkx])
def test_five_lines(read, original, tables, tmp_path):
    graph = read(original, tables)
    plan = sf.GAP().calibrate(sf.Budget(epsilon=1.0, delta=1e-7), unit=UNIT, public=graph.public_facts(UNIT))
    fitted = plan.fit(graph)
    probabilities, certificate = fitted.predict_proba(graph), fitted.certificate
    run = fitted.save(tmp_path / "runs" / "first")

    assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (120, original.num_edges, 3)
    np.testing.assert_allclose(graph.x, original.x, rtol=1e-6)
    assert plan.event("aggregate/2").noise_multiplier == pytest.approx(6.6166, abs=6e-5)
    assert probabilities.shape == (120, 3)
    assert certificate.epsilon == pytest.approx(1, rel=1e-3)
    assert certificate.epsilon <= 1
    assert "the presence of any one undirected edge" in str(certificate)
    assert str(plan).startswith(
        "gap protects the presence of any one undirected edge (add-remove).\nCost: epsilon = 1,"
    )
    np.testing.assert_array_equal(sf.load(run).predict_proba(graph), probabilities)
    assert sf.verify.verify(run).valid


def test_a_ledger_file_is_written_as_releases_happen(original, tmp_path):
    path, seen = tmp_path / "ledger.jsonl", []

    def progress(stage, done, total):
        seen.append((stage, len(path.read_text().splitlines())))

    graph = original.with_split()
    fitted = sf.GAP().calibrate(sf.Budget(1, 1e-7), UNIT, graph.public_facts(UNIT)).fit(
        graph, ledger=path, progress=progress
    )  # fmt: skip
    assert dict(seen) == {"fitting a network on features": 1, "fitting the classifier": 3}
    assert path.read_text() == fitted.ledger.text()


def test_loading_what_is_no_run_is_refused(original, tmp_path):
    with pytest.raises(InputError, match="to be a run folder"):
        sf.load(tmp_path / "absent")
    with pytest.raises(DataError, match="finished run folder"):
        sf.load(tmp_path)
    graph = original.with_split()
    run = sf.MLP().calibrate(sf.Budget(1, 1e-7), UNIT, graph.public_facts(UNIT)).fit(graph).save(tmp_path / "run")
    for name in ("model.safetensors", "certificate.json", "ledger.jsonl"):
        content = (run / "release" / name).read_bytes()
        (run / "release" / name).write_bytes(content + b"\n")
        with pytest.raises(DataError, match=rf"release/{name} of .* differs from its manifest"):
            sf.load(run)
        (run / "release" / name).write_bytes(content)
    (run / "release" / "manifest.json").write_text('{"files":{}}')
    with pytest.raises(DataError, match="missing or malformed"):
        sf.load(run)


def test_public_names_are_there_and_listed():
    assert set(sf.__all__) <= set(dir(sf))
    for name in sf.__all__:
        assert getattr(sf, name) is not None
    named = {
        "GAP",
        "MLP",
        "SAGE",
        "Tuned",
        "Budget",
        "EdgeLevel",
        "NodeLevel",
        "RecordLevel",
        "NoPrivacy",
        "load",
        "graph",
    }
    assert named <= set(sf.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = sf.Nothing


@pytest.mark.parametrize(("before", "after"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_waiting_threads_sleep_unless_the_user_says_otherwise(before, after):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"} | before
    code = "import os, sfumato; print(os.environ['OMP_WAIT_POLICY'])"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == after + "\n"
