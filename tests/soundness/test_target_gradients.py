"""Several labels, or a number, are one example: brute-force neighbors of the clipped sum, and near misses that are caught."""

import numpy as np
import pytest
import torch
from soundness_examples import clipped, per_example
from torch import nn

from sfumato.bounded._gradients import SUM_BITS, clipped_gradient_sum
from sfumato.nn._losses import LOSSES
from sfumato.nn._models import MLP, Encoder, MultiHopClassifier

CLIP, RECORDS, NAN = 0.05, 6, float("nan")
MODELS = {
    "mlp": (lambda outputs: MLP((5, 4, outputs)), (5,)),
    "encoder": (lambda outputs: Encoder(5, 4, outputs, batch_norm=False), (5,)),
    "hops": (lambda outputs: MultiHopClassifier(2, 4, outputs, batch_norm=False), (3, 4)),
}
OUTPUTS = {"multilabel": 4, "number": 1}


def build(name, kind, seed=0):
    torch.manual_seed(seed)
    make, shape = MODELS[name]
    return make(OUTPUTS[kind]).double(), torch.randn(RECORDS, *shape, dtype=torch.float64) * 3


def drawn(kind, generator, count):
    if kind == "multilabel":
        return torch.randint(0, 2, (count, OUTPUTS[kind]), generator=generator).float()
    return torch.rand(count, 1, generator=generator) * 2 - 1


def pairs(kind, x, num_sets=8):
    """Neighbors: every record in turn is emptied, or becomes another with other targets."""
    generator = torch.Generator().manual_seed(1)
    for number in range(num_sets):
        left = drawn(kind, generator, RECORDS)
        rows = x[:1].expand_as(x).clone() if number % 2 else x * {2: 1e30, 4: 1e-30}.get(number, 1.0)
        left = left[:1].expand_as(left).clone() if number % 2 else left
        if number % 4 == 3 and kind == "multilabel":
            left[:, 0] = NAN  # one label is missing, the others are there
        for v in range(RECORDS):
            empty, targets = rows.clone(), left.clone()
            empty[v], targets[v] = 0.0, NAN
            yield rows, left, empty, targets, True
            other, targets = rows.clone(), left.clone()
            other[v], targets[v] = -rows[v], drawn(kind, generator, 1)[0]
            yield rows, left, other, targets, False


def worst(kind, name, gradient_sum):
    """The largest change of a sum, over what is allowed: 1 if a record is emptied, 2 if it is replaced."""
    model, x = build(name, kind)
    most = 0.0
    for left_x, left, right_x, right, emptied in pairs(kind, x):
        sums = [
            gradient_sum(model, [one], two, CLIP, LOSSES[kind].slope) for one, two in ((left_x, left), (right_x, right))
        ]
        change = sum(step * step for step in (sums[0] - sums[1]).tolist()) ** 0.5
        most = max(most, change / 2.0**SUM_BITS / (1 if emptied else 2))
    return most


def by_label(model, inputs, targets, clip, slope):
    """A near miss: every label is clipped as if it were an example of its own."""
    columns = torch.arange(targets.shape[1])
    return sum(
        clipped_gradient_sum(model, inputs, torch.where(columns == at, targets, NAN), clip, slope) for at in columns
    )


@pytest.mark.parametrize("kind", OUTPUTS)
@pytest.mark.parametrize("name", MODELS)
def test_one_record_moves_the_sum_by_one_clip_however_many_labels_it_has(kind, name):
    assert 0.99 < worst(kind, name, clipped_gradient_sum) <= 1


@pytest.mark.parametrize("name", MODELS)
def test_a_clip_for_every_label_is_caught(name):
    assert worst("multilabel", name, by_label) > 1.2


@pytest.mark.parametrize("kind", OUTPUTS)
def test_missing_targets_add_nothing_and_the_others_keep_their_bits(kind):
    model, x = build("mlp", kind)
    targets = drawn(kind, torch.Generator().manual_seed(2), RECORDS)
    targets[3] = NAN
    others = torch.tensor([0, 1, 2, 4, 5])
    slope = LOSSES[kind].slope
    with_it = clipped_gradient_sum(model, [x], targets, CLIP, slope)
    assert np.array_equal(with_it, clipped_gradient_sum(model, [x[others]], targets[others], CLIP, slope))
    assert with_it.any()
    assert not clipped_gradient_sum(model, [x], torch.full_like(targets, NAN), CLIP, slope).any()


@pytest.mark.parametrize("kind", OUTPUTS)
def test_the_bits_of_an_example_do_not_depend_on_the_batch(kind):
    model, x = build("mlp", kind)
    targets, slope = drawn(kind, torch.Generator().manual_seed(3), RECORDS), LOSSES[kind].slope
    alone = sum(clipped_gradient_sum(model, [x[v : v + 1]], targets[v : v + 1], CLIP, slope) for v in range(RECORDS))
    assert np.array_equal(alone, clipped_gradient_sum(model, [x], targets, CLIP, slope))


@pytest.mark.parametrize("kind", OUTPUTS)
@pytest.mark.parametrize("clip", [0.3, 100.0])
def test_the_sum_equals_per_example_clipping_of_the_loss(kind, clip):
    model, x = build("mlp", kind)
    targets = drawn(kind, torch.Generator().manual_seed(4), RECORDS)

    def loss(scores, target):
        if kind == "multilabel":
            return nn.functional.binary_cross_entropy_with_logits(scores[0], target.double(), reduction="sum")
        return ((scores[0] - target) ** 2).sum() / 2

    expected = clipped(per_example(model, x, targets, loss), clip)
    sums = clipped_gradient_sum(model, [x], targets, clip, LOSSES[kind].slope)
    assert torch.allclose(
        torch.from_numpy(sums).double() * clip / 2.0**SUM_BITS, expected, rtol=1e-3, atol=2 * clip / 2**14 + 2e-3
    )
