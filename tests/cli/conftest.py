"""A small generated graph as CSV files, and the command line in this process or in one of its own that gets a signal."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
from preloaded import started

import sfumato as sf
from sfumato.cli import invoke
from sfumato.graph._synthetic import campus, stochastic_block_model
from sfumato.method.card import FLOORS
from sfumato.pate import _plan as plan
from sfumato.pate import _run as pate_run
from sfumato.pate._images import Images

PATIENCE = 60


@pytest.fixture(scope="module")
def small_campus():
    """The data set ``campus`` has 300 nodes while the tests of one file run: for commands whose claims need no more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sfumato.datasets._loading.campus", partial(campus, 300))
        yield


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def sfumato(capsys):
    """Run one command: ``sfumato("verify", path)`` gives its exit code and both outputs."""

    def run(*arguments) -> Result:
        capsys.readouterr()
        code = invoke([str(argument) for argument in arguments])
        return Result(code, *capsys.readouterr())

    return run


def write_tables(folder: Path, seed: int, num_features: int = 4, prefix: str = "n") -> list[str]:
    """Write a block model of 200 nodes as CSV; the options that name it."""
    graph = stochastic_block_model(200, 3, mean_degree=50, homophily=0.85, num_features=num_features, seed=seed)
    folder.mkdir()
    with (folder / "nodes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *(f"f{i}" for i in range(num_features)), "year"])
        writer.writerows([f"{prefix}{v}", *graph.x[v].tolist(), 2004 + int(graph.y[v])] for v in range(200))
    source = np.repeat(np.arange(200), np.diff(graph.indptr))
    with (folder / "edges.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target"])
        arcs = zip(source.tolist(), graph.indices.tolist(), strict=True)
        writer.writerows([f"{prefix}{u}", f"{prefix}{v}"] for u, v in arcs if u < v)
    return ["--nodes", str(folder / "nodes.csv"), "--edges", str(folder / "edges.csv"), "--label", "year"]


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    """Options of three graphs: ``first``, ``second`` (other nodes), ``wider`` (other nodes, one more column)."""
    root = tmp_path_factory.mktemp("tables")
    return {
        "first": write_tables(root / "first", 1),
        "second": write_tables(root / "second", 2, prefix="m"),
        "wider": write_tables(root / "wider", 3, num_features=5, prefix="w"),
    }


@pytest.fixture(scope="session")
def run_of(tables, tmp_path_factory):
    """The folder of a run by the words of ``train``, on the first graph unless they name a data set; made once a session.

    Tests must not write into its release.
    """
    made = {}

    def run(words):
        if words not in made:
            out, source = tmp_path_factory.mktemp("trained") / "run", [] if "--dataset" in words else tables["first"]
            assert invoke(["train", *words.split(), *source, "--no-controls", "--out", str(out)]) == 0
            made[words] = out
        return made[words]

    return run


@pytest.fixture
def trained(run_of):
    """Folders of GAP runs by unit: edge, and none. Tests must not write into their releases."""
    return {"edge": run_of("gap --unit edge --epsilon 2 --delta 1e-5"), "none": run_of("gap --unit none")}


@pytest.fixture(scope="module")
def one_floor():
    """The graph-free floor is the only control of label messages, so that runs are short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sf.LabelMessages, "card", replace(sf.LabelMessages.card, controls=FLOORS[:1]))
        yield


@pytest.fixture
def pate(monkeypatch):
    """The words of a run of PATE on invented images, with networks that learn nothing, and the folder of the data."""
    x, y = np.random.default_rng(0).random((80, 1, 28, 28)).astype(np.float32), np.arange(80) % 2
    monkeypatch.setattr("sfumato.pate._images.load_images", lambda *_: Images("toy", x[:40], y[:40], x, y, 2))
    for holder in (plan, pate_run):
        monkeypatch.setattr(holder, "POOL", 60)
    monkeypatch.setattr(pate_run, "QUICK", {"consistency": {"width": 4, "steps": 3, "batch_size": 8}})
    words = "pate run --dataset mnist --data-dir . --teachers 3 --queries 20 --quick --epsilon 50 --mechanism gnmax"
    return (*words.split(), "--threads", "1", "--no-controls")


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """Images of three classes in folders of training and test: a class has one bright row of its own, and noise."""
    image_module = pytest.importorskip("PIL.Image")
    root, generator = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for part, count in (("train", 40), ("test", 10)):
        for row, name in enumerate("abc"):
            (root / part / name).mkdir(parents=True)
            for number in range(count):
                picture = generator.integers(0, 90, (14, 14), np.uint8)
                picture[2 * row + 1] += 160
                image_module.fromarray(picture).save(root / part / name / f"{number}.png")
    return root


@dataclass(frozen=True)
class Served:
    """A server in a process of its own."""

    process: BaseProcess
    url: str
    log: Path

    def wait_for(self, words):
        """Until the log says so."""
        deadline = time.monotonic() + PATIENCE
        while words not in self.log.read_text():
            assert self.process.is_alive(), self.log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def hang_up(self, words):
        """Send a SIGHUP, and wait for what the log says of it."""
        os.kill(self.process.pid, signal.SIGHUP)
        self.wait_for(words)

    def stop(self):
        """End as a user ends it; what it leaves with."""
        self.process.terminate()
        self.process.join(PATIENCE)
        return self.process.exitcode


@pytest.fixture
def serving(tmp_path):
    """Start ``sfumato`` with these words as a server on a free port; each must end well."""
    begun = []

    def start(*words, descriptors=1024):
        log = tmp_path / "server.log"
        log.write_bytes(b"")
        process = started(Path.cwd(), log, *map(str, words), "--port", "0", descriptors=descriptors)
        begun.append(Served(process, "", log))
        begun[-1].wait_for("Ctrl-C")
        return replace(begun[-1], url=re.search(r" at (https?://[^/]+)/", log.read_text())[1])

    yield start
    assert [one.stop() for one in begun] == [0] * len(begun)


FORKS = """
import json, os, signal, sys
import numba, torch, sfumato.central._tuned, sfumato.cli, sfumato.scoring._scores, sfumato.pate._run

for line in sys.stdin:
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
script, sys.argv[1:], *files = json.loads(line)
for number, (path, mode) in enumerate(zip((os.devnull, *files), (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY))):
    os.dup2(os.open(path, mode), number)
signal.alarm(300)
signal.signal(signal.SIGINT, signal.default_int_handler)
exec(script, {})
"""
SIGNALED = """
import os, signal, sys
from unittest.mock import patch
from sfumato.cli import main

def get(*_, **__):
    os.kill(os.getpid(), signal.%(signal)s)

%(before)s
with patch(%(at)r, get):
    main(sys.argv[1:])
"""


@pytest.fixture(scope="session")
def forks():
    """A process that has imported everything and computed nothing; each line that it reads is run by a fork of it."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], stdin=pipe, stdout=pipe, text=True, env=environment
    ) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def signaled(forks, tmp_path_factory):
    """Run one command in a process of its own, which gets a signal when it calls the function of this name."""

    def run(at, *arguments, signal="SIGINT", before=""):
        script = SIGNALED % {"signal": signal, "before": before, "at": at}
        files = [tmp_path_factory.mktemp("outputs") / name for name in ("out", "err")]
        for file in files:
            file.touch()
        print(json.dumps([script, [*map(str, arguments)], *map(str, files)]), file=forks.stdin, flush=True)
        code = int(forks.stdout.readline())
        return Result(code, *(file.read_text() for file in files))

    return run


@pytest.fixture
def refused(sfumato, tmp_path):
    """Run a command that must be refused; everything under the test's folder must stay as it was."""

    def snapshot():
        return {path: path.read_bytes() if path.is_file() else None for path in tmp_path.rglob("*")}

    def check(fragment, *arguments):
        before = snapshot()
        result = sfumato(*arguments)
        assert result.code == 2, result
        assert result.out == ""
        error = re.sub(r"^Warning: .* \[[a-z-]+\]\n", "", result.err, flags=re.MULTILINE)  # of small graphs
        error = re.sub(
            r"^(  \S.*|\S*: [\d,]+ (nodes|edges)|\S*\.csv)\n", "", error, flags=re.MULTILINE
        )  # what tables were read as
        assert error.startswith("Error: ")
        assert error.count("\n") == 1
        assert error.endswith("\n")
        assert fragment in result.err
        assert snapshot() == before

    return check
