"""The truth table of accounting as computed, with seconds; those of the verifier on rare sampling, and of calibration.

    python benchmarks/accounting.py

Reference values: the privacy loss distribution on a converged grid (dp-accounting 0.6), or the closed form; of the
rows with q = 4e-6 and the last one a contour integral (``tests/privacy/test_rare_sampling.py``). A value below its reference
by more than the digits printed would be unsound, one more than 0.1 % above it loose.
"""

from __future__ import annotations

import time

import study

from sfumato.privacy import accounting
from sfumato.privacy._splitting import SGD_WEIGHT, Part, split_noise
from sfumato.privacy.calibration import calibrate, gaussian_noise_multiplier
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent
from sfumato.verify._epsilon import epsilon_bracket

# sampling probability, noise multiplier, steps, delta, relation, reference
SUBSAMPLED = (
    (0.01, 4, 100, 1e-5, "add-remove", 0.079514), (0.01, 4, 1000, 1e-5, "add-remove", 0.272136),
    (0.01, 4, 2500, 1e-5, "add-remove", 0.446003), (0.01, 4, 10000, 1e-5, "add-remove", 0.946868),
    (0.01, 4, 40000, 1e-5, "add-remove", 2.033070), (0.01, 2, 700, 1e-5, "add-remove", 0.515295),
    (0.01, 8, 10000, 1e-5, "add-remove", 0.437252), (0.01, 4, 100, 1e-5, "replace", 0.160220),
    (0.01, 4, 1000, 1e-5, "replace", 0.561362), (0.01, 4, 2500, 1e-5, "replace", 0.926397),
    (0.01, 4, 10000, 1e-5, "replace", 1.993139), (0.01, 4, 40000, 1e-5, "replace", 4.377377),
    (0.01, 2, 700, 1e-5, "replace", 0.990870), (0.02, 0.5, 1000, 1e-5, "add-remove", 24.3055),
    (0.02, 1.17, 5000, 1e-5, "add-remove", 7.05307), (0.125, 0.8, 1000, 1e-6, "add-remove", 56.726),
    (0.2, 1, 500, 1e-5, "add-remove", 38.1702), (0.01, 1, 100, 1e-10, "add-remove", 2.16281),
    (0.001, 0.3, 10000, 1e-6, "add-remove", 47.2071), (0.5, 20, 100000, 1e-5, "add-remove", 64.1998),
    (1e-5, 1, 1000000, 1e-8, "add-remove", 0.0592), (0.00033, 4, 10000, 1.1e-18, "add-remove", 0.145758),
    (4e-6, 0.5, 250000, 1e-6, "add-remove", 0.216113), (4e-6, 1, 250000, 1e-6, "add-remove", 0.0079233),
    (4e-6, 1, 250000, 1e-6, "replace", 0.0136269), (1e-5, 1, 1000000, 1e-8, "replace", 0.0995810),
)  # fmt: skip
RARE = 2e-5  # below this sampling probability the verifier is timed as well
GAUSSIAN = ((1, 1, 4.886554), (1, 5, 12.595247), (2, 3, 4.151817), (5, 2, 1.211967), (5, 5, 1.994527))


def main() -> None:
    """Print the tables."""
    accounting.epsilon([PoissonGaussianEvent(0.1, 2.0, 10)], 1e-5)
    rows = []
    for q, sigma, steps, delta, relation, reference in SUBSAMPLED:
        event, start = PoissonGaussianEvent(q, float(sigma), steps, relation), time.perf_counter()
        value = accounting.epsilon([event], delta)
        told = (f"{value:.6f}", f"{100 * (value / reference - 1):.3f}", f"{time.perf_counter() - start:.2f}")
        start = time.perf_counter()
        high = epsilon_bracket([event.to_dict()], delta)[1] if q < RARE else None
        verified = ("-", "-") if high is None else (f"{high:.6f}", f"{time.perf_counter() - start:.2f}")
        rows.append((q, sigma, steps, delta, relation, reference, *told, *verified))
    for sigma, count, reference in GAUSSIAN:
        value = accounting.epsilon([GaussianEvent(float(sigma), count)], 1e-6)
        told = (f"{value:.6f}", f"{100 * (value / reference - 1):.3f}")
        rows.append(("-", sigma, count, 1e-6, "gaussian", reference, *told, *["-"] * 3))
    heads = ("q", "sigma", "T", "delta", "relation", "reference", "ours", "off %", "s", "verified", "s")
    study.table(heads, rows)
    sgd = Part(PoissonGaussianEvent(256 / 19800, 1.0, 773), SGD_WEIGHT)
    node = (Part(GaussianEvent(1.0, 2)), sgd, sgd)

    def dpsgd(q: float, steps: int, epsilon: float, delta: float, relation: str = "add-remove") -> float:
        return calibrate(lambda z: [PoissonGaussianEvent(q, z, steps, relation)], epsilon, delta)

    tasks = {
        "Gaussian, 2 hops, epsilon 1, delta 1e-7": lambda: gaussian_noise_multiplier(1.0, 1e-7, 2),
        "DP-SGD, q 0.01, 1000 steps, epsilon 2, delta 1e-5": lambda: dpsgd(0.01, 1000, 2.0, 1e-5),
        "the same under replace": lambda: dpsgd(0.01, 1000, 2.0, 1e-5, "replace"),
        "DP-SGD, q 4e-6, 250000 steps, epsilon 0.1, delta 1e-6": lambda: dpsgd(4e-6, 250_000, 0.1, 1e-6),
        "GAP node plan, split, epsilon 8": lambda: split_noise(node, 8.0, 1e-5),
        "GAP node plan, split, epsilon 1": lambda: split_noise(node, 1.0, 1e-5),
    }
    study.table(("calibration", "seconds"), ((name, f"{study.seconds(task):.2f}") for name, task in tasks.items()))


if __name__ == "__main__":
    main()
