"""Which networks are a function of one row and of their weights, and which are refused; sums of their clipped gradients."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.utils.data import DataLoader, TensorDataset

from sfumato.bounded._example_gradients import clipped_example_sum
from sfumato.bounded._modules import is_dense, loss_function, row_function
from sfumato.errors import InputError

WIDTH, CLASSES = 8, 3


class Network(nn.Module):
    """A linear layer and something around it."""

    def __init__(self, around=lambda self, x: self.layer(x), **parts):
        super().__init__()
        self.layer, self.around = nn.Linear(WIDTH, CLASSES), around
        self.kept, self.calls = None, 0
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.around(self, x)


def tied():
    network = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES))
    network[2].weight = network[0].weight
    return network


def remembers(self, x):
    out = self.layer(x) if self.kept is None else self.layer(x) + self.kept[:1]
    self.kept = out.detach()
    return out


def counts(self, x):
    self.seen += 1
    return self.layer(x) * self.seen


def recurrent(dropout=0.0):
    def scan(self, x):
        return self.layer(self.cell(x.view(-1, 2, 4))[0].flatten(1))

    return Network(scan, cell=nn.LSTM(4, 4, num_layers=2, dropout=dropout, batch_first=True))


def attention():
    encoder = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.Unflatten(1, (2, 4)), encoder, nn.Flatten(), nn.Linear(WIDTH, CLASSES))


def convolution():
    return nn.Sequential(
        nn.Unflatten(1, (1, WIDTH)), nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, CLASSES)
    )


def with_layer(*layers):
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers, nn.Linear(WIDTH, CLASSES))


ACCEPTED = {
    "convolution": convolution,
    "operation in place": lambda: with_layer(nn.ReLU(inplace=True), nn.LayerNorm(WIDTH)),
    "layer norm": lambda: with_layer(nn.LayerNorm(WIDTH), nn.GELU()),
    "group norm": lambda: with_layer(nn.GroupNorm(2, WIDTH)),
    "attention": attention,
    "recurrent": recurrent,
    "shared weights": tied,
    "several passes": lambda: Network(lambda self, x: self.layer(x) + self.layer(torch.tanh(x))),
    "weight norm": lambda: weight_norm(nn.Linear(WIDTH, CLASSES)),
    "dropout of 0": lambda: with_layer(nn.Dropout(0.0)),
    "frozen layer": lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH).requires_grad_(False), nn.Linear(WIDTH, CLASSES)),
    "constants": lambda: Network(lambda self, x: self.layer(x) + torch.arange(CLASSES)),
}
REFUSED = {
    "batch norm": (lambda: with_layer(nn.BatchNorm1d(WIDTH)), "BatchNorm1d"),
    "dropout": (lambda: with_layer(nn.Dropout(0.5)), "draws random numbers"),
    "dropout between recurrent layers": (lambda: recurrent(0.5), "draws random numbers"),
    "random layer": (lambda: with_layer(nn.RReLU()), "draws random numbers"),
    "noise": (lambda: Network(lambda self, x: self.layer(x) + torch.randn(CLASSES)), "draws random numbers"),
    "mean over rows": (lambda: Network(lambda self, x: self.layer(x - x.mean(0))), "beside others"),
    "softmax over rows": (lambda: Network(lambda self, x: self.layer(x).softmax(0)), "beside others"),
    "memory": (lambda: Network(remembers), "beside others"),
    "counter": (lambda: Network(counts, seen=nn.Buffer(torch.zeros(1))), "buffers change"),
    "spectral norm": (lambda: spectral_norm(nn.Linear(WIDTH, CLASSES)), "buffers change"),
    "branch": (lambda: Network(lambda self, x: self.layer(x) if x.sum() > 0 else -self.layer(x)), r"torch\.export"),
    "code outside": (lambda: Network(lambda self, x: self.layer(x) * float(x.sum())), r"torch\.export"),
    "unused layer": (lambda: Network(other=nn.Linear(2, 2)), "takes none"),
    "nothing to train": (lambda: nn.Linear(WIDTH, CLASSES).requires_grad_(False), "takes none"),
    "vector": (lambda: nn.Sequential(nn.Linear(WIDTH, 1), nn.Flatten(0)), r"\[n, k\]"),
    "lazy layer": (lambda: nn.LazyLinear(CLASSES), "lazy"),
    "other width": (lambda: nn.Linear(WIDTH + 1, CLASSES), r"torch\.export"),
}


def rows(count=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, WIDTH, generator=generator).double() * 3, torch.arange(count) % CLASSES


@pytest.mark.parametrize("make", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted_networks_keep_their_values_and_add_bounded_gradients(make):
    """One example moves the sum by what it adds alone, of norm at most 2^24 steps, wherever in the sample it stands."""
    torch.manual_seed(0)
    network = make()
    function, (x, y), clip = row_function(network, WIDTH), rows(), 0.5
    with torch.no_grad():
        assert torch.allclose(function(x[:1]), network.double()(x[:1]))
    total = clipped_example_sum(function, x, y, clip)
    for i in range(len(x)):
        rest = [j for j in range(len(x)) if j != i]
        moved = total - clipped_example_sum(function, x[rest[::-1]], y[rest[::-1]], clip)
        assert np.array_equal(moved, clipped_example_sum(function, x[[i]], y[[i]], clip))
        assert sum(int(one) ** 2 for one in moved) <= 2**48
    assert not is_dense(network)


def test_gradients_of_weights_that_are_used_twice_are_clipped_as_a_whole():
    """Without a bound that clips, the sum is that of Torch."""
    torch.manual_seed(0)
    network = tied()
    function, (x, y) = row_function(network, WIDTH), rows()
    clip = 1e3
    found = clipped_example_sum(function, x, y, clip) * clip / 2**24
    functional.cross_entropy(network.double()(x), y, reduction="sum").backward()
    expected = torch.cat([one.grad.reshape(-1) for one in network.parameters()])
    assert np.allclose(found, expected.numpy(), atol=1e-3)


@pytest.mark.parametrize(("make", "said"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_proof_is_refused(make, said):
    with pytest.raises(InputError, match=said):
        row_function(make(), WIDTH)


def test_refusals_are_needed():
    """A near miss: run as they stand, these networks give one example another gradient, by which others came before it."""
    for around, parts in ((remembers, {}), (counts, {"seen": nn.Buffer(torch.zeros(1))})):
        moved = []
        for first in (0, 1):  # another example stands before the second one
            torch.manual_seed(0)
            network, (x, y) = Network(around, **parts).double(), rows()
            alone = clipped_example_sum(network, x[[first]], y[[first]], 1e3)
            moved.append(clipped_example_sum(network, x[[first, 2]], y[[first, 2]], 1e3) - alone)
        assert not np.array_equal(*moved)


def test_what_forward_remembers_of_training_rows_is_never_run():
    """Even if the check on made-up rows saw nothing: the graph of operations has no place to keep a row in."""
    network = Network(lambda self, x: self.layer(x) + late(self))

    def late(self):
        self.calls += 1
        return self.calls > 5  # after the check

    function, (x, y) = row_function(network, WIDTH), rows()
    one = clipped_example_sum(function, x[:1], y[:1], 1.0)
    for _ in range(10):
        assert np.array_equal(clipped_example_sum(function, x[:1], y[:1], 1.0), one)


def test_the_network_that_is_passed_is_not_changed():
    network = with_layer(nn.LayerNorm(WIDTH)).eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    row_function(network, WIDTH)
    assert not network.training
    assert all(
        torch.equal(value, before[name]) and value.dtype == torch.float32
        for name, value in network.state_dict().items()
    )


@pytest.mark.parametrize(
    "loss",
    [
        functional.cross_entropy,
        nn.CrossEntropyLoss(label_smoothing=0.1),
        nn.MultiMarginLoss(),
        lambda s, y: s[:, y].sum(),
    ],
)
def test_losses_are_functions_of_one_row(loss):
    scores = torch.tensor([[1.0, 2.0, 4.0]]).double()
    found = loss_function(loss, CLASSES)(scores, torch.tensor([1]))
    assert found.shape == ()
    assert torch.allclose(found, loss(scores, torch.tensor([1])))


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda s, y: s, "one finite number"),
        (lambda s, y: 3.0, "tensor"),
        (lambda s, y: s.sum() / 0, "one finite number"),
        (lambda s, y: functional.dropout(s).sum(), "random"),
        (with_layer(), "parameters"),
    ],
)
def test_other_losses_are_refused(loss, said):
    with pytest.raises(InputError, match=said):
        loss_function(loss, CLASSES)


@pytest.mark.parametrize(
    ("network", "dense"),
    [
        (nn.Linear(2, 2), True),
        (nn.Sequential(nn.Flatten(), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)), True),
        (nn.Sequential(nn.ReLU()), False),
        (nn.Sequential(nn.Linear(2, 2), nn.Tanh()), False),  # its last bits depend on the place in a batch
        (nn.Sequential(nn.Flatten(0), nn.Linear(2, 2)), False),
        (nn.Sequential(nn.Linear(2, 2).requires_grad_(False), nn.Linear(2, 2)), False),
        (nn.Sequential(*[nn.Linear(2, 2)] * 2), False),
        (tied(), False),
        (weight_norm(nn.Linear(2, 2)), False),
    ],
)
def test_stacks_of_linear_layers_are_known(network, dense):
    assert is_dense(network) is dense


def test_a_hook_makes_a_stack_unknown():
    network = nn.Sequential(nn.Linear(2, 2))
    network[0].register_forward_hook(lambda *_: None)
    assert not is_dense(network)
    network = nn.Sequential(nn.Linear(2, 2))
    network.register_forward_pre_hook(lambda *_: None)
    assert not is_dense(network)


PAGE = Path(__file__).parents[2] / "docs" / "results" / "dpsgd.md"
OF_FORM = {"unused layer", "nothing to train", "vector", "lazy layer", "other width"}
"""Refusals that say nothing of privacy."""


def opacus_says(make):
    """Whether Opacus trains a network, refuses it, or fails while it trains."""
    opacus = pytest.importorskip("opacus")
    from opacus.validators.errors import UnsupportedError

    torch.manual_seed(0)
    network, (x, y) = make(), rows(12)
    optimizer = torch.optim.SGD([one for one in network.parameters() if one.requires_grad], 0.1)
    data = DataLoader(TensorDataset(x.float(), y), batch_size=6)
    try:
        network, optimizer, data = opacus.PrivacyEngine().make_private(
            module=network, optimizer=optimizer, data_loader=data, noise_multiplier=1.0, max_grad_norm=1.0
        )
    except (UnsupportedError, NotImplementedError):
        return "refuses"
    try:
        for inputs, classes in data:
            optimizer.zero_grad()
            functional.cross_entropy(network(inputs), classes).backward()
            optimizer.step()
    except (RuntimeError, ValueError):
        return "fails"
    return "trains"


@pytest.mark.filterwarnings("ignore")
def test_the_table_beside_opacus_says_what_both_do():
    shown = {**{name: ("trains", make) for name, make in ACCEPTED.items()},
             **{name: ("refuses", make) for name, (make, _) in REFUSED.items() if name not in OF_FORM}}  # fmt: skip
    lines = [f"| {name} | {ours} | {opacus_says(make)} |" for name, (ours, make) in shown.items()]
    missing = [line for line in lines if line not in PAGE.read_text().splitlines()]
    assert not missing, "\n".join(lines)


@pytest.mark.parametrize(
    "memory",
    [
        lambda x: torch.empty(1, 2, dtype=torch.float64),
        lambda x: torch.empty_like(x[:, :2]),
        lambda x: x.new_empty(1, 2),
        lambda x: torch.empty_strided((1, 2), (2, 1), dtype=torch.float64),
    ],
)
def test_memory_that_was_not_written_is_refused(memory):
    """It may hold what another row left there, and a factor that is 0 on made-up rows hides it."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x):
            return self.layer(x) + torch.relu(x.abs().max() - 10) * memory(x)

    with pytest.raises(InputError, match="may read memory"):
        row_function(Network(), 4)


def test_what_is_hung_onto_all_layers_or_onto_one_leaves_the_fast_path():
    assert is_dense(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
    hook = nn.modules.module.register_module_forward_hook(lambda layer, given, out: out + out.sum(0))
    try:
        assert not is_dense(nn.Linear(4, 2))
    finally:
        hook.remove()
    changed = nn.ReLU()
    changed.__dict__["_call_impl"] = lambda x: x + x.sum(0)
    assert not is_dense(nn.Sequential(nn.Linear(4, 2), changed))
