"""Light parts stay light: a fresh interpreter tells what an import brought with it."""

import json
import subprocess
import sys

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
        "sfumato.privacy.noise",
        "sfumato.audit.bounds",
        "sfumato.verify",
        "sfumato.cli",
    ],
)
def test_light_parts_load_nothing_heavy(module):
    assert not packages_of(module) & HEAVY


def test_verifier_needs_only_numpy_and_cryptography():
    compiled_parts_of_cryptography = {"_cffi_backend", "_openssl"}
    assert packages_of("sfumato.verify") - compiled_parts_of_cryptography == {"sfumato", "numpy", "cryptography"}


def test_probe_sees_heavy_packages():
    assert "pyarrow" in packages_of("pyarrow")
