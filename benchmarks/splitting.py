"""What the weight of DP-SGD in the noise split does to accuracy: GAP at node level on schools outside the reported tables.

python benchmarks/splitting.py [--school BU10] [--seeds 3] [--epsilon 8] [--weights 0 0.1 0.05] [--noise]

Weight 0 stands for the tied choice: one noise multiplier for all parts. Validation accuracy, fresh split each seed. With
``--noise`` no data is read: the noise multipliers of two hops and two DP-SGD runs of 10 epochs, batch 256 of 19,800 rows.
"""

from __future__ import annotations

import study
from scipy.optimize import brentq

import sfumato as sf
from sfumato._threads import set_threads
from sfumato.central import _gap as gap
from sfumato.privacy import _splitting as splitting
from sfumato.privacy import accounting
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent

DELTA = 1e-5


def main() -> None:
    """Print one line a weight."""
    given = study.options(
        __doc__, school="BU10", seeds=3, epsilon=8.0, weights=(0.0, 0.3, 0.1, 0.05, 0.003), noise=False
    )
    if given.noise:
        print_noise(given.epsilon, given.weights)
        return
    set_threads(1)
    unit, budget = sf.NodeLevel(max_out_degree=100), sf.Budget(given.epsilon, DELTA)
    for weight in given.weights:
        gap.SGD_WEIGHT = weight or 1.0
        gap.balance = splitting.balance if weight else lambda parts, noise: (noise,) * len(parts)
        scores = []
        for seed in range(given.seeds):
            graph = study.graph_of(f"facebook100/{given.school}", given.data_dir, seed)
            fit = study.fitted(sf.GAP(), budget, unit, graph, seed)
            scores.append(float((fit.predict(graph) == graph.y)[graph.val_mask].mean()))
        noises = " / ".join(f"{release.event.noise_multiplier:.3f}" for release in fit.plan.releases)
        print(f"weight {weight or 'tied'}: noise {noises}; validation accuracy {study.told(scores)}", flush=True)


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
