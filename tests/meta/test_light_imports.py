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


COMPILED = {"_cffi_backend", "_openssl"}  # parts of cryptography
DRAWING = {"numba", "mpmath", "filelock", "typer", "rich"}
NOTHING_HEAVY = {
    "sfumato.graph": HEAVY,
    "sfumato.privacy.accounting": HEAVY,
    "sfumato.noise.keys": HEAVY,
    "sfumato.audit._bounds": HEAVY | {"numba", "scipy"},
    "sfumato.cli": HEAVY | {"numpy", "scipy"},
    "sfumato.randomizers._collision": HEAVY | DRAWING,
    "sfumato.randomizers._privunit": HEAVY | DRAWING,
    "sfumato.collect._drawing": HEAVY | {"numba", "httpx", "typer", "rich"},
    "sfumato.collect._simulate": HEAVY | {"numba", "httpx", "typer", "rich"},
}
ONLY = {
    "sfumato": set(),
    "sfumato.verify": {"numpy", "cryptography"} | COMPILED,
    "sfumato.collect._client": {"cryptography", "filelock"}
    | COMPILED,  # what draws and what sends is imported when called
    "sfumato.shares._prio3": {"numpy"},
    "sfumato.collect._batch": {"cryptography", "filelock"} | COMPILED,
}


@pytest.mark.parametrize("module", NOTHING_HEAVY)
def test_light_parts_load_nothing_heavy(module):
    assert not packages_of(module) & NOTHING_HEAVY[module]


@pytest.mark.parametrize("module", ONLY)
def test_some_parts_load_a_few_packages_alone(module):
    assert packages_of(module) <= {"sfumato"} | ONLY[module]


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["verify", "--help"], ["budget", "--help"]])
def test_help_computes_nothing(words):
    probe = f"import sys; from sfumato.cli import invoke; invoke({words}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert "Usage: sfumato" in done.stdout
    loaded = {name.split(".")[0] for name in done.stderr.split()}
    assert not loaded & (HEAVY | DRAWING | {"numpy", "scipy", "cryptography"}) - {"typer"}
    modules = {name for name in done.stderr.split() if name.startswith("sfumato.cli._")}
    assert words != ["--help"] or modules == {"sfumato.cli._commands"}


def test_local_family_loads_neither_torch_nor_numba():
    files = sorted((Path(__file__).parents[2] / "src" / "sfumato" / "local").glob("*.py"))
    assert len(files) > 10
    imports = "; ".join(f"import sfumato.local.{file.stem}" for file in files if file.stem != "__init__")
    probe = f"import sys; {imports}; print([name for name in {sorted(HEAVY | {'numba'})} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_probe_sees_heavy_packages():
    assert "pyarrow" in packages_of("pyarrow")
