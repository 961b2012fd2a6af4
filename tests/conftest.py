"""Fixtures shared by all tests."""

import os
from collections.abc import Iterator
from pathlib import Path

# Before torch is imported, which some tests do before the library: with several test processes, threads that wait for each
# other spin away every core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest


@pytest.fixture(scope="session", autouse=True)
def _no_disk_is_waited_for() -> Iterator[None]:
    """Syncs that reach no disk: what a killed process wrote stays, and no test cuts the power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: os.fstat(descriptor) and None)
        yield


@pytest.fixture(autouse=True)
def _no_data_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find data sets where a test says, not where the shell of the tests does."""
    monkeypatch.delenv("SFUMATO_DATA", raising=False)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data sets; tests that need it skip, saying so, when it is absent."""
    path = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (path / "README.md").exists():
        pytest.skip(f"real data not found at {path}; set SFUMATO_DATA")
    return path


def pytest_configure(config: pytest.Config) -> None:
    """Let calibration warn: most tests plan on graphs of a few nodes, of which every such warning is true."""
    config.addinivalue_line("filterwarnings", "ignore::sfumato.errors.SfumatoWarning")
