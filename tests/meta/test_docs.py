"""The documentation tells the truth: links lead somewhere, commands and options exist, the site builds without warnings."""

import ast
import json
import os
import re
import runpy
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer
from browsing import RERUN, opened
from typer.testing import CliRunner

import sfumato
from sfumato.catalog import GRAPH_CARDS, METHODS, PAIR_METHODS, WORDS
from sfumato.privacy.units import UNITS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MODULES = ("graph", "images", "verify")
SHELL = ("sh", "bash", "console", "")
HOOKS = runpy.run_path(str(ROOT / "tools" / "docs_hooks.py"))
GENERATED = {ROOT / "docs" / path for path in HOOKS["generated_pages"]()}


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
        path = (page.parent / target).resolve() if target else page
        if path in GENERATED and not anchor:
            continue
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


def loaded(text: str) -> list[str]:
    """What a page or a style sheet fetches from another host, unasked."""
    tags = re.findall(r"<(?:script|img|iframe|link(?![^>]*rel=.?canonical))\b[^>]*", text)
    fetched = [tag for tag in tags if re.search(r"(?:src|href)=[\"']?(?:https?:)?//", tag)]
    return fetched + re.findall(r"(?:@import\s*|url\()[\"']?(?:https?:)?//[^\s)]*", text)


@cache
def help_code(*path: str) -> int:
    """With what the help of a command exits; it is shown once."""
    from sfumato.cli import app

    return CliRunner().invoke(app, [*path, "--help"]).exit_code


def command_faults(words: list[str]) -> list[str]:
    """What a documented ``sfumato`` command names that does not exist."""
    from sfumato.cli import app

    command, rest, path = typer.main.get_command(app), words[1:], []
    while rest and hasattr(command, "commands"):
        if rest[0].startswith("-"):
            break
        if rest[0] not in command.commands:
            return [f"no command {' '.join([*path, rest[0]])!r}"]
        command, path, rest = command.commands[rest[0]], [*path, rest[0]], rest[1:]
    if code := help_code(*path):
        return [f"{' '.join(path)} --help exits with {code}"]
    known = {"--help"} | {option for p in command.params for option in [*p.opts, *p.secondary_opts]}
    used = [word.split("=")[0] for word in rest if word.startswith("--")]
    faults = [f"{' '.join(path)} has no option {option}" for option in used if option not in known]
    if path == ["train"] and (not rest or rest[0] not in WORDS):
        faults.append(f"no method {rest[:1]}")
    return faults


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_resolve(page):
    assert not dead_links(page)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist(page):
    commands = [words for words in shell_lines(page.read_text()) if words[0] == "sfumato"]
    assert not [fault for words in commands for fault in command_faults(words)]


def test_make_targets_exist():
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        page: {word for words in shell_lines(page.read_text()) if words[0] == "make" for word in words[1:]}
        for page in PAGES
    }
    assert {page: targets - known for page, targets in named.items() if targets - known} == {}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_blocks_parse(page):
    for language, body in FENCE.findall(page.read_text()):
        if language == "python":
            ast.parse(body)


def test_pages_hold_commands_to_check():
    found = [words for page in PAGES for words in shell_lines(page.read_text()) if words[0] == "sfumato"]
    assert {words[1] for words in found} >= {"train", "predict", "evaluate", "verify", "budget", "datasets"}


def test_every_module_of_the_reference_is_there():
    pages = runpy.run_path(str(ROOT / "tools" / "docs_reference.py"))
    for package, lead, *modules in pages["REFERENCE"].values():
        assert pages["reference_page"](package, lead, *modules).count("::: ")


def test_written_pages_are_up_to_date():
    written = runpy.run_path(str(ROOT / "tools" / "docs_pages.py"))["pages"]()
    stale = [name_of(page) for page, text in written.items() if not page.exists() or page.read_text() != text]
    assert not stale, "run: python tools/docs_pages.py"


def test_the_notebook_is_that_of_its_page():
    """The page runs in ``test_docs_run.py``, so the cells of the notebook do."""
    page = ROOT / "docs" / "examples" / "notebook.md"
    written = runpy.run_path(str(ROOT / "tools" / "notebook.py"))["notebook"](page.read_text())
    assert page.with_suffix(".ipynb").read_text() == written, "run: python tools/notebook.py"
    cells = json.loads(written)["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code == [block.strip() for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)]
    assert sum(bool(cell.get("outputs")) for cell in cells) > 5


def test_table_of_methods_says_what_calibrate_answers():
    """The same facts by another way: each pair of a method and a unit, looked up in the tables."""
    rows = [line.strip("|").split(" | ") for line in (ROOT / "docs" / "guarantees.md").read_text().splitlines()]
    rows = [[cell.strip(" `|") for cell in row] for row in rows]
    cells = {(row[0], unit): row for row in rows if len(row) == 6 for unit in row[1].split("; ")}
    methods = (*METHODS, *PAIR_METHODS, *GRAPH_CARDS)
    refused = {(row[0], unit) for row in rows if len(row) == 2 and row[0] in methods for unit in row[1].split("; ")}
    assert {("gap", "node, incident arcs"), ("sage", "undirected edge")} <= refused
    assert "DP-SGD" in cells["mlp", "record"][4]
    assert "aggregate/2" in cells["gap", "undirected edge"][4]
    assert cells["gap", "undirected edge"][5] == "closed form"
    assert cells["gap", "node, owned arcs"][5] == "privacy loss distribution"
    assert "labels" not in cells["gap", "node, owned arcs"][3]
    assert not refused & set(cells)
    forms = [name for unit in UNITS for name in unit.forms() if name != "none"]
    assert {pair for pair in [*cells, *refused] if pair[1] in forms} == {
        (method, name) for method in methods for name in forms
    }


@pytest.fixture(scope="module")
def site():
    """The built site, which ``make docs`` names."""
    return Path(os.environ["SFUMATO_SITE"])


@pytest.mark.site
def test_site_has_every_page(site):
    pages = {*(ROOT / "docs").rglob("*.md"), *GENERATED}
    pages = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in pages]
    pages = [page.with_name("index.html") if page.stem == "README" else page for page in pages]
    assert not [page for page in pages if not (site / page).exists()]


@pytest.mark.site
def test_site_makes_pages_and_pictures_of_recorded_results(site):
    page, picture = (site / "results" / f"gap-table-4-2{end}" for end in (".html", "-accuracy.svg"))
    assert "Ours minus published" in page.read_text()
    assert 'src="gap-table-4-2-accuracy.svg"' in page.read_text()
    assert "published 80 %" in picture.read_text()


@pytest.mark.site
def test_site_loads_nothing_from_another_host(site):
    assert not [
        name for path in site.rglob("*") if path.suffix in (".html", ".css") for name in loaded(path.read_text())
    ]


@pytest.mark.site
def test_site_shows_links_to_the_repository_as_code(site):
    text = (site / "guarantees.html").read_text()
    assert '<code title="tests/soundness/test_gap.py">test_gap.py</code>' in text
    assert 'href="../' not in text


@pytest.mark.site
def test_reference_has_every_public_name(site):
    text = (site / "reference" / "index.html").read_text()
    assert not [name for name in sfumato.__all__ if f'id="sfumato.{name}"' not in text and name not in MODULES]
    shown = re.sub(r"<(pre|code)\b.*?</\1>", "", text, flags=re.DOTALL)
    assert not re.findall(r":(?:class|func|meth|math|mod):|\.\. math::|&gt;&gt;&gt;", shown)
    assert "<math" in (site / "reference" / "randomizers.html").read_text()


def test_a_table_of_words_names_its_columns_in_each_cell_and_one_of_numbers_does_not():
    made, words = HOOKS["with_labels"], "so many words that a phone has no room for them beside others"
    table = (
        "<table><tr><th>a</th><th>b</th><th>c</th></tr><tr><td>1</td><td><code>x</code></td><td>{}</td></tr></table>"
    )
    assert made(table.format(2)) == table.format(2)
    told = made(table.format(words))
    assert told.startswith("<table data-words>")
    assert '<td data-label="a">1</td><td data-label="b"><code>x</code></td><td data-label="c">so many' in told


def test_no_line_breaks_within_an_option():
    made = HOOKS["on_page_content"]
    assert made("<p>a --b <code>--no-controls</code></p>") == (
        '<p>a --b <code><span class="option">--no-controls</span></code></p>'
    )
    assert made("<code>python a-b.py --seeds 5 --log x</code>").startswith('<code class="long">python a-b.py <span')
    assert "--" not in re.sub(r"<span class=.option.>--[a-z]+</span>", "", made("<code>a --b\n  --c 1</code>"))


@pytest.mark.site
@RERUN
@pytest.mark.parametrize("width", [1280, 390])
def test_search_works_from_disk(site, tmp_path, width):
    with opened(tmp_path) as show:
        page = show("", width)
        page.noise.clear()
        page.goto((site.resolve() / "examples" / "index.html").as_uri())
        if width < 1000:
            page.click("label[for=__search].md-header__button")
        page.click("input[name=query]")
        page.keyboard.type("deployment record")
        page.wait_for_selector(".md-search-result__item", state="attached")
        assert not [said for said in page.noise if not said.startswith("file:")]


def test_planted_faults_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A title\n[a](gone.md) [b](#a-title) [c](#nothing) [d](https://example.org)\n")
    assert dead_links(page) == ["gone.md", "#nothing"]
    assert command_faults(["sfumato", "paint"]) == ["no command 'paint'"]
    assert command_faults(["sfumato", "budget", "epsilon", "--nois", "1"]) == ["budget epsilon has no option --nois"]
    assert command_faults(["sfumato", "train", "gpa", "--unit", "edge"]) == ["no method ['gpa']"]
    assert loaded('<script src="https://example.org/a.js"></script><img src=//example.org/b>') != []
    assert loaded("@import 'http://example.org/c.css'; a {background: url(//example.org/d.png)}") != []
    assert loaded('<a href="https://example.org">a link</a><link rel="canonical" href="https://example.org">') == []
