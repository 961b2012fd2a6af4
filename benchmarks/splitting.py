"""What the weight of DP-SGD in the noise split does to accuracy: GAP at node level on schools outside the reported tables.

python benchmarks/splitting.py [--school BU10] [--seeds 3] [--epsilon 8] [--weights 0 0.1 0.05]

Weight 0 stands for the tied choice: one noise multiplier for all parts. Validation accuracy, fresh split each seed.
"""

from __future__ import annotations

import argparse
import os
import statistics

import sfumato as sf
from sfumato.central import gap
from sfumato.cli.options import set_threads
from sfumato.privacy import splitting


def main() -> None:
    """Print one line a weight."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--school", default="BU10")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--weights", type=float, nargs="+", default=[0, 0.3, 0.1, 0.05, 0.003])
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    set_threads(1)
    graph = sf.graph.load_dataset(f"facebook100/{options.school}", data_dir=options.data_dir)
    unit = sf.NodeLevel(max_out_degree=100)
    for weight in options.weights:
        gap.SGD_WEIGHT = weight or 1.0
        gap.balance = splitting.balance if weight else lambda parts, noise: (noise,) * len(parts)
        scores = []
        for seed in range(options.seeds):
            split = graph.with_split(seed=seed)
            plan = sf.GAP().calibrate(sf.Budget(options.epsilon, 1e-5), unit, split.public_facts(unit))
            held_out = split.val_mask
            scores.append(100 * float((plan.fit(split, seed=seed).predict(split) == split.y)[held_out].mean()))
        noises = " / ".join(f"{release.event.noise_multiplier:.3f}" for release in plan.releases)
        shown = f"{statistics.mean(scores):.1f} (sd {statistics.pstdev(scores):.1f})"
        print(f"weight {weight or 'tied'}: noise {noises}; validation accuracy {shown}", flush=True)


if __name__ == "__main__":
    main()
