"""Class shares from what two servers opened: without bias, and intervals hold the true shares of those who were counted."""

import json
import math

import numpy as np
import pytest
from collect_made import collection, label
from opened_made import opened_file

from sfumato.cli import invoke
from sfumato.collect.two._estimate import estimate
from sfumato.collect.two._opening import LEFT_OUT
from sfumato.errors import DataError, InputError
from sfumato.local._drop import Z
from sfumato.local._shared_counts import zero_sum_variance

CLASSES = ("a", "b", "c")
USERS = [f"u{number:03}" for number in range(120)]
CELLS = {user: number // 12 for number, user in enumerate(USERS)}
LOST = dict.fromkeys(LEFT_OUT, 0) | {"first_alone": 1, "failed": 3}
LABELS = {user: CLASSES[(number % 12 > 2) + (number % 12 > 8)] for number, user in enumerate(USERS) if number % 5}


def law(epsilon, classes, cells):
    """The exact law of one class's noise, of both servers and all cells together, and the distance of each value from 0."""
    scale = 2 / epsilon
    reach = math.sqrt(2 * cells * zero_sum_variance(scale, classes))
    size = 1 << math.ceil(math.log2(64 * scale * math.sqrt(classes) + 20 * reach + 64))
    p, angle = math.exp(-1 / scale), 2 * np.pi * np.arange(size) / size
    one = (1 - p) ** 2 / (1 - 2 * p * np.cos(angle) + p * p)
    entry = np.maximum(np.fft.ifft(one).real, 0) * np.maximum(np.fft.ifft(one ** (classes - 1)).real, 0)
    found = np.fft.ifft(np.fft.fft(entry / entry.sum()) ** (2 * cells)).real
    return found, np.abs(np.fft.fftfreq(size, 1 / size)), reach


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 0.5, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20])
def test_the_interval_holds_by_the_exact_law(epsilon):
    for classes in (2, 3, 7, 40):
        for cells in (1, 2, 5, 20, 100):
            found, distance, reach = law(epsilon, classes, cells)
            covered = found[distance <= Z * reach + 0.5].sum()
            assert covered >= 0.941, (classes, cells, covered)
            if epsilon <= 1 and cells >= 5:
                assert covered < 0.965, (classes, cells, covered)  # it is not wider than it need be


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_shares_are_right_on_average_and_intervals_cover(epsilon):
    """Fixed keys: 200 openings of the same reports."""
    true = np.array([sum(one == name for one in LABELS.values()) for name in CLASSES]) / len(LABELS)
    first = np.array([sum(LABELS.get(user) == name for user in USERS[:12]) for name in CLASSES])
    shares, held, by_cell = [], 0, 0
    for key in range(200):
        found = estimate(opened_file(CELLS, LABELS, CLASSES, epsilon, key), by_cell=True)
        shares.append([one.estimate for one in found.answers["label"]])
        held += sum(one.low <= share <= one.high for one, share in zip(found.answers["label"], true, strict=True))
        inside = zip(found.cells[0].shares, first / first.sum(), strict=True)
        by_cell += sum(one.low <= share <= one.high for one, share in inside)
    error = np.mean(shares, axis=0) - true
    assert (np.abs(error) < 3.5 * np.std(shares, axis=0) / math.sqrt(200)).all()
    assert held >= 0.93 * 600, held
    assert by_cell >= 0.92 * 600, by_cell


def test_who_did_not_answer_is_told_in_numbers():
    found = estimate(opened_file(CELLS, LABELS, CLASSES, left_out=LOST), by_cell=True)
    assert (found.asked, found.reports, dict(found.left_out), found.silent) == (120, 96, LOST, 20)
    assert [(cell.asked, cell.reports) for cell in found.cells[:3]] == [(12, 9), (12, 10), (12, 9)]
    assert sum(one.estimate for one in found.answers["label"]) == pytest.approx(1)
    values = found.to_dict()
    assert values["privacy"] == {"unit": "servers", "epsilon": 1.0, "delta": 0.0}
    assert len(values["cells"]) == 10


def test_empty_cells_add_no_noise():
    """The interval of one cell of two is that of this cell alone, and the other has no shares."""
    cells = {"ann": 0, "bob": 0, "cy": 1}
    some = estimate(opened_file(cells, {"ann": "a", "bob": "b"}, CLASSES, 0.5), by_cell=True)
    assert some.cells[1].shares == ()
    assert some.cells[0].shares == some.answers["label"]
    with pytest.raises(DataError, match="at least one report that both servers counted"):
        estimate(opened_file(cells, {}, CLASSES))
    with pytest.raises(InputError, match="epsilon"):
        estimate(opened_file(cells, {"ann": "a"}, CLASSES, 1e-4))


@pytest.fixture
def said(tmp_path, capsys):
    """Run `collect estimate` on the opened file; exit code and both outputs."""
    opened_file(CELLS, LABELS, CLASSES, left_out=LOST).write(tmp_path / "opened.sfumato")

    def run(*options, name="opened.sfumato"):
        code = invoke(["collect", "estimate", str(tmp_path / name), *map(str, options)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def test_the_command_line_shows_shares_and_what_they_say_nothing_of(said, tmp_path):
    code, out, _ = said()
    assert code == 0
    for words in (
        "96 reports to two-1",
        "95 % interval",
        "Of 120 users who were asked, 20 did not answer; 1 reported to the first server alone; 3 sent what is not one class.",
        "epsilon 1 against everybody, and against either server alone",
        "is their word",
    ):
        assert words in out
    assert "cell  " not in out
    code, out, _ = said("--cells")
    assert code == 0
    assert "9 of 12" in out
    code, out, _ = said("--cells", "--json", "--plot", tmp_path / "e.svg", "--out", tmp_path / "said.json")
    values = json.loads(out)
    assert values == json.loads((tmp_path / "said.json").read_text())
    assert (len(values["cells"]), len(values["servers"]), values["left_out"]) == (10, 2, LOST)
    assert (tmp_path / "e.svg").read_text().startswith("<svg")
    assert "cells" not in json.loads(said("--json")[1])


def test_options_of_others_are_refused(said, tmp_path):
    for option, value in (("--delta", 1e-6), ("--dishonest", 3)):
        code, _, err = said(option, value)
        assert code == 2
        assert f"Expected no {option} here, which belongs to an anonymous survey" in err
    collection(label=label()).write(tmp_path / "closed")
    code, _, err = said("--cells", name="closed")
    assert code == 2
    assert "which belongs to what two servers opened" in err
    (tmp_path / "agreed").write_text(opened_file(CELLS, LABELS, CLASSES).agreed.text)
    assert said(name="agreed")[0] == 2
