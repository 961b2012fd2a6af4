"""Whole processes of what else a user could take, beside ours, on the same data in alternating rounds; prints Markdown tables.

    python benchmarks/peers.py [--datasets facebook100/Berkeley13 npz/amazon_cs] [--works auto sage ...] [--rounds 3]
        [--beside "python /path/to/train.py --epsilon 1" ...]

Peers are in peers.toml, in the versions of constraints.txt: GraphSAGE of PyTorch Geometric and scikit-learn's boosting without
privacy, and Opacus by hooks and by ghost clipping on features. Ours are `sfumato train` at epsilon 1: auto and gap per edge, and
mlp, which reads no arc, per node, beside Opacus. Code of other papers (GAP, ProGAP) has environments of its own: clone it,
install what its README names, convert the data as it says, and name its training at edge level and epsilon 1 with --beside.
Medians, accuracy of the last round, two threads. Five minutes a round of both data sets, most for GraphSAGE and hooks.
"""

import json
import re
import shlex
import shutil
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import study

DATA = ("facebook100/Berkeley13", "npz/amazon_cs")
PARTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
PEERS = {name: [*part["needs"], name] for name, part in PARTS.items() if "needs" in part}
OURS, RUN = {"auto": "edge", "gap": "edge", "mlp": "node"}, "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"


def main() -> None:
    """Print a table for each data set."""
    given = study.options(__doc__, datasets=DATA, works=OURS | PEERS, rounds=3, beside=("",))
    for name in given.datasets:
        with tempfile.TemporaryDirectory() as folder:
            measure(name, Path(folder), given)
    print("\n" + "\n".join(f"- {what}: {words}" for what, words in study.machine().items()))


def measure(name: str, folder: Path, given: Any) -> None:
    """Medians of all processes on one data set, which is written by another: a process begins with the peak of its parent."""
    study.process("-c", PARTS["data"]["code"], name, given.data_dir, folder / "data.npz")
    more = [
        "--epsilon", 1, "--delta", 1e-7, "--no-controls", "--data-dir", given.data_dir, "--out", folder / "run", "--json",
    ]  # fmt: skip
    calls: dict[str, list[Any]] = {command: ["-c", RUN, *shlex.split(command)] for command in given.beside if command}
    for work in given.works:
        code = "\n".join(PARTS[part]["code"] for part in PEERS.get(work, ()))
        ours = ["-m", "sfumato", "train", work, "--dataset", name, "--unit", OURS.get(work), *more]
        calls[work] = ours if work in OURS else ["-c", code, folder / "data.npz"]
    found, scores = {work: list[tuple[float, ...]]() for work in calls}, {}
    for work, words in [*calls.items()] * given.rounds:
        told, *taken, _ = study.process(*words, on=folder)
        found[work].append(tuple(taken))
        scores[work] = score(told)
        shutil.rmtree(folder / "run", ignore_errors=True)
    middle = {work: np.median(values, axis=0) for work, values in found.items()}
    lines = (
        (work, f"{wall:.1f}", f"{cpu:.1f}", f"{peak:,.0f}", scores[work]) for work, (wall, cpu, peak) in middle.items()
    )
    study.table(("process", "wall, s", "processor, s", "peak, MiB", "accuracy, %"), lines, f"### {name}")


def score(told: str) -> str:
    """The accuracy that a process printed, alone or in the JSON of `train`; nan for other words."""
    found = re.match(r"0\.\d+|\{.*\}$", told, re.DOTALL)
    one = json.loads(found[0]) if found else float("nan")
    return f"{100 * (one['test_accuracy']['mean'] if isinstance(one, dict) else one):.1f}"


if __name__ == "__main__":
    main()
