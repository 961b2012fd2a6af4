"""What C would read or write out of bounds is refused before it is called."""

import pytest
import torch

from sfumato.loops import _c_chain as chain


def test_places_beyond_the_sums_are_refused():
    weight, sums = torch.zeros(3, 2, dtype=torch.float64), torch.zeros(6, dtype=torch.int64)
    assert chain._layer((weight, None, 0, 0), 2, 3, sums)[1] == 0
    with pytest.raises(ValueError, match="places among 6 sums"):
        chain._layer((weight, None, 1, 0), 2, 3, sums)


def test_another_type_or_size_is_refused():
    for given in (torch.zeros(4), torch.zeros(3, dtype=torch.float64), torch.zeros(2, 2, dtype=torch.float64).T[:1]):
        with pytest.raises(TypeError, match="in C order"):
            chain._address(given, torch.float64, 4)
