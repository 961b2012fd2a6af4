"""Votes are counts, and files that hold something else are refused in one line."""

import numpy as np
import pytest

from sfumato.errors import DataError, InputError
from sfumato.pate._votes import check_votes, count_votes, read_votes

VOTES = np.array([[9, 1], [2, 8], [5, 5]])


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float64", "float32"])
def test_counts_come_back_whole(tmp_path, dtype):
    np.save(tmp_path / "votes.npy", VOTES.astype(dtype))
    votes = read_votes(tmp_path / "votes.npy", 2)
    assert votes.dtype == np.int64
    assert votes.tolist() == VOTES[:2].tolist()


@pytest.mark.parametrize(
    ("rows", "fragment"),
    [
        ([[0.9, 0.1]], "votes[0, 0]"),
        ([[9, -1]], "votes[0, 1]"),
        ([[np.nan, 1]], "votes[0, 0]"),
        ([[1e300, 1]], "votes[0, 0]"),
        ([[9, 1], [9, 2]], "sum of votes[1]"),
        ([[0, 0]], "sum of votes[0]"),
        ([[9], [9]], "two classes or more"),
        ([9, 1], "shape"),
        (np.empty((0, 3)), "shape"),
        ([["a", "b"]], "numbers"),
        ([[True, False]], "numbers"),
    ],
)
def test_what_is_no_count_is_named(rows, fragment):
    with pytest.raises(InputError) as error:
        check_votes(np.array(rows))
    assert fragment in str(error.value)


def test_files_that_hold_no_votes(tmp_path):
    whole = tmp_path / "votes.npy"
    np.save(whole, VOTES)
    cut, text, pickled, archive = (tmp_path / name for name in ("cut.npy", "text.npy", "pickled.npy", "archive.npy"))
    cut.write_bytes(whole.read_bytes()[:-8])
    text.write_text("query,class\n")
    np.save(pickled, np.array([{"a": 1}]), allow_pickle=True)
    with archive.open("wb") as file:
        np.savez(file, VOTES)
    (tmp_path / "scalar.npy").write_bytes(b"")
    np.save(tmp_path / "scalar.npy", np.float64(3))
    for path in (cut, text, pickled, archive, tmp_path / "absent.npy", tmp_path, tmp_path / "scalar.npy"):
        with pytest.raises(DataError) as error:
            read_votes(path)
        assert path.name in str(error.value)
        assert "\n" not in str(error.value)


def test_more_queries_than_rows(tmp_path):
    np.save(tmp_path / "votes.npy", VOTES)
    with pytest.raises(InputError, match=r"queries to be an integer >= 1 and <= 3, got 4\. .*has 3 rows"):
        read_votes(tmp_path / "votes.npy", 4)


def test_predictions_are_counted_by_query():
    predictions = np.random.default_rng(0).integers(0, 4, (7, 30))
    counts = count_votes(predictions, 4)
    assert (counts == [np.bincount(column, minlength=4) for column in predictions.T]).all()
    with pytest.raises(InputError, match="0 to 2"):
        count_votes(predictions, 3)
    with pytest.raises(InputError, match="integers"):
        count_votes(predictions.astype(float), 4)
