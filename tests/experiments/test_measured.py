"""Recorded results: the same page from the data as from the rows, one file for many experiments, nothing of a single fit."""

import json
from pathlib import Path

import pytest

from sfumato.errors import DataError
from sfumato.experiments._measured import Measured, read_recorded, recorded_text
from sfumato.experiments._results import read
from sfumato.experiments._runner import run
from sfumato.experiments._spec import Spec, find
from sfumato.report._experiment import markdown_files

DATA = Path(__file__).parents[2] / "docs" / "results" / "experiments.jsonl"


@pytest.fixture
def found(small, instant, tmp_path):
    """The small specification, and its rows: accuracies 0.50, 0.51, 0.52 over three seeds."""
    spec = Spec.read(small)
    return spec, read(run(spec, tmp_path / "out").path)


def test_the_page_is_the_same_from_data_and_from_rows(found, tmp_path):
    spec, rows = found
    curves = {"stage": {"train": [0.25, 0.5], "validation": [0.125, 0.25]}}
    rows[0]["metrics"]["curves"] = curves
    rows[-1] |= {"status": "skipped", "reason": "No files."}
    measured = Measured.of(spec, rows, "2026-11-27")
    path = tmp_path / "recorded.jsonl"
    path.write_text(recorded_text(path, spec, measured))
    again = Measured.from_jsonl(spec, read_recorded(path)[spec.name])
    (page, figures), (expected, drawn) = markdown_files(spec, again), markdown_files(spec, measured)
    assert page == expected  # which holds what the figures show, in words
    assert figures.keys() == drawn.keys() == {"small-accuracy.svg", "small-convergence-1.svg"}
    assert "No files." in page


def test_nothing_of_a_single_fit_is_recorded(found):
    text = json.dumps(list(Measured.of(*found).to_jsonl(found[0])))
    assert '"mean": 0.51' in text
    assert not any(value in text for value in ('"seed"', "0.52}", '"id"'))


def test_a_file_keeps_other_experiments_and_replaces_its_own(found, tmp_path):
    spec, rows = found
    path = tmp_path / "recorded.jsonl"
    path.write_text('{"experiment":"another"}\n{"experiment":"zebra"}\n')
    for day in ("2026-11-26", "2026-11-27"):
        path.write_text(recorded_text(path, spec, Measured.of(spec, rows, day)))
    recorded = read_recorded(path)
    assert list(recorded) == ["another", "small", "zebra"]
    assert (recorded["small"][0]["date"], len(recorded["small"])) == ("2026-11-27", 4)


@pytest.mark.parametrize("line", ["{", "[]", '{"name": "small"}'])
def test_a_bad_line_is_named(tmp_path, line):
    path = tmp_path / "recorded.jsonl"
    path.write_text(f'{{"experiment": "small"}}\n{line}\n')
    with pytest.raises(DataError, match=r"Expected line 2 of .* names its experiment"):
        read_recorded(path)


def test_every_recorded_line_is_a_row_of_its_specification():
    """A change of a specification that leaves recorded numbers without a row is noticed."""
    for name, (whole, *lines) in read_recorded(DATA).items():
        if name != "price-of-privacy":
            spec = find(name)
            assert whole["dataset"] == spec.dataset
            rows = {(cell.label, cell.epsilon, cell.at) for cell in spec.cells()}
            assert {(line["run"], line.get("epsilon"), line.get("at")) for line in lines} <= rows
