"""The catalogue is complete against the sources' own captions, and names nothing that is not there."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from sfumato.errors import InputError
from sfumato.experiments._index import read_page
from sfumato.experiments._measured import read_recorded
from sfumato.experiments._sources import Document, Entry, read_sources
from sfumato.experiments._spec import SPECS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
RECORDED = read_recorded(RESULTS / "experiments.jsonl")
CAPTIONS = Path(__file__).with_name("tables_and_figures.txt")


def faults(documents, captions):
    """What the catalogue lacks, and what it names that does not exist."""
    entries = {f"{document.key}: {entry.number}": entry for document in documents for entry in document.entries}
    files = {path.stem for path in SPECS.glob("*.toml")}
    named = {name for document in documents for name in document.specs}
    found = [f"no entry for {caption}" for caption in captions if caption not in entries]
    found += [f"no entry names {name}" for name in sorted(files - named)]
    found += [f"no specification {name}" for name in sorted(named - files)]
    for where, entry in entries.items():
        paths = [next(word for word in shlex.split(script) if word.endswith(".py")) for script in entry.scripts]
        found += [f"{where}: no {path}" for path in paths if not (ROOT / path).exists()]
        found += [f"{where}: no page {name}" for name in entry.pages if not (RESULTS / f"{name}.md").exists()]
        pages = [name for name in entry.pages if (RESULTS / f"{name}.md").exists()]
        pages += [name for name in entry.specs if name in RECORDED]
        if entry.kind == "measurement" and not pages and not entry.why:
            found.append(f"{where}: neither a page nor a reason")
        found += [f"{where}: no date on {name}" for name in pages if not dated(name)]
    return found


def dated(name):
    """Whether recorded results say when they were measured."""
    return RECORDED[name][0]["date"] if name in RECORDED else read_page((RESULTS / f"{name}.md").read_text()).date


def captions():
    """The numbers of all tables and figures, from the checked-in list."""
    return [line for line in CAPTIONS.read_text().splitlines() if not line.startswith("#")]


def changed(number, **values):
    """The catalogue with one entry of GAP's document changed, or taken out."""
    first, second, *others = read_sources()
    entries = [replace(one, **values) if one.number == number else one for one in second.entries]
    return [first, replace(second, entries=tuple(one for one in entries if values or one.number != number)), *others]


def test_the_catalogue_is_complete():
    assert len(captions()) == len(set(captions())) == 94
    assert not faults(read_sources(), captions())


@pytest.mark.parametrize(
    ("number", "values", "fault"),
    [
        ("Table 4.3", {}, "no entry for sajadmanesh-2023: Table 4.3"),
        ("Figure 4.9", {}, "no entry names gap-figure-4-9"),
        ("Figure 4.9", {"specs": ("gap-figure-4-99",)}, "no specification gap-figure-4-99"),
        (
            "Table 4.3",
            {"scripts": ("benchmarks/none.py --log LOG",)},
            "sajadmanesh-2023: Table 4.3: no benchmarks/none.py",
        ),
        ("Table 4.3", {"pages": ("none",)}, "sajadmanesh-2023: Table 4.3: no page none"),
        (
            "Table 4.3",
            {"pages": (), "why": None},
            "sajadmanesh-2023: Table 4.3: neither a page nor a reason",
        ),
    ],
)
def test_planted_faults_are_found(number, values, fault):
    assert fault in faults(changed(number, **values), captions())


def test_an_entry_says_how_it_is_run_or_why_not():
    with pytest.raises(InputError, match="to name specs, scripts, or why it is not run"):
        Entry("Table 1", "A table")
    with pytest.raises(InputError, match="Did you mean 'illustration'"):
        Entry("Figure 1", "A drawing", kind="ilustration")
    assert Entry("Figure 1", "A drawing", kind="illustration").reason.endswith("it reports no measurement.")
    with pytest.raises(InputError, match="Expected number to appear once, got 'Table 1'"):
        Document("a", "A", (Entry("Table 1", "A table", why="No data."),) * 2)


def test_a_misspelled_key_is_named(tmp_path):
    path = tmp_path / "sources.toml"
    path.write_text(
        '[[document]]\nkey = "a"\ncitation = "A"\n[[document.entry]]\nnumber = "Table 1"\ntitle = "T"\nwhi = "?"\n'
    )
    with pytest.raises(InputError, match=r"key in sources.toml: a, Table 1 to be one of .*Did you mean 'why'"):
        read_sources(path)
