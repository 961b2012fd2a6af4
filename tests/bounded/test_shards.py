"""Sums of gradients that workers make in parts: the bits of one process, at any number of parts, in any order, and again."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from sfumato.bounded import _shards
from sfumato.bounded._chains import Plan
from sfumato.bounded._engine import LOCAL, using
from sfumato.bounded._exact import WholeRows
from sfumato.bounded._gradients import PrivateSGD, clipped_gradient_sum, linear_layers, private_steps, to_grid
from sfumato.bounded._shards import Shard, Shards, ranges
from sfumato.nn._losses import LOSSES, class_slope
from sfumato.nn._models import MLP, Encoder, MultiHopClassifier

ROWS, COLUMNS, CLASSES = 23, 6, 3
KEY = bytes(range(32))
ANY = np.random.default_rng(0)
X = ANY.normal(size=(ROWS, COLUMNS))
Y = torch.from_numpy(ANY.integers(-1, CLASSES, ROWS))
LABELS = torch.from_numpy(np.where(ANY.random((ROWS, CLASSES)) < 0.2, np.nan, ANY.integers(0, 2, (ROWS, CLASSES))))


class Several:
    """Runs so many parts, the last first and some twice, from bytes; what it holds are bytes that cannot be written to."""

    def __init__(self, parts):
        self.parts, self.ran, self.kept = parts, 0, {}

    def hold(self, value):
        buffers = []
        sent = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        ticket = f"held {len(self.kept)}"
        self.kept[ticket] = sent, [bytes(buffer) for buffer in buffers]
        return ticket

    def run(self, function, shared, parts):
        for number, part in reversed(list(enumerate(parts))):
            for _ in range(1 + number % 2):
                result = function(*(self.find(one) for one in pickle.loads(pickle.dumps((*shared, *part)))))
                self.ran += 1
            yield number, result

    def find(self, one):
        if not isinstance(one, str):
            return one
        sent, buffers = self.kept[one]
        return pickle.loads(sent, buffers=buffers)


def dense(chosen):
    return torch.from_numpy(X[chosen]), Y[chosen]


def single(chosen):
    return torch.from_numpy(X.astype(np.float32)[chosen]).double(), Y[chosen]


def whole(chosen):
    return WholeRows.of(torch.from_numpy(X), bias=True)[torch.from_numpy(chosen)], Y[chosen]


def sparse(chosen):
    return WholeRows.of_csr(sp.csr_matrix(np.where(X > 0, X, 0)))[torch.from_numpy(chosen)], Y[chosen]


def hops(chosen):
    return torch.from_numpy(X.reshape(ROWS, 2, 3)[chosen]), Y[chosen]


def several_labels(chosen):
    return torch.from_numpy(X[chosen]), LABELS[chosen]


CASES = {
    "linear": (lambda: torch.nn.Linear(COLUMNS, CLASSES), dense, class_slope),
    "mlp": (lambda: MLP((COLUMNS, 5, CLASSES)), single, class_slope),
    "mlp on integers": (lambda: MLP((COLUMNS, 5, CLASSES)), whole, class_slope),
    "mlp on sparse rows": (lambda: MLP((COLUMNS, 5, CLASSES)), sparse, class_slope),
    "encoder": (lambda: Encoder(COLUMNS, 5, CLASSES, batch_norm=False), whole, class_slope),
    "head": (lambda: MultiHopClassifier(1, 4, CLASSES, batch_norm=False, input_width=3), hops, class_slope),
    "labels": (lambda: MLP((COLUMNS, 5, CLASSES)), several_labels, LOSSES["multilabel"].slope),
}


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(_shards, "_LEAST", 1)


def model_of(make):
    torch.manual_seed(0)
    return make().double()


def trained(make, batch, slope, engine, prob=0.6, block=4):
    model, settings = model_of(make), PrivateSGD(prob, 4, 0.5, 1.0, 0.1)
    with using(engine):
        read = private_steps(model, batch, np.arange(ROWS), settings, KEY, block=block, slope=slope)
    return read, b"".join(one.detach().numpy().tobytes() for one in model.parameters())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("prob", [0.05, 1.0])
def test_any_number_of_parts_has_the_bits_of_one_process(case, prob):
    make, batch, slope = CASES[case]
    expected = trained(make, batch, slope, LOCAL, prob)
    for parts in (1, 2, 4, 9):
        engine = Several(parts)
        assert trained(make, batch, slope, engine, prob) == expected
        cuts = -(-ROWS // -(-ROWS // parts))
        assert engine.ran == (0 if parts == 1 else 4 * (cuts + cuts // 2))  # as many parts, whatever was drawn


@pytest.mark.parametrize("case", CASES)
def test_parts_add_up_exactly_and_would_not_on_the_grid(case):
    make, batch, slope = CASES[case]
    model = model_of(make)
    assert Plan(model, linear_layers(model)).known
    *inputs, targets = batch(np.arange(ROWS))
    total = clipped_gradient_sum(model, inputs, targets, 0.5, slope)
    found = []
    for first, last in ((0, 5), (5, 6), (6, 6), (6, ROWS)):
        *inputs, targets = batch(np.arange(first, last))
        found.append(clipped_gradient_sum(model, inputs, targets, 0.5, slope))
    assert np.array_equal(sum(found), total)
    assert not np.array_equal(sum(map(to_grid, found)), to_grid(total))


def test_a_row_that_is_missing_is_seen():
    model = model_of(CASES["mlp"][0])
    flat = torch.cat([one.detach().reshape(-1) for one in model.parameters()]).numpy()
    chosen = np.arange(0, ROWS, 2)

    def added(*cuts):
        return Shards(clipped_gradient_sum, model, (0.5,), dense, cuts, 4).sum(flat, chosen)

    assert np.array_equal(added((0, 8), (8, 9), (9, ROWS)), added((0, ROWS)))
    with pytest.raises(IndexError):
        added((0, 8), (8, ROWS - 1))


def test_networks_whose_bits_depend_on_the_processor_train_in_one_process():
    class Stretched(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(COLUMNS, CLASSES)

        def forward(self, x):
            return self.layer(x - x.mean(1, keepdim=True))

    model, engine = Stretched().double(), Several(4)
    assert not Plan(model, linear_layers(model)).known
    expected = trained(Stretched, dense, class_slope, LOCAL)
    assert trained(Stretched, dense, class_slope, engine) == expected
    assert engine.ran == 0


def test_small_steps_are_not_sent(monkeypatch):
    monkeypatch.setattr(_shards, "_LEAST", 100)
    with using(Several(4)):
        assert ranges(10, 199) == [(0, 10)]
        assert ranges(10, 200) == [(0, 5), (5, 10)]
        assert ranges(10, 1e9) == [(0, 3), (3, 6), (6, 9), (9, 10)]
        assert ranges(0, 1e9) == []
    assert ranges(10, 1e9) == [(0, 10)]


def test_rows_that_were_float32_are_held_so():
    held = Shard.of([single(np.arange(4)), single(np.arange(4, ROWS))])
    assert held.inputs[0].dtype == np.float32
    assert torch.equal(held[np.arange(ROWS)][0], single(np.arange(ROWS))[0])
    assert Shard.of([dense(np.arange(ROWS))]).inputs[0].dtype == np.float64
