"""Write the pages that follow from the code: docs/cli.md, the methods in docs/guarantees.md, and the indexes of results and
decisions; the pages of experiments that stand in the repository; the events of the published schema; and the figures that
``sfumato check`` quotes.

    python tools/docs_pages.py

Run it after changing a command, an option, an event, what a method releases, the catalogue of tables and figures, a page of
results, or the title of a decision; a test compares.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import sfumato as sf
from sfumato.catalog import GRAPH_CARDS, METHODS, PAIR_METHODS, method_named
from sfumato.cli import app
from sfumato.cli._commands import GROUPS
from sfumato.errors import UnsupportedUnitError
from sfumato.experiments._index import index_page
from sfumato.experiments._sources import read_sources
from sfumato.graph._graph import PublicFacts
from sfumato.privacy.calibration import pure_cost
from sfumato.privacy.units import UNITS
from sfumato.verify._documents import SCHEMA, forms

sys.path.insert(0, str(Path(__file__).parent))
from docs_results import IN_TREE, RESULTS, experiments, made, recorded

if TYPE_CHECKING:
    from sfumato.method._plan import Plan

DOCS = Path(__file__).parents[1] / "docs"
FIGURES = DOCS.parent / "src" / "sfumato" / "evaluation" / "figures.csv"
BEGIN, END = "<!-- methods: written by tools/docs_pages.py -->", "<!-- end of methods -->"
_HEAD = """# Commands

Written from the commands themselves by `python tools/docs_pages.py`; `sfumato COMMAND --help` says the same.

Exit codes: 0 done, 1 a check failed or the budget refused, 2 bad input, 130 stopped by Ctrl-C. Progress and notes go to
standard error; `--json` prints one object on standard output.
"""


def pages() -> dict[Path, str]:
    """What each page should hold."""
    guarantees = DOCS / "guarantees.md"
    before, _, rest = guarantees.read_text().partition(BEGIN)
    return {
        DOCS / "cli.md": cli_page(),
        guarantees: f"{before}{BEGIN}\n\n{methods_table()}\n{END}{rest.partition(END)[2]}",
        DOCS / "results" / "index.md": index_page(read_sources(), recorded()),
        **{path: text for path, text in first_results().items() if path.suffix == ".md"},
        DOCS / "decisions" / "index.md": decisions_page(),
        FIGURES: figures_file(),
        SCHEMA: schema_file(),
    }


def pictures() -> dict[Path, str]:
    """The pictures of results that stand in the repository."""
    return {path: text for path, text in first_results().items() if path.suffix == ".svg"}


def first_results() -> dict[Path, str]:
    """The pages and pictures of experiments that stand in the repository."""
    kept = [made(spec, measured) for spec, measured in experiments() if spec.name in IN_TREE]
    return {RESULTS / name: text for files in kept for name, text in files.items()}


def schema_file() -> str:
    """The published schema, with the events that the verifier knows."""
    text, cases = SCHEMA.read_text(), [f"        {json.dumps(case)}" for case in forms()["event"]["oneOf"]]
    start = text.index('"oneOf": [', text.index('"event": {')) + len('"oneOf": [')
    return text[:start] + "\n" + ",\n".join(cases) + text[text.index("\n      ]", start) :]


def figures_file() -> str:
    """The scores of the default on public graphs, from the tables of two pages of results, as CSV."""
    lines = ["unit,task,epsilon,score,run,floor,ceiling"]
    for page, score, run in (("defaults.md", "accuracy", "auto"), ("rare.md", "auc", "AUC auto")):
        unit, epsilon, columns = "", "", []
        for line in (DOCS / "results" / page).read_text().splitlines():
            if head := re.match(r"###? (edge|node)(?: level|-(\d+))", line):
                unit, epsilon, columns = head[1], head[2] or "", []
            cells = [cell.strip() for cell in line.strip("|").split("|")] if unit and line.startswith("|") else []
            if cells and cells[0] in ("graph", "task"):
                columns = cells if {run, "floor", "ceiling"} <= {*cells} else []
            elif columns and cells and not cells[0].startswith("-"):
                row = dict(zip(reversed(columns), reversed(cells), strict=True))  # of two columns of a name, the first
                numbers = [row[name].partition(" ")[0] for name in (run, "floor", "ceiling")]
                lines.append(",".join([unit, cells[0], row.get("epsilon", epsilon), score, *numbers]))
    return "\n".join(lines) + "\n"


def cli_page() -> str:
    """The reference of all commands."""
    commands = typer.main.get_command(app).commands
    found = {
        title: [one for name in group for one in _commands(f"sfumato {name}", commands[name])]
        for title, group in GROUPS.items()
    }
    index = [f"* {title}: {', '.join(_link(path) for path, _ in listed)}" for title, listed in found.items()]
    sections = [
        part for title, listed in found.items() for part in (f"## {title}", "", *(_section(*one) for one in listed))
    ]
    return "\n".join([_HEAD, *index, "", *sections])


def _link(path: str) -> str:
    return f"[{path.removeprefix('sfumato ')}](#{path.replace(' ', '-')})"


def decisions_page() -> str:
    """The index of the notes on decisions."""
    titles = ((path.name, path.read_text().partition("\n")[0]) for path in sorted((DOCS / "decisions").glob("0*.md")))
    rows = [f"* [{title.removeprefix('# ')}]({name})" for name, title in titles]
    return "\n".join(
        ["# Decisions", "", "Why things are as they are: one note for each decision, by number.", "", *rows, ""]
    )


def methods_table() -> str:
    """What each method releases under each unit it has a proof for, from what ``calibrate`` plans; then what it refuses."""
    lines = ["| method | unit | relation | public | released | accountant |", "|---|---|---|---|---|---|"]
    refused: dict[str, list[str]] = {}
    for method in (*METHODS, *PAIR_METHODS, *GRAPH_CARDS):
        relations: dict[tuple[str, ...], list[str]] = {}
        for name, unit in ((name, unit) for kind in UNITS for name, units in kind.forms().items() for unit in units):
            if (plan := plan_of(method, unit)) is None:
                refused.setdefault(method, []).append(name)
            elif plan.epsilon is not None:
                relations.setdefault((name, *_columns(plan)), []).append(unit.relation)
        units: dict[tuple[str, ...], list[str]] = {}
        for (name, *columns), words in relations.items():
            units.setdefault(("; ".join(words), *columns), []).append(name)
        lines += [f"| `{method}` | {'; '.join(names)} | {' | '.join(columns)} |" for columns, names in units.items()]
    return "\n".join([*lines, "", _refused(refused)])


def _refused(refused: dict[str, list[str]]) -> str:
    """A table of the units that each method refuses, which a click opens."""
    rows = [f"| `{method}` | {'; '.join(dict.fromkeys(names))} |" for method, names in refused.items()]
    count = sum(len(dict.fromkeys(names)) for names in refused.values())
    summary = f"<summary>What is refused: {count} pairs of a method and a unit, for want of a proof</summary>"
    table = ["| method | refused under the units |", "|---|---|", *rows]
    return "\n".join(['<details markdown="1">', summary, "", *table, "", "</details>", ""])


def _columns(plan: Plan) -> tuple[str, str, str]:
    public = ", ".join(fact.replace("_", " ") for fact in plan.unit.public)
    return public, _released(plan), _accountant(plan)


def plan_of(method: str, unit: Any) -> Plan | None:
    """A plan at epsilon 1 for some graph; None if the method refuses the unit."""
    public = PublicFacts(20_000, 15_000, 256, 3, directed=False, max_degree=10_000, image_shape=(1, 16, 16))
    clear = not unit.private
    chosen = method_named(method)
    if clear and "local" in chosen.card.units:
        chosen = replace(chosen, epsilon_x=None, epsilon_y=None)
    if chosen.unit is not None and chosen.unit.name == unit.name:
        unit = chosen.unit
    budget = None if chosen.unit or clear else sf.Budget(epsilon=1.0, delta=1e-6)
    try:
        plan: Plan = chosen.calibrate(budget, unit, public)
        return plan
    except UnsupportedUnitError:
        return None


def _released(plan: Plan) -> str:
    names: dict[str, list[str]] = {}
    for release in plan.releases:
        mechanism = release.event.mechanism or release.event.type.replace("-", " ")
        if plan.unit.trust != "curator":
            mechanism = "counted by two servers" if plan.unit.trust == "servers" else "randomized by each user"
        names.setdefault(mechanism, []).append(f"`{release.name}`")
    parts = [f"{_listed(found)} ({mechanism})" for mechanism, found in names.items()]
    return "; ".join(parts) or "predictions that read no arc: epsilon 0"


def _listed(names: list[str]) -> str:
    """Names in a row; more than two that differ in their last number alone are written as a range."""
    stems = {name.rpartition("/")[0] for name in names}
    return f"{names[0]} to {names[-1]}" if len(names) > 2 and len(stems) == 1 and stems != {""} else ", ".join(names)


def _accountant(plan: Plan) -> str:
    if not plan.releases:
        return ""
    if plan.unit.trust != "curator" or pure_cost([release.event for release in plan.releases]) is not None:
        return "exact sum"
    exact = all(release.event.type == "gaussian" for release in plan.releases)
    return "closed form" if exact else "privacy loss distribution"


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for name in command.list_commands(None):  # by use, as in the help
            yield from _commands(f"{path} {name}", command.commands[name])
    else:
        yield path, command


def _section(path: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and "--help" not in p.opts]
    words = [p.name.upper() if p.required else f"[{p.name.upper()}]" for p in arguments]
    usage = " ".join([path, *words, *(["[OPTIONS]"] if options else [])])
    text = re.sub(r"\s+", " ", command.help.strip())
    rows = [f"| `{p.name.upper()}` | {_default(p)} | {_cell(p.help)} |" for p in arguments]
    rows += [f"| {_spelled(p, command)} | {_default(p)} | {_cell(p.help)} |" for p in options]
    table = ["| argument or option | default | meaning |", "|---|---|---|", *rows, ""] if rows else []
    return "\n".join([f"### {path}", "", text, "", "```text", usage, "```", "", *table])


def _spelled(option: Any, command: Any) -> str:
    return f"`{option.get_help_record(command.context_class(command))[0]}`"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    return "" if parameter.default is None or parameter.default is False else f"`{parameter.default}`"


def _cell(text: str | None) -> str:
    return re.sub(r"([|<>*_])", r"\\\1", text or "")


if __name__ == "__main__":
    for page, content in {**pages(), **pictures()}.items():
        page.write_text(content)
        print(page.relative_to(DOCS.parent))
