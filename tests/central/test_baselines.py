"""Plain networks of other depths: those that the sources of GAP and ProGAP compare with, and what stays as it was."""

import numpy as np
import pytest
import torch

import sfumato as sf
from sfumato.catalog import method_for
from sfumato.central._edgerand import EdgeRand
from sfumato.errors import InputError
from sfumato.graph import stochastic_block_model
from sfumato.verify import verify

GRAPH = stochastic_block_model(60, 2, mean_degree=6, num_features=5, seed=0).with_split(seed=0)
NONE, NODE = sf.NoPrivacy(), sf.NodeLevel(max_out_degree=6)
GAPS = {"aggregator": "sum", "layers_before": 2, "num_layers": 3, "width": 8}
PROGAPS = {**GAPS, "layers_before": 1, "jumping": True}


def fitted(method, budget=None, unit=NONE):
    return method.calibrate(budget, unit, GRAPH.public_facts(unit)).fit(GRAPH, seed=0)


@pytest.mark.parametrize("jumping", [False, True])
def test_sums_between_linear_layers_are_the_network_that_edgerand_trains_without_privacy(jumping):
    one = fitted(sf.SAGE(**GAPS | {"jumping": jumping}, epochs=4))
    other = fitted(EdgeRand(num_layers=3, width=8, jumping=jumping, epochs=4))
    assert one.predict_proba(GRAPH) == pytest.approx(other.predict_proba(GRAPH), abs=1e-5)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("aggregator", ["mean", "sum"])
def test_plain_message_passing_of_any_depth(aggregator, layers):
    """Written out on a dense matrix, from the stored weights."""
    method = sf.SAGE(aggregator=aggregator, num_layers=layers, width=4, epochs=2)
    model = fitted(method)
    w = {name.removeprefix("network."): torch.from_numpy(array) for name, array in model.weights.items()}
    adjacency, hidden = np.zeros((60, 60), np.float32), torch.from_numpy(np.asarray(GRAPH.x, np.float32))
    adjacency[GRAPH.indices, np.repeat(np.arange(60), np.diff(GRAPH.indptr))] = 1
    if aggregator == "mean":
        adjacency /= np.maximum(adjacency.sum(1, keepdims=True), 1)
    for k in range(layers):
        own, sent = (hidden @ w[f"{part}.{k}.weight"].T + w[f"{part}.{k}.bias"] for part in ("own", "neighbor"))
        hidden = own + torch.from_numpy(adjacency) @ sent
        if k < layers - 1:
            norm = f"norm{k + 1}" if k else "norm"
            stats = (w[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
            hidden = torch.selu(torch.nn.functional.batch_norm(hidden, *stats))
    assert hidden.softmax(1).numpy() == pytest.approx(model.predict_proba(GRAPH), abs=1e-4)


def test_layers_before_and_jumping_change_the_size_of_the_network():
    names = {name: array.shape for name, array in fitted(sf.SAGE(**PROGAPS, epochs=1)).weights.items()}
    assert names["network.head.weight"] == (2, 24)
    assert "network.before.layers.0.weight" in names
    assert "network.before.layers.1.weight" not in names


@pytest.mark.parametrize(("layers", "unit"), [(1, NODE), (3, NODE), (3, sf.EdgeLevel(directed=False))])
def test_an_mlp_of_any_depth_trains_and_verifies(layers, unit, tmp_path):
    method = sf.MLP(num_layers=layers, width=4, epochs=1, batch_size=20)
    model = fitted(method, sf.Budget(8.0, 1e-3), unit)
    model.save(tmp_path / "run")
    assert verify(tmp_path / "run").valid
    again = sf.load(tmp_path / "run")
    assert np.array_equal(again.predict_proba(GRAPH), model.predict_proba(GRAPH))
    assert sum("layers" in name for name in again.weights) == 2 * layers
    assert model.certificate.values["settings"]["num_layers"] == layers


def test_kept_certificates_name_only_what_was_a_setting_then():
    assert set(sf.SAGE().settings) == {"width", "epochs", "learning_rate"}
    assert "num_layers" not in sf.MLP().settings
    assert sf.SAGE(**PROGAPS).settings.items() >= PROGAPS.items()


def test_the_command_line_reaches_them():
    given = ("aggregator=sum", "num_layers=5", "layers_before=1", "jumping=true", "width=16")
    assert method_for("sage", {"set": given}) == sf.SAGE(
        16, aggregator="sum", num_layers=5, layers_before=1, jumping=True
    )
    assert method_for("mlp", {"set": ("num_layers=3",)}) == sf.MLP(num_layers=3)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"aggregator": "max"}, "aggregator"),
        ({"num_layers": 9}, "num_layers"),
        ({"layers_before": -1}, "layers_before"),
        ({"jumping": True}, "Set layers_before to 1 or more"),
    ],
)
def test_settings_out_of_range(bad, message):
    with pytest.raises(InputError, match=message):
        sf.SAGE(**bad)
    with pytest.raises(InputError, match="num_layers"):
        sf.MLP(num_layers=0)
