"""A record's cell is a function of this record and public values, to the last bit."""

import numpy as np
import pytest

from sfumato.bounded._partitions import centroid_cells, direction_cells
from sfumato.errors import InputError

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(300, 6, 7)).astype(np.float32), RNG.integers(0, 3, 300)
DIRECTIONS, CENTROIDS = RNG.normal(size=(3, 6, 7)) / 6, RNG.normal(size=(3, 5, 6, 7))
RULES = {
    "directions": lambda x, y: direction_cells(x, y, DIRECTIONS, 5),
    "centroids": lambda x, y: centroid_cells(x, y, CENTROIDS),
}


def test_cells_are_those_of_the_definition():
    rows = X.reshape(300, -1) - X.reshape(300, -1).mean(1, keepdims=True)
    products = rows / np.linalg.norm(rows, axis=1, keepdims=True) @ DIRECTIONS.reshape(3, -1).T
    places = np.floor(products / 0.05).astype(int) @ [1, 7, 31] % 5
    distances = np.square(X[:, None].astype(float) - CENTROIDS[Y]).sum((2, 3))
    assert np.mean(RULES["directions"](X, Y) == 5 * Y + places) > 0.95  # but for rounding at the borders
    assert np.array_equal(RULES["centroids"](X, Y), 5 * Y + distances.argmin(1))


@pytest.mark.parametrize("rule", RULES)
def test_no_other_record_moves_a_record(rule):
    """Alone, among others, and among others that are huge or no numbers: also where two cells are equally near."""
    x = X.copy()
    x[:100] = 0
    whole = RULES[rule](x, Y)
    assert len(set(whole)) > 10
    for number in (0, 50, 150, 299):
        others = np.full_like(x, [1e30, np.nan, np.inf, 1e-30][number % 4])
        others[number] = x[number]
        alone = RULES[rule](x[number : number + 1], Y[number : number + 1])
        assert (
            alone[0]
            == whole[number]
            == RULES[rule](others, Y)[number]
            == RULES[rule](x[: number + 1], Y[: number + 1])[-1]
        )


@pytest.mark.parametrize("rule", RULES)
def test_empty_records_have_no_cell(rule):
    y = np.where(np.arange(300) % 3 == 0, -1, Y)
    cells = RULES[rule](X, y)
    assert (cells[::3] == -1).all()
    assert np.array_equal(cells[y >= 0], RULES[rule](X, Y)[y >= 0])
    assert RULES[rule](X[:0], Y[:0]).tolist() == []


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: direction_cells(X, Y[:5], DIRECTIONS, 5), "x"),
        (lambda: direction_cells(X, Y, DIRECTIONS[:, :3], 5), "directions"),
        (lambda: direction_cells(X, Y, DIRECTIONS * np.nan, 5), "directions"),
        (lambda: centroid_cells(X, Y, CENTROIDS[:, :, :3]), "centroids"),
        (lambda: centroid_cells(X, Y, CENTROIDS[:2]), "centroids"),
    ],
)
def test_errors_name_the_argument(make, named):
    with pytest.raises(InputError, match=f"Expected {named} to"):
        make()
