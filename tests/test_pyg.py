"""The transform for PyTorch Geometric, with the real package: what comes out, what it costs, and what is refused."""

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset
from torch_geometric.io import fs
from torch_geometric.loader import DataLoader, NeighborLoader, RandomNodeLoader
from torch_geometric.nn import GCNConv
from torch_geometric.transforms import AddSelfLoops, BaseTransform, Compose, NormalizeFeatures, ToSparseTensor

import sfumato as sf
from sfumato.central._rows import head_scores
from sfumato.errors import (
    BudgetExceededError,
    DataError,
    DroppedWarning,
    InputError,
    RepeatedFitWarning,
    UnsupportedUnitError,
)
from sfumato.graph import campus, from_pyg, to_pyg
from sfumato.pyg import PrivateHops, released_to_pyg
from sfumato.record._release_folder import read_release
from sfumato.verify import verify


@pytest.fixture(scope="module")
def graph():
    return campus(600, seed=1).with_split(labeled=True)


@pytest.fixture(scope="module")
def private(graph):
    return PrivateHops(epsilon=2.0)(to_pyg(graph))


@pytest.fixture
def data(graph):
    return to_pyg(graph)


def trained(data, seed=0):
    """A network of the user's own, trained as if nothing were private."""
    torch.manual_seed(seed)
    head = torch.nn.Sequential(torch.nn.Linear(data.x.shape[1], 32), torch.nn.ReLU(), torch.nn.Linear(32, 6))
    optimizer = torch.optim.Adam(head.parameters(), 0.01)
    for _ in range(100):
        optimizer.zero_grad()
        functional.cross_entropy(head(data.x[data.train_mask]), data.y[data.train_mask]).backward()
        optimizer.step()
    return head(data.x).argmax(1)


def accuracy(found, data):
    return (torch.as_tensor(found) == data.y)[data.test_mask].double().mean().item()


def test_ten_lines_from_data_to_a_certificate(data, tmp_path):
    transform = PrivateHops(epsilon=1, delta=1e-6, unit="edge", hops=2, out=tmp_path / "run")
    private = transform(data)
    assert isinstance(transform, BaseTransform)
    assert verify(tmp_path / "run").valid
    assert (private.certificate.epsilon, private.certificate.delta) == (pytest.approx(1, abs=1e-6), 1e-6)
    assert private.num_edges == 0
    assert not {"edge_index", "edge_attr", "adj_t"} & {*private.to_dict()}


def test_columns_are_the_encoding_and_then_each_hop(graph, tmp_path):
    transform = PrivateHops(epsilon=2.0, hops=3, out=tmp_path / "run")
    private = transform(to_pyg(graph))
    released = read_release(tmp_path / "run").released
    assert private.x.shape == (600, 4 * 16)
    assert private.x.dtype == torch.float32
    for hop in (1, 2, 3):
        rows = released[f"aggregate/{hop}"].astype(np.float64)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        assert np.allclose(private.x[:, 16 * hop : 16 * hop + 16], rows, atol=1e-4)
    assert torch.equal(private.y, torch.from_numpy(graph.y))
    assert torch.equal(private.train_mask, torch.from_numpy(graph.train_mask))
    assert np.allclose(released_to_pyg(tmp_path / "run").x[:, :16], released["aggregate/1"] / 32767, atol=1e-6)


def test_without_encoder_features_are_sent(data):
    private = PrivateHops(epsilon=2.0, hops=1, messages="features")(data)
    assert private.x.shape == (600, 2 * data.x.shape[1])
    assert torch.allclose(private.x[:, : data.x.shape[1]], functional.normalize(data.x), atol=1e-6)


def test_a_network_on_the_rows_is_as_good_as_gap(graph):
    """Within what 90 test nodes of one graph can tell; the page has the figures of a larger graph."""
    transform = PrivateHops(epsilon=8.0)
    private = transform(to_pyg(graph))
    gap = accuracy(transform.fitted_.predict(from_pyg(to_pyg(graph), directed=False)), private)
    own = accuracy(trained(private), private)
    assert abs(own - gap) < 0.08
    assert own > 2 * (graph.y[graph.test_mask] == np.bincount(graph.y).argmax()).mean()


@pytest.mark.soak
@pytest.mark.parametrize("messages", ["encodings", "labels"])
@pytest.mark.parametrize("epsilon", [1, 4])
def test_the_figures_of_the_page(messages, epsilon):
    """Prints one row of the table of docs/pyg.md: percent of test nodes, of five graphs."""
    found = []
    for seed in range(5):
        data = to_pyg(campus(4000, seed=seed))
        transform = PrivateHops(epsilon, messages=messages, seed=seed)
        private = transform(data)
        learned = from_pyg(data, directed=False).with_split(labeled=True)
        found.append([accuracy(trained(private, seed), private), accuracy(transform.fitted_.predict(learned), private)])
    own, theirs = np.transpose(found) * 100
    for values in (own, theirs, own - theirs):
        print(f"{values.mean():.1f} ± {2.776 * values.std(ddof=1) / 5**0.5:.1f}", end=" | ")
    assert abs((own - theirs).mean()) < 4


@pytest.mark.parametrize("directed", [False, True])
def test_label_messages_are_rows_as_their_head_reads_them(graph, directed, tmp_path):
    transform = PrivateHops(epsilon=4.0, messages="labels", directed=directed, out=tmp_path / "run")
    data = to_pyg(graph)
    private = transform(data)
    assert private.x.shape == (600, 4 * 6 + 1)
    assert verify(tmp_path / "run").valid
    assert private.certificate.values["method"] == "label-messages"
    learners = private.train_mask.numpy()
    assert not (learners & ~graph.train_mask).any()
    assert learners.sum() == (graph.train_mask.sum() if directed else np.ceil(graph.train_mask.sum() / 2))
    ours = accuracy(transform.fitted_.predict(from_pyg(data, directed=directed)), private)
    assert abs(accuracy(trained(private), private) - ours) < 0.1
    fitted = transform.fitted_
    seen = head_scores(fitted.weights, private.x.numpy())
    assert np.allclose(seen, fitted.ran.method.scores(fitted.ran, fitted.weights, fitted.released, graph), atol=1e-4)


def test_edges_tell_nothing_beyond_the_release(graph, monkeypatch):
    """With the sums of no edge at all the result is the same but for the noisy hops: nothing else of it reads edges."""
    full, empty = to_pyg(graph), to_pyg(graph)
    empty.edge_index = empty.edge_index[:, :0]
    one, two = (PrivateHops(epsilon=2.0)(each) for each in (full, empty))
    assert torch.equal(one.x[:, :16], two.x[:, :16])
    assert not torch.equal(one.x[:, 16:], two.x[:, 16:])
    assert set(one.to_dict()) == set(two.to_dict())
    facts = [each.certificate.values["public_facts"] for each in (one, two)]
    assert facts[0] == facts[1]


def test_without_masks_the_split_comes_out(data):
    data = Data(x=data.x, y=data.y, edge_index=data.edge_index)
    private = PrivateHops(epsilon=2.0, hops=1)(data)
    expected = from_pyg(data, directed=False).with_split(labeled=True)
    assert private.test_mask.tolist() == expected.test_mask.tolist()
    assert "train_mask" not in data


def test_arcs_are_declared(data):
    with pytest.raises(DataError, match="reverse"):
        PrivateHops(directed=False)(Data(x=data.x, y=data.y, edge_index=data.edge_index[:, :1]))
    private = PrivateHops(epsilon=2.0, hops=1, directed=True)(data)
    assert private.certificate.values["unit"] == {"name": "edge", "relation": "add-remove", "directed": True}
    undirected = PrivateHops(epsilon=2.0, hops=1)(data).certificate.values
    arc, edge = (values["releases"][0]["affected_coordinates"] for values in (private.certificate.values, undirected))
    assert edge == 2 * arc  # two rows change with an undirected edge
    with pytest.raises(InputError, match="directed"):
        PrivateHops(unit=sf.EdgeLevel(directed=False), directed=True)
    assert PrivateHops(unit="arc").unit == sf.EdgeLevel(directed=True)


@pytest.mark.parametrize("unit", ["node", sf.NodeLevel(max_out_degree=10), sf.RecordLevel(), sf.NoPrivacy()])
def test_units_where_training_is_not_free_are_refused(unit):
    with pytest.raises(UnsupportedUnitError, match=r"sf\.PrivateTrainer.*DP-SGD"):
        PrivateHops(unit=unit)


def test_what_may_come_of_edges_stays_out(data):
    data.edge_attr, data.edge_weight = torch.ones(data.num_edges, 1), torch.ones(data.num_edges)
    data.degree, data.names = torch.ones(600), "public"
    with pytest.warns(DroppedWarning, match=r"degree.*Every edge counts the same"):
        private = PrivateHops(epsilon=2.0, hops=1, keep="names")(data)
    assert private.names == "public"
    assert {"x", "y", "train_mask", "val_mask", "test_mask", "num_nodes", "certificate", "names"} == {
        *private.to_dict()
    }
    with pytest.warns(DroppedWarning, match="degree"):
        kept = PrivateHops(epsilon=2.0, hops=1, keep_edges=True)(data)
    assert torch.equal(kept.edge_index, data.edge_index)
    assert kept.edge_attr.shape == (data.num_edges, 1)


def test_a_second_call_is_refused_and_so_are_copies_of_what_was_called(data):
    transform = PrivateHops(epsilon=2.0, hops=1)
    transform(data)
    for again in (transform, copy.deepcopy(transform)):
        with pytest.raises(InputError, match=r"second call.*pre_transform"):
            again(data)


def test_another_transform_of_the_same_edges_warns(data):
    PrivateHops(epsilon=2.0, hops=1)(data)
    with pytest.warns(RepeatedFitWarning, match="fit 2 .*pre_transform"):
        PrivateHops(epsilon=1.0, hops=1)(copy.copy(data))


def test_a_refused_call_is_none(data):
    transform = PrivateHops(epsilon=2.0, hops=1)
    with pytest.raises(DataError, match="x and y"):
        transform(Data(edge_index=data.edge_index, num_nodes=600))
    assert transform(data).num_nodes == 600


def test_a_ledger_adds_calls_up(data, tmp_path):
    transform = PrivateHops(epsilon=2.0, hops=1, ledger=tmp_path / "ledger.jsonl", total_epsilon=4.0)
    one, two = transform(data), transform(data)
    assert not torch.equal(one.x[:, 16:], two.x[:, 16:])
    with pytest.raises(BudgetExceededError):
        transform(data)


def test_a_used_folder_is_refused_before_anything_is_drawn(data, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    ledger = tmp_path / "ledger.jsonl"
    with pytest.raises(InputError, match="new folder"):
        PrivateHops(epsilon=2.0, out=tmp_path / "full", ledger=ledger, total_epsilon=2.0)(data)
    assert not ledger.exists()


def test_a_data_set_transforms_once_in_pre_transform(data, tmp_path):
    class Campus(InMemoryDataset):
        def __init__(self, **how):
            super().__init__(str(tmp_path), **how)
            self.load(self.processed_paths[0])

        processed_file_names = ("campus.pt",)

        def process(self):
            self.save([self.pre_transform(data)], self.processed_paths[0])

    transform = PrivateHops(epsilon=2.0, hops=1)
    first = Campus(pre_transform=transform)[0]
    second = Campus(pre_transform=transform)[0]  # reads the file
    assert torch.equal(first.x, second.x)
    assert second.certificate.epsilon == transform.certificate_.epsilon


@pytest.mark.filterwarnings("ignore:Sparse")
def test_compose_transforms_before_and_after(data):
    private = Compose([AddSelfLoops(), PrivateHops(epsilon=2.0, hops=1), NormalizeFeatures()])(data)
    assert private.certificate.epsilon == pytest.approx(2, abs=1e-6)
    with pytest.raises(DataError, match="adj_t"):
        Compose([ToSparseTensor(), PrivateHops(epsilon=2.0, hops=1)])(data)


def test_loaders_and_batches_keep_certificates(private, tmp_path):
    batch = next(iter(DataLoader([private, private], batch_size=2)))
    assert [one.delta for one in batch.certificate] == [1e-6, 1e-6]
    assert batch.x.shape[0] == 1200
    assert batch.to_data_list()[1].certificate == private.certificate
    parts = list(RandomNodeLoader(private, num_parts=3))
    assert sum(part.num_nodes for part in parts) == 600
    assert {part.certificate.epsilon for part in parts} == {private.certificate.epsilon}
    assert private.subgraph(private.train_mask).certificate == private.certificate
    assert private.to("cpu").clone().certificate == private.certificate
    torch.save(private, tmp_path / "private.pt")
    with pytest.warns(UserWarning, match="Weights only load failed"):  # of a class of the package itself
        loaded = fs.torch_load(str(tmp_path / "private.pt"))
    assert loaded.certificate == private.certificate
    assert str(loaded).count("\n") == 0


def test_without_edges_nothing_can_be_sampled_or_sent(private):
    with pytest.warns(UserWarning, match="pyg-lib"), pytest.raises(ImportError):  # with pyg-lib it finds no edge
        next(iter(NeighborLoader(private, num_neighbors=[2], batch_size=5)))
    with pytest.raises((AttributeError, TypeError, ValueError)):
        GCNConv(private.x.shape[1], 4)(private.x, private.edge_index)


def test_parts_of_graphs_and_several_graphs_are_refused(data):
    transform = PrivateHops(epsilon=2.0, hops=1)
    part = data.subgraph(data.train_mask)
    part.n_id = torch.arange(600)[data.train_mask]  # as NeighborLoader marks what it samples
    hetero = HeteroData()
    hetero["user"].x = data.x
    for wrong, said in (
        (part, "sampled part"),
        (Batch.from_data_list([data, data]), "one homogeneous Data, got DataBatch"),
        (hetero, "HeteroData has to_homogeneous"),
    ):
        with pytest.raises(DataError, match=said):
            transform(wrong)
    with pytest.raises(DataError, match="one homogeneous Data"):
        transform.forward([data])


def test_workers_of_loaders_are_refused(data, monkeypatch):
    monkeypatch.setattr("torch.utils.data.get_worker_info", lambda: object())
    with pytest.raises(InputError, match="worker"):
        PrivateHops(epsilon=2.0)(data)


def test_processes_that_train_together_are_refused(data, monkeypatch):
    """Each would draw noise of its own: with ledger or not, whoever sees two results learns more than one certificate says."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="one of several"):
        PrivateHops(epsilon=2.0)(data)
    monkeypatch.setenv("WORLD_SIZE", "1")
    for name, value in (("is_initialized", True), ("get_world_size", 3)):
        monkeypatch.setattr(f"torch.distributed.{name}", lambda value=value: value)
    with pytest.raises(InputError, match="save it"):
        PrivateHops(epsilon=2.0)(data)


@pytest.mark.filterwarnings("ignore")  # of the package itself
def test_lightning_trains_on_the_result(private, tmp_path):
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")
    modules = pytest.importorskip("torch_geometric.data.lightning")

    class Head(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = torch.nn.Sequential(torch.nn.Linear(private.num_features, 6))

        def training_step(self, batch, _):
            return functional.cross_entropy(self.network(batch[0]), batch[1])

        def validation_step(self, batch, _):
            self.log("right", (self.network(batch[0]).argmax(1) == batch[1]).double().mean())

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 0.01)

    def rows(mask):
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(private.x[mask], private.y[mask]), 64)

    lightning.seed_everything(0)
    quiet = {
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
    }
    trainer = lightning.Trainer(max_epochs=20, accelerator="cpu", default_root_dir=tmp_path, **quiet)
    trainer.fit(Head(), rows(private.train_mask), rows(private.val_mask))
    assert trainer.callback_metrics["right"] > 0.3  # of six classes
    batch = next(iter(modules.LightningDataset([private, private], batch_size=2).train_dataloader()))
    assert len(batch.certificate) == 2
    whole = next(iter(modules.LightningNodeData(private, private.train_mask, loader="full").train_dataloader()))
    assert whole.certificate == private.certificate


@pytest.mark.parametrize(
    "wrong",
    [
        {"hops": 0},
        {"epsilon": 0},
        {"delta": 1},
        {"unit": "edges"},
        {"unit": 3},
        {"keep_edges": 1},
        {"seed": -1},
        {"messages": "words"},
        {"messages": "labels", "hops": 3},
    ],
)
def test_settings_are_checked_before_data(wrong):
    with pytest.raises(InputError):
        PrivateHops(**wrong)


def test_names_to_keep_have_to_be_there(data):
    with pytest.raises(InputError, match="keep"):
        PrivateHops(keep=("absent",))(data)


def test_it_says_what_it_is():
    assert repr(PrivateHops()) == (
        "PrivateHops(epsilon=1, delta=1e-06, unit=EdgeLevel(directed=False), hops=2, messages='encodings')"
    )


class Labels(torch.Tensor):
    """A tensor of another class."""


@pytest.mark.parametrize("kind", [torch.Tensor, Labels])
def test_what_comes_out_has_memory_of_its_own(data, kind):
    table = torch.stack([data.y, torch.bincount(data.edge_index[0], minlength=data.num_nodes)], dim=1)
    data.y = table[:, 0].as_subclass(kind)
    data.ages, data.names, data.parts = table.numpy()[:, 0], {"of": table[:, 0]}, [table[:, 0], (table[:, 0],)]
    private = PrivateHops(epsilon=2.0, hops=1, keep=("ages", "names", "parts"))(data)
    assert private.ages.base is None
    for one in (private.y, private.names["of"], private.parts[0], private.parts[1][0]):
        assert type(one) is torch.Tensor
        assert one.untyped_storage().nbytes() == one.numel() * one.element_size()


def test_the_certificate_of_a_result_is_a_copy(data):
    transform = PrivateHops(epsilon=2.0, hops=1)
    transform(data).certificate.values["claim"]["epsilon"] = 0.1
    assert transform.certificate_.epsilon > 1


@pytest.mark.parametrize("name", ["edge_index", "x", "certificate", "pos_edge_index", "adj_matrix"])
def test_edges_are_kept_by_their_own_option_alone(data, name):
    data[name] = data.get(name, data.edge_index)
    with pytest.raises(InputError, match=r"keep|certificate"):
        PrivateHops(epsilon=2.0, hops=1, keep=name)(data)


def test_a_second_transform_of_a_result_is_refused(data):
    first = PrivateHops(epsilon=2.0, hops=1, keep_edges=True)(data)
    first.edge_index = first.edge_index.clone()
    with pytest.raises(InputError, match="adds up"):
        PrivateHops(epsilon=2.0, hops=1)(first)
