"""The documentation tells the truth: links lead somewhere, commands and options exist, the Python lines run."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = ("sh", "bash", "console", "")


def name_of(path: Path) -> str:
    """A page as pytest shows it."""
    return str(path.relative_to(ROOT))


def anchors(text: str) -> set[str]:
    """The link targets that a page's headings give."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def dead_links(page: Path) -> list[str]:
    """Relative links that lead nowhere, and anchors that no heading has."""
    dead = []
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = page.parent / target if target else page
        if not path.exists() or (anchor and anchor not in anchors(path.read_text())):
            dead.append(link)
    return dead


def shell_lines(text: str) -> Iterator[list[str]]:
    """Commands in fenced shell blocks, continued lines joined, comments dropped."""
    for language, body in FENCE.findall(text):
        if language in SHELL:
            for line in body.replace("\\\n", " ").splitlines():
                words = shlex.split(line.removeprefix("$ "), comments=True)
                if words:
                    yield words


def command_faults(words: list[str]) -> list[str]:
    """What a documented ``sfumato`` command names that does not exist."""
    from sfumato.catalog import METHODS
    from sfumato.cli import app

    command, rest, path = typer.main.get_command(app), words[1:], []
    while rest and hasattr(command, "commands"):
        if rest[0].startswith("-"):
            break
        if rest[0] not in command.commands:
            return [f"no command {' '.join([*path, rest[0]])!r}"]
        command, path, rest = command.commands[rest[0]], [*path, rest[0]], rest[1:]
    shown = CliRunner().invoke(app, [*path, "--help"])
    if shown.exit_code:
        return [f"{' '.join(path)} --help exits with {shown.exit_code}"]
    known = {"--help"} | {option for p in command.params for option in [*p.opts, *p.secondary_opts]}
    used = [word.split("=")[0] for word in rest if word.startswith("--")]
    faults = [f"{' '.join(path)} has no option {option}" for option in used if option not in known]
    if path == ["train"] and (not rest or rest[0] not in METHODS):
        faults.append(f"no method {rest[:1]}")
    return faults


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_resolve(page):
    assert not dead_links(page)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist(page):
    commands = [words for words in shell_lines(page.read_text()) if words[0] == "sfumato"]
    assert not [fault for words in commands for fault in command_faults(words)]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make_targets_exist(page):
    makefile = (ROOT / "Makefile").read_text()
    targets = {word for words in shell_lines(page.read_text()) if words[0] == "make" for word in words[1:]}
    assert not {target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_blocks_parse(page):
    for language, body in FENCE.findall(page.read_text()):
        if language == "python":
            ast.parse(body)


def test_pages_hold_commands_to_check():
    found = [words for page in PAGES for words in shell_lines(page.read_text()) if words[0] == "sfumato"]
    assert {words[1] for words in found} >= {"train", "predict", "evaluate", "verify", "budget", "datasets"}


def test_readme_python_lines_run(tmp_path, monkeypatch):
    rows = ["id,dorm,year"] + [f"p{i},{'north' if i % 3 else 'south'},{2004 + i % 2}" for i in range(80)]
    edges = ["source,target"] + [f"p{i},p{(i + step) % 80}" for i in range(80) for step in (2, 4, 6)]
    (tmp_path / "nodes.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "edges.csv").write_text("\n".join(edges) + "\n")
    monkeypatch.chdir(tmp_path)
    (block,) = (body for language, body in FENCE.findall((ROOT / "README.md").read_text()) if language == "python")
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)
    assert names["fitted"].certificate.epsilon <= 1.0
    assert names["fitted"].predict_proba(names["graph"]).shape == (80, 2)
    assert (tmp_path / "runs" / "first" / "release" / "certificate.json").exists()


def test_planted_faults_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A title\n[a](gone.md) [b](#a-title) [c](#nothing) [d](https://example.org)\n")
    assert dead_links(page) == ["gone.md", "#nothing"]
    assert command_faults(["sfumato", "paint"]) == ["no command 'paint'"]
    assert command_faults(["sfumato", "budget", "epsilon", "--nois", "1"]) == ["budget epsilon has no option --nois"]
    assert command_faults(["sfumato", "train", "gpa", "--unit", "edge"]) == ["no method ['gpa']"]
