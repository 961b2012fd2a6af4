"""Clipped gradient sums against per-example gradients, one record's share, and the models that are refused."""

from types import SimpleNamespace

import numpy as np
import pytest
import soundness_steps as steps
import torch
from soundness_examples import clipped, per_example
from soundness_neighbors import assert_sound
from torch import nn

from sfumato.bounded import _gradients as gradients
from sfumato.bounded._gradients import SUM_BITS, clipped_gradient_sum
from sfumato.errors import InputError
from sfumato.nn._models import MLP, Encoder, MultiHopClassifier

MODELS = {
    "mlp": (lambda: MLP((5, 7, 3)), (5,)),
    "linear": (lambda: nn.Sequential(nn.Linear(5, 3, bias=False)), (5,)),
    "encoder": (lambda: Encoder(5, 4, 3, batch_norm=False), (5,)),
    "hops": (lambda: MultiHopClassifier(2, 4, 3, batch_norm=False), (3, 4)),
    "sum": (lambda: MultiHopClassifier(2, 4, 3, batch_norm=False, combine="sum"), (3, 4)),
    "attention": (lambda: MultiHopClassifier(2, 4, 3, batch_norm=False, combine="attention"), (3, 4)),
}


def build(name, seed=0, batch=12, scale=1.0):
    torch.manual_seed(seed)
    make, shape = MODELS[name]
    return make().double(), torch.randn(batch, *shape, dtype=torch.float64) * scale, torch.arange(batch) % 3


def in_clips(sums):
    """A sum in multiples of the clip norm."""
    return torch.from_numpy(sums).double() / 2.0**SUM_BITS


def in_steps(sums, clip):
    """A sum of gradients as the library hands it over."""
    return (sums.nan_to_num() / clip * 2.0**SUM_BITS).clamp(-(2.0**62), 2.0**62).to(torch.int64).numpy()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("clip", [0.01, 0.3, 1.0, 100.0])
def test_sum_equals_per_example_clipping(name, clip):
    model, x, y = build(name, scale=3.0)
    grads = per_example(model, x, y)
    norms, expected = grads.norm(dim=1), clipped(grads, clip)
    found = clip * in_clips(clipped_gradient_sum(model, [x], y, clip))
    per_coordinate = 2.0 * clip / 2**14 + 2e-3 * min(
        clip, float(norms.max())
    )  # slopes are rounded, and rows and weights before
    assert torch.allclose(found, expected, rtol=1e-3, atol=per_coordinate)
    if clip in (0.01, 100.0):
        assert ((norms > clip) == (clip < 1)).all(), "both sides of the clip must be met"


@pytest.mark.parametrize("name", MODELS)
def test_missing_labels_contribute_nothing(name):
    model, x, y = build(name)
    labeled = y != 1
    masked = torch.where(labeled, y, -1)
    left, right = (clipped_gradient_sum(model, [a], b, 0.5) for a, b in ((x, masked), (x[labeled], y[labeled])))
    assert np.array_equal(left, right)
    assert left.any()
    assert not clipped_gradient_sum(model, [x], torch.full_like(y, -1), 0.5).any()


@pytest.mark.parametrize("name", MODELS)
def test_an_empty_batch_has_a_zero_sum(name):
    model, x, y = build(name)
    sums = clipped_gradient_sum(model, [x[:0]], y[:0], 1.0)
    assert sums.tolist() == [0] * sum(p.numel() for p in model.parameters())


def assert_clipped(gradient_sum, clip):
    """No single record, however extreme, contributes more than the clip; ordinary large ones reach it."""
    for name in MODELS:
        reached = 0.0
        for scale in (1e-30, 1.0, 1e3, 1e10, 3e38):
            model, x, y = build(name, batch=4, scale=scale)
            for i in range(4):
                added = gradient_sum(model, [x[i : i + 1]], y[i : i + 1], clip).tolist()
                norm = sum(step * step for step in added)  # whole numbers of any size
                assert norm <= 4**SUM_BITS, (
                    f"{name}: one record contributes {(norm / 4**SUM_BITS) ** 0.5:g}, more than 1"
                )
                reached = max(reached, norm / 4**SUM_BITS)
        assert reached >= 0.99


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e200])
def test_an_example_that_overflows_contributes_nothing(value):
    """Its neighbor is the data without it: the others' sum must not move, and must stay finite."""
    model = MLP((3, 4, 2)).double()
    x, y = torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 0])
    x[2] = value
    others = torch.tensor([0, 1, 3, 4])
    with_it = clipped_gradient_sum(model, [x], y, 1.0)
    without = clipped_gradient_sum(model, [x[others]], y[others], 1.0)
    assert np.array_equal(with_it, without)
    assert without.any()


def test_one_record_never_exceeds_the_clip():
    assert_clipped(clipped_gradient_sum, 0.1)


@pytest.mark.parametrize("case", steps.CASES, ids=str)
def test_sensitivity_is_never_above_the_claim_and_reached(case):
    assert_sound(steps.result(case), case.claim, case.coordinates)


def skipped(model, inputs, targets, clip, *_):
    """No clip."""
    return in_steps(per_example(model, *inputs, targets).sum(0), clip)


def by_layer(model, inputs, targets, clip, *_):
    """Every layer clipped on its own, and the sum instead of the examples."""
    parts = per_example(model, *inputs, targets).sum(0).split([p.numel() for p in model.parameters()])
    return in_steps(torch.cat([s * min(1.0, clip / max(float(s.norm()), 1e-300)) for s in parts]), clip)


def without_bias(model, inputs, targets, clip, *_):
    """Norms that count weights alone: the + 1 of the norm trick forgotten."""
    grads = per_example(model, *inputs, targets)
    weights = torch.cat([torch.full((p.numel(),), float(p.ndim == 2)) for p in model.parameters()])
    return in_steps((grads * (clip / (grads * weights).norm(dim=1, keepdim=True)).clamp(max=1)).sum(0), clip)


@pytest.mark.parametrize("fault", [skipped, by_layer, without_bias])
def test_planted_faults_of_clipping_are_caught(monkeypatch, fault):
    with pytest.raises(AssertionError, match="more than"):
        assert_clipped(fault, 0.1)
    monkeypatch.setattr(gradients, "clipped_gradient_sum", fault)
    for relation, claim in (("remove", 1.0), ("replace", 2.0)):
        for measured in (
            steps.measure_clip("classifier", relation, 2),
            steps.measure_steps(gradients.private_steps, "classifier", relation, 1),
        ):
            with pytest.raises(AssertionError, match="too small"):
                assert_sound(measured, 1.001 * claim, 10_000)


class Foreign(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.scale = nn.Linear(5, 3), nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.linear(x) * self.scale


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.square, self.head = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(self.square(self.square(x)))


def tied():
    model = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 3))
    model[1].weight = model[0].weight
    return model


def test_one_score_map_for_all_hops_is_refused():
    """Attention has a score map for each hop: an example that meets one map several times has no outer product as gradient."""
    model = MultiHopClassifier(2, 4, 3, batch_norm=False, combine="attention")
    model.score = nn.ModuleList([model.score[0]] * 3)
    with pytest.raises(InputError, match="once an example"):
        clipped_gradient_sum(model.double(), [torch.zeros(2, 3, 4, dtype=torch.float64)], torch.tensor([0, 1]), 1.0)


@pytest.mark.parametrize(
    ("make", "named"),
    [(lambda: MLP((5, 4, 3), batch_norm=True), "BatchNorm1d"), (Foreign, "scale"), (Twice, "once an example"),
     (lambda: nn.Sequential(nn.BatchNorm1d(5, affine=False), nn.Linear(5, 3)), "BatchNorm1d"), (tied, "shared weights")],
)  # fmt: skip
def test_models_that_break_the_proof_are_refused(make, named):
    with pytest.raises(InputError, match=named):
        clipped_gradient_sum(make().double(), [torch.zeros(2, 5, dtype=torch.float64)], torch.tensor([0, 1]), 1.0)


@pytest.mark.parametrize("longer", [1.001, 1.3])
def test_an_example_that_floating_point_left_too_long_is_lost(longer, monkeypatch):
    """The check in whole numbers holds whatever was computed before: here the norm before rounding is too large."""
    model = nn.Linear(2, 2, bias=False).double()
    example = [torch.tensor([[3.0, 4.0]]).double()], torch.tensor([0])
    assert clipped_gradient_sum(model, *example, l2_clip_norm=1e-3).any()
    room = -2 * (longer - 1) * 2.0**gradients.GRADIENT_BITS
    monkeypatch.setattr(gradients, "math", SimpleNamespace(sqrt=lambda _: room))
    assert not clipped_gradient_sum(model, *example, l2_clip_norm=1e-3).any()
