"""What `make bench` times: for each budget of the design, our call and the call of a named peer on the same data.

A call returns how many units of work it did, so that a slow peer may do fewer. ``short`` sizes take seconds in all.
"""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import dp_accounting
import numpy as np
import scipy.sparse as sp
import torch
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from opacus.grad_sample import GradSampleModule
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from speed import arcs
from torch import nn

from sfumato.bounded._exact import WholeRows
from sfumato.bounded._gradients import PrivateSGD, private_steps
from sfumato.bounded._pagerank import Walk, approximate_pagerank
from sfumato.bounded.aggregation import Arcs, neighborhood_sum, noisy_neighborhood_sum, normalize_rows, to_steps
from sfumato.nn._models import MLP
from sfumato.noise.coins import SecretWords
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent
from sfumato.randomizers import MultiBit
from sfumato.verify._epsilon import epsilon_bracket

WIDTH, NOISE, RATE = 16, 10.0, 0.01
Call = Callable[[], float]


@dataclass(frozen=True)
class Row:
    """A budget: our call beside a peer's. ``calls`` makes both; its argument asks for the short form."""

    key: str
    path: str
    unit: str
    peer: str
    budget: str
    calls: Callable[[bool], tuple[Call, Call]]


def hop_beside(peer: str) -> Callable[[bool], tuple[Call, Call]]:
    """One hop of whole numbers beside the same sum in float32."""

    def calls(short: bool) -> tuple[Call, Call]:
        nodes, count = (100_000, 2_000_000) if short else (1_000_000, 20_000_000)
        offsets, sources = arcs(np.random.default_rng(0), nodes, count, "uniform")
        rows = normalize_rows(np.random.default_rng(1).normal(size=(nodes, WIDTH)))
        graph, steps = Arcs(offsets, sources), to_steps(rows)
        ones = np.ones(count, np.float32)
        if peer == "scipy":
            matrix = sp.csr_matrix((ones, sources, offsets), shape=(nodes, nodes))
            return lambda: done(neighborhood_sum(graph, steps)), lambda: done(matrix @ rows)
        parts = torch.from_numpy(offsets), torch.from_numpy(sources.astype(np.int64)), torch.from_numpy(ones)
        tensor, dense = torch.sparse_csr_tensor(*parts, (nodes, nodes)), torch.from_numpy(rows)
        return lambda: done(neighborhood_sum(graph, steps)), lambda: done(tensor @ dense)

    return calls


def two_hops(short: bool) -> tuple[Call, Call]:
    """Two noisy hops with rows of norm 1 between them."""
    nodes, count = (100_000, 2_000_000) if short else (5_000_000, 100_000_000)
    offsets, sources = arcs(np.random.default_rng(0), nodes, count, "uniform")
    rows, generator = normalize_rows(np.random.default_rng(1).normal(size=(nodes, WIDTH))), np.random.default_rng(2)
    matrix = sp.csr_matrix((np.ones(count, np.float32), sources, offsets), shape=(nodes, nodes))

    def ours() -> float:
        sent = rows
        for hop in range(2):
            sent = normalize_rows(noisy_neighborhood_sum(Arcs(offsets, sources), sent, NOISE, bytes([hop] * 32)))
        return 1

    def theirs() -> float:
        sent = rows
        for _ in range(2):
            sums = matrix @ sent
            sums += NOISE * generator.standard_normal(sums.shape, np.float32)
            sent = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        return 1

    return ours, theirs


def step_beside(peer: str) -> Callable[[bool], tuple[Call, Call]]:
    """Steps of DP-SGD beside others on the same batches: 512 rows of 500 numbers, a network 500-64-10."""

    def calls(short: bool) -> tuple[Call, Call]:
        rows, steps = 512, 5 if short else 50
        torch.manual_seed(0)
        x, y = torch.randn(rows, 500), torch.arange(rows) % 10
        wide, network = x.double(), MLP((500, 64, 10)).double()
        peers = nn.Sequential(nn.Linear(500, 64), nn.SELU(), nn.Linear(64, 10))  # Opacus knows torch's own layers
        settings = PrivateSGD(1.0, steps, l2_clip_norm=1.0, noise_multiplier=1.0, learning_rate=RATE)

        def ours() -> float:
            kept = WholeRows.of(wide, bias=True)  # once a training, as methods do
            batch = lambda drawn: (kept[torch.from_numpy(drawn)], y[drawn])  # noqa: E731
            private_steps(network, batch, np.arange(rows), settings, bytes(32))
            return steps

        opacus = peer in ("hooks", "ghost")
        read = wide if peer == "plain float64" else x
        step = opacus_step(peers, x, y, peer == "ghost") if opacus else plain_step(peers, read, y)
        return ours, lambda: float(sum(step() for _ in range(steps)))

    return calls


def plain_step(network: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Call:
    """A step without privacy."""
    descent = torch.optim.Adam(network.to(x.dtype).parameters(), RATE)

    def step() -> float:
        descent.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        descent.step()
        return 1

    return step


def opacus_step(network: nn.Module, x: torch.Tensor, y: torch.Tensor, ghost: bool) -> Call:
    """Opacus with a gradient for each example, or with norms alone and a second pass."""
    fast = {"max_grad_norm": 1.0, "use_ghost_clipping": True}
    wrapped = GradSampleModuleFastGradientClipping(network, **fast) if ghost else GradSampleModule(network)
    adam, kind = torch.optim.Adam(wrapped.parameters(), RATE), DPOptimizerFastGradientClipping if ghost else DPOptimizer
    descent, loss = (
        kind(adam, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=len(x)),
        nn.CrossEntropyLoss(),
    )
    loss = DPLossFastGradientClipping(wrapped, descent, loss) if ghost else loss

    def step() -> float:
        descent.zero_grad()
        loss(wrapped(x), y).backward()
        descent.step()
        return 1

    return step


def encoder(short: bool) -> tuple[Call, Call]:
    """Multi-bit reports of 1,433 features, of which 18 are 1."""
    users, d = (20_000 if short else 100_000), 1433
    generator = np.random.default_rng(0)
    columns = np.sort(generator.integers(d, size=(users, 18)), axis=1).ravel()
    values = sp.csr_matrix((np.ones(columns.size, np.float32), columns, np.arange(0, columns.size + 1, 18)), (users, d))
    values.sum_duplicates()
    few, randomizer, pool = values[: users // 50].toarray(), MultiBit(d, 1.0), ThreadPoolExecutor(2)
    blocks = [values[low:high] for low, high in pairwise(np.linspace(0, users, 3).astype(int))]

    def ours() -> float:
        list(pool.map(lambda block: randomizer.encode(block, SecretWords()), blocks))
        return users

    return ours, lambda: done(dense_multibit(few, generator), len(few))


def dense_multibit(values: np.ndarray, generator: np.random.Generator, epsilon: float = 1.0) -> np.ndarray:
    """The usual form of a multi-bit report, m = 1: an n x d float matrix with one informative entry a row."""
    users, d = values.shape
    sampled = np.zeros(values.shape, bool)
    sampled[np.arange(users), generator.integers(d, size=users)] = True
    p = np.exp(epsilon) / (np.exp(epsilon) + 1)
    bits = generator.random(values.shape, np.float32) < (1 - p) + values * (2 * p - 1)
    return np.where(sampled, (2.0 * bits - 1) * d / (2 * (2 * p - 1)), 0).astype(np.float32) + np.float32(0.5)


def in_scipy(adjacency: sp.csr_array, roots: np.ndarray, walk: Walk) -> sp.csr_array:
    """Approximate PageRank by ISTA as it is written down, on vectors of the length of the graph."""
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    keep, to_neighbors = (1 + walk.alpha) / 2, (1 - walk.alpha) / 2
    least = walk.rho * walk.alpha * np.maximum(degrees, 1)
    lost, incoming = np.where(degrees > 0, keep, walk.alpha), sp.csr_array(adjacency.T)
    rows = []
    for root in roots:
        p, r = np.zeros(len(degrees)), np.zeros(len(degrees))
        r[root] = walk.alpha
        while (r > (1 + walk.gamma) * least).any():
            step = np.maximum(r - least, 0)  # of length 1 in the metric of the degrees, as in the source
            p += step
            r += to_neighbors * (incoming @ (step / np.maximum(degrees, 1))) - lost * step
        rows.append(sp.csr_array(p[None]))
    return sp.csr_array(sp.vstack(rows))


def pagerank(short: bool) -> tuple[Call, Call]:
    """Approximate PageRank of many roots in a random graph of 20 arcs a node."""
    nodes, roots, few = (5_000, 500, 5) if short else (20_000, 5_000, 30)
    offsets, sources = arcs(np.random.default_rng(0), nodes, 20 * nodes, "uniform")
    adjacency, walk = sp.csr_array((np.ones(len(sources)), sources, offsets), shape=(nodes, nodes)), Walk()
    adjacency.sum_duplicates()
    indptr, indices = adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int32)
    adjacency.data[:] = 1
    return (
        lambda: done(approximate_pagerank(indptr, indices, np.arange(roots), walk), roots),
        lambda: done(in_scipy(adjacency, np.arange(few), walk), few),
    )


def calibration(short: bool) -> tuple[Call, Call]:
    """The noise of 1,000 steps of DP-SGD at epsilon 2 (short: 10 steps)."""
    steps = 10 if short else 1000

    def made(noise: float) -> dp_accounting.DpEvent:
        step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(noise))
        return dp_accounting.SelfComposedDpEvent(step, steps)

    return (
        lambda: done(calibrate(lambda noise: [PoissonGaussianEvent(0.01, noise, steps)], 2.0, 1e-5)),
        lambda: done(dp_accounting.calibrate_dp_mechanism(PLDAccountant, made, 2.0, 1e-5, tol=1e-4)),
    )


def verification(_: bool) -> tuple[Call, Call]:
    """The verifier's bounds on epsilon of 1,000 steps of DP-SGD."""
    event = PoissonGaussianEvent(0.01, 1.0, 1000).to_dict()

    def theirs() -> float:
        step = privacy_loss_distribution.from_gaussian_mechanism(1.0, sampling_prob=0.01, use_connect_dots=True)
        return done(step.self_compose(1000).get_epsilon_for_delta(1e-5))

    return lambda: done(epsilon_bracket([event], 1e-5)), theirs


def closed_form(_: bool) -> tuple[Call, Call]:
    """The verifier's bounds on epsilon of two Gaussian hops."""
    event = GaussianEvent(4.0, 2).to_dict()

    def theirs() -> float:
        hop = privacy_loss_distribution.from_gaussian_mechanism(4.0, use_connect_dots=True)
        return done(hop.self_compose(2).get_epsilon_for_delta(1e-7))

    return lambda: done(epsilon_bracket([event], 1e-7)), theirs


def start(*command: str) -> Callable[[bool], tuple[Call, Call]]:
    """A fresh process beside one that imports NumPy."""
    return lambda _: (lambda: process(*command), lambda: process("-c", "import numpy"))


def process(*command: str) -> float:
    """Run the interpreter once."""
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    return 1


def done(_: object, units: float = 1) -> float:
    """Count units of work, whatever came of it."""
    return units


ROWS = (
    Row("hop-scipy", "one hop, 20M arcs, d = 16", "hop", "SciPy CSR, float32", "5 x", hop_beside("scipy")),
    Row("hop-torch", "one hop, 20M arcs, d = 16", "hop", "torch.sparse CSR, float32", "2.5 x", hop_beside("torch")),
    Row("two-hops", "two noisy hops, 100M arcs", "run", "SciPy and NumPy, float32", "under 120 s", two_hops),
    Row("step-plain", "DP-SGD step, MLP", "step", "Adam without privacy, float32", "0.625 x", step_beside("plain")),
    Row("step-plain64", "DP-SGD step, MLP", "step", "the same in float64", "", step_beside("plain float64")),
    Row("step-hooks", "DP-SGD step, MLP", "step", "Opacus, hooks", "", step_beside("hooks")),
    Row("step-ghost", "DP-SGD step, MLP", "step", "Opacus, ghost clipping", "", step_beside("ghost")),
    Row("encoder", "multi-bit report, d = 1433", "user", "dense n x d, NumPy", "1e6 users a second", encoder),
    Row("pagerank", "approximate PageRank", "root", "SciPy, a dense vector a root", "", pagerank),
    Row("calibration", "noise of 1,000 DP-SGD steps", "plan", "dp-accounting, PLD", "under 2 s", calibration),
    Row("verify-pld", "bounds of 1,000 DP-SGD steps", "check", "dp-accounting, PLD", "under 3 s", verification),
    Row("verify-closed", "bounds of two hops", "check", "dp-accounting, PLD", "under 1 s", closed_form),
    Row("import", "import sfumato", "process", "import numpy", "under 0.5 s", start("-c", "import sfumato")),
    Row("help", "sfumato --help", "process", "import numpy", "under 0.5 s", start("-m", "sfumato", "--help")),
)
