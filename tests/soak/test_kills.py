"""`kill -9` at random moments of a real run: never under-counted, resumed to the same bits, or charged for good.

Half of the moments are uniform over the whole run, half over the part that reads the graph. Half of the runs are plain,
half resumable; half of those resumed are killed once more. The seed is printed.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from sfumato import verify
from sfumato.cli import invoke
from sfumato.record._dataset_ledger import read_account
from sfumato.record.ledger import Chain

UNITS = {
    "edge": ("--unit", "edge", "--epsilon", "1", "--delta", "1e-6"),
    "node": ("--unit", "node", "--max-degree", "20", "--epsilon", "8", "--delta", "1e-6"),
}
BITS = ("model.safetensors", "releases.safetensors", "ledger.jsonl", "certificate.json")
PATIENCE = 120


@dataclass
class Timing:
    """How long a run takes, and from when on it may have been charged."""

    charged: float
    end: float


@dataclass
class Bench:
    """Runs of one unit that share a ledger, and what happened to them."""

    unit: str
    folder: Path
    moments: random.Random
    anywhere: float = 0.5
    killed_alive: int = 0
    counts: Counter = field(default_factory=Counter)

    @property
    def ledger(self) -> Path:
        return self.folder / "dataset.jsonl"

    def command(self, out, *options):
        shared = (
            "--ledger",
            self.ledger,
            "--total-epsilon",
            "10000",
            "--total-delta",
            "0.5",
            "--threads",
            "1",
            "--json",
        )
        return ("train", "gap", "--dataset", "campus", *UNITS[self.unit], *shared, "--out", out, *options)

    def start(self, *arguments):
        command = [sys.executable, "-m", "sfumato", *map(str, arguments)]
        with (self.folder / "errors.txt").open("ab") as errors:
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)

    def errors(self):
        return (self.folder / "errors.txt").read_text()[-2000:]

    def claims(self):
        return read_account(self.ledger).claims if self.ledger.exists() and self.ledger.stat().st_size else ()

    def time(self):
        """Run once undisturbed."""
        begun, known = time.monotonic(), len(self.claims())
        process = self.start(*self.command(self.folder / f"timed-{known}"))
        while len(self.claims()) == known:
            assert process.poll() is None, self.errors()
            time.sleep(0.002)
        charged = time.monotonic() - begun
        assert process.wait(PATIENCE) == 0, self.errors()
        return Timing(charged, time.monotonic() - begun)

    def killed(self, timing, out, *arguments):
        """Start a command and kill it at a random moment; whether it was still running."""
        whole, known, begun = self.moments.random() < self.anywhere, len(self.claims()), time.monotonic()
        process = self.start(*arguments)
        if whole:
            moment = self.moments.uniform(0, timing.end)
            while process.poll() is None and time.monotonic() - begun < moment:
                time.sleep(0.001)
        else:
            while process.poll() is None and len(self.claims()) == known and not (out / "release").exists():
                time.sleep(0.001)
            time.sleep(self.moments.uniform(0, timing.end - timing.charged))
        alive = process.poll() is None
        process.kill()
        assert process.wait() in (-9, 0), self.errors()
        self.killed_alive += alive
        self.counts[
            f"killed {'at any moment' if whole else 'after the charge'}" if alive else "ended before its kill"
        ] += 1
        return alive


def check_never_under_counted(bench, out):
    """Whatever can be read of the run is charged: in its own ledger, and in the data set's."""
    ledger, state = out / "release" / "ledger.jsonl", out / "private" / "state.json"
    chain = Chain.parse(ledger.read_bytes()) if ledger.exists() else Chain()
    assert chain.problem is None
    charged = {entry["release"]["name"] for entry in chain.entries if entry["kind"] == "release"}
    values = json.loads(state.read_text()) if state.exists() else {"bound": {}, "run": None}
    readable = set(values["bound"]) - {"plan", "graph"}
    if (out / "release" / "model.safetensors").exists():
        readable |= {release["name"] for release in chain.entries[0]["plan"]["releases"]}
    if (out / "release" / "releases.safetensors").exists():
        readable |= set(load_file(out / "release" / "releases.safetensors"))
    assert readable <= charged
    if chain.entries:
        account = read_account(bench.ledger)
        assert account.problem is None
        assert chain.entries[0]["hash"] in {claim.plan for claim in account.claims}
        assert values["run"] is None or values["run"] in {claim.run for claim in account.claims}
    stage = "complete" if (out / "release" / "manifest.json").exists() else f"{len(charged)} releases charged"
    bench.counts[stage if out.exists() else "not begun"] += 1
    return bool(chain.entries)


def plain_trial(bench, timing, out):
    known = len(bench.claims())
    bench.killed(timing, out, *bench.command(out))
    begun = check_never_under_counted(bench, out)
    charged = len(bench.claims()) - known
    assert charged in ((1,) if begun else (0, 1))
    bench.counts["plain: charged for good"] += charged
    assert invoke(["train", "--resume", str(out)]) == 2
    assert len(bench.claims()) == known + charged
    if (out / "release" / "manifest.json").exists():
        assert verify.verify(out).problems == ()
    return charged


def resumable_trial(bench, timing, out):
    known = len(bench.claims())
    bench.killed(timing, out, *bench.command(out, "--resumable"))
    begun = check_never_under_counted(bench, out)
    if not (out / "private" / "state.json").exists():
        bench.counts["resumable: killed before its state, or finished"] += 1
        assert len(bench.claims()) - known == begun == (out / "release" / "manifest.json").exists()
        if begun:
            assert verify.verify(out).problems == ()
        return int(begun)
    reference = undisturbed_twin(out)
    if bench.moments.random() < 0.5:
        bench.counts["resumable: killed again"] += bench.killed(timing, out, "train", "--resume", out)
        check_never_under_counted(bench, out)
    if (out / "private" / "state.json").exists():
        process = bench.start("train", "--resume", out)
        assert process.wait(PATIENCE) == 0, bench.errors()
    for name in BITS:
        assert (out / "release" / name).read_bytes() == (reference / "release" / name).read_bytes()
    assert verify.verify(out).problems == ()
    assert not (out / "private").exists()
    assert len(bench.claims()) == known + 1
    bench.counts["resumable: resumed to the same bits, charged once"] += 1
    return 1


def undisturbed_twin(out):
    """A run with the same key to which nothing had happened yet, carried through in this process."""
    twin = out.with_name(out.name + "-twin")
    shutil.copytree(out / "private", twin / "private")
    (twin / "private" / "lock").unlink(missing_ok=True)
    state = twin / "private" / "state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "bound": {}}))
    assert invoke(["train", "--resume", str(twin), "--json"]) == 0
    return twin


def trials(bench, timing, kills):
    """Go on until so many runs were killed while they ran."""
    charged, trial = len(bench.claims()), 0
    while bench.killed_alive < kills:
        out = bench.folder / f"run-{trial}"
        charged += (plain_trial if trial % 2 else resumable_trial)(bench, timing, out)
        assert len(bench.claims()) == charged
        trial += 1


@pytest.fixture
def bench(tmp_path, request, capsys, monkeypatch):
    import torch

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before, seed = torch.get_num_threads(), int(os.environ.get("SFUMATO_SOAK_SEED", time.time_ns() % 2**31))
    bench = Bench(request.param, tmp_path, random.Random(seed))
    yield bench
    torch.set_num_threads(before)
    with capsys.disabled():
        print(f"\nkills, unit {bench.unit}, seed {seed}:")
        for what, count in sorted(bench.counts.items()):
            print(f"  {count:3d} {what}")


@pytest.mark.soak
@pytest.mark.parametrize("bench", UNITS, indirect=True)
def test_kills_at_random_moments(bench):
    timing = min((bench.time() for _ in range(2)), key=lambda timing: timing.end)
    trials(bench, timing, int(os.environ.get("SFUMATO_SOAK_KILLS", 50)) // len(UNITS))
