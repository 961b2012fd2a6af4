"""Answers are outvoted by all images alike and by neighbors; folds decide how far they reach."""

import numpy as np
import pytest
import torch

from sfumato.pate.images import load_images
from sfumato.students import neighborhood
from sfumato.students.histograms import edge_histograms, upright
from sfumato.students.neighborhood import label_all, similarities


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


def test_folds_come_from_the_seed(monkeypatch):
    rows, truth = circles(40)
    seen = []

    def watched(kernel, answers, shown, ridge):
        seen.append(tuple(shown))
        return kernel @ answers

    monkeypatch.setattr(neighborhood, "_scores", watched)
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
