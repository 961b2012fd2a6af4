"""Print what each extra of the package takes on disk, and the seconds to a first result with it.

    python benchmarks/install_size.py [--source FOLDER] [--extras none train all]

Each extra is installed into a fresh environment with the versions of constraints.txt. The first result is `sfumato train auto`
on the built-in graph without controls, as a new process; the first one of an environment also compiles loops. `none` is the
package without an extra.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import study

ROOT = Path(__file__).parents[1]
FIRST = ["train", "auto", "--dataset", "campus", "--unit", "edge", "--epsilon", "1", "--delta", "1e-6", "--no-controls"]


def megabytes(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*")) / 1e6


def installed(extra: str, source: Path, folder: Path) -> tuple[float, int]:
    """Install into ``folder``; return megabytes and packages, both without pip."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python, (site,) = folder / "bin" / "python", folder.glob("lib/python*/site-packages")
    before = megabytes(site)
    wanted = str(source) if extra == "none" else f"{source}[{extra}]"
    subprocess.run([python, "-m", "pip", "install", "-q", "-c", source / "constraints.txt", wanted], check=True)
    return megabytes(site) - before, len(list(site.glob("*.dist-info"))) - 1


def main() -> None:
    """Print a row for each extra."""
    given = study.options(__doc__, extras=("none", "train", "all"), source=str(ROOT))

    def row(extra: str) -> tuple[str, ...]:
        with tempfile.TemporaryDirectory() as name:
            size, packages = installed(extra, Path(given.source).resolve(), Path(name))
            first = [f"{name}/bin/sfumato", *FIRST, "--out"]
            runs = (study.seconds(lambda run=run: subprocess.run([*first, f"{name}/{run}"], check=True, capture_output=True))
                    for run in ("one", "two"))  # fmt: skip
            return extra, f"{size:,.0f}", str(packages), *(f"{one:.1f}" for one in runs)

    study.table(("Extra", "MB", "Packages", "First result, s", "Again, s"), map(row, given.extras))


if __name__ == "__main__":
    main()
