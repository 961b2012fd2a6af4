"""What two servers opened, joined: counts that add up, rows of users, and answers of fewer than were asked."""

import pytest
from opened_made import opened_file

from sfumato.collect.two._opening import LEFT_OUT
from sfumato.errors import DataError

CELLS = {"ann": 0, "bob": 0, "cy": 1, "dee": 2}
CLASSES = ("a", "b")


def test_counts_of_a_cell_sum_to_its_reports_and_rows_carry_them():
    opened = opened_file(CELLS, {"ann": "a", "cy": "b"}, CLASSES).join()
    assert opened.counted.tolist() == [1, 1, 0]
    assert opened.counts.sum(axis=1).tolist() == [1, 1, 0]
    rows = opened.rows(["dee", "stranger", "bob"])
    assert rows[:, 0].tolist() == [2, -1, 0]
    assert rows[:, 1:].tolist() == [opened.counts[2].tolist(), [0, 0], opened.counts[0].tolist()]


@pytest.mark.parametrize("counted", [[3, 1, 0], [2, 1], [2, 1, 0, 0], [1.0, 1, 0], [True, 1, 0], [-1, 1, 0], None, {}])
def test_more_reports_than_users_and_other_numbers_are_refused(counted):
    with pytest.raises(DataError, match="at most one a user"):
        opened_file(CELLS, {"ann": "a", "cy": "b"}, CLASSES, counted=counted).join()


@pytest.mark.parametrize(
    "left_out", [0, None, {}, {"failed": 0}, dict.fromkeys(LEFT_OUT, -1), dict.fromkeys(LEFT_OUT, True)]
)
def test_other_numbers_of_reports_that_do_not_count_are_refused(left_out):
    with pytest.raises(DataError, match="do not count"):
        opened_file(CELLS, {"ann": "a", "cy": "b"}, CLASSES, left_out=left_out).join()


def test_an_opening_that_says_more_is_refused():
    with pytest.raises(DataError, match="other fields"):
        opened_file(CELLS, {"ann": "a", "cy": "b"}, CLASSES, note="ann a").join()


def test_counts_that_do_not_add_up_are_refused():
    with pytest.raises(DataError, match="add up to its reports"):
        opened_file(CELLS, {"ann": "a", "cy": "b"}, CLASSES, counted=[2, 1, 0]).join()
