"""Forged runs of scattering: what does not follow from the settings and from the shape of an image is refused."""

from dataclasses import replace

import numpy as np
import pytest
from contracts_forgery import event, problems, rewrite, setting

import sfumato as sf
from sfumato.central._scattering import Scattering
from sfumato.datasets.images import from_arrays
from sfumato.verify import verify

UNIT = sf.RecordLevel()


@pytest.fixture(scope="module")
def fitted():
    images = np.random.default_rng(0).random((80, 8, 12))
    graph = from_arrays(images, np.arange(80) % 2, classes=("a", "b"), roles=np.repeat([0, 2], [60, 20]))
    facts = graph.public_facts(UNIT)
    return Scattering(epochs=2, batch_size=20).calibrate(sf.Budget(4.0, 1e-5), UNIT, facts).fit(graph)


def image_shape(*shape):
    def change(certificate, spec):
        certificate["public_facts"]["image_shape"] = spec["public"]["image_shape"] = list(shape)

    return change


def no_image_shape(certificate, spec):
    del certificate["public_facts"]["image_shape"], spec["public"]["image_shape"]


def claimed(epsilon):
    def change(certificate, _):
        certificate["claim"]["epsilon"] = epsilon

    return change


def without_release(certificate, _):
    certificate["releases"] = []


def test_the_honest_run_is_valid(fitted, tmp_path):
    assert verify(fitted.save(tmp_path / "run")).problems == ()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (claimed(2.0), "claim.epsilon"),
        (event(0, noise_multiplier=0.5), "claim.epsilon"),
        (event(0, sampling_prob=0.01), "sampling_prob"),
        (event(0, steps=1), "steps"),
        (event(0, relation="replace"), "claim.epsilon"),
        (setting(epochs=1), "steps"),
        (setting(batch_size=60), "sampling_prob"),
        (setting(width=16), "is not a setting of method scattering"),
        (setting(epochs=None), "settings.epochs"),
        (setting(learning_rate=0.0), "settings.learning_rate"),
        (without_release, "releases: expected ['head']"),
        (image_shape(1, 4, 24), "at least 8 x 8 pixels"),
        (image_shape(6, 4, 4), "at least 8 x 8 pixels"),
        (image_shape(1, 16, 8), "image_shape"),
        (image_shape(1, 9, 12), "image_shape"),
        (no_image_shape, "at least 8 x 8 pixels"),
    ],
)
def test_what_does_not_follow_is_refused(fitted, change, problem, tmp_path):
    run = fitted.save(tmp_path / "run")
    rewrite(run, change)
    assert problem in problems(run)


def test_weights_of_another_size_are_refused(fitted, tmp_path):
    weights = {**fitted.weights, "head.weight": fitted.weights["head.weight"][:, :-1].copy()}
    assert "head.weight" in problems(replace(fitted, weights=weights).save(tmp_path / "run"))
