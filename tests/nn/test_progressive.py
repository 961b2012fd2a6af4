"""The stage network: its two ways to score agree, its norms stay within a base, and a stage goes on where one ended."""

import pytest
import torch

from sfumato.bounded._gradients import SUM_BITS, clipped_gradient_sum
from sfumato.nn._models import normalize
from sfumato.nn._progressive import StageNetwork

WIDTHS = (5, 4, 4)


def network(**how):
    torch.manual_seed(0)
    return StageNetwork(WIDTHS, 4, 3, **{"num_layers": 2, "batch_norm": False, **how})


def inputs(rows=7, frozen=0):
    generator = torch.Generator().manual_seed(1)
    widths = (*WIDTHS, frozen) if frozen else WIDTHS
    return [torch.randn(rows, width, generator=generator, dtype=torch.float64) for width in widths]


@pytest.mark.parametrize("frozen", [0, 6])
def test_dividing_scores_is_dividing_rows(frozen):
    """The fused last layer gives the values and the gradients of normalize, then linear."""
    model, rows = network(batch_norm=True, frozen=frozen).double(), inputs(frozen=frozen)
    weights = torch.randn(7, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    joint = torch.cat([model.embed(*rows[:3]), *rows[3:]], dim=1)
    plain, fused = model.head(normalize(joint)), model(*rows)
    torch.testing.assert_close(plain, fused)
    gradients = [torch.autograd.grad((scores * weights).sum(), list(model.parameters())) for scores in (plain, fused)]
    torch.testing.assert_close(gradients[0], gradients[1])
    assert all(gradient.abs().sum() > 0 for gradient in gradients[0][:-2])


def test_without_batch_norm_rows_do_not_mix_and_each_base_is_normalized_alone():
    model, rows = network().double(), inputs()
    out = model.embed(*rows)
    rows[0][3] += 5
    moved = model.embed(*rows)
    assert torch.equal(out[[0, 1, 2, 4, 5, 6]], moved[[0, 1, 2, 4, 5, 6]])
    assert not torch.equal(out[3, :4], moved[3, :4])
    assert torch.equal(out[3, 4:], moved[3, 4:])
    torch.testing.assert_close(out.view(7, 3, 4).mean(2), torch.zeros(7, 3, dtype=torch.float64))


def test_clipping_sees_every_layer_and_refuses_batch_norm():
    targets = torch.tensor([0, 1, 2, 0, -1, 1, 2])
    model, rows = network().double(), inputs()
    loss = torch.nn.functional.cross_entropy(model(*rows), targets, ignore_index=-1, reduction="sum")
    plain = torch.autograd.grad(loss, list(model.parameters()))
    clipped = torch.from_numpy(clipped_gradient_sum(model, rows, targets, 50.0)).double() * (50.0 / 2.0**SUM_BITS)
    torch.testing.assert_close(clipped, torch.cat([part.reshape(-1) for part in plain]), rtol=0, atol=50 / 2**14)
    with pytest.raises(Exception, match="Remove batch norm"):
        clipped_gradient_sum(network(batch_norm=True).double(), rows, targets, 1.0)


def test_a_stage_goes_on_where_the_one_before_ended():
    before, after = StageNetwork(WIDTHS[:2], 4, 3, batch_norm=True), StageNetwork(WIDTHS, 4, 3, batch_norm=True)
    rows = [row.float() for row in inputs()]
    before(*rows[:2])
    head = after.head.weight.clone()
    after.continue_from(before)
    assert torch.equal(after.head.weight, head)
    torch.testing.assert_close(after.eval().embed(*rows)[:, :8], before.eval().embed(*rows[:2]))
