"""DP-SGD steps: the grid bound, the noise, the public divisor, the secret coins."""

from functools import partial

import numpy as np
import pytest
import soundness_steps as brute
import torch
from soundness_neighbors import assert_sound
from torch import nn

from sfumato.bounded import _gradients as gradients
from sfumato.bounded._gradients import SUM_BITS, PrivateSGD, clipped_gradient_sum, private_steps
from sfumato.errors import InputError
from sfumato.nn._models import MLP
from sfumato.noise.coins import coins
from sfumato.noise.keys import derive_key

KEY = bytes(32)


def build(make=lambda: MLP((5, 7, 3)), n=40):
    torch.manual_seed(0)
    return make().double(), torch.randn(n, 5, dtype=torch.float64), torch.arange(n) % 3


def flat(parts):
    return torch.cat([part.reshape(-1) for part in parts])


@pytest.fixture
def run(monkeypatch):
    """Run private_steps and return (released gradients, grid sums, sizes of the batches)."""
    monkeypatch.setattr(gradients, "Adam", brute.Still)

    def call(model, x, y, ids=None, key=KEY, **settings):
        base = {"sampling_prob": 1.0, "steps": 1, "l2_clip_norm": 0.7, "noise_multiplier": 1.5, "learning_rate": 0.1}
        sums, sizes = [], []

        def mac(key, array):
            sums.append(array)
            return b""

        def batch(chosen):
            sizes.append(len(chosen))
            return x[chosen], y[chosen]

        monkeypatch.setattr(gradients, "operand_mac", mac)
        private_steps(model, batch, np.arange(len(y)) if ids is None else ids, PrivateSGD(**{**base, **settings}), key)
        return brute.Still.last.released, sums, sizes

    return call


def wide(n=200):
    """A model of many parameters and only missing labels, so that a release is noise alone."""
    torch.manual_seed(0)
    return MLP((150, 300, 3)).double(), torch.randn(n, 150, dtype=torch.float64), torch.full((n,), -1)


def assert_steps_sound(steps, relation="remove", name="classifier"):
    """Released gradients move by at most C (1 + eta) or 2 C (1 + eta) over q N; each step has noise to match."""
    case = brute.steps_case(name, relation)
    assert_sound(brute.measure_steps(steps, name, relation, 2), case.claim, case.coordinates)
    for sampling_prob in (0.7, 1.0, 1e-9):
        brute.assert_noised(steps, name, brute.SETTINGS.noise_multiplier, sampling_prob)


@pytest.mark.parametrize("relation", ["remove", "replace"])
@pytest.mark.parametrize("steps", [private_steps, brute.rebuilt_steps()], ids=["real", "rebuilt"])
def test_steps_are_sound(steps, relation):
    assert_steps_sound(steps, relation)


ALONE = partial(private_steps, alone=True)


@pytest.fixture
def convolution(monkeypatch):
    """A network with a layer that meets an example at several places."""

    def make():
        return nn.Sequential(nn.Unflatten(1, (1, 5)), nn.Conv1d(1, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(8, 2))

    monkeypatch.setitem(brute.MODELS, "convolution", (make, (5,)))


@pytest.mark.parametrize(("relation", "claim"), [("remove", 1.0), ("replace", 2.0)])
def test_steps_of_examples_by_themselves_are_sound(relation, claim, convolution):
    """Their sums are on the grid as they are: no margin. A claim of less is too small."""
    measured = brute.measure_steps(ALONE, "convolution", relation, 2)
    assert_sound(measured, claim, brute.size_of("convolution"))
    with pytest.raises(AssertionError, match="too small"):
        assert_sound(measured, 0.99 * claim, brute.size_of("convolution"))


def test_examples_by_themselves_have_the_noise_of_one_clip(convolution):
    data = next(brute.training_pairs((5,), "remove", 1))[0]
    trace, size = brute.run_steps(ALONE, brute.build("convolution"), data), brute.size_of("convolution")
    deviation = brute.SETTINGS.noise_multiplier * brute.GRID
    assert [draw[1:] for draw in trace.draws] == [(deviation, 0, size)] * brute.SETTINGS.steps
    assert len({key for key, *_ in trace.draws}) == brute.SETTINGS.steps


def test_a_clip_of_the_whole_batch_is_caught(convolution, monkeypatch):
    """Planted: the gradient of the sum has one clip for all, so that a record may add more than its own."""

    def together(model, inputs, targets, clip):
        kept = targets >= 0
        loss = nn.functional.cross_entropy(model(inputs[kept]), targets[kept], reduction="sum")
        row = flat(torch.autograd.grad(loss, list(model.parameters())))
        return np.rint(row.numpy() / clip * brute.GRID).clip(-(2**40), 2**40).astype(np.int64)

    monkeypatch.setattr(gradients, "clipped_example_sum", together)
    with pytest.raises(AssertionError, match="too small"):
        assert_sound(brute.measure_steps(ALONE, "convolution", "remove", 2), 1.0, brute.size_of("convolution"))


def test_blocks_change_no_bit_of_examples_by_themselves(convolution):
    data, weights = next(brute.training_pairs((5,), "remove", 1))[0], []
    for block in (2, 99):
        model = brute.build("convolution")
        ALONE(model, lambda c: (data.x[c], data.y[c]), brute.IDS, brute.SETTINGS, KEY, block=block)
        weights.append(flat(p.detach() for p in model.parameters()))
    assert torch.equal(*weights)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"private_divisor": True}, "too small"),
        ({"skip_empty": True}, "draws for 4 steps"),
        ({"noise_scale": 2 / 3}, "noise of 1 clips"),
        ({"noise_scale": 3 / 2}, "noise of 2.25 clips"),
        ({"one_key": True}, "same noise for two steps"),
        ({"drop_last": True}, "records are dropped"),
        ({"bare_last": True}, "coordinates without noise"),
        ({"drawn_by_label": True}, "sampling depends on the data"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_planted_faults_of_steps_are_caught(fault, message):
    with pytest.raises(AssertionError, match=message):
        assert_steps_sound(brute.rebuilt_steps(**fault))


def test_the_rebuilt_steps_are_the_real_ones_but_for_the_fault():
    """Bit for bit, with noise and Adam; so a planted fault is the only difference."""
    weights = []
    for steps in (private_steps, brute.rebuilt_steps(), brute.rebuilt_steps(noise_scale=2 / 3)):
        model, x, y = build(n=len(brute.IDS))
        steps(model, lambda c, x=x, y=y: (x[c], y[c]), brute.IDS, brute.SETTINGS, KEY)
        weights.append(flat(p.detach() for p in model.parameters()))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_released_gradient_is_sum_plus_noise_over_the_divisor(run):
    model, x, y = build(n=30)
    (released,), (grid,), _ = run(model, x, y, noise_multiplier=1e-6)
    expected = clipped_gradient_sum(model, [x], y, 0.7) / 2.0**SUM_BITS
    assert grid == pytest.approx(expected * 2.0**24, abs=0.51)
    assert released == pytest.approx(0.7 * expected / 30, abs=1e-6)


def test_batches_are_poisson_by_secret_coins_of_public_ids(run):
    model, x, y = wide()
    ids = np.arange(200) * 3
    *_, sizes = run(model, x, y, ids=ids, sampling_prob=0.2, steps=30)
    assert sizes == [int(coins(derive_key(KEY, "sample", step), 0.2, ids).sum()) for step in range(30)]
    assert len(set(sizes)) > 5
    assert np.mean(sizes) == pytest.approx(40, rel=0.1)


def test_training_is_repeatable_and_learns():
    x = torch.randn(300, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    settings = PrivateSGD(0.5, 60, 1.0, 1.0, 0.05)
    weights, seen = [], []
    for _ in range(2):
        torch.manual_seed(0)
        model = MLP((4, 8, 2)).double()
        private_steps(model, lambda c: (x[c], y[c]), np.arange(300), settings, KEY, lambda *at: seen.append(at))
        weights.append(flat(p.detach() for p in model.parameters()))
    assert torch.equal(*weights)
    assert seen == [(step, 60) for step in range(1, 61)] * 2
    assert float((model(x).argmax(1) == y).double().mean()) > 0.85


def test_single_precision_is_refused():
    with pytest.raises(InputError, match="float64"):
        private_steps(MLP((5, 3)), lambda chosen: (), np.arange(4), PrivateSGD(1.0, 1, 1.0, 1.0, 0.1), KEY)


@pytest.mark.parametrize(
    "wrong",
    [{"sampling_prob": 0}, {"sampling_prob": 1.1}, {"steps": 0}, {"l2_clip_norm": 0}, {"noise_multiplier": 0},
     {"learning_rate": -1}],
)  # fmt: skip
def test_settings_are_checked(wrong):
    good = {"sampling_prob": 0.1, "steps": 1, "l2_clip_norm": 1.0, "noise_multiplier": 1.0, "learning_rate": 0.1}
    with pytest.raises(InputError, match=next(iter(wrong))):
        PrivateSGD(**{**good, **wrong})


def test_steps_need_somebody_to_learn_from():
    model, x, y = build(n=1)
    settings = PrivateSGD(1, 1, 1, 1, 1)
    assert private_steps(model, lambda chosen: (x[chosen], y[chosen]), np.arange(1), settings, KEY)
    with pytest.raises(InputError, match="Expected ids to hold the ids of the training role"):
        private_steps(model, lambda chosen: (x[chosen], y[chosen]), np.arange(0), settings, KEY)
