"""One record changes a clipped sum by exactly what it adds alone: on every network, in any batch, on hostile data."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from soundness_steps import Still
from torch.nn.functional import linear

from sfumato.bounded import _chains as chains
from sfumato.bounded import _exact as exact
from sfumato.bounded import _gradients as gradients
from sfumato.bounded._exact import ExactLinear, WholeRows
from sfumato.bounded._gradients import (
    SUM_BITS,
    PrivateSGD,
    clipped_gradient_sum,
    private_steps,
    rounding_margin,
    to_grid,
)
from sfumato.central._heads import chosen, zero_head
from sfumato.loops import _torch_products
from sfumato.nn import _losses as losses
from sfumato.nn import _models as models
from sfumato.nn import _reproducible as reproducible
from sfumato.nn._models import MLP, Encoder, Linear, MultiHopClassifier, normalize
from sfumato.nn._progressive import StageNetwork

NETWORKS = {
    "head": (lambda: Linear(50, 7), [(50,)]),
    "mlp": (lambda: MLP((50, 33, 16, 7)), [(50,)]),
    "mlp of 32 and 64": (lambda: MLP((64, 32, 64, 7)), [(64,)]),
    "encoder of 32": (lambda: Encoder(96, 32, 7, batch_norm=False), [(96,)]),
    "one hop of 16": (lambda: MultiHopClassifier(1, 16, 7, batch_norm=False), [(2, 16)]),
    "encoder": (lambda: Encoder(50, 16, 7, batch_norm=False), [(50,)]),
    "hops": (lambda: MultiHopClassifier(2, 16, 7, batch_norm=False), [(3, 16)]),
    "sum": (lambda: MultiHopClassifier(2, 16, 7, batch_norm=False, combine="sum"), [(3, 16)]),
    "attention": (lambda: MultiHopClassifier(2, 16, 7, batch_norm=False, combine="attention"), [(3, 16)]),
    "stage of 32": (
        lambda: StageNetwork((50, 16), 16, 7, num_layers=1, frozen=5, batch_norm=False),
        [(50,), (16,), (5,)],
    ),
    "stage": (lambda: StageNetwork((9, 16), 16, 7, num_layers=2, frozen=5, batch_norm=False), [(9,), (16,), (5,)]),
}


def build(name, records, scale=1.0):
    torch.manual_seed(0)
    make, shapes = NETWORKS[name]
    model = make().double()
    inputs = [torch.randn(records, *shape, dtype=torch.float64) * scale for shape in shapes]
    return model, inputs, torch.arange(records) % 7


def beyond_its_own(model, inputs, targets, v):
    """How far record v moves the sum beyond what it adds alone, in steps."""
    others = [i for i in range(len(targets)) if i != v]
    whole, without, alone = (
        clipped_gradient_sum(model, [x[rows] for x in inputs], targets[rows], 0.1)
        for rows in (slice(None), others, slice(v, v + 1))
    )
    return int(np.abs(whole - without - alone).max())


@pytest.mark.parametrize("records", [2, 3, 8, 9, 33, 257, 1100])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_record_changes_the_sum_by_exactly_what_it_adds_alone(name, records):
    """Also the one assumption of the proof: what a row adds depends on no other row, on no place, on no batch size."""
    for scale in (1.0, 1e6):
        model, inputs, targets = build(name, records, scale)
        assert clipped_gradient_sum(model, inputs, targets, 0.1).any()
        assert [beyond_its_own(model, inputs, targets, v) for v in (0, records // 2, records - 1)] == [0, 0, 0]


@pytest.mark.parametrize("bias", [False, True])
def test_a_record_adds_what_it_adds_alone_at_every_width(bias):
    """Rows are padded to whole vectors: no number of columns or units may let one row read another."""
    for width in (*range(1, 70), 96, 128, 255, 256, 257):
        for model in (Linear(width, 3, bias=bias), MLP((5, width, 3))):
            x = torch.randn(9, width if isinstance(model, Linear) else 5, dtype=torch.float64)
            targets = torch.arange(9) % 3
            assert beyond_its_own(model.double(), [x], targets, 4) == 0, width


def cancelling(records=40):
    """Rows that a layer maps to zero but for rounding, which the network then scales to norm 1."""
    model = Encoder(50, 16, 7, num_layers=1, batch_norm=False).double()
    with torch.no_grad():
        model.mlp.layers[0].weight[:, 25:] = -model.mlp.layers[0].weight[:, :25]
        model.mlp.layers[0].bias.zero_()
    half = torch.randn(records, 25, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 1e9
    return model, [torch.cat([half, half], dim=1)], torch.arange(records) % 7


@pytest.mark.parametrize("sizes", [(1,), (2, 33), (257,)], ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_gives_the_same_sums_in_one_chain_and_layer_by_layer(name, sizes, monkeypatch):
    """Both in C and in Torch, also where numbers overflow and where an example adds nothing."""
    for records in sizes:
        model, inputs, targets = build(name, records)
        inputs[0][0], targets[-1] = inputs[0][0] * 1e300, -1
        results = [clipped_gradient_sum(model, inputs, targets, 0.1)]
        with monkeypatch.context() as patched:
            patched.setattr(chains, "_steps", lambda model: None)
            results.append(clipped_gradient_sum(model, inputs, targets, 0.1))
            for module in (gradients, exact, chains, losses, reproducible, models):
                patched.setattr(module, "products", lambda: _torch_products)
            results.append(clipped_gradient_sum(model, inputs, targets, 0.1))
        assert all(np.array_equal(results[0], other) for other in results[1:])
        assert records < 3 or results[0].any()


def test_chains_read_integer_rows_dense_and_sparse(monkeypatch):
    x = sp.random(40, 50, 0.2, format="csr", random_state=0)
    for rows in (WholeRows.of_csr(x), WholeRows.of(torch.from_numpy(x.toarray()), bias=True)):
        for name in ("head", "mlp", "encoder"):
            model, _, targets = build(name, 40)
            with monkeypatch.context() as patched:
                chained = clipped_gradient_sum(model, [rows], targets, 0.1)
                patched.setattr(chains, "_steps", lambda model: None)
                assert np.array_equal(chained, clipped_gradient_sum(model, [rows], targets, 0.1))
                assert chained.any()
        for name in ("head", "mlp", "encoder"):
            none = clipped_gradient_sum(build(name, 1)[0], [rows[torch.arange(0)]], torch.arange(0), 0.1)
            assert not none.any()


@pytest.mark.parametrize("columns", [4, 51, 200])
def test_rows_of_another_width_than_the_first_layer_are_refused(columns):
    """Sparse ones would be multiplied by what lies behind the weights in memory."""
    x = torch.ones(3, columns, dtype=torch.float64)
    for rows in (WholeRows.of(x, bias=True), WholeRows.of_csr(sp.csr_matrix(x.numpy()))):
        with pytest.raises(ValueError, match="Expected rows of 50 columns"):
            clipped_gradient_sum(build("mlp", 3)[0], [rows], torch.arange(3), 0.1)


class Plain:
    """The layers' products in plain floating point: another size of batch, other bits."""

    @staticmethod
    def apply(entering, weight, bias, rows):
        return linear(entering.requires_grad_(), weight, bias)


def test_rows_that_cancel_are_the_same_in_any_batch(monkeypatch):
    model, inputs, targets = cancelling()
    for records in range(2, 40):
        part = [x[:records] for x in inputs]
        assert beyond_its_own(model, part, targets[:records], records - 1) == 0
    monkeypatch.setattr(chains, "_steps", lambda model: None)
    monkeypatch.setattr(gradients, "ExactLinear", Plain)
    moved = [beyond_its_own(model, [x[:n] for x in inputs], targets[:n], n - 1) for n in range(2, 40)]
    assert max(moved) > 0.01 * 2.0**SUM_BITS, "plain products have to be caught"


class Floats:
    """Sums of gradients that are made in plain floating point."""

    def __init__(self, real):
        self.real = real

    def __getattr__(self, name):
        return getattr(self.real, name)

    def clipped_sums(self, grads, rows, room, most, sums):
        squares = sum(grad.square().sum(1) * norms.square() for grad, (_, norms) in zip(grads, rows, strict=True))
        factor = (room / squares.sqrt()).clamp_max(most)
        for grad, (matrix, norms), (weight, bias) in zip(grads, rows, sums, strict=True):
            total = (grad * (factor * norms)[:, None]).T @ matrix.double()
            width = weight.shape[1]
            weight += total[:, :width].long()
            bias += total[:, width].long()


def test_sums_of_slopes_that_are_not_whole_are_caught(monkeypatch):
    model, inputs, targets = build("mlp", 33)
    real = gradients.products()
    monkeypatch.setattr(gradients, "products", lambda: Floats(real))
    monkeypatch.setattr(chains, "_steps", lambda model: None)
    assert max(beyond_its_own(model, inputs, targets, v) for v in range(5)) > 0


def test_an_empty_record_and_a_record_that_was_not_drawn_are_alike():
    model, inputs, targets = build("encoder", 33)
    emptied, kept = targets.clone(), [i for i in range(33) if i != 5]
    emptied[5], inputs[0][5] = -1, 0
    drawn = clipped_gradient_sum(model, inputs, emptied, 0.1)
    assert np.array_equal(drawn, clipped_gradient_sum(model, [inputs[0][kept]], targets[kept], 0.1))


def crossing(power, small):
    """Records 0 to 2^(power + 1) bring a partial sum to 2^power + 1/2 clips; without record 0 it stays at 2^power.

    The small ones after it, each 1.5 units in the last place below 2^power, then round one way or the other.
    """
    many = 2 ** (power + 1) + 1
    column = np.concatenate([np.ones(many), np.full(small, 1.5 * 2.0 ** (power - 53))]).astype(np.float32)
    y = torch.from_numpy(np.repeat([0, 1], [many, small]))
    return sp.csr_matrix(column[:, None]), y


def released_sum(monkeypatch, x, y, **reading):
    """The grid sum of one full-batch step of the head, before noise."""
    sums = []
    monkeypatch.setattr(gradients, "Adam", Still)
    monkeypatch.setattr(gradients, "operand_mac", lambda key, array: (sums.append(array), b"")[1])
    head, rows = zero_head(x.shape[1], int(y.max()) + 1).double(), chosen(x)
    batch = lambda chosen: (rows(chosen), y[chosen])  # noqa: E731
    private_steps(head, batch, np.arange(len(y)), PrivateSGD(1, 1, 1, 1, 1), bytes(32), **reading)
    return sums[0]


def test_a_partial_sum_that_crosses_a_power_of_two_moves_no_other_term(monkeypatch):
    """562,145 records, of which the first one made 300,000 others round differently: 4.4e-6 clips beyond its own."""
    x, y = crossing(17, 300_000)
    emptied, missing = x.copy(), y.clone()
    emptied.data[0], missing[0] = 0, -1
    emptied.eliminate_zeros()
    left, right = released_sum(monkeypatch, x, y), released_sum(monkeypatch, emptied, missing)
    moved = np.linalg.norm((left - right).astype(float)) / 2.0**24
    assert 0.999 < moved <= 1 + rounding_margin(4)


def hundred():
    generator = np.random.default_rng(0)
    return generator.normal(size=(100, 5)), torch.from_numpy(generator.integers(0, 4, 100))


@pytest.mark.parametrize("block", [1, 7, 64, 100, 1000])
def test_reading_a_sample_in_blocks_changes_no_bit(monkeypatch, block):
    """Also where a record is emptied."""
    x, y = hundred()
    assert np.array_equal(released_sum(monkeypatch, x, y, block=block), released_sum(monkeypatch, x, y))
    y[17] = -1
    assert np.array_equal(released_sum(monkeypatch, x, y, block=block), released_sum(monkeypatch, x, y))


def test_blocks_that_are_rounded_one_by_one_are_caught(monkeypatch):
    x, y = hundred()
    honest = released_sum(monkeypatch, x, y)
    monkeypatch.setattr(
        gradients, "clipped_gradient_sum", lambda *given: to_grid(clipped_gradient_sum(*given)) << (SUM_BITS - 24)
    )
    assert np.array_equal(released_sum(monkeypatch, x, y), honest)
    assert not np.array_equal(released_sum(monkeypatch, x, y, block=7), honest)


@pytest.mark.parametrize("dense", [False, True])
def test_a_sample_without_a_record_has_a_sum_of_zero(dense, monkeypatch):
    """Where nobody is drawn a step goes on as any other; integer rows that are none have no place in memory."""
    x, y = crossing(3, 5)
    x = x.toarray() if dense else x
    monkeypatch.setattr(gradients, "coins", lambda key, share, ids: np.zeros(len(ids), bool))
    assert not released_sum(monkeypatch, x, y).any()


def test_crossing_in_small_is_exact_too():
    x, y = crossing(3, 500)
    head = zero_head(1, 2).double()
    whole, without, alone = (
        clipped_gradient_sum(head, [WholeRows.of_csr(x[part])], y[part], 1.0)
        for part in (slice(None), slice(1, None), slice(0, 1))
    )
    assert np.array_equal(whole - without, alone)


def test_the_grid_reaches_beyond_the_clip_and_never_beyond_the_margin():
    """Nine coordinates that all round up: a margin without sqrt P is exceeded."""
    added = np.full(9, 2**SUM_BITS // 3)
    assert np.linalg.norm(added.astype(float)) <= 2.0**SUM_BITS
    others = np.full(9, 2 ** (SUM_BITS - 25) - 1)
    moved = np.linalg.norm((to_grid(others + added) - to_grid(others)).astype(float)) / 2.0**24
    assert 1 < moved <= 1 + rounding_margin(9)


@pytest.mark.parametrize("parameters", [1, 4, 1000])
def test_the_margin_covers_random_sums(parameters):
    generator = np.random.default_rng(0)
    for _ in range(200):
        added = generator.normal(size=parameters)
        added = np.trunc(added * (2.0**SUM_BITS / np.linalg.norm(added))).astype(np.int64)
        others = generator.integers(-(2**50), 2**50, parameters)
        moved = np.linalg.norm((to_grid(others + added) - to_grid(others)).astype(float)) / 2.0**24
        assert moved <= 1 + rounding_margin(parameters)


def test_the_exact_layer_is_the_layer():
    x, layer = torch.randn(9, 6, dtype=torch.float64, requires_grad=True), Linear(6, 4).double()
    out = ExactLinear.apply(x, layer.weight, layer.bias, WholeRows.of(x.detach(), bias=True))
    torch.testing.assert_close(out, layer(x), rtol=1e-3, atol=1e-4)
    factor = torch.randn(9, 4, dtype=torch.float64)
    left, right = (torch.autograd.grad((o * factor).sum(), x)[0] for o in (out, layer(x)))
    torch.testing.assert_close(left, right, rtol=1e-3, atol=1e-3)


LENGTHS = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 33, 255, 1025]


def one_by_one(function, numbers):
    return torch.cat([function(numbers[i : i + 1]) for i in range(len(numbers))])


@pytest.mark.parametrize("length", LENGTHS)
def test_functions_of_single_numbers_have_the_same_bits_anywhere(length):
    numbers = torch.randn(length, dtype=torch.float64, generator=torch.Generator().manual_seed(length)) * 3
    for function in (reproducible.selu, lambda x: reproducible.exp(-x.abs()), selu_slope):
        assert torch.equal(function(numbers), one_by_one(function, numbers))


def attended(x):
    return reproducible.attention(x[:, :3], torch.stack((x, -x * x, x + 1), dim=1))


def attention_slope(x):
    x = x.clone().requires_grad_()
    return torch.autograd.grad((attended(x) * x.detach()).sum(), x)[0]


def selu_slope(x):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(reproducible.selu(x).sum(), x)[0]


def test_functions_of_the_library_below_are_caught():
    """Torch's own SELU ends an array in other code, on a machine with vector units."""
    if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("no vector units here")
    numbers = torch.randn(4097, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 3
    assert not torch.equal(torch.nn.functional.selu(numbers), one_by_one(torch.nn.functional.selu, numbers))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("width", [8, 10, 16, 33])
def test_activations_of_a_row_do_not_depend_on_how_many_rows_there_are(width, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        rows = torch.randn(5002, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2
        for count in (3, 257, 2049, 5001):
            for function in (reproducible.selu, normalize, reproducible.softmax, attended, attention_slope):
                assert torch.equal(function(rows[: count + 1])[:count], function(rows[:count]))
    finally:
        torch.set_num_threads(before)


def test_reproducible_attention_is_attention():
    """Beside Torch's own, with the gradient in scores and rows."""
    scores, rows, factor = (torch.randn(*shape, dtype=torch.float64) for shape in ((9, 3), (9, 3, 5), (9, 5)))
    scores, rows, results = scores.requires_grad_(), rows.requires_grad_(), []
    for out in (reproducible.attention(scores, rows), (scores.softmax(1)[:, :, None] * rows).sum(1)):
        results.append((out, *torch.autograd.grad((out * factor).sum(), (scores, rows))))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-14)


def test_the_reproducible_exp_is_exp():
    numbers = -torch.rand(10_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 690
    torch.testing.assert_close(reproducible.exp(numbers), torch.exp(numbers), rtol=2e-15, atol=0)
    extremes = torch.tensor([-0.0, -1e-300, -1e4, -torch.inf, torch.nan], dtype=torch.float64)
    assert reproducible.exp(extremes)[:2].tolist() == [1.0, 1.0]
    assert (reproducible.exp(extremes)[2:4] < 1e-300).all()
    assert reproducible.exp(extremes)[4].isnan()


def test_weights_whose_norm_underflows_stay_whole_numbers_that_float64_holds():
    rows = WholeRows.of(torch.randn(4, 3, dtype=torch.float64))
    for size in (1e-163, 1e-200, 5e-324):
        products = rows.times(torch.full((3, 2), size, dtype=torch.float64))
        assert products.abs().max() < 1e-100
