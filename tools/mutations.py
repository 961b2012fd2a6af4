"""Small changes of one line of Python each, of which a test should notice any; :mod:`mutants` tries them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

OPERATORS = {
    "+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "//", "**": "*", "<<": ">>", ">>": "<<", "|": "&", "&": "|", "^": "|",
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "in": "not in", "not in": "in", "is": "is not",
    "is not": "is", "and": "or", "or": "and",
}  # fmt: skip
NAMES = {
    "min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "any": "all", "all": "any", "minimum": "maximum",
    "maximum": "minimum", "round_up": "float", "log1p": "log", "expm1": "exp", "argmin": "argmax", "argmax": "argmin",
}  # fmt: skip
NO_CHANGE = {
    "kind",
    "strict",
    "copy",
    "encoding",
    "stacklevel",
    "check",
    "help",
    "daemon",
    "slots",
    "frozen",
    "casting",
}
NO_MATTER = re.compile(r"BLOCK|CHUNK|AT_ONCE|TILE|_WORK\b|__all__|__doc__")  # sizes of parts, which change no result
SAYS = re.compile(r"\b(fail|warn|say|echo|print|cast|TypeVar|describe|_LOGGER)\b|[A-Z]\w*Error\b|[A-Z]\w*Warning\b")
WORDS = re.compile(rb"not\s+in\b|is\s+not\b|in\b|is\b|and\b|or\b|\*\*|//|<<|>>|<=|>=|==|!=|[-+*/%|&^<>]")


@dataclass(frozen=True)
class Mutation:
    """``old`` in a line of a file becomes ``new``; lines ``first`` to ``last`` are the statement that holds it."""

    path: str
    start: int
    old: str
    new: str
    line: int
    first: int
    last: int
    compiled: bool

    def apply(self, source: bytes) -> bytes:
        old = self.old.encode()
        assert source[self.start : self.start + len(old)] == old
        return source[: self.start] + self.new.encode() + source[self.start + len(old) :]

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.path}:{self.line}: {old} -> {new or 'nothing'}"


def mutations(root: Path, path: Path) -> list[Mutation]:
    """All changes of one file, in its order; docstrings, messages and what only type checkers read stay as they are."""
    source = path.read_bytes()
    return sorted(_File(path.relative_to(root).as_posix(), source).found, key=lambda one: (one.start, one.new))


class _File(ast.NodeVisitor):
    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source, self.found = path, source, []
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.statement, self.compiled = ast.Pass(lineno=1, end_lineno=1), False
        self.visit(ast.parse(source))

    def at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def text(self, node: ast.AST) -> str:
        return self.source[slice(*self.span(node))].decode()

    def add(self, span: tuple[int, int], new: str) -> None:
        old = self.source[slice(*span)].decode()
        if " ".join(old.split()) == " ".join(new.split()):
            return
        line = self.source.count(b"\n", 0, span[0]) + 1
        first, last = self.statement.lineno, self.statement.end_lineno
        body = getattr(self.statement, "body", None)
        if isinstance(body, list):
            last = max(first, body[0].lineno - 1)
        self.found.append(Mutation(self.path, span[0], old, new, line, first, last, self.compiled))

    def between(self, left: ast.AST, right: ast.AST) -> None:
        """Change the operator that stands between two operands."""
        start, end = self.span(left)[1], self.span(right)[0]
        match = WORDS.search(re.sub(rb"#[^\n]*", lambda said: b" " * len(said[0]), self.source[start:end]))
        if match and (new := OPERATORS.get(" ".join(match[0].decode().split()))):
            self.add((start + match.start(), start + match.end()), new)

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            before, self.statement = self.statement, node
            super().visit(node)
            self.statement = before
        else:
            super().visit(node)

    def every(self, nodes: list[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def visit_Import(self, node: ast.AST) -> None:
        """Nothing to change: here, in annotations, texts, and what is raised."""

    visit_ImportFrom = visit_JoinedStr = visit_Global = visit_Assert = visit_Import  # noqa: N815

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        before = self.compiled
        self.compiled = before or any("njit" in ast.unparse(one) for one in node.decorator_list)
        self.every([*node.args.defaults, *filter(None, node.args.kw_defaults)])
        self.every(node.body)
        self.compiled = before

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.every(node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.every([node.value] if node.value else [])

    def visit_Assign(self, node: ast.Assign) -> None:
        if NO_MATTER.search(ast.unparse(node.targets[0])):
            return
        if isinstance(node.targets[0], ast.Subscript):
            self.add(self.span(node), "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.add(self.span(node), "pass")
        self.between(node.target, node.value)
        self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            return
        self.add(self.span(node.test), f"not ({self.text(node.test)})")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.add(self.span(node), "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if not SAYS.search(self.text(node.value).partition("(")[0]):
            self.add(self.span(node), "pass")
            self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not any(isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", None), str | bytes)
                   for side in (node.left, node.right)):  # fmt: skip
            self.between(node.left, node.right)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(left, right)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
            self.between(left, right)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub):
            self.add(self.span(node), f"({self.text(node.operand)})")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.add(self.span(node.test), f"(not ({self.text(node.test)}))")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = self.text(node.func)
        if SAYS.search(called):
            return
        name = called.rpartition(".")[2]
        if name in NAMES:
            end = self.span(node.func)[1]
            self.add((end - len(name), end), NAMES[name])
        plain = [one for one in node.args if not isinstance(one, ast.Starred | ast.GeneratorExp)]
        if len(plain) > 1 and plain == node.args[: len(plain)] and name not in ("min", "max", "isinstance", "hasattr"):
            first, second = plain[:2]
            span = self.span(first)[0], self.span(second)[1]
            gap = self.source[self.span(first)[1] : self.span(second)[0]].decode()
            self.add(span, f"{self.text(second)}{gap}{self.text(first)}")
        for keyword in node.keywords:
            if (
                keyword.arg is not None
                and keyword.arg not in NO_CHANGE
                and not isinstance(keyword.value, ast.JoinedStr)
            ):
                start, end = self.span(keyword)
                rest = re.match(rb"\s*,", self.source[end:])
                self.add((start, end + len(rest[0]) if rest else end), "")
        self.visit(node.func)
        self.every(node.args)
        self.every([one.value for one in node.keywords if one.arg not in NO_CHANGE])

    def visit_Constant(self, node: ast.Constant) -> None:
        value, text = node.value, self.text(node)
        changed: list[str] = []
        if isinstance(value, bool):
            changed = [str(not value)]
        elif isinstance(value, int):
            changed = [
                str(value + 1),
                f"({value - 1})" if value < 1 else str(value - 1),
                f"{text} * 2" if value else text,
            ]
        elif isinstance(value, float):
            changed = [f"({text} * 2)", f"({text} * 2 / 3)"] if value else ["1.0"]
        for new in changed:
            self.add(self.span(node), new)


def is_python(source: bytes, one: Mutation) -> bool:
    """Whether the changed file can be compiled: a keyword without which a call is none, say, cannot."""
    try:
        compile(one.apply(source), one.path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True
