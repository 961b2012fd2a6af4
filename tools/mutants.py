"""Change one line at a time in the packages that guarantees rest on, and see whether a test notices.

``python tools/mutants.py`` copies the tree to ``build/mutants/tree``, runs all tests there once to learn which of them reach
which line, and then tries a seeded sample of small changes in the copy. For each it runs the examples in its file and the
tests that reach its line, those of its own package first, until one fails or the time is over. What was done is kept, and the
next call goes on. The score and the changes that no test noticed are printed and written to ``build/mutants/score.md``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType

import coverage
import pytest
from mutations import Mutation, is_python, mutations

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "bounded", "loops", "noise", "privacy", "verify", "record", "method", "central", "classlevel", "collect", "shares",
)  # fmt: skip
FOLDERS = (*PACKAGES, "contracts", "soundness", "randomizers", "golden", "local", "pate", "cli")
PARTS = (
    "src", "tests", "docs", "tools", "benchmarks", "pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md",
    "Makefile", "constraints.txt", "locks", "mkdocs.yml", "hatch_build.py", "LICENSE",
)  # fmt: skip
HANGS = 60  # seconds of the processor after which a test that takes one or two counts as endless
PATIENCE = 40  # times as long as its tests may compute may one change take, however busy the machine is
FAILED, PASSED, NO_TEST, BROKEN = 11, 12, 13, 14


class Watch:
    """Stops the tests at the first failure or when the time is over, and one that hangs with its whole process."""

    def __init__(self, seconds: float) -> None:
        self.until, self.failed, self.passed = time.process_time() + seconds, "", 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, HANGS)
        result = yield
        signal.setitimer(signal.ITIMER_PROF, 0)
        if self.failed or time.process_time() > self.until:
            item.session.shouldstop = "done"
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.passed
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed = report.nodeid


class Tree:
    """A copy of the project in which tests reach lines that are known, and changes are tried one by one."""

    def __init__(self, root: Path) -> None:
        self.work = work = root / "build" / "mutants"
        self.path = work / "tree"
        self.digest = hashlib.sha256(
            b"".join(p.read_bytes() for part in ("src", "tests") for p in sorted((root / part).rglob("*.py")))
        ).hexdigest()
        if not (work / "digest").exists() or (work / "digest").read_text() != self.digest:
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            for part in PARTS:
                if (root / part).is_dir():
                    shutil.copytree(root / part, self.path / part, ignore=shutil.ignore_patterns("__pycache__"))
                elif (root / part).exists():
                    shutil.copy2(root / part, self.path / part)
            (work / "digest").write_text(self.digest)
        shutil.copytree(
            root / "src", self.path / "src", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
        )

    def reach(self, folders: tuple[str, ...]) -> dict[str, dict[int, set[str]]]:
        """Learn which tests run which line of which file; line 0 stands for any line of a function."""
        found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        (self.work / "cov.ini").write_text("[run]\nrelative_files = true\nsource_pkgs = sfumato\n")
        (self.work / "reach").mkdir(exist_ok=True)
        for name in folders:
            kept = self.work / "reach" / name
            if not kept.exists() and (self.path / "tests" / name).exists():
                print(f"which lines do tests/{name} reach?", file=sys.stderr)
                command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--cov", "--cov-context=test",
                           f"--cov-config={self.work / 'cov.ini'}", "--cov-report=", f"tests/{name}"]  # fmt: skip
                environment = {**os.environ, **self.environment, "COVERAGE_FILE": f"{kept}.new"}
                environment["PYTHONDONTWRITEBYTECODE"] = ""  # each change is tried sooner where the rest is compiled
                subprocess.run(command, cwd=self.path, env=environment, stdout=subprocess.DEVNULL, check=False)
                kept.with_name(f"{name}.new").rename(kept)
        for kept in sorted((self.work / "reach").iterdir()):
            data = coverage.CoverageData(str(kept))
            data.read()
            for file in data.measured_files():
                for line, contexts in data.contexts_by_lineno(file).items():
                    tests = {context.rpartition("|")[0] for context in contexts if context}
                    found[file][line] |= tests
                    found[file][0] |= tests
        return found

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PYTHONPATH": str(self.path / "src"),
            "OMP_NUM_THREADS": "1",
            "NUMBA_CACHE_DIR": str(self.work / "numba"),
        }

    def attempt(self, one: Mutation, tests: list[str], seconds: float) -> str:
        """Whether examples of its file or these tests notice a change: by which, or nothing if they pass.

        Its file has a date of its own meanwhile, so that no bytecode or compiled kernel of another change is taken.
        """
        file = self.path / one.path
        source, before = file.read_bytes(), file.stat()
        sys.stdout.flush()
        child, ended = 0, (0, 0)
        try:
            file.write_bytes(one.apply(source))
            os.utime(file, (moment := 10**9 + zlib.crc32(f"{one} {one.start}".encode()) % 10**8, moment))
            child = os.fork()
            if not child:
                self._run([one.path, *tests], seconds)
            until = time.monotonic() + PATIENCE * seconds
            while not ended[0] and time.monotonic() < until:
                time.sleep(0.02)
                ended = os.waitpid(child, os.WNOHANG)
        finally:
            for kill in (os.kill, os.killpg) if child else ():
                with suppress(ProcessLookupError):
                    kill(child, signal.SIGKILL)
            file.write_bytes(source)
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        code = os.waitstatus_to_exitcode(ended[1] if ended[0] else os.waitpid(child, 0)[1])
        if code == BROKEN:
            raise RuntimeError(f"Expected the tests to run, see {self.work / 'log'}.")
        if code in (PASSED, NO_TEST):
            return ""
        if code == FAILED:
            return (self.work / "failed").read_text()
        return f"ends with {code}" if code >= 0 else "hangs or dies"

    def _run(self, tests: list[str], seconds: float) -> None:
        """In the child: run tests, and leave without a word."""
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setsid()
            os.chdir(self.path)
            out = os.open(self.work / "log", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
            for descriptor in (1, 2):
                os.dup2(out, descriptor)
            sys.dont_write_bytecode = True
            sys.path[0] = str(self.path / "src")
            watch = Watch(seconds)
            code = pytest.main(
                ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--doctest-modules", *tests], plugins=[watch]
            )
            if watch.failed or code in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
                (self.work / "failed").write_text(watch.failed or "tests are not found any more")
                os._exit(FAILED)
            os._exit(PASSED if watch.passed else NO_TEST)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(BROKEN)


def chosen(one: Mutation, lines: dict[int, set[str]], seed: int) -> list[str]:
    """The tests that reach a change, one of each file in turn, those of its own package first."""
    found = set().union(*(lines.get(line, set()) for line in range(one.first, one.last + 1)))
    found = found or lines.get(0, set())  # what is compiled, or runs at import only, is seen in no test
    files, own = defaultdict(list), f"tests/{one.path.split('/')[2]}/"
    for test in sorted(found):
        files[test.partition("::")[0]].append(test)
    for tests in files.values():
        random.Random(seed).shuffle(tests)
    turns = [(not name.startswith(own), turn, name, test) for name in files for turn, test in enumerate(files[name])]
    return [test for *_, test in sorted(turns)]


def sample(tree: Path, packages: list[str], count: int, seed: int) -> list[Mutation]:
    """So many changes of each package: a line by chance, and one of the changes of this line."""
    found = []
    for place, package in enumerate(packages):
        lines = defaultdict(list)
        for path in sorted((tree / "src" / "sfumato" / package).rglob("*.py")):
            for one in mutations(tree, path):
                lines[one.path, one.line].append(one)
        generator, many = random.Random(f"{seed} {package}"), count // len(packages) + (place < count % len(packages))
        order = generator.sample(sorted(lines), len(lines))
        some = (generator.choice(lines[line]) for line in order)
        fine = (one for one in some if is_python((tree / one.path).read_bytes(), one))
        found += [one for one, _ in zip(fine, range(many), strict=False)]
    return found


def score(results: dict[Mutation, str]) -> str:
    """A table of packages, and what no test noticed."""
    rows = ["| package | changes | noticed | share |", "|---|---|---|---|"]
    names = sorted({one.path.split("/")[2] for one in results}, key=PACKAGES.index)
    for name in (*names, "all"):
        some = [bool(by) for one, by in results.items() if name in (one.path.split("/")[2], "all")]
        rows.append(f"| {name} | {len(some)} | {sum(some)} | {100 * sum(some) / max(1, len(some)):.0f} % |")
    return "\n".join([*rows, "", "Not noticed:", "", *(f"* `{one}`" for one, by in results.items() if not by), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="*", default=PACKAGES, help="which packages to change")
    parser.add_argument("--count", type=int, default=150, help="how many changes")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other changes")
    parser.add_argument("--seconds", type=float, default=60, help="how long the tests of one change may compute")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project to change")
    asked = parser.parse_args()
    tree = Tree(asked.root)
    reach = tree.reach(FOLDERS)
    os.environ.update(tree.environment)
    if asked.root == ROOT:  # what takes long to import is imported once, before the forks
        import numba, scipy.stats, sklearn.linear_model, torch  # noqa: E401, F401, I001

    kept = tree.work / "results.jsonl"
    done = {row["change"]: row["by"] for row in map(json.loads, kept.read_text().splitlines())} if kept.exists() else {}
    results: dict[Mutation, str] = {}
    signal.signal(signal.SIGTERM, _stop)
    for one in sample(tree.path, asked.packages, asked.count, asked.seed):
        name = f"{one} at {one.start}"
        if name not in done:
            tests = chosen(one, reach[one.path], asked.seed)
            done[name] = tree.attempt(one, tests, asked.seconds)
            with kept.open("a") as file:
                file.write(json.dumps({"change": name, "by": done[name], "tests": len(tests)}) + "\n")
            print(f"{one}: {done[name] or 'NOT NOTICED'}", flush=True)
        results[one] = done[name]
    (tree.work / "score.md").write_text(score(results))
    print(score(results))


def _stop(*_: int | FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
