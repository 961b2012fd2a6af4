"""Figure 3.3 of the thesis: what two discriminators of PATE+ disagree about, and whether cleansing follows from it.

    python benchmarks/pate_figure_3_3.py --log FILE [--seeds 3] [--regimes edges networks printed printed-slow]

250 kernel teachers of the Fashion-MNIST training images answer 2,200 of test rows 0 to 8999 under GNMax noise of 94 votes, which
makes about 726 answers wrong, as many as published. PATE+ learns from the answers and is watched; which of them are wrong is read
by the evaluation alone. Then labels are taken away, in several ways, and PATE+ is trained again.
"""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import study
import torch
from numpy.typing import NDArray

from sfumato.nn._metrics import accuracy
from sfumato.pate._aggregation import GNMax
from sfumato.pate._images import Images, load_images
from sfumato.pate._kernel import KernelEnsemble
from sfumato.pate._plan import POOL, choose_queries
from sfumato.students._cleansing import Disputes, most_disputed
from sfumato.students._coteaching import CoTeaching, PATEPlus, disagreeing, keep_rate, small_loss
from sfumato.students._gan import Batch, GANStudent, seen, train

TEACHERS, LABELS, NOISE = 250, 2200, 94.0
BETA, TAU, ALPHA = 0.2, 0.318, 0.9
EDGES: dict[str, Any] = {"network": "edges", "widths": (300, 150), "epochs": 60}
NETWORKS: dict[str, Any] = {"network": "deep", "widths": (8, 16, 64, 64), "epochs": 200}
PRINTED_SIZE: dict[str, Any] = {**NETWORKS, "widths": (96, 192, 192, 192), "epochs": 50}
PRINTED_SIZE["device"] = "cuda" if torch.cuda.is_available() else "cpu"
REGIMES = {"edges": (EDGES, 6800), "networks": (NETWORKS, 2200), "printed": (PRINTED_SIZE, 6800)}
REGIMES["printed-slow"] = {**PRINTED_SIZE, "learning_rate": 1e-3}, 6800
"""Settings of the student, and how many unlabeled images it gets. Of "networks", images are halved to 14 x 14."""
WATCHED = "PATE+"
CLEANSED = ("PATE++", "PATE++, of all labels alike", "a random share removed", "wrong labels removed")
VARIANTS = dict.fromkeys(REGIMES, ("PATE", "PATE with co-teaching", WATCHED, *CLEANSED))
VARIANTS["edges"] = (WATCHED, *CLEANSED)
PARTS = 5  # of the training
PRINTED = {"PATE": "74.8", "PATE+": "76.5", "PATE with co-teaching": "77.3", "PATE++": "79.6"}  # table 3.1 at 4.05
KINDS = {"apart": "disagreement", "disputed": "disputed", "learned": "learned by PATE+", "easy": "small loss, of all"}
"""Sets of labels whose noise rate is told: the two predict different classes; neither of these is the label; those with a small
loss among the first; those with a small loss among all labels, which co-teaching would learn."""


def main() -> None:
    """Train what the log lacks, and print the tables of each regime."""
    given = study.options(__doc__, log="pate_figure_3_3.jsonl", seeds=3, regimes=REGIMES)
    torch.set_num_threads(1)
    watched: dict[tuple[str, int], dict[str, Any]] = {}
    asked = [(one, variant, seed) for seed in range(given.seeds) for one in given.regimes for variant in VARIANTS[one]]
    asked.sort(key=lambda cell: (cell[2], cell[0], cell[1] != WATCHED))  # the others need what PATE+ saw

    images = load_images("fashion_mnist", given.data_dir)

    def measured(regime: str, variant: str, seed: int) -> dict[str, Any]:
        if variant != WATCHED and (regime, seed) not in watched:
            logged = map(json.loads, given.log.read_text().splitlines())
            watched[regime, seed] = next(found for *cell, found in logged if cell == [regime, WATCHED, seed])
        rows, labels = answered(images, seed)
        torch.set_num_threads(1)  # Numba, which draws the noise, sets its own
        return fitted(images, rows, labels, regime, variant, seed, watched.get((regime, seed)))

    found = study.grouped(study.kept(given, asked, measured), 2)
    for regime in given.regimes:
        noise_table(regime, found.get((regime, WATCHED), []))
        rows = []
        for variant in VARIANTS[regime]:
            runs = found.get((regime, variant), [])
            scores = study.told([one["accuracy"] for one in runs])
            taken = [one for one in runs if one.get("removed")]
            removed = f"{np.mean([one['removed'] for one in taken]):.0f}" if taken else "-"
            wrong = study.told([one["removed_wrong"] / one["removed"] for one in taken])
            rows.append((variant, scores, len(runs), removed, wrong, PRINTED.get(variant, "-")))
        study.table(("Student", "Accuracy", "Seeds", "Labels removed", "Wrong among them, %", "Published"), rows)


def noise_table(regime: str, runs: list[dict[str, Any]]) -> None:
    """Share of wrong labels in percent by part of the training, over seeds."""

    def rate(trace: dict[str, Any], kind: str, part: slice) -> float:
        return sum(trace[f"{kind}_wrong"][part]) / max(sum(trace[kind][part]), 1)

    traces = [one["trace"] for one in runs]
    ends = np.linspace(0, len(traces[0]["apart"]) if traces else 0, PARTS + 1).astype(int)
    rows = []
    for low, high in pairwise(ends):
        count = np.mean([np.mean(one["apart"][low:high]) for one in traces]) if traces else 0
        told = (study.told([rate(one, kind, slice(low, high)) for one in traces]) for kind in KINDS)
        rows.append((f"epochs {low + 1} to {high}", f"{count:.0f}", *told))
    every = study.told([one["wrong"] / one["labels"] for one in runs])
    study.table(("Part", "Disagreements", *KINDS.values()), rows, f"### {regime}: of all labels {every} % are wrong")


def fitted(
    images: Images,
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    regime: str,
    variant: str,
    seed: int,
    watched: dict[str, Any] | None,
) -> dict[str, Any]:
    """Train one student from these labels of rows of the pool, and measure it on test rows 9000 to 9999."""
    chosen, others = REGIMES[regime]
    wrong = labels != images.test_y[rows]
    unlabeled = choose_queries(LABELS + others, seed)[LABELS:]
    x, pool, test = (shown(images.test_x[at], regime) for at in (rows, unlabeled, slice(POOL, None)))
    x, pool = (seen(part, chosen["network"]) for part in (x, pool))
    shared = {**chosen, "seed": seed}
    plus = PATEPlus(images.num_classes, noise_rate=BETA, **shared)
    facts: dict[str, Any] = {"labels": len(labels), "wrong": int(wrong.sum())}
    if variant == "PATE":
        student = train(GANStudent(images.num_classes, **shared), x, labels, pool)
    elif variant == "PATE with co-teaching":
        student = train(CoTeaching(images.num_classes, noise_rate=BETA, **shared), x, labels, pool)
    elif variant == WATCHED:
        trace = Trace(plus, wrong)
        student = train(plus, x, labels, pool, watch=trace)
        facts |= {"trace": trace.close(), "disputes": trace.disputes.close().tolist()}
    else:
        assert watched is not None, f"{variant} needs the line of {WATCHED}"
        moved = removed(variant, np.array(watched["disputes"]), labels, wrong, seed)
        kept = np.setdiff1d(np.arange(len(x)), moved)
        student = train(plus, x[kept], labels[kept], np.concatenate([pool, x[moved]]))
        facts |= {"removed": len(moved), "removed_wrong": int(wrong[moved].sum())}
    score = accuracy(images.test_y[POOL:], student.predict(test))
    return {**facts, "accuracy": score}


def removed(
    variant: str, table: NDArray[np.float64], labels: NDArray[np.int64], wrong: NDArray[np.bool_], seed: int
) -> NDArray[np.int64]:
    """Positions of the labels that are taken away. Only the control "wrong labels removed" reads which are wrong."""
    if variant == "PATE++":
        return most_disputed(table, TAU, labels)
    alike = np.zeros_like(labels)
    if variant == "PATE++, of all labels alike":
        return most_disputed(table, TAU, alike)
    if variant == "wrong labels removed":
        return np.flatnonzero(wrong)
    return most_disputed(np.random.default_rng([seed, 33]).random(len(labels)), TAU, alike)


class Trace:
    """Keeps, for each epoch of PATE+, what the discriminators predicted of labeled rows when they last saw them.

    It sees what training sees. ``wrong`` is read here and nowhere else: no number of it returns to the training.
    """

    def __init__(self, settings: PATEPlus, wrong: NDArray[np.bool_]) -> None:
        self.settings, self.wrong, self.disputes = settings, wrong, Disputes(len(wrong), ALPHA)
        self.found = np.zeros((2, len(wrong)), np.int64)
        self.labels = np.zeros(len(wrong), np.int64)
        self.epoch = 1
        self.epochs: list[dict[str, float]] = []
        self.chosen = np.zeros((2, 2))

    def __call__(self, scores: list[torch.Tensor], batch: Batch) -> None:
        """Note the predictions of one step, and the labels that a small loss chooses."""
        self.disputes(scores, batch)
        if batch.epoch > self.epoch:
            self._note()
            self.epoch = batch.epoch
        scores, batch = [own.cpu() for own in scores], replace(batch, rows=batch.rows.cpu(), labels=batch.labels.cpu())
        rows = batch.rows.numpy()
        self.labels[rows] = batch.labels.numpy()
        self.found[:, rows] = [own.argmax(1).numpy() for own in scores]
        rate = keep_rate(batch.epoch, self.settings.noise_rate, self.settings.ramp)
        for kind, among in enumerate((disagreeing(*scores), torch.arange(len(rows)))):
            for own in scores:
                chosen = among[small_loss(own[among], batch.labels[among], rate)].numpy()
                self.chosen[kind] += len(chosen), self.wrong[rows[chosen]].sum()

    def close(self) -> dict[str, list[float]]:
        """All epochs, by what was counted."""
        self._note()
        return {name: [epoch[name] for epoch in self.epochs] for name in self.epochs[0]}

    def _note(self) -> None:
        first, second = self.found
        apart = first != second
        disputed = apart & (first != self.labels) & (second != self.labels)
        learned, easy = self.chosen
        self.epochs.append(
            {
                "apart": int(apart.sum()),
                "apart_wrong": int(self.wrong[apart].sum()),
                "disputed": int(disputed.sum()),
                "disputed_wrong": int(self.wrong[disputed].sum()),
                "learned": int(learned[0]),
                "learned_wrong": int(learned[1]),
                "easy": int(easy[0]),
                "easy_wrong": int(easy[1]),
            }
        )
        self.chosen = np.zeros((2, 2))


def answered(images: Images, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the pool and the teachers' answers to them."""
    rows, teachers = choose_queries(LABELS, seed), KernelEnsemble(TEACHERS, images.num_classes, seed=seed)
    votes = teachers.fit(images.train_x, images.train_y, range(len(images.train_y))).votes(images.test_x[rows])
    return rows, GNMax(NOISE).aggregate(votes, bytes([seed]) * 32).labels


def shown(x: NDArray[np.float32], regime: str) -> NDArray[np.float32]:
    """The images of a regime: whole, or of half the side."""
    return x if regime != "networks" else x.reshape(len(x), 1, 14, 2, 14, 2).mean((3, 5))


if __name__ == "__main__":
    main()
