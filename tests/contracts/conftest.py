"""Honest runs, each made once a session, and copies of them that forgers change."""

import shutil

import pytest
from contracts_forgery import problems, rewrite
from contracts_honest import fitted


@pytest.fixture(scope="module", autouse=True)
def _few_plain_steps():
    """Training on images without privacy ends early, since no promise depends on how long it goes on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sfumato.classlevel._images._PLAIN_STEPS", 5)
        yield


@pytest.fixture(scope="session")
def honest(tmp_path_factory):
    """The folder of an honest run by its name in ``contracts_honest``; tests must not write into it."""
    made = {}

    def of(name):
        if name not in made:
            made[name] = fitted(name).save(tmp_path_factory.mktemp("honest") / "run")
        return made[name]

    return of


@pytest.fixture
def copy_of(honest, tmp_path):
    """A copy of an honest run."""
    return lambda name: shutil.copytree(honest(name), tmp_path / "run")


@pytest.fixture
def forge(copy_of):
    """What the verifier says of an honest run that was rewritten everywhere alike."""

    def run(name, change):
        copy = copy_of(name)
        rewrite(copy, change)
        return problems(copy)

    return run
