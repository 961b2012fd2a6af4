"""Every method of the catalog passes a small audit, under the first unit that it has a proof for."""

from dataclasses import fields, replace

import pytest
from contracts_quick import SUPPORTED, UNITS

import sfumato as sf
from sfumato.audit._auditor import audit
from sfumato.catalog import method_named

PRIVATE = [(name, unit) for name, unit in SUPPORTED if unit != "none"]
FIRST = dict(reversed(PRIVATE))
QUICK = {"epochs": 1, "steps": 3, "network": "softmax"}


@pytest.mark.parametrize(("name", "unit"), FIRST.items())
def test_a_small_audit_flags_no_method(name, unit):
    method = method_named(name)
    known = {field.name for field in fields(method)}
    method = replace(method, **{key: value for key, value in QUICK.items() if key in known})
    found = audit(method, UNITS[unit], sf.Budget(2.0, 1e-6), size=0.02, fits=2)
    assert found.broken == ()
    assert not found.flagged


@pytest.mark.audit
@pytest.mark.parametrize(("name", "unit"), PRIVATE)
def test_a_larger_audit_flags_no_method_under_any_unit(name, unit):
    found = audit(method_named(name), UNITS[unit], sf.Budget(1.0, 1e-6), size=0.2, fits=4)
    assert found.broken == ()
    assert not found.flagged
