"""Reading results back, and the interval over seeds."""

import json
import math

import pytest

from sfumato.errors import DataError
from sfumato.experiments._results import belonging, read, sum_up, summarize
from sfumato.experiments._runner import run
from sfumato.experiments._spec import Spec


@pytest.fixture
def path(small, instant, tmp_path):
    """Results of the small specification: accuracies 0.50, 0.51, 0.52 over its three seeds."""
    return run(Spec.read(small), tmp_path / "out").path


def test_summary(small, path):
    gap1, gap4, mlp = summarize(read(path.parent), Spec.read(small))
    assert [(line.label, line.role, line.epsilon) for line in (gap1, gap4, mlp)] == [
        ("GAP", "method", 1.0), ("GAP", "method", 4.0), ("MLP", "floor", None),
    ]  # fmt: skip
    assert (gap4.published.value, gap4.published.source, gap1.published) == (76.3, "Table 1, row GAP", None)
    assert gap1.seeds == 3
    assert gap1.mean == pytest.approx(0.51)
    assert gap1.high - gap1.mean == pytest.approx(4.302653 * 0.01 / 3**0.5, rel=1e-6)  # t(2), 97.5 %
    assert gap1.macro_f1 == 0.25


def test_only_finished_cells_of_this_data_set_count(small, path):
    rows, spec = read(path), Spec.read(small)
    rows[0]["status"] = "skipped"
    assert summarize(rows, spec)[0].seeds == 2
    assert summarize(rows, spec.on("facebook100/Reed98")) == ()
    assert belonging(rows, spec) == rows
    assert belonging(rows, spec.on("facebook100/Reed98")) == []
    assert summarize(rows, spec.on(seeds=1))[1].seeds == 3


def test_a_published_number_that_was_not_run_is_shown_beside_those_that_were(small, path):
    spec = Spec.read(small)
    rows = [row for row in read(path) if row["epsilon"] != 4]
    assert [(line.label, line.epsilon) for line in summarize(rows, spec)] == [("GAP", 1.0), ("MLP", None)]
    _, not_run, _ = sum_up(spec, rows)
    assert (not_run.epsilon, not_run.score, not_run.published.value) == (4.0, None, 76.3)


def test_seeds_below_the_first_of_a_run_do_not_count(small, path, instant):
    before = Spec.read(small)
    small.write_text(small.read_text().replace('unit = "edge"\nrole', 'unit = "edge"\nfirst_seed = 2\nrole'))
    spec = Spec.read(small)
    assert sorted({(cell.label, cell.seed) for cell in spec.cells()}) == [
        ("GAP", 0), ("GAP", 1), ("GAP", 2), ("MLP", 2), ("MLP", 3), ("MLP", 4),
    ]  # fmt: skip
    rows = read(path)
    assert belonging(rows, before) == rows
    assert [row["seed"] for row in belonging(rows, spec) if row["label"] == "MLP"] == [2]
    instant.clear()
    run(spec, path.parents[1])
    assert [(cell.label, cell.seed) for cell in instant] == [("MLP", 3), ("MLP", 4)]
    *_, mlp = summarize(read(path), spec)
    assert (mlp.label, mlp.seeds, round(mlp.mean, 6)) == ("MLP", 3, 0.53)


def test_fits_on_other_classes_do_not_count(small, path):
    rows, text = read(path), small.read_text()
    small.write_text(text.replace("seeds = 3", "seeds = 3\nmin_class_size = 1000", 1))
    spec = Spec.read(small)
    assert spec.min_class_size == 1000
    assert belonging(rows, spec) == []


def test_torn_line_does_not_count(path):
    whole = read(path)
    path.write_bytes(path.read_bytes()[:-2])
    assert read(path) == whole[:-1]


@pytest.mark.parametrize("curves", [[], {"stage/0": [0.5]}, {"stage/0": {"train": 0.5}}, {"stage/0": {"train": [1.5]}}])
def test_damaged_curves_are_named(path, curves):
    first, *others = path.read_text().splitlines()
    row = json.loads(first)
    row["metrics"]["curves"] = curves
    path.write_text("\n".join([json.dumps(row), *others]) + "\n")
    with pytest.raises(DataError, match="line 1 of"):
        read(path)


def test_damage_is_named(path):
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{}", *lines[2:]]) + "\n")
    with pytest.raises(DataError, match="line 2 of"):
        read(path)
    path.write_text("\n".join([*lines, lines[3]]) + "\n")
    with pytest.raises(DataError, match=f"line {len(lines) + 1} repeats one"):
        read(path)


@pytest.mark.parametrize(
    "change",
    [
        {"metrics": None},
        {"metrics": {"accuracy": "x", "macro_f1": 0.5}},
        {"metrics": {"accuracy": math.nan, "macro_f1": 0.5}},
        {"id": [1]},
        {"peak_mb": None},
        {"seconds": {}},
        {"versions": None},
        {"certificate": {"claim": {}}},
        {"status": "lost"},
    ],
    ids=str,
)
def test_lines_with_wrong_values_are_named(path, change):
    lines = path.read_text().splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), **change})
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=r"Expected line 2 of .* to be a result of this version"):
        read(path)


def test_lines_are_strict_json(path):
    for line in path.read_text().splitlines():
        assert list(json.loads(line)) == sorted(json.loads(line))
        assert "NaN" not in line
