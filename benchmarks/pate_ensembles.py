"""Whole ensembles of both kinds: seconds, how often one teacher, the plurality and noisy aggregates are right.

python benchmarks/pate_ensembles.py [--data-dir DIR] [--datasets mnist fashion_mnist] [--kinds kernel cnn] [--teachers 250]
    [--asked pool|train] [--seed 0] [--threads 1]

`pool`: taught by all training images, asked about test rows 0 to 8999. `train`: taught by training rows 10000 and later, asked
about the others: what settings were chosen on. Reads clean votes and true labels: evaluation, outside every guarantee.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import torch

from sfumato.pate._aggregation import GNMax, LNMax
from sfumato.pate._images import IMAGE_DATASETS, load_images
from sfumato.pate._plan import POOL, TEACHERS, Settings
from sfumato.pate._run import make_ensemble
from sfumato.pate._votes import count_votes

HELD_OUT = 10_000
LAPLACE, GAUSSIAN = 20.0, 40.0


def main() -> None:
    """Print a line a data set and kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    parser.add_argument("--datasets", nargs="+", default=list(IMAGE_DATASETS), choices=IMAGE_DATASETS)
    parser.add_argument("--kinds", nargs="+", default=list(TEACHERS), choices=TEACHERS)
    parser.add_argument("--teachers", type=int, default=250)
    parser.add_argument("--asked", default="pool", choices=("pool", "train"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    for dataset in given.datasets:
        images = load_images(dataset, given.data_dir)
        for kind in given.kinds:
            torch.set_num_threads(given.threads)
            settings = Settings(given.teachers, 1, 1.0, teacher=kind, seed=given.seed)
            ensemble = make_ensemble(settings, dataset, images.num_classes)
            x, y, asked, truth = images.train_x, images.train_y, images.test_x[:POOL], images.test_y[:POOL]
            if given.asked == "train":
                x, y, asked, truth = x[HELD_OUT:], y[HELD_OUT:], x[:HELD_OUT], y[:HELD_OUT]
            start, busy = time.perf_counter(), time.process_time()
            teachers = ensemble.fit(x, y, range(len(y)))
            trained, used = time.perf_counter() - start, time.process_time() - busy
            found = teachers.predict(asked)
            asking = time.perf_counter() - start - trained
            votes = count_votes(found, images.num_classes)
            rows = (
                found,
                votes.argmax(1),
                LNMax(LAPLACE).aggregate(votes).labels,
                GNMax(GAUSSIAN).aggregate(votes).labels,
            )
            alone, plurality, laplace, gaussian = (100 * float(np.mean(one == truth)) for one in rows)
            print(
                f"{dataset:13s} {kind:6s} {given.teachers} teachers: {trained:.0f} s ({used:.0f} CPU), {len(truth)} queries "
                f"{asking:.0f} s; right: one {alone:.2f}, plurality {plurality:.2f}, LNMax {LAPLACE:g} {laplace:.2f}, "
                f"GNMax {GAUSSIAN:g} {gaussian:.2f} %",
                flush=True,
            )


if __name__ == "__main__":
    main()
