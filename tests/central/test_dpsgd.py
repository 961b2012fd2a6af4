"""Networks of the user's own by DP-SGD, from a plan to a folder that verifies."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import sfumato as sf
from sfumato.audit._hops import hops as replayed
from sfumato.central._dpsgd import OWN_NETWORK
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.graph import Graph
from sfumato.method import hops
from sfumato.method._gaussian import multiplier_of
from sfumato.verify import verify

UNIT = sf.RecordLevel()
BUDGET = sf.Budget(8.0, 1e-5)


def records(num_rows=400, seed=0, sparse=False):
    """Rows of three classes around three corners, no edge."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 3, num_rows)
    x = (generator.normal(size=(num_rows, 4)) / 2 + 2 * np.eye(4)[y]).astype(np.float32)
    if sparse:
        x[np.abs(x) < 1.5] = 0
    graph = Graph.from_edges([], [], num_rows, directed=False, x=x, y=y, classes=("a", "b", "c"))
    return graph.with_split(seed=0)


@pytest.fixture(scope="module")
def graph():
    return records()


def seeded(*layers):
    torch.manual_seed(0)
    return nn.Sequential(*[make() for make in layers])


def stack():
    return seeded(lambda: nn.Linear(4, 8), nn.ReLU, lambda: nn.Linear(8, 3))


def other():
    return seeded(lambda: nn.Linear(4, 8), lambda: nn.LayerNorm(8), nn.Tanh, lambda: nn.Linear(8, 3))


def planned(method, graph, unit=UNIT, budget=BUDGET):
    return method.calibrate(budget, unit, graph.public_facts(unit, assume_public=True))


@pytest.mark.parametrize("make", [stack, other])
def test_a_network_learns_and_its_folder_verifies(make, graph, tmp_path):
    network = make()
    method = sf.DPSGD(network, epochs=4, batch_size=60, learning_rate=0.05)
    fitted = planned(method, graph).fit(graph)
    assert (fitted.predict(graph) == graph.y)[graph.test_mask].mean() > 0.8
    assert fitted.certificate.epsilon <= 8
    assert verify(fitted.save(tmp_path / "run")).valid
    loaded = method.load(tmp_path / "run")
    assert np.array_equal(loaded.predict_proba(graph), fitted.predict_proba(graph))
    scores = method.trained(fitted.weights)(torch.from_numpy(np.asarray(graph.x)))
    assert np.array_equal(scores.argmax(1).numpy(), fitted.predict(graph))
    for one, first in zip(network.parameters(), make().parameters(), strict=True):
        assert torch.equal(one, first)  # the network that was passed is as it was


def test_whole_batches_and_single_rows_learn_alike(graph):
    """The two ways have other roundings and other noise, and the same mechanism."""
    assert sf.DPSGD(stack())._dense
    found = []
    for loss in (None, functional.cross_entropy):
        method = sf.DPSGD(stack(), loss, epochs=2, batch_size=100, learning_rate=0.05)
        assert method._dense == (loss is None)
        fitted = planned(method, graph, budget=sf.Budget(40.0, 1e-5)).fit(graph)
        found.append(fitted.predict_proba(graph))
    assert np.abs(found[0] - found[1]).mean() < 0.1


def test_other_losses_are_learned(graph):
    method = sf.DPSGD(stack(), nn.MultiMarginLoss(), epochs=4, batch_size=60, learning_rate=0.05)
    fitted = planned(method, graph).fit(graph)
    assert (fitted.predict(graph) == graph.y)[graph.test_mask].mean() > 0.8


def test_frozen_layers_stay_and_are_not_released(graph):
    network = other()
    network[0].requires_grad_(False)
    method = sf.DPSGD(network, epochs=1)
    plan = planned(method, graph)
    assert plan.releases[0].shape == (sum(one.numel() for one in network.parameters()) - 40,)
    trained = method.trained(plan.fit(graph).weights)
    assert torch.equal(trained[0].weight, network[0].weight)
    assert not torch.equal(trained[3].weight, network[3].weight)


def test_rows_without_a_label_and_sparse_rows_are_read():
    graph = records(sparse=True)
    y = graph.y.copy()
    y[:50] = -1
    graph = graph.changed(y=y)
    assert planned(sf.DPSGD(other(), epochs=1), graph).fit(graph).predict(graph).shape == (400,)


@pytest.mark.parametrize("arcs", ["owned", "incident"])
def test_node_level_holds_for_any_arcs(arcs):
    graph = sf.graph.campus(80, seed=0).with_split(seed=0)
    plan = planned(sf.DPSGD(nn.Linear(graph.num_features, 6), epochs=1), graph, sf.NodeLevel(arcs=arcs))
    assert OWN_NETWORK in plan.fit(graph).certificate.values["caveats"]


def test_edge_level_needs_no_method(graph):
    with pytest.raises(UnsupportedUnitError):
        planned(sf.DPSGD(stack()), graph, sf.EdgeLevel(directed=False))
    with pytest.raises(InputError, match="train the network itself"):
        planned(sf.DPSGD(stack()), graph, sf.NoPrivacy(), None).fit(graph)


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), "BatchNorm1d"),
        (nn.Sequential(nn.Dropout(0.1), nn.Linear(4, 3)), "random"),
        (nn.Linear(4, 2), "3 scores a row"),
        (nn.Sequential(nn.Linear(4, 2), nn.Tanh()), "3 scores a row"),
        (nn.Linear(5, 3), "4 features"),
    ],
)
def test_networks_without_a_proof_are_refused_before_anything_is_spent(network, said, graph):
    with pytest.raises(InputError, match=said):
        planned(sf.DPSGD(network), graph)


@pytest.mark.parametrize(
    "wrong",
    [
        {"module": "network"},
        {"loss": 3},
        {"epochs": 0},
        {"batch_size": 0},
        {"learning_rate": 0},
        {"l2_clip_norm": 0},
        {"l2_clip_norm": 1e-12},
    ],
)
def test_settings_are_checked(wrong):
    with pytest.raises(InputError):
        sf.DPSGD(**{"module": stack(), **wrong})


def test_a_run_is_loaded_with_its_own_network_alone(graph, tmp_path):
    planned(sf.DPSGD(stack(), epochs=1), graph).fit(graph).save(tmp_path / "run")
    with pytest.raises(InputError, match=r"sf\.DPSGD") as caught:
        sf.load(tmp_path / "run")
    assert "malformed" not in str(caught.value)  # nothing is wrong with the folder
    for method in (sf.DPSGD(stack(), epochs=2), sf.DPSGD(other(), epochs=1)):
        with pytest.raises(InputError, match="this network"):
            method.load(tmp_path / "run")
    with pytest.raises(InputError, match="Pass its own"):
        sf.DPSGD(other()).trained(sf.DPSGD(stack(), epochs=1).load(tmp_path / "run").weights)


def test_networks_that_differ_in_what_is_not_trained_are_other_networks():
    """As many parameters do not make the same network: another layer between, or other frozen weights, predict another thing."""
    first, second = nn.Sequential(nn.Linear(4, 3), nn.Tanh()), nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    frozen = [nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3)) for _ in range(2)]
    for one in frozen:
        one[0].requires_grad_(False)
    again = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    names = [sf.DPSGD(one).settings["module"] for one in (first, second, *frozen, again)]
    assert len({*names}) == 4
    assert names[0] == names[-1]  # trained weights, which load brings, are no part of it


def test_what_is_changed_after_the_plan_is_not_trained(graph):
    network = stack()
    method = sf.DPSGD(network, epochs=1)
    plan = planned(method, graph)
    network.append(nn.BatchNorm1d(3))
    assert plan.fit(graph).weights["network.flat"].shape == plan.releases[0].shape


def test_a_private_trainer_pays_for_hops_and_training_together(tmp_path):
    graph = sf.graph.stochastic_block_model(300, 3, mean_degree=8, num_features=4, seed=0).with_split(seed=0)
    unit = sf.NodeLevel(max_out_degree=10)
    trainer = sf.PrivateTrainer(
        seeded(lambda: nn.Linear(12, 8), nn.Tanh, lambda: nn.Linear(8, 3)), epochs=2, batch_size=50
    )
    plan = planned(trainer, graph, unit)
    assert [one.name for one in plan.releases] == ["aggregate/1", "aggregate/2", "network"]
    fitted = plan.fit(graph)
    assert fitted.certificate.epsilon <= 8
    assert verify(fitted.save(tmp_path / "run")).valid
    loaded = trainer.load(tmp_path / "run")
    assert np.array_equal(loaded.predict_proba(graph), fitted.predict_proba(graph))
    hops = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in fitted.released.values()]
    own = np.asarray(graph.x) / np.linalg.norm(graph.x, axis=1, keepdims=True)
    read = torch.from_numpy(np.hstack([own, *hops]).astype(np.float32))
    scores = trainer.trained(fitted.weights)(read)
    assert (scores.argmax(1).numpy() == fitted.predict(graph)).mean() > 0.99
    with pytest.raises(InputError, match=r"sf\.PrivateTrainer"):
        sf.load(tmp_path / "run")
    other = sf.graph.stochastic_block_model(300, 3, mean_degree=2, num_features=4, seed=1)
    x = np.asarray(other.x).copy()
    x[7] = graph.x[7]
    other = other.changed(x=x)  # all of it is another graph, but for the features of node 7
    rows = [trainer.reading(fitted.released, one)(np.array([7])) for one in (graph, other)]
    assert torch.equal(*rows)


@pytest.mark.parametrize("relation", ["remove", "replace"])
@pytest.mark.parametrize("share", [1.0, 0.5, 2.0])
def test_the_auditor_reads_the_noise_of_each_hop(relation, share, monkeypatch):
    """What an attacker subtracts leaves noise of the deviation that the claim needs; half of it shows, and so does twice."""
    graph = sf.graph.stochastic_block_model(600, 3, mean_degree=4, num_features=4, seed=0).with_split(seed=0)
    trainer = sf.PrivateTrainer(nn.Linear(12, 3), epochs=1, batch_size=450)
    plan = planned(trainer, graph, sf.NodeLevel(max_out_degree=40, relation=relation))  # no node owns as many
    monkeypatch.setattr(hops, "multiplier_of", lambda *of: share * multiplier_of(*of))
    fitted = plan.fit(graph)
    monkeypatch.undo()
    found = replayed(fitted, graph, 0)
    assert [one.name for one in found] == ["aggregate/1", "aggregate/2"]
    for one in found:
        noise = (fitted.released[one.name] - one.sums) / 32767
        assert noise.std() / one.noise == pytest.approx(share, rel=0.15)  # 10 standard errors


@pytest.mark.parametrize("unit", [sf.NodeLevel(arcs="incident"), UNIT, sf.EdgeLevel(directed=False)])
def test_a_private_trainer_has_a_proof_for_owned_arcs_alone(unit, graph):
    with pytest.raises(UnsupportedUnitError):
        planned(sf.PrivateTrainer(nn.Linear(12, 3)), graph, unit)
    with pytest.raises(InputError, match="12 features"):
        planned(sf.PrivateTrainer(nn.Linear(4, 3)), graph, sf.NodeLevel(max_out_degree=10))


class Mixing(nn.Module):
    """It reads one row while it is trained, and others where nobody looked."""

    def __init__(self, when):
        super().__init__()
        self.layer, self.when = nn.Linear(4, 3), when

    def forward(self, x):
        return self.layer(x - x.mean(0) if self.when(self, x) else x)


@pytest.mark.parametrize("when", [lambda self, _: not self.training, lambda _, x: len(x) > 3], ids=["eval", "many"])
def test_predictions_of_a_node_read_no_other_row(graph, when):
    method = sf.DPSGD(Mixing(when), epochs=1)
    fitted = planned(method, graph).fit(graph)
    x = np.asarray(graph.x).copy()
    x[7] += 1000
    plan, weights = fitted.plan, fitted.weights
    one, other = (plan.method.scores(plan, weights, {}, each) for each in (graph, graph.changed(x=x)))
    assert not np.array_equal(one[7], other[7])
    assert np.array_equal(np.delete(one, 7, 0), np.delete(other, 7, 0))


class Watching(nn.Parameter):
    """A parameter that runs code of the user's own in each operation."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


def test_weights_are_plain_tensors(graph):
    network = other()
    network[0].weight = Watching(network[0].weight.detach())
    with pytest.raises(InputError, match="plain tensors"):
        planned(sf.DPSGD(network), graph)


class Same(nn.Sequential):
    """A network whose copy is itself."""

    def __deepcopy__(self, _):
        return self


def test_weights_of_stacks_are_plain_tensors_too(graph):
    network = stack()
    network[0].weight = Watching(network[0].weight.detach())
    with pytest.raises(InputError, match="plain tensors"):
        planned(sf.DPSGD(network), graph)


def test_a_network_that_grew_after_the_plan_is_refused_before_anything_is_spent(graph):
    """The copy within the method is anyone's to change; more numbers than were charged may not leave."""
    method = sf.DPSGD(stack(), epochs=1)
    plan = planned(method, graph)
    method.module.append(nn.Linear(3, 3))
    with pytest.raises(InputError, match=r"79 parameters.*Calibrate again"):
        plan.fit(graph)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("make", [stack, other])
def test_modes_of_torch_around_a_fit_change_nothing(graph, mode, make):
    method = sf.DPSGD(make(), epochs=1, batch_size=100)
    with mode():
        fitted = planned(method, graph).fit(graph)
    first = torch.cat([one.reshape(-1) for one in method.module.parameters()])
    assert not np.allclose(fitted.weights["network.flat"], first.detach().numpy())


def test_first_weights_that_are_not_finite_are_refused_before_anything_is_spent(graph):
    network = stack()
    network[0].bias.data[0] = torch.nan
    with pytest.raises(InputError, match="finite first weights"):
        planned(sf.DPSGD(network), graph)


def test_a_name_that_no_certificate_may_hold_is_written_without_its_signs(graph, tmp_path):
    turned = type("a\u202eb", (nn.Linear,), {})
    plan = planned(sf.DPSGD(turned(4, 3), epochs=1, batch_size=300), graph)
    assert plan.method.settings["module"].startswith("a?b ")
    assert verify(plan.fit(graph).save(tmp_path / "run")).valid


def test_nothing_that_hangs_on_a_weight_sees_a_gradient(graph):
    network, seen = Same(*other()), []
    for one in network.parameters():
        one.register_hook(seen.append)
    planned(sf.DPSGD(network, epochs=1), graph).fit(graph)
    assert seen == []


def test_losses_that_do_not_depend_on_the_scores_are_refused(graph):
    def constant(scores, classes):
        return functional.cross_entropy(scores.detach(), classes)

    with pytest.raises(InputError, match="depend on the scores"):
        planned(sf.DPSGD(stack(), constant), graph)
