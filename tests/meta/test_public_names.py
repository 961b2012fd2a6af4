"""Public names speak for themselves: docstrings everywhere, a worked example wherever privacy is decided.

A name is public if its module is, or if a package exports it. Modules with an underscore and names with one are private. What
the text of a docstring has to say is checked in ``test_docstring_text.py``.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from meta_exports import exported, tree

PACKAGE = Path(__file__).parents[2] / "src" / "sfumato"
MOST_NAMES = 500
WITH_EXAMPLES = ("bounded", "noise", "privacy", "randomizers", "record", "shares")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def definitions(package: Path) -> Iterator[tuple[str, Definition]]:
    """Public functions and classes, and the public methods of public classes, by dotted name."""
    given = exported(package)
    for path in sorted(package.rglob("*.py")):
        module = ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__")
        hidden = any(part.startswith("_") for part in module.split("."))
        for node in tree(path).body:
            if not isinstance(node, Definition) or node.name.startswith("_"):
                continue
            if not hidden or f"{module}.{node.name}" in given:
                yield f"{module}.{node.name}", node
                if isinstance(node, ast.ClassDef):
                    for inner in node.body:
                        if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                            yield f"{module}.{node.name}.{inner.name}", inner


def docstring_faults(package: Path) -> list[str]:
    """Public names without a docstring, or whose first line is not a sentence."""
    found, protocols = [], set()
    for name, node in definitions(package):
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Protocol" for base in node.bases):
            protocols.add(name)
        if name.endswith(".forward") or name.rpartition(".")[0] in protocols:  # the class speaks for them
            continue
        first = (ast.get_docstring(node) or "").partition("\n")[0]
        if not first.endswith((".", "?", "!", ":")):
            found.append(f"{name} (line {node.lineno}): {first!r}")
    return found


def without_example(package: Path) -> set[str]:
    """Public functions and classes of the guarantee's packages with no doctest."""
    return {
        name
        for name, node in definitions(package)
        if name.split(".")[0] in WITH_EXAMPLES
        and name.count(".") == 2
        and ">>> " not in (ast.get_docstring(node) or "")
    }


def test_public_names_have_docstrings():
    assert not docstring_faults(PACKAGE)


def test_packages_of_the_guarantee_show_an_example_of_each_name():
    assert not without_example(PACKAGE)


def test_few_names_are_public():
    classes = {name for name, node in definitions(PACKAGE) if isinstance(node, ast.ClassDef)}
    names = {name for name, _ in definitions(PACKAGE) if name.rpartition(".")[0] not in classes}
    assert len(names) <= MOST_NAMES


FAULTY = '''
def silent(): pass

def trailing():
    """No stop"""

def _own(): pass

class Good:
    """Fine."""

    def bare(self): pass

    def _own(self): pass

    def forward(self): pass

class Shape(Protocol):
    """Fine.

    >>> Shape
    """

    def area(self): ...
'''


def test_planted_faults_are_found(tmp_path):
    (tmp_path / "privacy").mkdir()
    (tmp_path / "privacy" / "bad.py").write_text(FAULTY)
    names = {fault.split(" ")[0] for fault in docstring_faults(tmp_path)}
    assert names == {"privacy.bad.silent", "privacy.bad.trailing", "privacy.bad.Good.bare"}
    assert without_example(tmp_path) == {"privacy.bad.silent", "privacy.bad.trailing", "privacy.bad.Good"}
