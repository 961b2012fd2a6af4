"""Training again with and without the images of a class contradicts no honest plan, and catches too little noise."""

from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.audit._classes import audit_cell
from sfumato.audit._thresholds import Explicit
from sfumato.errors import InputError
from sfumato.method._derived import marked

RNG = np.random.default_rng(0)
CLASSES, EACH = 5, 13
Y = np.repeat(np.arange(CLASSES), EACH)
PATTERNS = RNG.random((CLASSES, 6, 6)) > 0.5
IMAGES = np.clip(PATTERNS[Y] * 0.8 + RNG.normal(0, 0.1, (len(Y), 6, 6)), 0, 1).astype(np.float32)
ROLES = np.where(np.arange(len(Y)) % EACH < 10, 0, 2)
GRAPH = sf.images.from_arrays(IMAGES, Y, classes=[str(k) for k in range(CLASSES)], roles=ROLES)
METHOD = sf.ClassDP(network="softmax", steps=1, sampling_prob=1.0)
pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")


def planned(method=METHOD, unit=None, epsilon=1.0):
    unit = unit or sf.ClassLevel()
    return method.calibrate(sf.Budget(epsilon, 1e-3), unit, GRAPH.public_facts(unit))


def quieter(plan, factor):
    """The same claim, and a factor less noise than it needs."""
    (release,) = plan.releases
    event = replace(release.event, noise_multiplier=release.event.noise_multiplier / factor)
    return marked(replace(plan, releases=(replace(release, event=event),)))


def test_honest_plan_stands_and_a_fortieth_of_its_noise_does_not():
    plan, options = planned(), {"fits": 40, "confidence": 0.99, "policy": Explicit(0.3)}
    assert audit_cell(plan, GRAPH, **options).epsilon_lower_bound <= plan.epsilon
    found = audit_cell(quieter(plan, 40), GRAPH, **options)
    assert found.epsilon_lower_bound > plan.epsilon
    assert found.trials == 80


def test_declared_cells_are_audited_too():
    unit, graph = sf.SubclassLevel(10, "declared"), replace(GRAPH, cells=2 * Y + np.arange(len(Y)) % 2)
    method = sf.SubclassDP(network="softmax", steps=1, sampling_prob=1.0)
    plan = method.calibrate(sf.Budget(1.0, 1e-3), unit, graph.public_facts(unit))
    found = audit_cell(plan, graph, cell=3, fits=2)
    assert found.epsilon_lower_bound == 0
    assert len(found.members) == len(found.others) == 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: audit_cell(planned(), GRAPH, cell=9, fits=1), "cell to hold training images"),
        (lambda: audit_cell(planned(), GRAPH, fits=0), "fits"),
        (
            lambda: audit_cell(planned(sf.CNN(network="softmax", steps=1), sf.RecordLevel()), GRAPH),
            "class-dp or subclass-dp",
        ),
        (
            lambda: audit_cell(planned(sf.SubclassDP(network="softmax"), sf.SubclassLevel(5)), GRAPH),
            "negatives of its images",
        ),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(InputError, match=words):
        call()
