"""Running cells: what a line holds, and that stops of every kind lose and double nothing."""

import errno
import os
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from sfumato.errors import DataError, InputError
from sfumato.experiments import _cells as cells
from sfumato.experiments import _runner as runner
from sfumato.experiments._results import FILE, read
from sfumato.experiments._runner import run
from sfumato.experiments._spec import Spec, find
from sfumato.graph._synthetic import campus
from sfumato.method._plan import Plan
from sfumato.privacy.promises import Caveat, warn

KEYS = {
    "id", "spec", "spec_hash", "profile", "label", "role", "method", "dataset", "split", "unit", "epsilon", "delta",
    "max_degree", "settings", "at", "seed", "status", "reason", "version", "versions", "device", "seconds", "peak_mb",
    "metrics", "certificate",
}  # fmt: skip


def finished(path, spec, profile="full"):
    """Whether the file holds each cell of the profile once, and nothing else."""
    return Counter(row["id"] for row in read(path)) == Counter(cell.id for cell in spec.cells(profile))


def test_a_line_holds_everything(small, tmp_path, monkeypatch):
    spec, fits, fit = Spec.read(small), [], Plan.fit

    def record(plan, graph, **how):
        fits.append((how["seed"], graph.roles.copy()))
        return fit(plan, graph, **how)

    monkeypatch.setattr(Plan, "fit", record)
    outcome = run(spec, tmp_path / "out", profile="quick")
    assert (outcome.total, outcome.before, outcome.done, outcome.reasons) == (4, 0, 4, ())
    rows = read(outcome.path)
    assert all(set(row) == KEYS for row in rows)
    gap, mlp = rows[:2]
    assert (gap["status"], gap["role"], gap["profile"], gap["device"]) == ("done", "method", "quick", "cpu")
    assert gap["spec_hash"] == spec.digest
    assert set(gap["versions"]) == {"python", "torch", "numpy"}
    assert gap["certificate"]["claim"]["epsilon"] == pytest.approx(1, rel=1e-3)
    assert gap["certificate"]["claim"]["epsilon"] <= 1
    assert gap["certificate"]["unit"] == {"name": "edge", "relation": "add-remove", "directed": False}
    assert (mlp["epsilon"], mlp["certificate"]["claim"]["epsilon"], mlp["certificate"]["releases"]) == (None, 0.0, [])
    assert 0 < gap["metrics"]["accuracy"] < 1
    assert 0 < gap["seconds"]["train"] < gap["seconds"]["total"]
    assert gap["peak_mb"] > 50
    assert [seed for seed, _ in fits] == [row["seed"] for row in rows] == [0, 0, 1, 1]
    (_, first), _, (_, second), _ = fits
    assert (first != second).any()
    assert np.bincount(first).tolist() == np.bincount(second).tolist() == [3000, 400, 600]


def test_a_line_holds_the_curves_that_its_run_asks_for(small, tmp_path):
    small.write_text(small.read_text().replace("epsilons = [1, 4]", "epsilons = [1, 4]\ncurves = true"))
    gap, mlp, *_ = read(run(Spec.read(small), tmp_path, profile="quick").path)
    assert {stage: {role: len(one) for role, one in roles.items()} for stage, roles in gap["metrics"]["curves"].items()} == {
        "encoder": {"train": 1, "validation": 1}, "classifier": {"train": 1, "validation": 1},
    }  # fmt: skip
    assert all(set(row) - KEYS == extra for row, extra in ((gap, {"curves"}), (mlp, set())))
    assert "curves" not in mlp["metrics"]


def test_finished_cells_are_not_run_again(small, tmp_path, instant):
    spec = Spec.read(small)
    run(spec, tmp_path, profile="quick")
    assert len(instant) == 4
    outcome = run(spec, tmp_path)
    assert (outcome.total, outcome.before, outcome.done) == (9, 4, 5)
    assert run(spec, tmp_path).done == 0
    assert len(instant) == 9
    assert finished(outcome.path, spec)


@pytest.mark.parametrize("table", ["gap-table-4-2", "progap-table-5-2"])
@pytest.mark.parametrize(("data", "file"), [("reddit", "reddit_graph.npz"), ("amazon", "raw/edge.csv.gz")])
def test_a_skipped_table_says_which_files_are_missing(table, data, file, tmp_path, instant):
    outcome = run(find(f"{table}-{data}"), tmp_path, profile="quick", data_dir=tmp_path)
    (reason,) = outcome.reasons
    assert f"The files of {data} are not in the data folder" in reason
    assert file in reason
    assert (outcome.done, outcome.total, instant) == (0, len(read(outcome.path)), [])


def test_missing_data_is_skipped_with_a_reason_and_tried_again(small, tmp_path, instant, monkeypatch):
    spec = Spec.read(small)
    there = spec.on("facebook100/Nowhere")
    reported = []
    outcome = run(there, tmp_path, data_dir=tmp_path, report=lambda *cell: reported.append(cell))
    assert (outcome.done, len(instant), reported) == (0, 0, [])
    (reason,) = outcome.reasons
    assert f"The files of facebook100/Nowhere are not in the data folder '{tmp_path}'" in reason
    assert {(row["status"], row["reason"]) for row in read(outcome.path)} == {("skipped", outcome.reasons[0])}
    assert "no --data-dir was given" in run(there, tmp_path).reasons[0]
    assert finished(outcome.path, there)
    monkeypatch.setattr(runner, "why_absent", lambda dataset, data_dir: None)
    assert run(there, tmp_path).done == 9
    assert finished(outcome.path, there)
    assert {row["status"] for row in read(outcome.path)} == {"done"}


@pytest.mark.filterwarnings("default")
def test_warnings_are_kept_each_once_and_not_printed(small, tmp_path, monkeypatch, capsys):
    def run_cell(cell, data_dir):
        warn([Caveat("few-nodes", "The graph has: 4 nodes.")])
        warnings.warn("A\n  slow path.", RuntimeWarning, stacklevel=1)
        return {**cells.empty_row("done"), "metrics": {"accuracy": 0.5, "macro_f1": 0.25}}

    monkeypatch.setattr(runner, "run_cell", run_cell)
    outcome = run(Spec.read(small), tmp_path, profile="quick")
    assert outcome.done == 4
    assert outcome.caveats == (("few-nodes", "The graph has: 4 nodes."), ("RuntimeWarning", "A slow path."))
    assert capsys.readouterr() == ("", "")
    assert all(set(row) == KEYS for row in read(outcome.path))


def test_unsupported_unit_is_skipped(small, tmp_path):
    small.write_text(small.read_text().replace('"gap"', '"sage"').replace("epochs = 1, num_hops = 1", "epochs = 1"))
    outcome = run(Spec.read(small), tmp_path, profile="quick")
    assert outcome.done == 2
    assert "no proof under unit 'edge'" in outcome.reasons[0]
    assert [row["status"] for row in read(outcome.path)] == ["skipped", "done"] * 2


def test_error_in_a_cell_names_it_and_keeps_the_others(small, tmp_path, instant, monkeypatch):
    ready = runner.run_cell

    def fail_later(cell, data_dir):
        if cell.seed == 1:
            raise DataError("Broken.")
        return ready(cell, data_dir)

    monkeypatch.setattr(runner, "run_cell", fail_later)
    with pytest.raises(DataError, match="GAP, epsilon 1, seed 1: Broken"):
        run(Spec.read(small), tmp_path)
    assert len(read(tmp_path / "small")) == 3


def test_second_runner_is_refused(small, tmp_path, instant):
    (tmp_path / "small").mkdir()
    with FileLock(tmp_path / "small" / ".lock"), pytest.raises(InputError, match="no other run is writing to"):
        run(Spec.read(small), tmp_path)
    assert not instant
    assert not (tmp_path / "small" / FILE).exists()
    assert run(Spec.read(small), tmp_path).done == 9


def test_lock_is_held_while_cells_run(small, tmp_path, instant):
    def other(cell, row, number, total):
        with pytest.raises(InputError, match="no other run"):
            run(Spec.read(small), tmp_path)

    assert run(Spec.read(small), tmp_path, report=other).done == 9
    assert finished(tmp_path / "small", Spec.read(small))


def test_torn_line_is_cut_off(small, tmp_path, instant):
    spec = Spec.read(small)
    path = run(spec, tmp_path).path
    content = path.read_bytes()
    for kept in (len(content) - 1, len(content) - 40):
        path.write_bytes(content[:kept])
        assert run(spec, tmp_path).done == 1
        assert finished(path, spec)
    path.write_bytes(content.splitlines()[0][:-3])
    assert run(spec, tmp_path).done == 9
    assert finished(path, spec)


def test_damaged_line_stops_before_anything_runs(small, tmp_path, instant):
    path = run(Spec.read(small), tmp_path, profile="quick").path
    path.write_bytes(path.read_bytes() + b"not a result\n")
    before = path.read_bytes()
    with pytest.raises(DataError, match="line 5 of"):
        run(Spec.read(small), tmp_path)
    assert (path.read_bytes(), len(instant)) == (before, 4)


def test_unwritable_folder(small, tmp_path, instant):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"Cannot write results to .*file/small.*run the same command again"):
        run(Spec.read(small), tmp_path / "file")
    assert not instant


@pytest.mark.parametrize("call", ["fsync", "write"])
def test_full_disk(small, tmp_path, instant, monkeypatch, call):
    spec, real, calls = Spec.read(small), os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > 4:
            if call == "write":  # part of the line is on disk
                os.ftruncate(descriptor, os.fstat(descriptor).st_size - 10)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match=r"No space left on device\. Finished cells are kept"):
            run(spec, tmp_path)
    path = tmp_path / "small" / FILE
    kept = read(path)
    assert len(kept) == 3
    assert path.read_bytes().endswith(b"\n")
    assert run(spec, tmp_path).before == 3
    assert read(path)[:3] == kept
    assert finished(path, spec)


def test_full_disk_while_a_torn_line_is_cut_off(small, tmp_path, instant, monkeypatch):
    spec = Spec.read(small)
    path = run(spec, tmp_path).path
    path.write_bytes(path.read_bytes()[:-5])
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match="No space left"):
            run(spec, tmp_path)
    assert path.read_bytes() == before
    run(spec, tmp_path)
    assert finished(path, spec)


def test_interrupt_keeps_what_is_finished(small, tmp_path, instant, monkeypatch):
    ready = runner.run_cell

    def interrupted(cell, data_dir):
        if len(instant) == 4:
            raise KeyboardInterrupt
        return ready(cell, data_dir)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "run_cell", interrupted)
        outcome = run(Spec.read(small), tmp_path)
    assert (outcome.interrupted, outcome.done, len(read(outcome.path))) == (True, 4, 4)
    again = run(Spec.read(small), tmp_path)
    assert (again.interrupted, again.before, again.done) == (False, 4, 5)
    assert finished(again.path, Spec.read(small))


def test_a_line_that_is_written_when_ctrl_c_comes_is_counted(small, tmp_path, instant, monkeypatch):
    append = runner.append_line

    def interrupted(*args, **how):
        append(*args, **how)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "append_line", interrupted)
    outcome = run(Spec.read(small), tmp_path)
    assert (outcome.interrupted, outcome.done, len(read(outcome.path))) == (True, 1, 1)


def test_a_cell_that_starts_numba_leaves_the_threads_of_the_next_alone():
    code = (
        "import torch\nfrom numba.np.ufunc.parallel import _launch_threads\nfrom sfumato.experiments._runner import _results\n"
        "work = lambda cell: _launch_threads() or torch.get_num_threads()\nprint([found for _, found in _results('ab', work, 1)])"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("NUMBA_NUM_THREADS", None)
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert told.stdout == "[1, 1]\n"


def start(small, results, *options):
    """The command line in a process group of its own, which takes signals even where the tests' own process ignores them."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from sfumato.cli import main; main(sys.argv[1:])"
    )
    command = ["experiment", "run", str(small), "--results", str(results), *options]
    how = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    return subprocess.Popen([sys.executable, "-c", code, *command], **how)


def wait_for_lines(path, number, process):
    """Until the file holds this many whole lines."""
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < number:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks for child processes in /proc")
def test_kill_loses_and_doubles_nothing(small, tmp_path, instant):
    campus(300).save(tmp_path / "store")
    small.write_text(
        small.read_text().replace("seeds = 3", "seeds = 200").replace('"campus"', f'"graph:{tmp_path}/store"')
    )
    path = tmp_path / "out" / "small" / FILE
    process = start(small, tmp_path / "out", "--jobs", "2")
    wait_for_lines(path, 3, process)
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = read(path)
    assert 3 <= len(before) < 600
    deadline = time.monotonic() + 30
    while any(alive(pid) for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    spec = Spec.read(small)
    outcome = run(spec, tmp_path / "out")
    assert len(workers) >= 2
    assert (outcome.before, outcome.before + outcome.done) == (len(before), 600)
    assert read(path)[: len(before)] == before
    assert finished(path, spec)


@pytest.mark.skipif(sys.platform == "win32", reason="no process groups")
def test_control_c_says_how_to_go_on_and_once_what_workers_warned_of(small, tmp_path):
    campus(300).save(tmp_path / "store")
    text = small.read_text().replace("seeds = 3", "seeds = 200").replace("delta = 1e-6", "delta = 0.1")
    small.write_text(text.replace('"campus"', f'"graph:{tmp_path}/store"'))
    process = start(small, tmp_path, "--jobs", "2")
    path = tmp_path / "small" / FILE
    wait_for_lines(path, 2, process)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Nothing was charged. Run the same command again to go on." in error
    assert "Traceback" not in error
    assert "SfumatoWarning" not in error
    assert error.count("[delta-large]") == 1
    assert f"{len(read(path))} of 600 cells" in error
