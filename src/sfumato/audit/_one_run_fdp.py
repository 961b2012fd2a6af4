r"""From guesses about many canaries in one run to the mu of Gaussian differential privacy that the mechanism exceeds.

Each of m canaries is in by a fair coin of its own. The auditor guesses exactly r of the coins from the output, and T
guesses are right. Write p_t = P[T = t], and for the share of canaries that are guessed rightly or wrongly in runs with at
least i right guesses

    R_i = sum_{t >= i} t p_t / m,    W_i = sum_{t >= i} (r - t) p_t / m.

**Step.** If the mechanism is mu-GDP, then W_i >= g(R_{i+1}) with g(x) = Phi(Phi^{-1}(x) - mu). Proof: fix a canary j and
the coins of all others. Let A_s be the set of outputs from which j is guessed to be s, with at least i right guesses
among the others. If the coin of j is s, an output in A_s means that j is right and T >= i + 1; if it is not, that j is wrong
and T >= i. So with P_s the law of the output at coin s, the chance of the first is (P_1(A_1) + P_0(A_0)) / 2, that of the
second is (P_0(A_1) + P_1(A_0)) / 2, and each term of the first is at most the inverse of g of its fellow. This inverse is
concave; so the bound passes to the average over both terms, over the other coins, and over j. If every guess is "in", A_0 is
empty, and the same argument gives W_i >= g(2 R_{i+1}) / 2, which is more, as g is convex with g(0) = 0.

**Recursion.** Suppose P[T >= c] >= alpha. Start with R = alpha c / m, W = alpha (r - c) / m, and for i = c - 1, ..., 0 set

    W' = max(W, g(R)),    R' = R + i / (r - i) (W' - W),

the least p_i that the step allows. If ever R + W > r / m, the mechanism is not mu-GDP, for R_0 + W_0 = r / m. Proof that no
law of T does with less: let S = R + W, with d for true values less those of the recursion. At the start r dR >= c dS >= 0,
since T >= c on the event. If r dR >= (i + 1) dS >= 0 before a step, the same holds with i after it: the recursion takes
q = max(0, (g(R) + R - S) / (r - i)), the truth p with p >= (g(R + dR) + R + dR - S - dS) / (r - i) and p >= 0. Since g grows,
p - q >= -(dS - dR) / (r - i) where q > 0; hence dS + r (p - q) >= (r dR - i dS) / (r - i) >= 0, and
r (dR + i (p - q)) - i (dS + r (p - q)) = r dR - i dS >= 0. So S never exceeds its true value.

**Rounding.** The proof needs only that q is not above its formula. The recursion is computed with R and g(R) rounded down
and W rounded up by a relative 1e-12 + c 2^-52, more than sums of c positive terms and the normal functions lose. As g
falls with mu, every smaller mu is rejected as well, and the search stops below the largest.

The bound refutes the claimed *noise*: a mechanism that is (epsilon, delta)-DP without being Gaussian may exceed it.

Source: Mahloujifar, Melis and Chaudhuri 2025, algorithm 3 (its form with abstention) for the recursion; the proof and the
form for guesses that are all "in" stand here.
"""

from __future__ import annotations

from scipy.special import ndtr, ndtri

from sfumato._validate import check_int, check_real
from sfumato.audit._bounds import largest_rejected

_PRECISION = 1e-9  # relative, where the search stops
_SLACK = 1e-12


def contradicts(mu: float, correct: int, guesses: int, canaries: int, risk: float, *, one_sided: bool = False) -> bool:
    """Tell whether so many right guesses have probability at most ``risk`` under every mu-GDP mechanism."""
    slack = _SLACK + correct * 2.0**-52
    down, up, sides = 1 - slack, 1 + slack, 2 if one_sided else 1
    share, right, wrong = guesses / canaries, risk * correct / canaries, risk * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        missing = float(ndtr(ndtri(min(1.0, sides * right * down)) - mu)) * down / sides - wrong * up
        if missing <= 0:  # then nothing changes any more
            return False
        wrong += missing
        right += missing * i / (guesses - i)
        if (right + wrong) * down > share:
            return True
    return False


def one_run_mu(
    correct: int,
    guesses: int,
    canaries: int,
    *,
    confidence: float = 0.95,
    one_sided: bool = False,
    above: float = 0.0,
) -> float:
    """Return a mu that a mechanism exceeds, from the guesses about many canaries in a single run.

    **Formal guarantee.** If the mechanism is mu-GDP under add/remove of one canary, the result exceeds mu with
    probability at most 1 - ``confidence``; canaries may depend on each other in any way. The number of guesses is fixed
    before the run: to choose among several, divide 1 - ``confidence`` by how many were tried.
    """
    canaries = check_int(low=1, canaries=canaries)
    guesses = check_int(low=1, high=canaries, guesses=guesses)
    correct = check_int(low=0, high=guesses, correct=correct)
    risk = 1 - check_real(low=0, high=1, open_low=True, open_high=True, confidence=confidence)
    low = check_real(low=0, above=above)

    def rejected(mu: float) -> bool:
        return contradicts(mu, correct, guesses, canaries, risk, one_sided=one_sided)

    return largest_rejected(rejected, low, _PRECISION)
