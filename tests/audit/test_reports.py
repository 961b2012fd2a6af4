"""Local methods are audited by what their randomizers send: honest ones stand, one with a larger budget is flagged."""

from dataclasses import dataclass

import pytest

import sfumato as sf
from sfumato.audit._reports import audit_reports
from sfumato.catalog import METHODS
from sfumato.errors import InputError
from sfumato.local._blink import Blink
from sfumato.local._label_only import LabelOnly
from sfumato.local._method import AskingMethod

ASKING = {name: method for name, method in METHODS.items() if issubclass(method, AskingMethod)}


@pytest.mark.parametrize("name", ASKING)
def test_every_local_method_stands(name):
    found = audit_reports(ASKING[name](), runs=2000)
    assert found.broken == ()
    assert not found.flagged
    assert 0 < found.epsilon_lower_bound < found.claimed


def test_a_randomizer_that_spends_twice_is_flagged():
    @dataclass(frozen=True)
    class Twice(LabelOnly):
        def labels(self, public):
            honest = super().labels(public)
            return _Loud(type(honest)(public.num_classes, 2 * self.epsilon_y), self.epsilon_y)

    class _Loud:
        """Randomizes with twice the budget that it states."""

        def __init__(self, loud, stated):
            self._loud, self.total_epsilon, self.realized_epsilon = loud, stated, stated

        def __getattr__(self, name):
            return getattr(self._loud, name)

    from sfumato.audit import _frequencies as frequencies

    honest = frequencies.farthest
    try:
        frequencies.farthest = lambda one: honest(one._loud)
        found = audit_reports(Twice(epsilon_y=1.0), runs=10_000)
    finally:
        frequencies.farthest = honest
    assert found.flagged
    assert "above their budget" in found.broken[0]


def test_methods_without_reports_are_refused():
    with pytest.raises(InputError, match="to be one that asks users"):
        audit_reports(sf.GAP())
    with pytest.raises(InputError, match="to randomize something"):
        audit_reports(LabelOnly(epsilon_y=None))


def test_links_are_audited_bit_by_bit():
    found = audit_reports(Blink(epsilon=2.0), runs=5000)
    assert 0.5 < found.epsilon_lower_bound < 2.0
