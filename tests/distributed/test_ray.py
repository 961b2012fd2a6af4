"""Ray workers and machines die in a hop or in training: the same bits, one charge; or a clear error, and the charge stays."""

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sfumato.bounded import _shards, aggregation
from sfumato.bounded._engine import using
from sfumato.bounded._gradients import PrivateSGD, private_steps
from sfumato.bounded.aggregation import Arcs, noisy_neighborhood_sum, normalize_rows
from sfumato.cli import invoke
from sfumato.distributed import _ray as module
from sfumato.distributed._ray import RayEngine
from sfumato.errors import EngineError, InputError
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.graph._weights import FULL
from sfumato.nn._models import MLP
from sfumato.record._dataset_ledger import read_account
from sfumato.record.ledger import Chain

GRAPH = stochastic_block_model(400, 3, mean_degree=20, seed=1)
KEY = bytes(range(32))
TRAIN = ("train", "gap", "--dataset", "campus", "--unit", "edge", "--epsilon", "1", "--delta", "1e-6", "--no-controls")


def hop():
    rows = normalize_rows(np.random.default_rng(0).normal(size=(400, 20)))
    weights = (np.arange(GRAPH.num_arcs) % (FULL + 1)).astype(np.uint16)
    return noisy_neighborhood_sum(Arcs(GRAPH.indptr, GRAPH.indices, weights), rows, 3.0, KEY)


def network(prob=0.5, steps=3):
    """The weights of a network after some steps of DP-SGD, and a digest of all its sums."""
    import torch

    torch.manual_seed(0)
    model, x, y = MLP((20, 8, 3)).double(), torch.rand(400, 20, dtype=torch.float64), torch.from_numpy(GRAPH.y)
    settings = PrivateSGD(prob, steps, 1.0, 1.0, 0.1)
    read = private_steps(model, lambda chosen: (x[chosen], y[chosen]), np.arange(400), settings, KEY)
    return np.frombuffer(read + b"".join(one.detach().numpy().tobytes() for one in model.parameters()), np.uint8)


def dying(folder, times, function, *arguments):
    """The same function, whose process is killed before the first ``times`` calls of all processes end."""
    for number in range(times):
        try:
            os.close(os.open(f"{folder}/{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)
    return function(*arguments)


def waiting(folder, seconds, function, *arguments):
    """The same function, later; it says that it began."""
    Path(folder, str(time.time_ns())).touch()
    time.sleep(seconds)
    return function(*arguments)


@pytest.fixture
def parts_are(ray, monkeypatch, tmp_path):
    """Let the parts of hops and of training steps die or wait: ``parts_are(dying, 2)``. Workers share every step."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    folder = tmp_path / "parts"
    folder.mkdir()
    monkeypatch.setattr(_shards, "_LEAST", 1)

    def change(how, number):
        for room, name in ((aggregation, "_block_sums"), (_shards, "_part")):
            monkeypatch.setattr(room, name, partial(how, str(folder), number, getattr(room, name)))
        return folder

    yield change
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_a_hop_whose_workers_are_killed_has_the_same_bits(on_ray, parts_are):
    expected = hop()
    folder = parts_are(dying, 2)
    with using(on_ray):
        assert on_ray.parts == 8
        assert np.array_equal(hop(), expected)
    assert len(list(folder.iterdir())) == 2


def test_training_whose_workers_are_killed_has_the_same_bits(on_ray, parts_are):
    expected = network()
    folder = parts_are(dying, 2)
    with using(on_ray):
        assert np.array_equal(network(), expected)
    assert len(list(folder.iterdir())) == 2


def test_an_error_of_a_part_is_what_it_was(on_ray):
    with pytest.raises(InputError, match="one part"):
        list(on_ray.run(refuse, (), [()]))
    with pytest.raises(InputError, match="threads"):
        list(on_ray.run(pow, (2,), [(3,)], threads=3))


def test_values_that_no_store_holds_stop_the_run(ray, on_ray, monkeypatch):
    def put(value):
        raise ray.exceptions.ObjectStoreFullError

    monkeypatch.setattr(ray, "put", put)
    with pytest.raises(EngineError, match=r"object store of the Ray cluster is full.*--object-store-memory"):
        on_ray.hold(np.zeros(3))
    with pytest.raises(EngineError, match="is full"):
        list(on_ray.run(pow, (2,), [(3,)]))


def refuse():
    raise InputError("one part")


@pytest.mark.soak
def test_a_part_that_always_loses_its_worker_stops_the_run_and_leaves_it_charged(
    on_ray, parts_are, monkeypatch, tmp_path, capsys
):
    parts_are(dying, 1000)
    monkeypatch.setattr(module, "_RETRIES", 0)
    out = tmp_path / "run"
    assert invoke([*TRAIN, "--engine", "ray", "--out", str(out)]) == 1
    told = capsys.readouterr().err
    assert "lost the workers of one part" in told
    assert "charged" in told
    assert len(Chain.parse((out / "release" / "ledger.jsonl").read_bytes()).entries) == 2
    assert not (out / "release" / "manifest.json").exists()


@pytest.mark.soak
def test_a_run_whose_workers_die_is_charged_once(on_ray, parts_are, tmp_path):
    folder, out, shared = parts_are(dying, 2), tmp_path / "run", tmp_path / "dataset.jsonl"
    assert invoke([*TRAIN, "--engine", "ray", "--ledger", str(shared), "--total-epsilon", "1", "--out", str(out)]) == 0
    assert len(list(folder.iterdir())) == 2
    entries = Chain.parse((out / "release" / "ledger.jsonl").read_bytes()).entries
    assert [entry["release"] for entry in entries[1:]] == entries[0]["plan"]["releases"]
    assert len(read_account(shared).claims) == 1
    assert invoke(["verify", str(out)]) == 0


@pytest.fixture
def cluster(ray, on_ray):
    """A cluster whose first machine only holds data: ``cluster(2)`` adds two machines of one processor, and connects."""
    from ray.cluster_utils import Cluster

    on_ray.__exit__(None, None, None)
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})

    def machines(count):
        return [made.add_node(num_cpus=1) for _ in range(count)]

    made.machines = machines
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.mark.soak
@pytest.mark.parametrize("compute", [hop, network])
def test_machines_die_and_the_bits_stay(cluster, parts_are, compute):
    expected = compute()
    for count in (1, 1, 2):  # one, two and four machines
        last = cluster.machines(count)[-1]
        with RayEngine(cluster.address) as engine, using(engine):
            assert np.array_equal(compute(), expected)
    folder = parts_are(waiting, 1.0)
    from threading import Thread

    with RayEngine(cluster.address) as engine, using(engine):
        killer = Thread(target=kill, args=(cluster, last, folder, 6))
        killer.start()
        assert np.array_equal(compute(), expected)
        killer.join()


def kill(cluster, machine, folder, begun):
    """Kill a machine when so many parts have begun."""
    while len(list(folder.iterdir())) < begun:
        time.sleep(0.05)
    cluster.remove_node(machine, allow_graceful=False)


@pytest.mark.soak
def test_the_last_machine_dies_for_good(cluster, parts_are, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 4.0)
    (only,) = cluster.machines(1)
    folder = parts_are(waiting, 1.0)
    from threading import Thread

    with RayEngine(cluster.address) as engine, using(engine):
        killer = Thread(target=kill, args=(cluster, only, folder, 2))
        killer.start()
        with pytest.raises(EngineError, match="no machine left with 1 processors"):
            hop()
        killer.join()


@pytest.mark.soak
def test_no_cluster_answers(ray, on_ray, tmp_path, capsys):
    on_ray.__exit__(None, None, None)
    out = tmp_path / "run"
    assert invoke([*TRAIN, "--engine", "ray", "--ray-address", "127.0.0.1:1", "--out", str(out)]) == 2
    assert "to be the address of a running Ray cluster" in capsys.readouterr().err
    assert not out.exists()
