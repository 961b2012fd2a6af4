"""Generated graphs with a rare outcome: its share, what edges say of it, and what stays the same."""

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.graph._rare_outcomes import PATTERNS, outcomes


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("positive", [0.03, 0.2])
def test_the_outcome_has_its_share_and_clusters_along_edges(pattern, positive):
    graph = outcomes(4000, 1, pattern=pattern, positive=positive, clustering=3.0)
    assert abs((graph.y == 1).mean() - positive) < 0.25 * positive
    owners = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    beside = graph.y[graph.indices[graph.y[owners] == 1]].mean()
    assert beside > 1.3 * graph.y[graph.indices[graph.y[owners] == 0]].mean()
    assert not graph.directed
    assert 12 < graph.num_arcs / graph.num_nodes < 13.5


def test_a_hidden_label_changes_no_other_part():
    whole, part = outcomes(500, 2), outcomes(500, 2, unlabeled=0.4)
    np.testing.assert_array_equal(whole.indices, part.indices)
    np.testing.assert_array_equal(whole.x, part.x)
    hidden = part.y < 0
    assert 0.3 < hidden.mean() < 0.5
    np.testing.assert_array_equal(whole.y[~hidden], part.y[~hidden])


def test_features_say_as_much_as_they_are_told_to():
    graph = outcomes(4000, 3, feature_signal=2.0, positive=0.2)
    means = graph.x[graph.y == 1].mean(axis=0) - graph.x[graph.y == 0].mean(axis=0)
    assert means[:2].min() > 0.5
    assert np.abs(means[2:]).max() < 0.2


@pytest.mark.parametrize(
    "wrong", [{"pattern": "rings"}, {"positive": 0.0}, {"num_features": 1}, {"num_nodes": 10}, {"unlabeled": 1.0}]
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        outcomes(**wrong)


def test_the_function_stays_a_function_once_its_module_is_imported():
    from sfumato import graph as package

    assert callable(package.outcomes)
    assert callable(package.outcomes), "an attribute of the name of a module would be the module from here on"
