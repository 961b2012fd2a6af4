"""Every histogram of a few teachers, its neighbors, exact laws of noisy plurality, and images for runs."""

import shutil
from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp

from sfumato.pate import _plan as plan
from sfumato.pate import _run as module
from sfumato.pate._images import Images


def every_histogram(teachers, classes):
    """All vote counts of so many teachers."""
    rows = (row for row in product(range(teachers + 1), repeat=classes) if sum(row) == teachers)
    return np.array(list(rows))


def neighbors_of(counts):
    """Counts after one teacher changed its vote."""
    moves = [(i, j) for i in range(len(counts)) for j in range(len(counts)) if i != j and counts[i]]
    eye = np.eye(len(counts), dtype=int)
    return [counts - eye[i] + eye[j] for i, j in moves]


def largest_changes(teachers, classes, value):
    """All histograms, and the largest change of ``value`` by one vote within d = 0, 1, ... changes of each."""
    rows = every_histogram(teachers, classes)
    at = {tuple(row): float(v) for row, v in zip(rows, value(rows), strict=True)}
    local = {tuple(r): max(abs(at[tuple(r)] - at[tuple(o)]) for o in neighbors_of(r)) for r in rows}
    far = np.abs(rows[:, None] - rows).sum(axis=2) // 2
    steps = np.array([local[tuple(row)] for row in rows])
    return rows, np.array([[steps[far[i] <= d].max() for d in range(teachers)] for i in range(len(rows))])


def log_plurality(counts, noise, law):
    """ln of the exact probability of each class, by quadrature over the winner's noise."""
    reach = (counts.max() - counts.min()) / noise + 14
    nodes = np.linspace(-reach, reach, 4001)
    if law == "gaussian":
        log_density, log_cdf = -(nodes**2) / 2 - np.log(2 * np.pi) / 2, log_ndtr
    else:
        nodes = np.linspace(-3 * reach, 3 * reach, 40001)
        log_density = -np.abs(nodes) - np.log(2)

        def log_cdf(x):
            return np.where(x < 0, x - np.log(2), np.log1p(-np.exp(-np.abs(x)) / 2))

    logs = []
    for j in range(len(counts)):
        others = [log_cdf(nodes + (counts[j] - counts[k]) / noise) for k in range(len(counts)) if k != j]
        logs.append(logsumexp(log_density + sum(others)) + np.log(nodes[1] - nodes[0]))
    return np.array(logs) - logsumexp(logs)


def renyi(log_p, log_q, order):
    """Exact Renyi divergence of two laws on finitely many outcomes."""
    return logsumexp(order * log_p + (1 - order) * log_q) / (order - 1)


@pytest.fixture(scope="session")
def exact():
    """The functions of this file; tests are not a package."""

    class Exact:
        histograms = staticmethod(every_histogram)
        neighbors = staticmethod(neighbors_of)
        changes = staticmethod(largest_changes)
        plurality = staticmethod(log_plurality)
        divergence = staticmethod(renyi)

    return Exact


def toy_images(patch):
    """Sixty public images and twenty that measure; even ones are dark."""
    for holder in (plan, module):
        patch.setattr(holder, "POOL", 60)
    x = np.random.default_rng(0).random((80, 1, 28, 28)).astype(np.float32)
    y = np.arange(80) % 2
    x[y == 0] *= 0.3
    return Images("toy", x[:40], y[:40], x, y, num_classes=2)


@pytest.fixture
def images(monkeypatch):
    return toy_images(monkeypatch)


@pytest.fixture(scope="session")
def votes():
    """Fifty teachers, of whom 45 are right on each public image."""
    return np.where(np.arange(60)[:, None] % 2 == np.arange(2), 45, 5)


@pytest.fixture(scope="session")
def settings():
    small = {"width": 4, "steps": 3, "batch_size": 8}
    return plan.Settings(50, 30, 20.0, student_settings=small, controls=False)


def made(settings, votes, folder, stop):
    """The folder of a run, or of one that is stopped while its student trains."""

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt) if stop else nullcontext():
        images = toy_images(patch)
        if stop:
            patch.setattr(module, "fit_student", stopped)
        module.run(settings, images, folder, votes=votes)
    return folder


@pytest.fixture(scope="session")
def finished(settings, votes, tmp_path_factory):
    return made(settings, votes, tmp_path_factory.mktemp("finished") / "run", stop=False)


@pytest.fixture(scope="session")
def halted(settings, votes, tmp_path_factory):
    return made(settings, votes, tmp_path_factory.mktemp("halted") / "run", stop=True)


@pytest.fixture
def done(finished, tmp_path):
    """A copy of a finished run."""
    return shutil.copytree(finished, tmp_path / "run")
