"""What a curator's method charges, it binds: a resumed fit that reads anything else must stop before its noise is used twice."""

import ast
from pathlib import Path

import pytest

import sfumato

PACKAGE = Path(sfumato.__file__).parent
FILES = [path for part in ("central", "classlevel", "statistics") for path in sorted((PACKAGE / part).glob("*.py"))]


def calls(source, name):
    """How often each class or function at the top of a file calls a method of this name."""
    return {
        part.name: sum(isinstance(one, ast.Call) and getattr(one.func, "attr", "") == name for one in ast.walk(part))
        for part in ast.parse(source).body
        if isinstance(part, ast.ClassDef | ast.FunctionDef)
    }


@pytest.mark.parametrize("path", [path for path in FILES if ".charge(" in path.read_text()], ids=lambda path: path.stem)
def test_every_charge_has_an_operand_that_is_bound(path):
    charged, bound = (calls(path.read_text(), name) for name in ("charge", "bind"))
    assert [name for name in charged if charged[name] > bound[name]] == []


def test_a_charge_that_binds_nothing_is_found():
    source = "def release(session):\n    return session.charge('x')\n"
    assert (calls(source, "charge"), calls(source, "bind")) == ({"release": 1}, {"release": 0})
