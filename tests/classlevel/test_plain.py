"""Training without privacy goes on until few images are learned, so that it is the ceiling that tables call it."""

import numpy as np

from sfumato.classlevel.record import CNN
from sfumato.graph.images import from_arrays
from sfumato.privacy.units import NoPrivacy


def test_few_images_are_learned():
    """Ten passes alone are ten steps here, after which 27 % of these images are right."""
    images = np.random.default_rng(0).random((60, 12, 12), np.float32)
    graph = from_arrays(images, np.arange(60) % 6, roles=np.zeros(60, np.int64))
    plan = CNN(network="softmax").calibrate(None, NoPrivacy(), graph.public_facts(NoPrivacy()))
    assert (plan.fit(graph).predict(graph) == graph.y).mean() > 0.97
