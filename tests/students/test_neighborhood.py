"""Answers are outvoted by all images alike and by neighbors; folds decide how far they reach."""

import numpy as np
import pytest
import torch

from sfumato.pate._images import load_images
from sfumato.students import _neighborhood as neighborhood
from sfumato.students._histograms import edge_histograms, upright
from sfumato.students._neighborhood import label_all, similarities


def circles(count, seed=0):
    """Unit rows around two axes, in turn."""
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(count, 3)) * 0.2
    rows[::2, 0] += 1
    rows[1::2, 1] += 1
    return torch.nn.functional.normalize(torch.from_numpy(rows).float()), torch.arange(count) % 2


def test_graph_is_symmetric_and_normalized():
    graph = similarities(torch.eye(2).repeat_interleave(6, 0), 5).toarray()
    assert np.allclose(graph, np.kron(np.eye(2), np.ones((6, 6)) - np.eye(6)) / 5)


def test_wrong_answers_are_outvoted():
    rows, truth = circles(400)
    answers = truth[:60].clone()
    answers[:18] = 1 - answers[:18]
    assert (label_all(rows, answers, 2) == truth).double().mean() > 0.95


def test_one_answer_and_a_class_without_answers():
    rows, _ = circles(8)
    assert label_all(rows, torch.tensor([2]), 4).tolist() == [2] * 8


def crowded(seed):
    """1,200 unit rows around three axes that are near each other, and 81 answers, of which one names the third class."""
    draw = np.random.default_rng(seed)
    truth = draw.permutation(np.repeat([0, 1, 2], 400))
    truth = np.concatenate([[2], draw.permutation(np.repeat([0, 1], 40)), truth])
    rows = draw.normal(size=(len(truth), 6)) * 0.25 + 0.5
    rows[np.arange(len(truth)), truth] += 1
    return torch.nn.functional.normalize(torch.from_numpy(rows).float()), torch.from_numpy(truth)


def test_a_class_with_one_answer_is_found_since_imagined_answers_are_added(monkeypatch):
    found = {}
    for prior in (neighborhood.PRIOR, 0.0):
        monkeypatch.setattr(neighborhood, "PRIOR", prior)
        shares = []
        for seed in range(5):
            rows, truth = crowded(seed)
            classes = label_all(rows, truth[:81], 3, seed=seed)
            shares.append(float((classes == 2)[truth == 2].double().mean()))
        found[prior] = shares
    assert min(found[10.0]) > 0.7, found
    assert max(found[0.0]) < min(found[10.0]), found


def test_a_class_without_answers_is_given_to_no_image():
    rows, truth = crowded(0)
    assert set(label_all(rows[1:], truth[1:81], 3).tolist()) == {0, 1}


def test_scores_of_both_matrices_are_added(monkeypatch):
    rows, truth = circles(60)
    seen = []
    monkeypatch.setattr(neighborhood, "_scaled", lambda scores, counts: seen.append(scores) or scores)
    classes = label_all(rows, truth[:12], 2)
    by_all, by_neighbors = seen
    assert by_all.min() < 0 <= by_neighbors.min(), "regression is centered, and answers that spread are never negative"
    assert np.array_equal(classes, (by_all + by_neighbors).argmax(1))
    for decides in (by_all, by_neighbors):
        turned = [-scores if scores is decides else 0 * scores for scores in seen]
        monkeypatch.setattr(neighborhood, "_scaled", lambda scores, counts, turned=turned: turned.pop(0))
        assert np.array_equal(label_all(rows, truth[:12], 2), decides.argmin(1))


def test_left_out_answers_are_not_seen_by_what_they_judge(monkeypatch):
    rows, truth = circles(40)
    starts, best = [], neighborhood._best
    monkeypatch.setattr(
        neighborhood, "_best", lambda graph, given, *rest: starts.append((given, rest)) or best(graph, given, *rest)
    )
    label_all(rows, truth[:20], 2)
    (_, (spreads, _, _)), (((answers,), (own, fold, _))) = starts
    assert spreads == neighborhood.SPREADS
    assert own == [alpha for alpha in spreads if alpha > 0]
    assert (answers[np.arange(20), fold] == 0).all(), "a way holds an answer that it is to predict"
    assert (answers[:20, -1].argmax(1) == truth[:20].numpy()).all()
    assert answers[:20].sum() == 20 * 5


def test_folds_come_from_the_seed(monkeypatch):
    rows, truth = circles(40)
    seen = []

    def watched(kernel, answers, shown, ridge):
        seen.append(tuple(shown))
        return kernel @ answers

    monkeypatch.setattr(neighborhood, "_regress", watched)
    for seed in (0, 0, 1):
        label_all(rows, truth[:20], 2, seed=seed)
    third = len(seen) // 3
    assert seen[:third] == seen[third : 2 * third] != seen[2 * third :]
    assert sorted(len(part) for part in seen[:6]) == [16] * 5 + [20]


@pytest.mark.data
def test_digits_are_clusters_so_that_far_spread_is_chosen(data_dir, monkeypatch):
    images = load_images("mnist", data_dir)
    rows = edge_histograms(upright(torch.from_numpy(images.test_x[:2000])))
    right = {}
    for name, spreads in (("chosen", neighborhood.SPREADS), ("none", (0.0,))):
        monkeypatch.setattr(neighborhood, "SPREADS", spreads)
        classes = label_all(rows, torch.from_numpy(images.test_y[:200]), 10)
        right[name] = (classes.numpy() == images.test_y[:2000]).mean()
    assert right["chosen"] > 0.95
    assert right["chosen"] > right["none"] + 0.005, right
