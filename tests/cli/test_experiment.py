"""`sfumato experiment`: list, run, report."""

import errno
import json
import os
import re
import sys
from types import SimpleNamespace

import pytest
from spec_head import head, read_once

from sfumato.experiments import _runner as runner
from sfumato.experiments import _sources as sources
from sfumato.experiments._results import read
from sfumato.graph._synthetic import campus

SMALL = (
    head("small", split="75/10/15", seeds=2)
    + """
[[run]]
label = "GAP"
method = "gap"
unit = "edge"
epsilons = [4]
delta = 1e-6
settings = { epochs = 1, num_hops = 1 }
[[published]]
label = "GAP"
epsilon = 4
value = 76.3
source = "Table 1"
"""
)


@pytest.fixture(scope="module", autouse=True)
def _read_once():
    with read_once():
        yield


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def catalogue(monkeypatch, small, tmp_path):
    """A catalogue of two small specifications that run, and of one whose data are absent; the slowest comes first."""
    for name, minutes in (("away", 0.2), ("other", 0.3)):
        text = SMALL.replace('"small"', f'"{name}"').replace("minutes = 0.1", f"minutes = {minutes}")
        (tmp_path / f"{name}.toml").write_text(text)
    (tmp_path / "away.toml").write_text((tmp_path / "away.toml").read_text().replace("campus", "facebook100/Reed98"))
    specs = tuple(str(tmp_path / f"{name}.toml") for name in ("other", "away", "small"))
    documents = (
        sources.Document("a", "A. Author (2026), A paper", (sources.Entry("Table 1", "A table", specs=specs),)),
    )
    monkeypatch.setattr(sources, "read_sources", lambda: documents)


@pytest.mark.parametrize("width", [80, 120])
def test_list_is_in_the_order_of_the_sources_and_fits_the_screen(sfumato, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    result = sfumato("experiment", "list")
    assert result.code == 0
    assert max(map(len, result.out.splitlines())) == width
    assert re.search(
        r"^Table 4\.2 +GAP beside its baselines\n +gap-table-4-2 +150 +60 +4\.2$", result.out, re.MULTILINE
    )
    assert re.search(
        r"\nTable 3\.4 +Students of noisy labels, SVHN\n +pate-table-3-4 +no data\n +python bench", result.out
    )
    assert re.search(r"\nFigure 5\.2 +DPAR's accuracy against epsilon, PubMed\n +Missing: ", result.out)
    places = [
        result.out.index(name)
        for name in ("pate-table-3-1", "dpar-figure-5-1", "lpgnn-table-3-2", "graph-split-table-1")
    ]
    assert places == sorted(places)
    assert "The parts of GAP" not in result.out


def test_list_as_json(sfumato):
    documents = json.loads(sfumato("experiment", "list", "--json").out)["documents"]
    (entry,) = [one for document in documents for one in document["entries"] if one["number"] == "Table 5.3"]
    (spec,) = entry["specs"]
    assert (spec["name"], spec["cells"], spec["minutes"]) == ("progap-table-5-3", 190, 3.5)


def test_run_all_goes_on_past_absent_data_and_repeats_nothing(sfumato, catalogue, tmp_path):
    command = ("experiment", "run", "--all", "--quick", "--results", tmp_path / "out")
    result = sfumato(*command)
    assert result.code == 0
    assert re.search(r"^small +1 of 1 cells +\d+\.\d min  done$", result.out, re.MULTILINE)
    assert re.search(
        r"^away +0 of 1 cells .* skipped: The files of facebook100/Reed98 are not there", result.out, re.MULTILINE
    )
    assert re.search(r"^3 of 3 specifications in \d+\.\d minutes: 2 done, 1 skipped\.$", result.out, re.MULTILINE)
    assert (
        "2 cells of the quick profile are left; 1 of 3 specifications have none, or no data. No cell like" in result.err
    )
    starts = re.findall(r"^== (.*)$", result.err, re.MULTILINE)
    assert starts == [
        "1 of 3: small; cells to run: 1", "2 of 3: away; cells to run: 0", "3 of 3: other; cells to run: 1",
    ]  # fmt: skip
    again = sfumato(*command)
    assert again.code == 0
    assert "GAP, epsilon 4, seed 0" in result.err
    assert "GAP, epsilon 4, seed 0" not in again.err
    hours = sfumato("experiment", "run", "--all", "--hours", "--results", tmp_path / "out")
    assert re.search(r"^small +1 cells left, +1 timed, about +0\.0 hours$", hours.out, re.MULTILINE)
    assert "2 cells of the full profile are left" in hours.out
    assert "hours in one process, from earlier cells, for all of them." in hours.out


def test_run_all_says_once_at_its_end_what_was_warned_of(sfumato, catalogue, tmp_path):
    for path in tmp_path.glob("*.toml"):
        path.write_text(path.read_text().replace("delta = 1e-6", "delta = 0.1"))
    result = sfumato("experiment", "run", "--all", "--quick", "--results", tmp_path / "out")
    assert result.code == 0
    assert "SfumatoWarning" not in result.err
    *_, last, page = result.err.splitlines()
    assert last.endswith("[delta-large]")
    assert page.startswith("`sfumato experiment report")
    assert result.err.count("[delta-large]") == 1


def test_run_all_without_data_stops_before_anything_is_written(sfumato, tmp_path):
    result = sfumato("experiment", "run", "--all", "--quick", "--results", tmp_path / "out")
    assert result.code == 2
    assert result.err.startswith("Error: Expected --data-dir to name the folder of the data sets")
    assert not (tmp_path / "out").exists()


def test_a_damaged_file_of_results_fails_its_specification_alone(sfumato, catalogue, tmp_path):
    place = tmp_path / "out" / "small"
    place.mkdir(parents=True)
    (place / "results.jsonl").write_text("{}\n")
    result = sfumato("experiment", "run", "--all", "--quick", "--results", tmp_path / "out")
    assert result.code == 1
    assert re.search(r"^small .* failed: Expected line 1 of ", result.out, re.MULTILINE)
    assert "1 done, 1 skipped, 1 failed. Failed: small." in result.out
    hours = sfumato("experiment", "run", "--all", "--hours", "--results", tmp_path / "out")
    assert re.search(r"^small +2 cells left, +0 timed, hours not known$", hours.out, re.MULTILINE)


def test_run_all_says_what_failed(sfumato, catalogue, monkeypatch, tmp_path):
    def fail(cell, data_dir):
        raise RuntimeError("out of luck") if cell.spec == "small" else KeyboardInterrupt

    monkeypatch.setattr(runner, "run_cell", fail)
    result = sfumato("experiment", "run", "--all", "--results", tmp_path / "out")
    assert result.code == 130
    assert re.search(r"^small .* failed: RuntimeError: out of luck$", result.out, re.MULTILINE)
    assert re.search(r"^other +0 of 2 cells .* stopped$", result.out, re.MULTILINE)
    assert "1 skipped, 1 failed, 1 stopped. Failed: small." in result.out
    assert "Run the same command again to go on" in result.err


def test_run_shows_ours_beside_published(sfumato, small, tmp_path):
    command = ("experiment", "run", small, "--quick", "--results", tmp_path / "out")
    result = sfumato(*command)
    assert result.code == 0
    (row,) = read(tmp_path / "out" / "small")
    accuracy = f"{100 * row['metrics']['accuracy']:.1f}"
    assert re.search(rf"GAP +4 +{accuracy} +1 +76.3", result.out)
    assert "not covered by the guarantee" in result.out
    assert accuracy not in result.err
    assert "[1/1] GAP, epsilon 4, seed 0" in result.err
    assert "1 of 1 cells are in" in result.err
    again = sfumato(*command)
    assert (again.code, again.out) == (0, result.out)
    more = sfumato("experiment", "run", small, "--seeds", "3", "--results", tmp_path / "out")
    assert (more.code, len(read(tmp_path / "out" / "small"))) == (0, 3)


def test_a_stored_graph_stands_in_for_the_data_set(sfumato, small, tmp_path):
    command = ("experiment", "run", small, "--quick", "--results", tmp_path / "out", "--dataset")
    campus(300).save(tmp_path / "store")
    assert sfumato(*command, f"graph:{tmp_path / 'store'}").code == 0
    assert [row["status"] for row in read(tmp_path / "out" / "small")] == ["done"]
    away = sfumato(*command, "graph:away")
    assert away.code == 2
    assert "There is no stored graph in 'away'." in away.err


def test_nothing_could_be_run(sfumato, tmp_path):
    result = sfumato("experiment", "run", "gap-table-4-2", "--quick", "--results", tmp_path)
    assert (result.code, result.out) == (2, "")
    said = "Error: Nothing could be run: 60 cells skipped. The files of facebook100/Berkeley13 are not there, and no --data-dir"
    assert result.err.startswith(said)
    assert result.err.count("\n") == 1
    assert len(read(tmp_path / "gap-table-4-2")) == 60


def test_interrupt(sfumato, small, tmp_path, monkeypatch):
    def stop(cell, data_dir):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_cell", stop)
    result = sfumato("experiment", "run", small, "--results", tmp_path)
    assert result.code == 130
    assert "Stopped: 0 of 2 cells are in" in result.err
    assert "Nothing was charged. Run the same command again to go on." in result.err


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (("run", "gap-table-42"), "Did you mean 'gap-table-4-2'?"),
        (("run", "none.toml"), "No such file"),
        (("run", "gap-table-4-2", "--dataset", "facebok100/Reed98"), "Did you mean 'facebook100/Reed98'"),
        (("run", "gap-table-4-2", "--jobs", "0"), "Expected jobs to be an integer >= 1"),
        (("run", "gap-table-4-2", "--seeds", "0"), "Expected seeds to be an integer >= 1"),
        (("run", "gap-table-4-2", "--data-dir", "nowhere"), "Expected data_dir to be a folder"),
        (("report", "gap-table-4-2", "--out", "page.pdf"), "to end in .html, .md or .jsonl"),
        (("report", "gap-table-4-2"), "Run `sfumato experiment run` first"),
        (("run",), "Expected a name that `experiment list` shows, or --all, got neither"),
        (("run", "gap-table-4-2", "--all"), "or --all, got 'gap-table-4-2' and --all"),
        (("run", "--all", "--dataset", "campus"), "Expected dataset to be left out with --all"),
        (("run", "--all", "--data-dir", "nowhere"), "Expected data_dir to be a folder"),
        (("run", "gap-table-4-2", "--hours"), "Expected --hours to stand beside --all"),
        (("report",), "Missing argument 'name'. Expected: A name that `experiment list` shows"),
    ],
)
def test_bad_input(refused, tmp_path, monkeypatch, arguments, fragment):
    monkeypatch.chdir(tmp_path)
    refused(fragment, "experiment", *arguments)


def test_report(sfumato, small, tmp_path, monkeypatch):
    pages = SimpleNamespace(
        experiment_page=lambda spec, rows, date: f"<p>{spec.name} {len(rows)} {date}</p>",
        experiment_markdown=lambda spec, rows, date: f"{spec.name} {len(rows)} {date}",
        experiment_figures=lambda spec, rows: {"small-accuracy.svg": "<svg/>"},
    )
    monkeypatch.setitem(sys.modules, "sfumato.report", pages)
    assert sfumato("experiment", "run", small, "--quick", "--results", tmp_path).code == 0
    result = sfumato("experiment", "report", small, "--results", tmp_path)
    assert (result.code, result.out) == (0, f"{tmp_path / 'small' / 'report.html'}\n")
    assert re.fullmatch(r"<p>small 1 \d{4}-\d\d-\d\d</p>", (tmp_path / "small" / "report.html").read_text())
    out = tmp_path / "docs" / "small.md"
    assert sfumato("experiment", "report", small, "--results", tmp_path, "--out", out).code == 0
    assert out.read_text().startswith("small 1 2")
    assert {path.name for path in out.parent.iterdir()} == {"small.md", "small-accuracy.svg"}
    recorded = tmp_path / "recorded.jsonl"
    assert sfumato("experiment", "report", small, "--results", tmp_path, "--out", recorded).code == 0
    assert [json.loads(line)["experiment"] for line in recorded.read_text().splitlines()] == ["small"] * 2
    other = sfumato("experiment", "report", small, "--results", tmp_path, "--dataset", "facebook100/Reed98")
    assert (other.code, "on facebook100/Reed98, in" in other.err) == (2, True)
    small.write_text(small.read_text().replace("epochs = 1", "epochs = 2"))
    changed = sfumato("experiment", "report", small, "--results", tmp_path)
    assert changed.code == 2
    assert "Expected results of small as it is now, on campus" in changed.err
    assert "got 1 of other settings or data sets. Run it again" in changed.err


def test_report_on_a_full_disk_leaves_nothing_behind(sfumato, small, tmp_path, monkeypatch):
    assert sfumato("experiment", "run", small, "--quick", "--results", tmp_path).code == 0
    before = sorted(tmp_path.rglob("*"))

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    result = sfumato("experiment", "report", small, "--results", tmp_path)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert f"Cannot write '{tmp_path / 'small' / 'report.html'}': No space left on device. Make room" in result.err
    assert sorted(tmp_path.rglob("*")) == before


def test_labels_and_titles_are_no_markup(sfumato, small, tmp_path):
    small.write_text(small.read_text().replace('"GAP"', '"[bold]GAP[/x] :key:"').replace("A small table", "[/q] Title"))
    result = sfumato("experiment", "run", small, "--quick", "--results", tmp_path)
    assert result.code == 0
    assert "[bold]GAP[/x] :key:" in result.out
    assert "[/q] Title" in result.out
