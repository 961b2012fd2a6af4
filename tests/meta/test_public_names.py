"""Public names speak for themselves: docstrings everywhere, a worked example wherever privacy is decided."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "sfumato"
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

# Names of these packages that go without a doctest, and why. A name that gains one leaves this list.
NO_EXAMPLE = {
    "bounded.aggregation.Arcs": "only holds two arrays",
    "bounded.aggregation.neighborhood_sum": "a view of noisy_neighborhood_sum without noise",
    "bounded.aggregation.noisy_neighborhood_sum": "returns fresh noise or trains a network",
    "bounded.gradients.clipped_gradient_sum": "needs a network and its inputs",
    "bounded.gradients.private_steps": "returns fresh noise or trains a network",
    "bounded.kernels.pack": "shown through to_steps and the sums that use it",
    "bounded.kernels.quantize": "shown by aggregation.to_steps",
    "bounded.kernels.sum_rows": "compiled; shown by the sums that use it",
    "privacy.accounting.central_limit_epsilon": "a starting point for calibration, claims nothing",
    "privacy.accounting.gaussian_log_delta": "logarithm of what accounting.delta shows",
    "privacy.accounting.rough_epsilon": "a starting point for calibration, claims nothing",
    "record.certificate.Certificate": "exists only after a run",
    "record.certificate.certify": "needs a finished ledger",
    "record.certificate.total_draws": "a sum over releases",
    "record.ledger.Ledger": "needs a plan",
    "noise.rectangles.Law": "the sampler's inside; shown by rounded_gaussian",
    "noise.rectangles.Layers": "the sampler's inside; shown by rounded_gaussian",
    "noise.rectangles.draw": "the sampler's inside; shown by rounded_gaussian",
    "noise.rectangles.exact": "the sampler's inside; shown by rounded_gaussian",
    "noise.rectangles.layers": "the sampler's inside; shown by rounded_gaussian",
    "record.sealed.read_sealed": "shown by write_sealed",
    "noise.keys.Stream": "raw cipher blocks; shown by rounded_gaussian and coins",
    "record.release_folder.read_release": "needs a run folder",
    "record.release_folder.write_release": "needs a finished run",
}


def definitions(package: Path) -> Iterator[tuple[str, Definition]]:
    """Public functions and classes, and the public methods of public classes, by dotted name."""
    for path in sorted(package.rglob("*.py")):
        module = ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, Definition) and not node.name.startswith("_"):
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
    """Public functions and classes of the guarantee's packages with no doctest; private modules are not public."""
    return {
        name
        for name, node in definitions(package)
        if name.split(".")[0] in ("noise", "privacy", "bounded", "record")
        and not name.split(".")[1].startswith("_")
        and name.count(".") == 2
        and ">>> " not in (ast.get_docstring(node) or "")
    }


def test_public_names_have_docstrings():
    assert not docstring_faults(PACKAGE)


def test_privacy_and_bounded_show_an_example():
    assert without_example(PACKAGE) == set(NO_EXAMPLE)


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
