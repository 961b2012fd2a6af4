"""A unit answers questions about itself: outside its homes hardly a line branches on which unit it is.

The lines today, or those of another checkout: python tests/meta/test_units.py [ROOT]
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from meta_exports import tree

from sfumato.privacy.units import UNITS, short_words

ROOT = Path(__file__).parents[2]
FILES = ("units.py", "_class_units.py", "_user_units.py")
PROSE = "report/_person.py"  # what a page for the public says of each unit
HOMES = tuple(f"src/sfumato/{home}" for home in (*(f"privacy/{file}" for file in FILES), "bounded/", "verify/", PROSE))
CEILING = 1
"""Lines that may branch on a unit outside its homes; lower it when one goes."""

CLASSES, WORDS = {unit.__name__ for unit in UNITS}, {*short_words(), *(unit.name for unit in UNITS)}
TABLE = re.compile(r"_?[A-Z][A-Z0-9_]+")


def branches(tree: ast.AST) -> set[int]:
    """Lines that ask which unit it is: by class, by word, by a table of words, or by whether it has a field."""
    return {node.lineno for node in ast.walk(tree) if isinstance(node, ast.expr) and _asks(node)}


def _asks(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
        if node.func.id in ("isinstance", "issubclass"):
            classes = node.args[1]
            return any(map(_is_class, ast.walk(classes))) or (_is_unit(node.args[0]) and _is_table(classes))
        return node.func.id in ("getattr", "hasattr") and _is_unit(node.args[0])
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        named = any(_is_words(side) or _is_table(side) or _is_class(side) for side in sides)
        return named and any(_is_unit(side) for side in sides)
    if isinstance(node, ast.Subscript):
        return _is_table(node.value) and _is_words(node.slice)
    if isinstance(node, ast.Dict):
        return len(node.keys) > 1 and all(key is not None and _is_words(key) for key in node.keys)
    return False


def _last(node: ast.AST) -> str:
    """The last part of a dotted name, or nothing."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_unit(node: ast.expr) -> bool:
    """Whether the expression is a unit, its class or its name; a property other than the name is a question to the unit.

    Such as ``plan.unit``, ``type(unit)``, ``unit.name``, ``values["unit"]["name"]``.
    """
    if _last(node) not in ("", "unit", "name"):
        return False
    return any(
        _last(one) == "unit" or (isinstance(one, ast.Constant) and one.value == "unit") for one in ast.walk(node)
    )


def _is_words(node: ast.expr) -> bool:
    """Whether the expression is a unit's word, a choice of two, or a collection of nothing else."""
    if isinstance(node, ast.IfExp):
        return _is_words(node.body) and _is_words(node.orelse)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return bool(node.elts) and all(map(_is_words, node.elts))
    return isinstance(node, ast.Constant) and node.value in WORDS


def _is_table(node: ast.expr) -> bool:
    return bool(TABLE.fullmatch(_last(node)))


def _is_class(node: ast.AST) -> bool:
    return _last(node) in CLASSES


def found(root: Path = ROOT) -> Iterator[str]:
    """Every such line outside the homes, as text."""
    for folder in ("src", "tools"):
        for path in sorted((root / folder).rglob("*.py")):
            name, source = path.relative_to(root).as_posix(), path.read_text()
            if not name.startswith(HOMES):
                lines = source.splitlines()
                yield from (f"{name}:{line}: {lines[line - 1].strip()}" for line in sorted(branches(tree(path))))


def test_hardly_anything_branches_on_a_unit():
    assert len(lines := list(found())) <= CEILING, "\n".join(lines)


@pytest.mark.parametrize(
    "source",
    [
        "isinstance(plan.unit, NodeLevel)",
        "isinstance(unit, EdgeLevel | NoPrivacy)",
        "isinstance(unit, sf.NoPrivacy)",
        "isinstance(unit, LOCAL_UNITS)",
        "options.unit != ('none' if clear else 'local')",
        "type(unit) is NodeLevel",
        "plan.unit.name == 'node'",
        "options.unit in ('local', 'link')",
        "unit.get('name') != 'edge'",
        "values['unit']['name'] == 'local'",
        "plan.unit.name in local.OF_UNIT",
        "method.name in OF_UNIT['link']",
        "words = {'none': 'nothing', 'edge': 'one edge'}",
        "getattr(self.unit, 'split', None)",
        "hasattr(unit, 'max_out_degree')",
    ],
)
def test_planted_branches_are_found(source):
    assert branches(ast.parse(source)) == {1}


@pytest.mark.parametrize(
    "source",
    [
        "'labels' in unit.public",
        "unit.trust == 'link'",
        "unit.relation == 'replace'",
        "unit.max_out_degree is not None",
        "options.task == 'link'",
        "unit != self.unit",
        "METHODS['gap']",
        "ROLES = ('train', 'val', 'test', 'none')",
        "{'linestyle': 'none'}",
        "isinstance(plan.method, AskingMethod)",
        "unit_named('edge', declared)",
    ],
)
def test_questions_to_the_unit_pass(source):
    assert not branches(ast.parse(source))


if __name__ == "__main__":
    lines = list(found(Path(sys.argv[1]) if sys.argv[1:] else ROOT))
    print("\n".join([*lines, f"{len(lines)} lines in {len({line.split(':')[0] for line in lines})} files"]))
