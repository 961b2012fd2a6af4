"""Print what each extra of the package takes on disk, and the seconds to a first result with it.

    python benchmarks/install_size.py [--source FOLDER] [EXTRA ...]

Each extra is installed into a fresh environment with the versions of constraints.txt. The first result is `sfumato train auto`
on the built-in graph without controls, as a new process; the first one of an environment also compiles loops. `base` is the
package without an extra, which trains nothing.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIRST = ["train", "auto", "--dataset", "campus", "--unit", "edge", "--epsilon", "1", "--delta", "1e-6", "--no-controls"]


def megabytes(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*")) / 1e6


def installed(extra: str, source: Path, folder: Path) -> tuple[float, int]:
    """Install into ``folder``; return megabytes and packages, both without pip."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python, (site,) = folder / "bin" / "python", folder.glob("lib/python*/site-packages")
    before = megabytes(site)
    wanted = str(source) if extra == "base" else f"{source}[{extra}]"
    subprocess.run([python, "-m", "pip", "install", "-q", "-c", source / "constraints.txt", wanted], check=True)
    return megabytes(site) - before, len(list(site.glob("*.dist-info"))) - 1


def seconds(folder: Path, run: str) -> float:
    start = time.perf_counter()
    command = [folder / "bin" / "sfumato", *FIRST, "--out", folder / run]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extras", nargs="*", default=["base", "light", "train", "all"])
    parser.add_argument("--source", type=Path, default=ROOT, help="the checkout to install")
    asked = parser.parse_args()
    print("| Extra | MB | Packages | First result, s | Again, s |\n|---|---|---|---|---|")
    for extra in asked.extras:
        with tempfile.TemporaryDirectory() as name:
            size, packages = installed(extra, asked.source.resolve(), Path(name))
            took = ["-"] * 2 if extra == "base" else [f"{seconds(Path(name), run):.1f}" for run in ("one", "two")]
            print(f"| {extra} | {size:,.0f} | {packages} | {took[0]} | {took[1]} |", flush=True)


if __name__ == "__main__":
    main()
