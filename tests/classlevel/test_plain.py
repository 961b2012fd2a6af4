"""Training without privacy goes on until few images are learned, so that it is the ceiling that tables call it."""

import numpy as np
import pytest
from torch import nn

from sfumato.classlevel._record import CNN
from sfumato.datasets.images import from_arrays
from sfumato.nn._training import SGD, Adam, Momentum
from sfumato.privacy.units import NoPrivacy


def test_few_images_are_learned():
    """Ten passes alone are ten steps here, after which 27 % of these images are right."""
    images = np.random.default_rng(0).random((60, 12, 12), np.float32)
    graph = from_arrays(images, np.arange(60) % 6, roles=np.zeros(60, np.int64))
    plan = CNN(network="softmax").calibrate(None, NoPrivacy(), graph.public_facts(NoPrivacy()))
    assert (plan.fit(graph).predict(graph) == graph.y).mean() > 0.97


def test_images_without_a_class_are_left_out():
    images = np.random.default_rng(0).random((20, 4, 4), np.float32)
    graph = from_arrays(images, np.where(np.arange(20) < 4, -1, np.arange(20) % 2), roles=np.zeros(20, np.int64))
    plan = CNN(network="softmax").calibrate(None, NoPrivacy(), graph.public_facts(NoPrivacy()))
    assert set(plan.fit(graph).predict(graph)) <= {0, 1}


@pytest.mark.parametrize(("name", "kind"), [("momentum", Momentum), ("adam", Adam), ("sgd", SGD)])
def test_every_name_is_that_of_its_own_optimizer(name, kind):
    assert type(CNN(optimizer=name).stepper(nn.Linear(2, 2), 3)) is kind
