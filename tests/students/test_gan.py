"""The losses are those of the equations, training is repeatable and leaves no trace, and the student learns."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from sfumato.errors import InputError
from sfumato.nn._gan import Discriminator, Generator, matching_loss, unlabeled_loss
from sfumato.nn._training import Adam
from sfumato.students import _gan as gan
from sfumato.students._cleansing import PATEPlusPlus
from sfumato.students._coteaching import CoTeaching, PATEPlus
from sfumato.students._gan import GANStudent

STUDENTS = [GANStudent, CoTeaching, PATEPlus, PATEPlusPlus]
SMALL = {"network": "mlp", "widths": (24,), "epochs": 20, "batch_size": 20}
CLASSES, LABELED, POOL, TEST = 4, 60, 200, 200


def blobs(seed=0, side=4):
    """Images with one bright band, which is the class; a fifth of the first labels is wrong."""
    draw = np.random.default_rng(seed)
    y = draw.integers(0, CLASSES, LABELED + POOL + TEST)
    x = 0.5 * draw.random((len(y), 1, side, side), np.float32)
    band = side // CLASSES
    for c in range(CLASSES):
        x[y == c, :, c * band : (c + 1) * band] += 0.4
    noisy = y[:LABELED].copy()
    wrong = draw.permutation(LABELED)[: LABELED // 5]
    noisy[wrong] = (noisy[wrong] + draw.integers(1, CLASSES, len(wrong))) % CLASSES
    return x[:LABELED], noisy, x[LABELED:-TEST], x[-TEST:], y[-TEST:]


@pytest.mark.parametrize("kind", STUDENTS)
def test_student_learns_from_noisy_labels(kind):
    x, noisy, pool, test_x, test_y = blobs()
    student = kind(CLASSES, **SMALL).fit(x, noisy, pool)
    assert (student.predict(test_x) == test_y).mean() > 0.85  # chance is 0.25
    probabilities = student.predict_proba(test_x)
    assert probabilities.shape == (TEST, CLASSES)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    assert student.predict(test_x).dtype == np.int64


@pytest.mark.parametrize(("network", "widths"), [("cnn", (4, 8, 16)), ("deep", (2, 3, 8, 8)), ("mlp", (16,))])
def test_colored_images_of_32_pixels(network, widths):
    draw = np.random.default_rng(0)
    x, y = 0.5 * draw.random((90, 3, 32, 32), np.float32), np.arange(90) % 3
    x[np.arange(90), y] += 0.4  # the class is the brightest color
    student = CoTeaching(3, network, widths, epochs=25, batch_size=10).fit(x[:30], y[:30], x[30:60])
    assert (student.predict(x[60:]) == y[60:]).mean() > 0.85
    assert student.generator(5).shape == (5, 3, 32, 32)
    with pytest.raises(InputError, match=r"\[2, 3, 32, 32\]"):
        student.predict(x[:2, :1])


def test_deep_is_seven_convolutions_without_noise():
    net = Discriminator((1, 28, 28), (96, 192, 192, 192), 10, "deep")
    shapes = [tuple(layer.weight.shape) for layer in (*net.convolutions, *net.layers, net.head)]
    assert shapes == [
        (96, 1, 3, 3), (96, 96, 3, 3), (96, 96, 3, 3), (192, 96, 3, 3), (192, 192, 3, 3), (192, 192, 3, 3), (192, 192, 5, 5),
        (192, 7 * 7 * 192), (192, 192), (10, 192),
    ]  # fmt: skip
    x = torch.rand(2, 1, 28, 28)
    assert torch.equal(net(x)[1], net(x)[1])
    assert 0.1 < net(x)[1].std() < 10


@pytest.mark.parametrize("kind", STUDENTS)
def test_fit_reads_public_rows_and_noisy_labels_only(kind):
    assert list(inspect.signature(kind.fit).parameters) == ["self", "x_labeled", "y_noisy", "x_unlabeled", "progress"]


@pytest.mark.parametrize("kind", STUDENTS)
def test_seed_decides_and_global_coins_stay(kind):
    x, noisy, pool, test_x, _ = blobs()
    settings = kind(CLASSES, **SMALL | {"epochs": 2})
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first = settings.fit(x, noisy, pool).predict_proba(test_x)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(8)
    assert np.array_equal(settings.fit(x, noisy, pool).predict_proba(test_x), first)
    assert not np.array_equal(replace(settings, seed=1).fit(x, noisy, pool).predict_proba(test_x), first)


@pytest.mark.parametrize("kind", STUDENTS)
def test_progress_counts_every_epoch(kind):
    x, noisy, pool, _, _ = blobs()
    seen = []
    kind(CLASSES, **SMALL | {"epochs": 2}).fit(x, noisy, pool, progress=lambda *at: seen.append(at))
    total = 4 if kind is PATEPlusPlus else 2
    assert seen == [(epoch, total) for epoch in range(1, total + 1)]


def test_generator_learns_the_pool():
    _, noisy, pool, _, _ = blobs()
    x = np.zeros((LABELED, 1, 4, 4), np.float32)
    bright = np.where(np.arange(16).reshape(4, 4) < 4, 0.9, 0.1).astype(np.float32) + 0.05 * pool
    student = GANStudent(CLASSES, **SMALL).fit(x, noisy, bright)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = student.generator(500).mean(0).numpy()
    assert np.abs(made - bright.mean(0)).mean() < 0.15
    assert np.abs(made - pool.mean(0)).mean() > 0.25


def test_unlabeled_loss_is_that_of_a_softmax_with_one_more_class():
    real, fake = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([[0.5, -1.0, 2.0]])
    log_real, log_fake = (functional.pad(scores, (0, 1)).log_softmax(1) for scores in (real, fake))
    expected = -(log_real[:, :3].exp().sum(1).log().mean() + log_fake[:, 3].mean()) / 2
    torch.testing.assert_close(unlabeled_loss(real, fake), expected)
    assert not torch.isclose(unlabeled_loss(fake, real), expected)


def test_matching_compares_means_not_rows():
    first, second = torch.tensor([[0.0, 1.0], [2.0, 1.0]]), torch.tensor([[1.0, 1.0]])
    assert matching_loss(first, second) == 0
    assert matching_loss(first, second + torch.tensor([2.0, 0.0])) == 2


def test_adam_is_adam():
    own, other = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    mine, theirs = Adam([own], 0.1, momentum=0.5), torch.optim.Adam([other], 0.1, betas=(0.5, 0.999))
    for step in range(4):
        other.grad = torch.tensor([1.0, -2.0, 0.5]) * (step + 1)
        own.grad.copy_(other.grad)
        mine.step()
        theirs.step()
    torch.testing.assert_close(own, other)


def test_noise_is_for_training_only():
    net, x = Discriminator((4,), (8,), 2, "mlp"), torch.ones(3, 4)
    assert not torch.equal(net(x)[1], net(x)[1])
    net.eval()
    assert torch.equal(net(x)[1], net(x)[1])


def test_generated_rows_lie_in_0_to_1():
    rows = Generator((2, 3), 8)(50)
    assert rows.shape == (50, 2, 3)
    assert 0 <= rows.min() <= rows.max() <= 1


def test_edges_are_what_networks_see():
    """Bars across or along: the same histograms under any brightness, so that half of the light changes no prediction."""
    draw = np.random.default_rng(0)
    x, y = np.zeros((80, 1, 28, 28), np.float32), np.arange(80) % 2
    for image, label, at in zip(x[:, 0], y, draw.integers(6, 20, 80), strict=True):
        (image.T if label else image)[4:24, at : at + 3] = 1
    student = GANStudent(2, widths=(16, 8), epochs=6, batch_size=20).fit(x[:20], y[:20], x[20:])
    assert (student.predict(x) == y).mean() > 0.9
    np.testing.assert_allclose(student.predict_proba(x), student.predict_proba(x / 2), atol=1e-3)
    assert student.generator(3).shape == (3, 588)
    for shape in ((2, 1, 28, 27), (2, 588)):
        with pytest.raises(InputError, match="28, 28"):
            student.predict(np.zeros(shape, np.float32))


@pytest.mark.parametrize(("labeled", "unlabeled"), [(3, 10), (10, 3), (5, 5)])
def test_smaller_set_is_repeated(labeled, unlabeled):
    batches = list(gan._epoch(labeled, unlabeled, 4))
    for position, count in ((0, labeled), (1, unlabeled)):
        seen = np.bincount(torch.cat([batch[position] for batch in batches]).numpy(), minlength=count)
        assert seen.sum() == max(labeled, unlabeled)
        assert seen.max() - seen.min() <= 1


def test_last_batch_may_hold_one_row():
    x = np.random.default_rng(0).random((21, 6), np.float32)
    GANStudent(2, **SMALL | {"epochs": 1}).fit(x, np.arange(21) % 2, x)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"num_classes": 1}, "num_classes"),
        ({"network": "gnn"}, "network"),
        ({"network": "cnn", "widths": (8, 8)}, "widths"),
        ({"widths": ()}, "widths"),
        ({"widths": (0,)}, "widths"),
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 1}, "batch_size"),
        ({"network": "deep", "widths": (8, 8)}, "widths"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"seed": -1}, "seed"),
    ],
)
def test_settings_are_checked(change, word):
    with pytest.raises(InputError, match=word):
        GANStudent(**{"num_classes": 4, **SMALL, **change})


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"x": np.full((3, 4), 2.0)}, "x_labeled"),
        ({"x": np.full((3, 4), np.nan)}, "x_labeled"),
        ({"x": np.zeros((0, 4)), "y": np.zeros(0, int)}, "x_labeled"),
        ({"pool": np.zeros((0, 4))}, "x_unlabeled"),
        ({"pool": np.zeros((5, 3))}, "x_unlabeled"),
        ({"y": np.zeros(2, int)}, "y_noisy"),
        ({"y": np.zeros(3)}, "y_noisy"),
        ({"y": np.array([0, 1, 4])}, "got 4"),
        ({"y": np.array([0, -1, 3])}, "got -1"),
    ],
)
def test_rows_are_checked(change, word):
    given = {"x": np.zeros((3, 4)), "y": np.arange(3), "pool": np.zeros((5, 4)), **change}
    with pytest.raises(InputError, match=word):
        GANStudent(4, **SMALL).fit(given["x"], given["y"], given["pool"])


def test_convolutions_want_images():
    with pytest.raises(InputError, match="network='mlp'"):
        GANStudent(4).fit(np.zeros((3, 4)), np.arange(3), np.zeros((5, 4)))


def test_predicting_wants_rows_of_the_same_shape():
    x, noisy, pool, _, _ = blobs()
    student = GANStudent(CLASSES, **SMALL | {"epochs": 1}).fit(x, noisy, pool)
    with pytest.raises(InputError, match=r"\[2, 1, 4, 4\]"):
        student.predict(np.zeros((2, 1, 5, 5)))


def networks(**change):
    """Fresh networks with a step's labeled rows, unlabeled rows and batch."""
    x, noisy, pool, _, _ = blobs()
    batch = gan.Batch(torch.arange(LABELED), torch.from_numpy(noisy), 1, 0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = gan._Networks(GANStudent(CLASSES, **SMALL | change), x.shape[1:])
    return made, (torch.from_numpy(x), torch.from_numpy(pool), batch, None)


def test_running_mean_of_weights_predicts():
    made, given = networks()
    (optimizer,), expected = made.optimizers, made.optimizers[0].flat.clone()
    for step in range(1, 4):
        made.step(*given)
        kept = step / (step + 9)
        expected = kept * expected + (1 - kept) * optimizer.flat
    live = optimizer.flat.clone()
    (net,) = made.averaged()
    found = torch.cat([parameter.flatten() for parameter in net.parameters()])
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found, live)


def test_the_last_weights_of_deep_predict():
    x = torch.rand(30, 1, 8, 8)
    made = gan._Networks(GANStudent(CLASSES, "deep", (2, 2, 4), batch_size=10), (1, 8, 8))
    for _ in range(3):
        made.step(x[:10], x[10:], gan.Batch(torch.arange(10), torch.arange(10) % CLASSES, 1, 0), None)
    live = made.optimizers[0].flat.clone()
    (net,) = made.averaged()
    torch.testing.assert_close(torch.cat([parameter.flatten() for parameter in net.parameters()]), live)


def test_watching_changes_nothing():
    x, noisy, pool, test_x, _ = blobs()
    settings = CoTeaching(CLASSES, **SMALL | {"epochs": 2})
    seen = []
    watched = gan.train(settings, x, noisy, pool, watch=lambda scores, batch: seen.append((scores, batch)))
    assert np.array_equal(watched.predict_proba(test_x), settings.fit(x, noisy, pool).predict_proba(test_x))
    scores, batch = seen[0]
    assert [part.shape for part in scores] == [(20, CLASSES)] * 2
    assert not any(part.requires_grad for part in scores)
    assert batch.labels.tolist() == noisy[batch.rows].tolist()


def test_discriminator_tells_real_rows_from_generated_ones():
    made, given = networks(batch_size=100, learning_rate=1e-2)
    fixed = made.generator(100).detach()
    made.generator.forward = lambda rows: fixed.clone().requires_grad_()
    for _ in range(100):
        made.step(*given)
    (net,) = made.averaged()
    real, generated = (net(rows)[1].logsumexp(1).mean() for rows in (given[1], fixed))
    assert real > 0 > generated


def test_generator_leaves_the_discriminator_alone():
    made, given = networks()
    made.step(*given)
    before = made.optimizers[0].flat.clone(), made.generating.flat.clone()
    made._generate(given[1], made.generator(20))
    assert torch.equal(made.optimizers[0].flat, before[0])
    assert not made.optimizers[0].grad.any()
    assert not torch.equal(made.generating.flat, before[1])
