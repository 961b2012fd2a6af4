"""Two engines that share work: one that scatters parts in this process, and Ray where it is installed."""

import pickle
import random

import pytest

from sfumato._optional import require
from sfumato._threads import set_threads
from sfumato.errors import MissingDependencyError


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    import torch

    before = torch.get_num_threads()
    set_threads(1)  # Numba would change the number of Torch's threads when it starts its own
    yield
    set_threads(before)


class Scattered:
    """Runs parts in a random order, some twice, with everything sent as bytes, as between processes."""

    parts = 7

    def __init__(self):
        self.ran = 0

    def hold(self, value):
        return value

    def run(self, function, shared, parts, *, threads=None):
        sent = list(enumerate(map(self._bytes, ((function, *shared, *part) for part in parts))))
        random.Random(0).shuffle(sent)
        for number, part in sent:
            for _ in range(1 + number % 2):
                call, *arguments = pickle.loads(part)
                result = call(*arguments)
            self.ran += 1
            yield number, pickle.loads(self._bytes(result))

    @staticmethod
    def _bytes(value):
        return pickle.dumps(value, protocol=5)


@pytest.fixture
def scattered():
    return Scattered()


@pytest.fixture(scope="session")
def ray():
    """Ray, if this environment has it."""
    try:
        return require("ray")
    except MissingDependencyError:
        pytest.skip("Ray is not installed: pip install 'sfumato[distributed]'")


@pytest.fixture(scope="module")
def on_ray(ray):
    """An engine of two workers on this machine."""
    from sfumato.distributed._ray import RayEngine

    with RayEngine(workers=2) as engine:
        yield engine
