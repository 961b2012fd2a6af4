"""Light parts stay light: a fresh interpreter tells what an import brought with it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"torch", "torch_geometric", "sklearn", "duckdb", "pyarrow", "pandas"}
PROBE = """
import importlib, json, sys
before = set(sys.modules)
importlib.import_module({module!r})
print(json.dumps(sorted({{name.split(".")[0] for name in set(sys.modules) - before}})))
"""


def packages_of(module: str) -> set[str]:
    """Top-level packages outside the standard library that importing ``module`` loads."""
    done = subprocess.run([sys.executable, "-c", PROBE.format(module=module)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout)) - set(sys.stdlib_module_names)


def test_package_loads_nothing_else():
    assert packages_of("sfumato") == {"sfumato"}


@pytest.mark.parametrize(
    "module",
    [
        "sfumato.graph",
        "sfumato.privacy.accounting",
        "sfumato.noise.keys",
        "sfumato.audit._bounds",
        "sfumato.verify",
        "sfumato.cli",
    ],
)
def test_light_parts_load_nothing_heavy(module):
    assert not packages_of(module) & HEAVY


def test_local_family_loads_neither_torch_nor_numba():
    files = sorted((Path(__file__).parents[2] / "src" / "sfumato" / "local").glob("*.py"))
    assert len(files) > 10
    imports = "; ".join(f"import sfumato.local.{file.stem}" for file in files if file.stem != "__init__")
    probe = f"import sys; {imports}; print([name for name in {sorted(HEAVY | {'numba'})} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_randomizers_need_only_numpy_scipy_and_cryptography():
    packages = packages_of("sfumato.randomizers._collision") | packages_of("sfumato.randomizers._privunit")
    assert {"numpy", "scipy", "cryptography"} <= packages
    assert not packages & (HEAVY | {"numba", "mpmath", "filelock", "typer", "rich"})


def test_verifier_needs_only_numpy_and_cryptography():
    compiled_parts_of_cryptography = {"_cffi_backend", "_openssl"}
    assert packages_of("sfumato.verify") - compiled_parts_of_cryptography == {"sfumato", "numpy", "cryptography"}


def test_client_needs_only_cryptography_and_a_lock():
    """What draws and what sends is imported when it is called."""
    light = {"sfumato", "cryptography", "_cffi_backend", "_openssl", "filelock"}
    assert packages_of("sfumato.collect._client") <= light
    assert packages_of("sfumato.collect._batch") <= light


def test_reports_are_drawn_without_torch():
    packages = packages_of("sfumato.collect._drawing") | packages_of("sfumato.collect._simulate")
    assert "numpy" in packages
    assert not packages & (HEAVY | {"numba", "httpx", "typer", "rich"})


def test_probe_sees_heavy_packages():
    assert "pyarrow" in packages_of("pyarrow")
