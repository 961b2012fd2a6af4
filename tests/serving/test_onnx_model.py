"""Models that leave as ONNX predict what the package predicts, where a runtime for them is installed."""

from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.central._linear import Linear
from sfumato.errors import InputError
from sfumato.graph import Targets
from sfumato.record._release_folder import read_release
from sfumato.serving._onnx_model import onnx_model

EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=10)


@pytest.fixture(scope="module")
def runtime():
    """Predict with the file of a run, from features and released rows."""
    pytest.importorskip("onnx", reason="onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

    def predict(run, graph):
        stored = read_release(run)
        session = runtime.InferenceSession(onnx_model(stored), providers=["CPUExecutionProvider"])
        given = {name.replace("/", "_"): rows for name, rows in stored.released.items()} | {"features": graph.x}
        named = {one.name for one in session.get_inputs()}
        found, predicted = session.run(["probabilities", "predicted"], {name: given[name] for name in named})
        assert (predicted == (found.argmax(axis=1) if predicted.ndim == 1 else found > 0.5)).all()
        return found, session

    return predict


def agrees(fitted, graph, runtime, folder):
    found, session = runtime(fitted.save(folder), graph)
    expected = fitted.predict_proba(graph)
    assert found.dtype == np.float32
    assert np.abs(found - expected).max() < 1e-5
    assert np.ptp(expected, axis=0).max() > 0.01  # they tell nodes apart
    return session


def test_label_messages_on_each_graph_free_model(graph, message_runs, runtime, tmp_path):
    for name, run in message_runs.items():
        agrees(run, graph, runtime, tmp_path / name)
    for hops in (1, 2):
        run = message_runs[f"{hops}-trees"]
        average = np.tile([70_000, 20_000, 10_000], hops) * 32767
        hubs = {name: rows + average for name, rows in run.released.items()}
        agrees(replace(run, released=hubs), graph, runtime, tmp_path / f"{hops}-hubs")


@pytest.mark.parametrize("combine", ["cat", "sum", "attention"])
@pytest.mark.parametrize("unit", [EDGE, NODE], ids=["edge", "node"])
def test_gap_under_both_units(graph, fit, runtime, tmp_path, combine, unit):
    agrees(fit(sf.GAP(epochs=2, combine=combine), unit), graph, runtime, tmp_path / "run")


def test_gap_without_encoder_and_models_without_a_graph(graph, fit, runtime, tmp_path):
    agrees(fit(sf.GAP(epochs=2, encoder=False, num_hops=3)), graph, runtime, tmp_path / "gap")
    session = agrees(fit(sf.GraphFree(epochs=5)), graph, runtime, tmp_path / "free")
    said = session.get_modelmeta().custom_metadata_map
    assert said["classes"] == '["0", "1", "2"]'
    assert said["guarantee"].startswith("Protects the presence of any one undirected edge")


@pytest.mark.parametrize("unit", [EDGE, NODE, sf.RecordLevel()], ids=["edge", "node", "record"])
def test_the_linear_model_around_its_center(graph, fit, runtime, tmp_path, unit):
    run = fit(Linear(epochs=5), unit)
    assert ("scale" in run.weights) == (unit != EDGE)
    said = agrees(run, graph, runtime, tmp_path / "run").get_modelmeta().custom_metadata_map
    assert ("calibration" in said) == (unit != EDGE)
    agrees(
        replace(run, weights={name: part for name, part in run.weights.items() if name != "center"}),
        graph,
        runtime,
        tmp_path / "far",
    )


@pytest.mark.parametrize("unit", [EDGE, NODE], ids=["edge", "node"])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_the_network_without_a_graph(graph, fit, runtime, tmp_path, unit, num_layers):
    agrees(fit(sf.MLP(epochs=5, num_layers=num_layers), unit), graph, runtime, tmp_path / "run")


def test_some_rows_predict_as_among_all(graph, fit, runtime, tmp_path):
    run = fit(sf.GAP(epochs=2)).save(tmp_path / "run")
    whole, session = runtime(run, graph)
    rows = {name.replace("/", "_"): part[:3] for name, part in read_release(run).released.items()}
    found, _ = session.run(None, {"features": graph.x[:3], **rows})
    assert np.abs(found - whole[:3]).max() < 1e-6


@pytest.mark.parametrize(
    ("method", "unit", "words"),
    [
        (sf.ProGAP(epochs=1), EDGE, "to be one of label-messages, graph-free, linear, mlp, gap"),
        (sf.LabelMessages(epochs=1), NODE, "to be edge for label-messages"),
    ],
)
def test_other_runs_are_refused(fit, tmp_path, method, unit, words):
    with pytest.raises(InputError, match=words):
        onnx_model(read_release(fit(method, unit).save(tmp_path / "run")))


def test_a_run_without_privacy_is_refused(graph, tmp_path):
    plan = sf.GAP(epochs=1).calibrate(None, sf.NoPrivacy(), graph.public_facts(sf.NoPrivacy()))
    with pytest.raises(InputError, match="Without privacy nothing was released"):
        onnx_model(read_release(plan.fit(graph).save(tmp_path / "run")))


def labeled(graph, kind, values, **how):
    targets = Targets(kind, values, **how)
    return replace(graph, y=None, classes=(), targets=targets, assumed_public=())


def test_several_labels_have_a_chance_each(graph, fit, runtime, tmp_path):
    one = labeled(graph, "multilabel", np.stack([graph.y == 0, graph.y < 2], axis=1))
    agrees(fit(sf.GAP(epochs=2), on=one), one, runtime, tmp_path / "run")


def test_a_number_is_refused(graph, fit, tmp_path):
    one = labeled(graph, "number", graph.y, limits=(0, 2))
    with pytest.raises(InputError, match="A number has no probabilities"):
        onnx_model(read_release(fit(sf.GAP(epochs=2), on=one).save(tmp_path / "run")))
