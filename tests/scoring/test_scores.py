"""Scores, their interval over seeds, and the share of the graph's gain that is kept."""

import numpy as np
import pytest

from sfumato.errors import DataError
from sfumato.graph._graph import Graph
from sfumato.scoring._scores import SCORES, Summary, check_scorable, graph_gain_recovered, score, without_information


def path_of_four(y, roles):
    return Graph.from_edges([0, 1, 2], [1, 2, 3], 4, directed=False, y=y, classes=("a", "b"), roles=roles)


class Says:
    """Predicts what it was told."""

    def __init__(self, *classes):
        self.classes = classes

    def predict(self, graph):
        return np.array(self.classes)

    def predict_proba(self, graph):
        return 0.8 * np.eye(2)[list(self.classes)] + 0.1


def test_the_interval_is_students_with_one_degree_of_freedom_less():
    summary = Summary.of([0.70, 0.72, 0.74])
    half = 4.302652729911275 * 0.02 / np.sqrt(3)  # t(0.975, 2) of any table of Student's t
    assert (summary.mean, summary.low, summary.high) == pytest.approx((0.72, 0.72 - half, 0.72 + half))
    assert summary.to_dict() == {"mean": summary.mean, "low": summary.low, "high": summary.high, "seeds": 3}
    assert str(Summary(0.5, 0.4, 0.6, 3)) == "50.0 % [40.0, 60.0]"


def test_one_seed_has_no_interval():
    assert Summary.of([0.7]).to_dict() == {"mean": 0.7, "low": None, "high": None, "seeds": 1}
    assert str(Summary.of([0.7])) == "70.0 %"


@pytest.mark.parametrize("values", [[0.98, 1.0], [0.01, 0.0]])
def test_the_interval_of_a_share_stays_between_0_and_1(values):
    summary = Summary.of(values)
    assert 0 <= summary.low < summary.mean < summary.high <= 1
    assert (summary.low == 0) != (summary.high == 1), "one end is cut, the other one is Student's"


def test_scores_read_labeled_test_nodes_alone():
    graph = path_of_four([0, 1, 0, 1], [0, 2, 2, 2])
    found = score(Says(1, 1, 0, 0), graph)
    assert tuple(found) == SCORES["class"]
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["macro_f1"] == pytest.approx(2 / 3)
    assert found["balanced_accuracy"] == pytest.approx(0.75)
    assert found["log_loss"] == pytest.approx(-(2 * np.log(0.9) + np.log(0.1)) / 3)
    assert score(Says(1, 1, 0, 0), path_of_four([0, 1, -1, -1], [0, 2, 2, 2]))["accuracy"] == 1
    assert score(Says(0, 1, 0, 0), path_of_four([0, 1, 0, 1], [0, 0, 1, 2]))["accuracy"] == 0


def test_the_majority_is_that_of_training():
    def majority(y, roles):
        return without_information(path_of_four(y, roles))["accuracy"]

    assert majority([0, 0, 1, 1], [0, 0, 2, 2]) == 0
    assert majority([0, 0, 1, 0], [0, 0, 2, 2]) == 0.5
    assert majority([1, 0, 1, -1], [0, 1, 2, 2]) == 1


@pytest.mark.parametrize(
    ("reached", "floor", "ceiling", "share"),
    [(0.65, 0.5, 0.8, 0.5), (0.4, 0.5, 0.8, -1 / 3), (0.9, 0.5, 0.8, 4 / 3), (0.8, 0.5, 0.8, 1.0)],
)
def test_the_share_of_the_gain(reached, floor, ceiling, share):
    assert graph_gain_recovered(reached, floor, ceiling) == pytest.approx(share)


@pytest.mark.parametrize(("floor", "ceiling"), [(None, 0.8), (0.5, None), (0.8, 0.8), (0.8, 0.5)])
def test_no_gain_no_share(floor, ceiling):
    assert graph_gain_recovered(0.7, floor, ceiling) is None


def test_a_split_without_labeled_test_node_is_refused():
    check_scorable(path_of_four([0, 1, 0, 1], [0, 0, 1, 2]))
    with pytest.raises(DataError, match="labeled test node"):
        check_scorable(path_of_four([0, 1, 0, -1], [0, 0, 1, 2]))
    with pytest.raises(DataError, match="labeled test node"):
        check_scorable(path_of_four([0, 1, 0, 1], [0, 0, 1, 3]))
