"""Figure 3.3 of the thesis: what two discriminators of PATE+ disagree about, and whether cleansing follows from it.

    python benchmarks/pate_figure_3_3.py --log FILE [--seeds 3] [--regimes edges networks] [--out docs/results]

250 kernel teachers of the Fashion-MNIST training images answer 2,200 of test rows 0 to 8999 under GNMax noise of 94 votes, which
makes about 726 answers wrong, as many as published. PATE+ learns from the answers and is watched; which of them are wrong is read
by the evaluation alone. Then labels are taken away, in several ways, and PATE+ is trained again. Every training is a line of the
log: a run that stopped goes on where it stopped, and with --seeds 0 the page alone is written.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pate_figure_3_3_page import write

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
REGIMES = {"edges": (EDGES, 6800), "networks": (NETWORKS, 2200)}
"""Settings of the student, and how many unlabeled images it gets. Of "networks", images are halved to 14 x 14."""
WATCHED = "PATE+"
CLEANSED = ("PATE++", "PATE++, of all labels alike", "a random share removed", "wrong labels removed")
VARIANTS = {"edges": (WATCHED, *CLEANSED), "networks": ("PATE", "PATE with co-teaching", WATCHED, *CLEANSED)}


def main() -> None:
    """Train what the log lacks, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--regimes", nargs="+", default=list(REGIMES), choices=list(REGIMES))
    parser.add_argument("--variants", nargs="+", default=VARIANTS["networks"], choices=VARIANTS["networks"])
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    lines = [json.loads(line) for line in given.log.read_text().splitlines()] if given.log.exists() else []
    known = {(line["regime"], line["variant"], line["seed"]): line for line in lines}
    for seed in range(given.seeds):
        for regime in given.regimes:
            for variant in VARIANTS[regime]:
                if (regime, variant, seed) in known or variant not in given.variants:
                    continue
                rows, labels = answered(given.data_dir, seed, given.log.with_name(f"{given.log.stem}-{seed}.npy"))
                torch.set_num_threads(given.threads)  # Numba, which draws the noise, sets its own
                watched = known.get((regime, WATCHED, seed))
                found = fitted(load(given.data_dir), rows, labels, regime, variant, seed, watched)
                line = known[regime, variant, seed] = {"regime": regime, "variant": variant, "seed": seed, **found}
                with given.log.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(regime, variant, seed, f"{100 * found['accuracy']:.1f} %, {found['seconds']:.0f} s", flush=True)
    write(list(known.values()), given.out)


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
    start, (chosen, others) = time.perf_counter(), REGIMES[regime]
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
    day = datetime.now(UTC).date().isoformat()
    return {**facts, "accuracy": score, "seconds": time.perf_counter() - start, "date": day}


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
                "first_fits": float((first == self.labels).mean()),
                "second_fits": float((second == self.labels).mean()),
                "wrong_fitted": float((self.found == self.labels)[:, self.wrong].mean()),
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


def shown(x: NDArray[np.float32], regime: str) -> NDArray[np.float32]:
    """The images of a regime: whole, or of half the side."""
    return x if regime == "edges" else x.reshape(len(x), 1, 14, 2, 14, 2).mean((3, 5))


@lru_cache(maxsize=1)
def load(data_dir: str) -> Images:
    """Fashion-MNIST, read once."""
    return load_images("fashion_mnist", data_dir)


def answered(data_dir: str, seed: int, path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the pool and the teachers' answers to them, which are kept in a file."""
    rows = choose_queries(LABELS, seed)
    if not path.exists():
        images = load(data_dir)
        teachers = KernelEnsemble(TEACHERS, images.num_classes, seed=seed)
        votes = teachers.fit(images.train_x, images.train_y, range(len(images.train_y))).votes(images.test_x[rows])
        np.save(path, GNMax(NOISE).aggregate(votes, bytes([seed]) * 32).labels)
    return rows, np.load(path)


if __name__ == "__main__":
    main()
