"""Geometric draws: the law is exact to the last bit, rare events are independent, keyed noise depends on positions alone."""

from decimal import ROUND_UP, Context, Decimal, Inexact, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import InputError
from sfumato.noise import _geometric as module
from sfumato.noise._geometric import Rate, discrete_laplace, geometric, keyed_discrete_laplace, successes
from sfumato.noise.coins import SecretWords

KEY = bytes(range(32))
RATES = [Fraction(1, 3), Fraction(7), Fraction(1, 10**4), Fraction(1, 10**9), Fraction(1, 10**13)]


def halves(_):
    """Further words of a draw: the middle of what is left, then ends of it."""
    yield 2**63
    yield from [2**63 - 1] * 9


def p_value(drawn, law):
    """Of a chi-square test; ``law`` gives the probabilities of 0, 1, ... and the rest is pooled."""
    inside = (drawn >= 0) & (drawn < len(law))
    seen = np.bincount(np.where(inside, drawn, len(law)), minlength=len(law) + 1)
    return stats.chisquare(seen, len(drawn) * np.append(law, 1 - law.sum())).pvalue


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_floating_point_decides_as_decimals_do(rate):
    words = SecretWords(KEY).words((500,))
    edges = np.array([0, 1, 2, 3, 2**32, 2**63, 2**64 - 2, 2**64 - 1], np.uint64)
    words = np.concatenate([words, edges])
    exact = [module._decided(Rate.of(rate), int(word), halves(0)) for word in words]
    assert geometric(Rate.of(rate), words, halves).tolist() == exact


@pytest.mark.parametrize("share", [1, 2**40 + 1, 2**63, 2**64 - 2**40], ids=str)
def test_a_success_has_exactly_its_share_of_words(share):
    """U is above 1 - p for exactly ``share`` of the 2^64 words; in the last of them further bits decide."""
    rate = Rate.of_chance(Fraction(share, 2**64))
    border = 2**64 - share
    words = np.array([border - 1, border, min(border + 1, 2**64 - 1)], np.uint64)
    assert (geometric(rate, words, halves) == 0).tolist() == [False, True, True]


def test_further_bits_decide_where_a_word_holds_two_draws():
    """At this rate the first word, 0, leaves G open; its further words fix it."""
    rate = Rate.of(Fraction(1))
    for second in (1, 2**32, 2**64 - 1):
        u = Fraction(2 * second + 1, 2**129)
        expected = int(-Context(prec=60).ln(Context(prec=60).divide(u.numerator, u.denominator)))
        assert geometric(rate, np.zeros(1, np.uint64), lambda _, word=second: iter([word, 2**63])).tolist() == [
            expected
        ]


@pytest.mark.parametrize("rate", [Fraction(1, 4), Fraction(2)], ids=str)
def test_the_law_is_geometric_and_a_near_miss_is_seen(rate):
    drawn = geometric(Rate.of(rate), SecretWords(KEY).words((60000,)), halves)

    def law(at):
        return -np.expm1(-at) * np.exp(-at * np.arange(round(8 / float(rate))))

    assert p_value(drawn, law(float(rate))) > 1e-4
    assert p_value(drawn, law(float(rate) * 1.05)) < 1e-4


def test_successes_are_independent_trials():
    trials, chance = 400, Fraction(1, 7)
    hits = np.zeros((4000, trials))
    source = SecretWords(KEY)
    for row in hits:
        row[successes(Rate.of_chance(chance), source, trials)] = 1
    each = hits.sum(axis=0)
    assert (
        stats.chisquare(np.array([each.sum(), hits.size - each.sum()]), hits.size * np.array([1 / 7, 6 / 7])).pvalue
        > 1e-4
    )
    spread = (each - 4000 / 7) / np.sqrt(4000 * 6 / 49)
    assert stats.kstest(spread, "norm").pvalue > 1e-4
    together = (hits[:, 1:] * hits[:, :-1]).mean()
    assert abs(together - 1 / 49) < 5 * np.sqrt(1 / 49 / hits.size)
    of_each_row = stats.binom(trials, 1 / 7).pmf(np.arange(38, 78))
    assert p_value(hits.sum(axis=1).astype(int) - 38, of_each_row) > 1e-4


def test_chunks_of_successes_join(monkeypatch):
    rate = Rate.of_chance(Fraction(1, 50))
    found = successes(rate, SecretWords(KEY), 10**5)
    monkeypatch.setattr(module, "_CHUNK", 7)
    again = successes(rate, SecretWords(KEY), 10**5)
    assert (again == found[: len(again)]).all()
    assert len(again) == len(found)
    assert (np.diff(found) > 0).all()
    assert 0 <= found[0] <= found[-1] < 10**5
    assert successes(rate, SecretWords(KEY), 0).tolist() == []


def test_rare_successes_cost_no_more_than_they_are():
    """Of 10^12 trials one in 10^9 succeeds."""
    found = successes(Rate.of_chance(Fraction(1, 10**9)), SecretWords(KEY), 10**12)
    assert 800 < len(found) < 1200


@pytest.mark.parametrize("scale", [Fraction(5, 2), Fraction(1, 2)], ids=str)
def test_noise_is_discrete_laplace_and_a_near_miss_is_seen(scale):
    noise = discrete_laplace(SecretWords(KEY), scale, 60000)
    reach = np.arange(-20, 21)

    def law(b):
        return np.tanh(1 / (2 * b)) * np.exp(-np.abs(reach) / b)

    assert p_value(noise + 20, law(float(scale))) > 1e-4
    assert p_value(noise + 20, law(float(scale) * 1.5)) < 1e-4
    assert p_value(noise + 20, law(float(scale) * 2 / 3)) < 1e-4


def test_keyed_noise_is_discrete_laplace():
    law = np.tanh(1 / 4) * np.exp(-np.abs(np.arange(-20, 21)) / 2)
    assert p_value(keyed_discrete_laplace(KEY, Fraction(2), 0, 60000) + 20, law) > 1e-4


def test_keyed_noise_reads_further_bits_of_its_own(monkeypatch):
    """With every draw undecided by floats, values in any block stay the same."""
    whole = keyed_discrete_laplace(KEY, Fraction(30), 0, 40)
    monkeypatch.setattr(module, "_DOUBT", 1.0)
    assert keyed_discrete_laplace(KEY, Fraction(30), 0, 40).tolist() == whole.tolist()


def test_the_two_draws_of_a_difference_read_other_further_bits(monkeypatch):
    read = []

    def asked(rate, words, extend):
        read.append([[next(more) for more in [extend(i)] for _ in range(2)] for i in range(len(words))])
        return geometric(rate, words, extend)

    monkeypatch.setattr(module, "geometric", asked)
    keyed_discrete_laplace(KEY, Fraction(30), 0, 8)
    assert len(np.unique(read)) == 2 * 8 * 2


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(2**50 + 1)], ids=str)
def test_scales_out_of_range(scale):
    with pytest.raises(InputError, match="Expected scale to be above 0"):
        discrete_laplace(SecretWords(KEY), scale, 1)


def test_draws_beyond_64_bits_are_cut():
    rare = Rate.of_chance(Fraction(1, 2**80))
    assert geometric(rare, np.array([2**63], np.uint64), halves).tolist() == [2**62]
    assert successes(rare, SecretWords(KEY), 10**9).tolist() == []


def test_decimals_of_the_host_program_do_not_matter():
    rate, words = Rate.of(Fraction(1, 2**40)), np.arange(40, dtype=np.uint64)
    told = geometric(rate, words, halves).tolist()
    with localcontext() as context:
        context.prec, context.rounding, context.traps[Inexact] = 3, ROUND_UP, True
        assert geometric(rate, words, halves).tolist() == told
        assert len(successes(Rate.of_chance(Fraction(1, 2**40)), SecretWords(KEY), 2**41)) < 20


def test_a_boundary_within_the_rounding_of_decimals_is_left_to_further_bits():
    """The rate puts the end of a word's interval just below 5: 64 bits may not decide for 5."""
    for digits in range(45, 75):
        wide = Context(prec=200)
        end = wide.subtract(wide.multiply(64, wide.ln(2)), wide.ln(1001))
        rate = Rate(lambda context, end=end, digits=digits, wide=wide: context.plus(
            wide.divide(end, wide.subtract(5, wide.power(10, -digits)))))  # fmt: skip
        with pytest.raises(StopIteration):
            module._decided(rate, 1000, iter(()))


def test_rates_are_as_precise_as_asked():
    third = Rate.of_chance(Fraction(1, 3))
    wider = Context(prec=250)
    assert wider.abs(wider.add(third.value(Context(prec=200)), wider.ln(wider.divide(2, 3)))) < Decimal("1e-198")
    tiny = Rate.of_chance(Fraction(1, 2**64)).value(Context(prec=60))
    assert wider.abs(wider.subtract(tiny, wider.divide(1, 2**64))) < Decimal("2e-39")
