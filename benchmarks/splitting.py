"""What the weight of DP-SGD in the noise split does to accuracy: GAP at node level on schools outside the reported tables.

python benchmarks/splitting.py [--school BU10] [--seeds 3] [--epsilon 8] [--weights 0 0.1 0.05] [--noise]

Weight 0 stands for the tied choice: one noise multiplier for all parts. Validation accuracy, fresh split each seed. With
``--noise`` no data is read: the noise multipliers of two hops and two DP-SGD runs of 10 epochs, batch 256 of 19,800 rows.
"""

from __future__ import annotations

import argparse
import os
import statistics

from scipy.optimize import brentq

import sfumato as sf
from sfumato._threads import set_threads
from sfumato.central import _gap as gap
from sfumato.privacy import accounting, splitting
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent

DELTA = 1e-5


def main() -> None:
    """Print one line a weight."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--school", default="BU10")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--weights", type=float, nargs="+", default=[0, 0.3, 0.1, 0.05, 0.003])
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    parser.add_argument("--noise", action="store_true", help="noise multipliers alone")
    options = parser.parse_args()
    if options.noise:
        print_noise(options.epsilon, options.weights)
        return
    set_threads(1)
    graph = sf.graph.load_dataset(f"facebook100/{options.school}", data_dir=options.data_dir)
    unit = sf.NodeLevel(max_out_degree=100)
    for weight in options.weights:
        gap.SGD_WEIGHT = weight or 1.0
        gap.balance = splitting.balance if weight else lambda parts, noise: (noise,) * len(parts)
        scores = []
        for seed in range(options.seeds):
            split = graph.with_split(seed=seed)
            plan = sf.GAP().calibrate(sf.Budget(options.epsilon, DELTA), unit, split.public_facts(unit))
            held_out = split.val_mask
            scores.append(100 * float((plan.fit(split, seed=seed).predict(split) == split.y)[held_out].mean()))
        noises = " / ".join(f"{release.event.noise_multiplier:.3f}" for release in plan.releases)
        shown = f"{statistics.mean(scores):.1f} (sd {statistics.pstdev(scores):.1f})"
        print(f"weight {weight or 'tied'}: noise {noises}; validation accuracy {shown}", flush=True)


def print_noise(epsilon: float, weights: list[float]) -> None:
    """Print noise multipliers of the hops and of a DP-SGD run by the weight of the latter, tied ones, and without DP-SGD."""

    def plan(hops: float, sgd: float) -> list[GaussianEvent | PoissonGaussianEvent]:
        run = PoissonGaussianEvent(256 / 19_800, sgd, 773)
        return [GaussianEvent(hops, 2), run, run]

    tied = brentq(lambda z: accounting.epsilon(plan(z, z), DELTA, method="rdp") - epsilon, 0.1, 50, xtol=1e-6)
    print(f"tied, RDP: {tied:.3f} / {tied:.3f}")
    for weight in weights:
        if weight:
            parts = [splitting.Part(event, *[weight] * (i > 0)) for i, event in enumerate(plan(1.0, 1.0))]
            hops, sgd = (event.noise_multiplier for event in splitting.split_noise(parts, epsilon, DELTA)[:2])
        else:
            hops = sgd = calibrate(lambda z: plan(z, z), epsilon, DELTA)
        print(f"weight {weight or 'tied'}: {hops:.3f} / {sgd:.3f}, hops {100 * (hops / tied - 1):+.2f} %")
    alone = calibrate(lambda z: [GaussianEvent(z, 2)], epsilon, DELTA)
    print(f"hops alone: {alone:.3f}, {100 * (alone / tied - 1):+.2f} %")


if __name__ == "__main__":
    main()
