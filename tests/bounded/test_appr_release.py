"""Released PageRank rows: shapes, the largest entries, keys, more words, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.bounded import _appr_kernel as appr_kernel
from sfumato.bounded import _appr_release as appr_release
from sfumato.bounded._appr_release import exponential_rows, gaussian_rows, largest_entries
from sfumato.errors import InputError

KEY, OTHER = bytes(32), bytes([1]) * 32


@pytest.fixture
def matrix():
    rng = np.random.default_rng(0)
    return sp.csr_array(rng.random((30, 50)) * (rng.random((30, 50)) < 0.2) * 0.1)


def exponential(matrix, top_k=4, key=KEY, scale=0.01, **options):
    return exponential_rows(matrix, 0.001, scale, top_k, key, **options)


def test_the_largest_noisy_entries_are_kept_with_their_values(matrix):
    whole = gaussian_rows(matrix, 0.1, 0.02, 50, KEY).toarray()
    kept = gaussian_rows(matrix, 0.1, 0.02, 4, KEY)
    assert kept.shape == (30, 50)
    assert np.diff(kept.indptr).tolist() == [4] * 30
    for row, noisy in enumerate(whole):
        columns = np.sort(np.argsort(noisy)[-4:])
        assert kept.indices[4 * row : 4 * row + 4].tolist() == columns.tolist()
        assert kept.data[4 * row : 4 * row + 4].tolist() == noisy[columns].tolist()


def test_blocks_change_nothing(matrix, monkeypatch):
    before = gaussian_rows(matrix, 0.1, 0.02, 4, KEY)
    monkeypatch.setattr(appr_release, "_BLOCK", 150)
    after = gaussian_rows(matrix, 0.1, 0.02, 4, KEY)
    assert (before != after).nnz == 0


@pytest.mark.parametrize("release", [exponential, lambda matrix, key=KEY: gaussian_rows(matrix, 0.1, 0.02, 4, key)])
def test_the_same_operand_and_key_give_the_same_release_and_others_another(matrix, release):
    first = release(matrix)
    moved = matrix.copy()
    moved.data[0] *= 2
    assert (release(matrix) != first).nnz == 0
    for other in (release(matrix, key=OTHER), release(moved)):
        assert np.mean(other.indices != first.indices) > 0.5


@pytest.mark.parametrize("options", [{"scale": 0.0101}, {"top_k": 5}])
def test_another_selection_draws_new_coins(matrix, options):
    """Coins used at two scales would tell more than two releases do."""
    first, other = (
        exponential(matrix, scale=1e6).toarray(),
        exponential(matrix, **{"scale": 1.1e6, **options}).toarray(),
    )
    assert np.mean(((first > 0) & (other > 0)).sum(1)) < 2  # 4 of 50 twice


def test_equal_weights_or_values(matrix):
    picks, values = exponential(matrix), exponential(matrix, laplace_scale=0.001)
    assert set(picks.data) == {0.25}
    assert picks.indices.tolist() == values.indices.tolist()
    assert len(set(values.data)) > 100


def test_without_noise_to_speak_of_the_largest_win():
    rows = sp.csr_array([[0.0, 0.5, 0.2, 0.4, 0.0, 0.3]])
    assert exponential_rows(rows, 1.0, 1e-6, 2, KEY).indices.tolist() != []
    strong = gaussian_rows(rows, 1.0, 1e-5, 3, KEY)
    assert strong.indices.tolist() == largest_entries(rows, 3).indices.tolist() == [1, 3, 5]
    assert np.allclose(strong.data, [0.5, 0.4, 0.3], atol=1e-3)
    hits = [exponential_rows(sp.csr_array(np.eye(6)[[2]]), 1.0, 1e-6, 1, bytes([i]) * 32).indices[0] for i in range(50)]
    assert hits.count(2) == 50


def test_rows_with_few_entries_keep_them_all():
    kept = largest_entries(sp.csr_array([[0.0, 0.0, 0.2], [0.1, 0.1, 0.1]]), 2)
    assert kept.toarray().tolist() == [[0, 0, 0.2], [0.1, 0.1, 0]]


def test_a_pick_whose_words_are_all_refused_reads_more_and_others_stay(matrix, monkeypatch):
    """Most words are refused at a total just above 2^63: rows are drawn again with more of their own words."""
    monkeypatch.setattr(appr_release, "_TOTAL_BITS", 64)
    rounds, real = [], appr_kernel.draw_picks

    def counted(*arguments):
        rounds.append(arguments[6].shape)
        return real(*arguments)

    monkeypatch.setattr(appr_release, "draw_picks", counted)
    wide = sp.csr_array((np.full(20_000, 1e-12), np.zeros(20_000, np.int32), np.arange(20_001)), shape=(20_000, 33))
    picks = exponential_rows(wide, 0.001, 1e9, 1, KEY).indices
    assert len(rounds) > 1
    assert rounds[0] == (20_000, 1, 4)
    assert rounds[1][2] == 8
    assert abs(np.bincount(picks, minlength=33) / (20_000 / 33) - 1).max() < 0.2


def test_all_nodes_can_be_picked_and_no_row_is_fine():
    rows = sp.csr_array([[0.1, 0.0, 0.2]])
    assert exponential_rows(rows, 0.001, 1.0, 3, KEY).indices.tolist() == [0, 1, 2]
    empty = sp.csr_array((0, 3))
    assert exponential_rows(empty, 0.001, 1.0, 3, KEY).shape == gaussian_rows(empty, 0.1, 1.0, 2, KEY).shape == (0, 3)


@pytest.mark.parametrize("release", [exponential_rows, gaussian_rows])
@pytest.mark.parametrize(
    ("rows", "clip", "scale", "top_k", "word"),
    [
        ([[-0.1, 0.2]], 0.1, 1.0, 1, "matrix"),
        ([[np.nan, 0.2]], 0.1, 1.0, 1, "matrix"),
        ([[0.1, 0.2]], 0.0, 1.0, 1, "clip"),
        ([[0.1, 0.2]], 0.1, 0.0, 1, "scale|stddev"),
        ([[0.1, 0.2]], 0.1, 1.0, 0, "top_k"),
        ([[0.1, 0.2]], 0.1, 1.0, 3, "top_k"),
    ],
)
def test_arguments_out_of_range_are_refused(release, rows, clip, scale, top_k, word):
    with pytest.raises(InputError, match=word):
        release(sp.csr_array(rows), clip, scale, top_k, KEY)
