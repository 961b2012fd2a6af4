"""Nothing asks a method whether it has a part: the contract has every part, so that a type checker can see who uses what."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from meta_exports import tree

from sfumato.catalog import _HOMES, CARDS, METHODS, PAIR_METHODS, WORDS, _import
from sfumato.method.card import CardHead

PACKAGE = Path(__file__).parents[2] / "src" / "sfumato"
NAMES = {"method", "methods", "candidate", "candidates", "base", "inference", "chosen", "control", "made"}
ASKING = {"getattr", "hasattr", "setattr"}


def questions(parsed: ast.Module, source: str) -> Iterator[int]:
    """Lines that ask a method for an attribute by name, or that silence a type checker about one."""
    for node in ast.walk(parsed):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKING and node.args:
            if _last(node.args[0]) in NAMES:
                yield node.lineno
        elif isinstance(node, ast.Attribute) and node.attr == "__dict__" and _last(node.value) in NAMES:
            yield node.lineno
    for number, line in enumerate(source.splitlines(), 1):
        code, _, comment = line.partition("# type: ignore")
        if comment and ("method" in code or "def " in code):
            yield number


def _last(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def test_no_method_is_asked_for_a_part():
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in ("pate", "randomizers")  # which have no methods of this contract
        for line in questions(tree(path), path.read_text(encoding="utf-8"))
    ]
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        "getattr(self.plan.method, 'inductive', None)",
        "hasattr(method, 'base')",
        "notes = getattr(plan.method, 'notes', ())",
        "key = self.method.trained_on  # type: ignore[attr-defined]",
        "def releases(self):  # type: ignore[override]\n    pass",
        "session.method.__dict__",
    ],
)
def test_planted_questions_are_found(source):
    assert list(questions(ast.parse(source), source))


@pytest.mark.parametrize("name", CARDS)
def test_the_face_that_is_read_from_the_file_is_that_of_the_class(name):
    card = _import(_HOMES[name]).card
    assert CARDS[name] == CardHead(**{field.name: getattr(card, field.name) for field in fields(CardHead)})


def test_words_and_names_are_unique():
    assert len(WORDS) == sum(len(face.spoken) for face in CARDS.values())
    assert set(METHODS) == set(CARDS) - {"auto", *PAIR_METHODS}
    assert {name for name in METHODS if METHODS[name].card.name != name} == set()


def test_controls_name_methods_of_the_catalog_and_end_with_a_ceiling():
    for name in METHODS:
        controls = METHODS[name].card.controls
        assert controls[-1].name == "ceiling"
        assert {control.method for control in controls} <= {"", *METHODS}
        for control in controls:
            made = METHODS[control.method or name]
            known = {field.name for field in fields(made)}
            assert {*control.settings, *control.keeps} <= known
