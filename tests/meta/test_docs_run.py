"""Every code block of the README and of docs/ runs, page by page, in a folder with small tables."""

import ast
import json
import re
import shlex
import socket
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sfumato._threads import set_threads
from sfumato.cli import invoke
from sfumato.experiments import _cells as cells
from sfumato.graph._synthetic import campus
from sfumato.pate import _plan as pate_plan
from sfumato.pate import _run as pate_run
from sfumato.pate._images import Images

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)

# What is not run as it stands, and why. Everything else is.
NOT_RUN = {
    "pip install ": "changes the environment",
    "pip download ": "needs PyPI",
    "python -m zipfile -e wheels/": "reads what the line before it downloads",
    "ray st": "starts and stops processes that stay; tests/distributed has clusters",
    "sfumato train gap --engine ray": "needs Ray; tests/distributed trains on it",
    "OMP_NUM_THREADS=1 python ": "minutes on real data",
    "sfumato train auto --nodes jan.csv": "months of a town; tests/cli/test_population.py has twelve of them",
    "sfumato train auto --nodes feb.csv": "months of a town; tests/cli/test_population.py has twelve of them",
    "sfumato train auto --nodes people.csv": "months of payments; tests/cli/test_windows.py has some",
    "sfumato ledger show town.jsonl": "reads the ledger of a line before it",
    "sfumato verify town.jsonl": "reads the ledger of a line before it",
    "sfumato ledger plan town.jsonl": "reads the ledger of a line before it",
    "sfumato verify pay.jsonl": "reads the ledger of a line before it",
    "make ": "builds an environment; continuous integration runs `make check docs test`",
    "python benchmarks/": "minutes on real data",
    "python -m pytest ": "a test of its own",
    "sfumato text features --nodes papers.csv --text abstract --text-features transformer:": "needs a network from a hub",
    "sfumato export onnx": "needs the package onnx; tests/serving/test_onnx_model.py has it where it is installed",
    "sfumato train class-dp --dataset orl_faces": "needs the faces; tests/cli/test_images.py trains on small folders",
    "sfumato train subclass-dp --dataset mnist": "needs the digits; tests/cli/test_images.py trains on small folders",
    "sfumato verify runs/faces": "checks the run before it",
    "sfumato invert ": "minutes on real data; tests/cli/test_invert.py has tiny ones",
    "sfumato experiment run gap-": "minutes on real data; docs/experiments.md has it on generated data",
    "sfumato experiment report gap-": "reads what the line before it measures; tests/experiments/test_measured.py has it",
    "sfumato experiment run benchmarks/price-": "minutes on real data; docs/experiments.md has it on generated data",
}
REPLACED = {
    "--dataset facebook100/Berkeley13 --data-dir data": ("--dataset campus", "real data: the generated network"),
    "--dataset text/citeseer_text --data-dir data": (
        "--nodes papers.csv --edges citations.csv --label topic --text abstract --text title",
        "real data: papers of two topics",
    ),
    'Planetoid("pyg", "Cora")[0]': (
        "sf.graph.to_pyg(sf.graph.campus(400, seed=0))",
        "a download: the generated network",
    ),
    "/shared/": ("shared-", "a network file system: the folder of the page"),
    'load_dataset("planetoid/cora", "DATA")': ('load_dataset("campus")', "real data: the generated network"),
    "campus(10_000)": ("campus(300)", "half a minute of training"),
    "--teachers 250 --queries 2200": (
        "--teachers 50 --queries 100 --quick",
        "minutes on real data; images are generated",
    ),
}
CAMPUS_NODES = 300  # of 4,000, to be quick
PORTS = ("8765", "8766", "8767", "8768", "8769")  # of the servers of a page; free ones take their places
EPOCHS = 5  # of 100, where labels are public
STUDENT = {"consistency": {"width": 16, "steps": 5}}  # of --quick
PUBLIC_IMAGES = 200  # of 9,000
NUMBER = r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?"
PRIVACY = r"\b(?:epsilon|delta|noise.multiplier)(?: between)?(?: =|=)? ?"


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """One thread for Torch and Numba: the pages run beside other tests."""
    import torch

    before = torch.get_num_threads()
    set_threads(1)
    yield
    set_threads(before)


@pytest.fixture
def run_page(tmp_path, monkeypatch, capsys):
    """Run one page's blocks in order, and return what its Python blocks defined."""
    write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("sfumato.datasets._loading.campus", partial(campus, CAMPUS_NODES))
    monkeypatch.setattr("sfumato.pate._images.load_images", partial(images, monkeypatch))
    monkeypatch.setattr("sfumato.central._learning._PUBLIC_EPOCHS", EPOCHS)
    monkeypatch.setattr(pate_run, "QUICK", {**pate_run.QUICK, **STUDENT})
    monkeypatch.setattr(cells, "_load", cells._load.__wrapped__)  # keeps no small graph for other tests

    servers = []

    def run(text, outputs):
        names, shown = {}, ""
        for port in PORTS:
            with socket.create_server(("127.0.0.1", 0)) as free:
                text = text.replace(port, str(free.getsockname()[1]))
        for language, body in FENCE.findall(text):
            capsys.readouterr()
            if language == "python":
                if named := re.match(r"# (\w+\.py)\n", body):
                    Path(named[1]).write_text(body)
                run_cell(replaced(body), names)
            elif language == "sh":
                run_shell(body, servers)
            elif language == "toml":
                tomllib.loads(body)
                named = re.match(r"# ([\w-]+\.toml)\n", body)
                Path(named[1] if named else "schema.toml").write_text(body)
            elif language == "json":
                json.loads(body)
            elif language == "html":
                continue
            elif language == "text":
                if outputs:
                    assert missing(body, shown) == []
                continue
            else:
                pytest.fail(f"a block in {language or 'no language'!r}: name one of python, sh, toml, json, html, text")
            shown = "".join(capsys.readouterr())
        return names

    yield run
    for server in servers:
        server.terminate()
        server.communicate(timeout=30)
        assert server.returncode == 0


def write_tables(folder):
    """The tables that pages speak of: 80 people with dorm, age and year, each with six friends, and their schema; as many
    others without year; three who come on Monday and three on Tuesday; papers with texts; votes of 250 teachers.
    """
    generator = np.random.default_rng(0)
    for start, p, year in (("", "p", True), ("other-", "q", False)):
        rows = ["person,dorm,age" + ",year" * year]
        for i in range(80):
            row = f"{p}{i},{'north' if i % 3 else 'south'},{generator.integers(18, 25)}"
            rows.append(row + f",{2004 + i % 3}" * year)
        edges = ["from,to"] + [f"{p}{i},{p}{(i + step) % 80}" for i in range(80) for step in (3, 6, 7)]
        (folder / f"{start}nodes.csv").write_text("\n".join(rows) + "\n")
        (folder / f"{start}edges.csv").write_text("\n".join(edges) + "\n")
        if not start:
            paid = [f"{edge},{5 + 30 * at % 200}" for at, edge in enumerate(edges[1:])]
            kinds = [f"{edge},{'family' if at % 3 else 'school'}" for at, edge in enumerate(edges[1:])]
            (folder / "links.csv").write_text("\n".join(["from,to,kind", *kinds]) + "\n")
            (folder / "payments.csv").write_text("\n".join(["from,to,amount", *paid]) + "\n")
    columns = '[columns.dorm]\ncategories = ["north", "south"]\n[columns.age]\nmin = 0\nmax = 120\n'
    (folder / "schema.toml").write_text(f'label = "year"\nclasses = ["2004", "2005", "2006"]\n{columns}')
    for day, other in (("monday", "p"), ("tuesday", "monday")):
        rows = [f"{day}{i},south,20,2005" for i in range(3)]
        (folder / f"{day}.csv").write_text("\n".join(["person,dorm,age,year", *rows]) + "\n")
        edges = [f"{day}{i},{name}" for i in range(3) for name in (f"p{i}", f"{other}{i}", f"{day}{(i + 1) % 3}")]
        (folder / f"{day}-edges.csv").write_text("\n".join(["from,to", *edges]) + "\n")
    write_papers(folder)
    (folder / "data" / "pate_votes").mkdir(parents=True)
    votes = generator.multinomial(250, np.r_[0.7, np.full(9, 1 / 30)], 640)
    np.save(folder / "data" / "pate_votes" / "mnist_250_teachers.npy", votes.astype(float))


def write_papers(folder):
    """80 papers on two topics, with title and abstract; what they cite; a public corpus, and public word vectors."""
    generator = np.random.default_rng(0)
    topics = {"graphs": ("graph", "edge", "node"), "privacy": ("noise", "budget", "ledger")}
    rows = ["id,title,abstract,topic"]
    for i in range(80):
        topic = ("graphs", "privacy")[i % 2]
        rows.append(f"a{i},{generator.choice(topics[topic])},{' '.join(generator.choice(topics[topic], 8))},{topic}")
    (folder / "papers.csv").write_text("\n".join(rows) + "\n")
    cited = [f"a{i},a{(i + step) % 80}" for i in range(80) for step in (2, 4, 7)]
    (folder / "citations.csv").write_text("\n".join(["from,to", *cited]) + "\n")
    (folder / "corpus.txt").write_text("".join(f"{' '.join(words)}\n" for words in topics.values()))
    vectors = [f"{word} {place} 1" for words in topics.values() for place, word in enumerate(words)]
    (folder / "vectors.txt").write_text("\n".join(vectors) + "\n")


def images(monkeypatch, name, data_dir):
    """Images of ten classes, each with a bar in its own place, and few of them public."""
    for module in (pate_plan, pate_run):
        monkeypatch.setattr(module, "POOL", PUBLIC_IMAGES)
    y = np.arange(2 * PUBLIC_IMAGES) % 10
    x = np.random.default_rng(0).random((len(y), 1, 28, 28), np.float32) / 4
    x[np.arange(len(y)), 0, 2 * y + 4] = 1
    return Images(name, x, y, x[: PUBLIC_IMAGES + 20], y[: PUBLIC_IMAGES + 20])


def run_cell(body, names):
    """Run a block of Python; as in a notebook, the value of a last line that is an expression is shown."""
    tree = ast.parse(body)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "page", "exec"), names)
    value = None if last is None else eval(compile(ast.Expression(last.value), "page", "eval"), names)
    if value is not None:
        print(repr(value))


def run_shell(body, servers):
    """Run each line; what is not in the tables above must be a command of ours that succeeds, or a server that starts.

    A line that ends with & runs beside those after it.
    """
    beside = []
    for line in body.replace("\\\n", " ").splitlines():
        line = re.sub(r"\$\((.*?)\)", output, replaced(line).removeprefix("$ "))
        words = shlex.split(line, comments=True)
        if not words or line.startswith(tuple(NOT_RUN)):
            continue
        assert words[0] == "sfumato", f"{line!r} is not run: list it in NOT_RUN with the reason"
        if words[1] == "serve" or words[1:3] == ["collect", "serve"]:
            servers.append(started(words))
            continue
        if words[-1] == "&":
            beside.append(subprocess.Popen([sys.executable, "-m", *words[:-1]]))
            continue
        assert invoke(words[1:]) == 0, line
    assert [process.wait(60) for process in beside] == [0] * len(beside)


def replaced(text):
    """The text with what REPLACED names."""
    for written, (instead, _) in REPLACED.items():
        text = text.replace(written, instead)
    return text


def output(found):
    """What a command in $() prints."""
    return subprocess.check_output(found[1], shell=True, text=True).strip()


def started(words):
    """A server that answers by now."""
    server = subprocess.Popen([sys.executable, "-m", *words], stderr=subprocess.PIPE, text=True)
    assert "Ctrl-C stops" in server.stderr.readline()
    return server


def missing(expected, shown):
    """The parts of an output block, split at lines of dots, that the output lacks, in order; see :func:`plain`."""
    rest, absent = plain(shown), []
    for part in re.split(r"^\.\.\.$", expected, flags=re.MULTILINE):
        _, found, after = rest.partition(plain(part) or " ")
        rest = after if found else rest
        absent += [] if found or not plain(part) else [part.strip()]
    return absent


def plain(text):
    """An output to compare: white space counts once, figures of privacy to three digits, others and bars not at all."""

    def figure(match):
        return f"{match[1]}{float(match[2]):.3g}" if match[1] else "#"

    return re.sub(f"({PRIVACY})?({NUMBER})", figure, " ".join(text.replace("━", "").split()))


FIRST = ("README.md", "docs/quickstart.md")  # the pages that people read first run with every test, the others at night


def shown_as(page):
    name = str(page.relative_to(ROOT))
    return pytest.param(page, id=name, marks=() if name in FIRST else pytest.mark.soak)


@pytest.mark.parametrize("page", [*map(shown_as, PAGES)])
def test_every_block_runs(page, run_page):
    names = run_page(page.read_text(), outputs=page.parent.name == "examples")
    if page.name == "README.md":
        assert 0 < names["fitted"].certificate.epsilon <= 1
        assert names["fitted"].predict_proba(names["graph"]).shape == (80, 3)
        assert Path("runs/first/release/certificate.json").exists()


def test_every_replaced_or_skipped_line_is_written_somewhere():
    text = "\n".join(page.read_text() for page in PAGES)
    assert all(words in text for words in [*REPLACED, *NOT_RUN])


@pytest.mark.parametrize(
    ("block", "error", "said"),
    [
        ("```python\nundefined_name\n```\n", NameError, "undefined_name"),
        ("```sh\nrm -r runs\n```\n", AssertionError, "list it in NOT_RUN"),
        ("```sh\nsfumato budget noise --epsilon 1\n```\n", AssertionError, "sfumato budget noise --epsilon 1"),
        ("```sh\nsfumato experiment run small.toml\n```\n", AssertionError, "sfumato experiment run small.toml"),
        ("```toml\n[open\n```\n", tomllib.TOMLDecodeError, "at line 1"),
        ("```json\n{'a': 1}\n```\n", json.JSONDecodeError, "line 1 column 2"),
        ("```yaml\na: 1\n```\n", pytest.fail.Exception, "a block in 'yaml'"),
        ("```python\nprint('epsilon 1.5')\n```\n\n```text\ndelta 1.5\n```\n", AssertionError, "delta 1.5"),
    ],
)
def test_a_faulty_block_fails(block, error, said, run_page):
    with pytest.raises(error, match=re.escape(said)):
        run_page(block, outputs=True)


def test_a_toml_block_is_the_file_that_its_first_line_names(run_page):
    run_page("```toml\n# other.toml\na = 1\n```\n\n```toml\nb = 2\n```\n", outputs=False)
    assert Path("other.toml").read_text() == "# other.toml\na = 1\n"
    assert Path("schema.toml").read_text() == "b = 2\n"
    run_page("```python\n# toys.py\nc = 3\n```\n", outputs=False)
    assert Path("toys.py").read_text() == "# toys.py\nc = 3\n"


def test_only_figures_other_than_those_of_privacy_may_differ():
    assert missing("a 1.5 %\n...\nc\n  -2e-3 %\n", "a 27 %\nb\nc 1,000 %") == []
    assert missing("c 1\n...\na 1\n", "a 1\nb\nc 1") == ["a 1"]
    assert missing("a one", "a 1") == ["a one"]
    assert missing("epsilon = 1.2341, delta 1e-06", "epsilon = 1.2342, delta 1e-06") == []
    assert missing("epsilon = 1.24", "epsilon = 1.23") == ["epsilon = 1.24"]
    assert missing("noise_multiplier=2", "noise_multiplier=3") == ["noise_multiplier=2"]
