"""Docstrings of public names say what a caller needs. These are the rules:

* The first line is a sentence of four words or more. That of a function or method opens with a verb of ``VERBS``
  ("Return the ..."); a class or a property is a thing and needs no verb.
* A name whose own body raises an error has a section ``Raises:`` that names its class. A check of ``sfumato._validate``
  raises InputError. For a class this body is that of ``__init__`` or ``__post_init__``.
* A name with three parameters or more (for a dataclass: fields) explains each: in a line ``name: text`` of the section
  ``Args:``, or in the prose as ``name`` between double backticks. A line of ``Args:`` has three words of text or more, and
  in a function it names a parameter.
* The docstring of a command is what ``--help`` prints, to users who pass options and see exit codes. So it has neither
  Args nor Raises: each option is explained by its help text, which is there and has three words or more.
* A method that a base class also has keeps to the contract that stands there: only its first line is checked. A name is
  public if no part of its dotted name begins with an underscore, or if a package exports it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from meta_exports import exported, tree
from typer.main import get_command

from sfumato import cli

PACKAGE = Path(__file__).parents[2] / "src" / "sfumato"
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef

FULL = (
    "attacks", "audit", "bounded", "catalog", "central", "classlevel", "cli", "collect", "datasets", "distributed", "errors",
    "estimator", "evaluation", "experiments", "graph", "local", "loops", "method", "nn", "noise", "pate", "privacy", "pyg",
    "randomizers", "record", "report", "scoring", "serving", "shares", "statistics", "students", "tables", "text", "verify",
    "web",
)  # fmt: skip
LEAST_WORDS, LEAST_IN_ARGS, MANY_PARAMETERS = 4, 3, 3
CHECKS = ("check_real", "check_int", "check_choice", "check_fields")
NO_FAULT = {"AssertionError", "NotImplementedError"}  # raised where no caller can be wrong
VERBS = """
    Account Add Aggregate Allow Append Apply Ask Balance Bind Bound Build Calibrate Call Cap Charge Check Choose Clip Close
    Combine Compare Compute Convert Copy Count Cut Decide Delete Derive Describe Divide Draw Drop Encode Estimate Explain
    Find Fit Forget Gather Give Group Hash Hold Join Keep Let List Load Lock Make Mark Measure Merge Move Name Open Order
    Pack Pad Parse Pay Predict Print Privatize Project Propagate Put Quantize Raise Randomize Read Record Refuse Regroup
    Release Remove Render Replace Report Return Round Run Sample Save Say Scale Score Search Send Set Show Shrink Simulate Sort
    Split Stack Start Stop Store Stream Subtract Sum Take Tell Test Toss Train Turn Undo Unpack Update Use Verify
    Weigh Write Yield
"""


def text_faults(package: Path) -> list[str]:
    """What the docstrings of the packages of ``FULL`` fail to say."""
    above, given, found = _methods_of_bases(package), exported(package), []
    for name, owner, node in _all_names(package):
        text = ast.get_docstring(node) or ""
        if "._" in name and not any(name == one or name.startswith(f"{one}.") for one in given):
            continue
        faults = [*_first_line_faults(node, text.partition("\n")[0])]
        if node.name not in above.get(owner, ()):
            faults += _section_faults(node, text)
        found += [f"{name}: {fault}" for fault in faults]
    return found


def _all_names(package: Path) -> Iterator[tuple[str, str, Definition]]:
    """Dotted name, the class it belongs to as ``package.Class`` (or nothing), and definition."""
    for home in FULL:
        for path in [*sorted((package / home).rglob("*.py")), *package.glob(f"{home}.py")]:
            module = ".".join(path.relative_to(package).with_suffix("").parts)
            for node in tree(path).body:
                if not isinstance(node, Definition) or node.name.startswith("_"):
                    continue
                yield f"{module}.{node.name}", "", node
                of_protocol = isinstance(node, ast.ClassDef) and any(
                    ast.unparse(base) == "Protocol" for base in node.bases
                )
                # the class speaks for the methods of a protocol, and for the forward of a network
                for inner in node.body if isinstance(node, ast.ClassDef) and not of_protocol else ():
                    if isinstance(inner, Function) and not inner.name.startswith("_") and inner.name != "forward":
                        yield f"{module}.{node.name}.{inner.name}", f"{home}.{node.name}", inner


def _first_line_faults(node: Definition, first: str) -> Iterator[str]:
    is_property = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
    if len(first.split()) < LEAST_WORDS:
        yield f"expected a first line of {LEAST_WORDS} words or more, got {first!r}"
    elif isinstance(node, Function) and not is_property and first.split()[0].strip(",") not in VERBS.split():
        yield f"expected a first line that opens with a verb such as Return, got {first!r}"


def command_faults(name: str, command: Any) -> Iterator[str]:
    """What a command fails to say, or those of a group."""
    first, said = (command.help or "").partition("\n")[0], command.help or ""
    verb = getattr(command, "commands", None) is not None or first.split()[0].strip(",") in VERBS.split()
    if len(first.split()) < LEAST_WORDS or not verb:
        yield f"{name}: expected a first line of {LEAST_WORDS} words or more that opens with a verb, got {first!r}"
    if any(f"{title}:\n" in said for title in ("Args", "Raises")):
        yield f"{name}: expected no section Args or Raises, which --help prints"
    for one in command.params:
        if len((getattr(one, "help", None) or "").split()) < LEAST_IN_ARGS:
            yield f"{name}: expected a help text of {LEAST_IN_ARGS} words or more for {one.name}"
    for word, inner in getattr(command, "commands", {}).items():
        yield from command_faults(f"{name} {word}", inner)


def _section_faults(node: Definition, text: str) -> Iterator[str]:
    raised = _section(text, "Raises")
    for error in sorted(_errors(node)):
        if not raised or error not in raised:
            yield f"expected {error or 'an error'} in a section Raises, got {raised.strip() or 'none'!r}"
    names = _parameters(node)
    args = dict(re.findall(r"^ +\*{0,2}(\w+): (.*(?:\n {8,}.*)*)", _section(text, "Args"), re.MULTILINE))
    for name in names if len(names) >= MANY_PARAMETERS else ():
        if name not in args and not re.search(rf"``[^`]*\b{name}\b[^`]*``", text):
            yield f"expected {name} to be explained in Args or as ``{name}``"
    for name, said in args.items():
        if len(said.split()) < LEAST_IN_ARGS:
            yield f"expected {LEAST_IN_ARGS} words or more about {name}, got {said!r}"
        if isinstance(node, Function) and name not in names:
            yield f"expected only parameters in Args, got {name}"


def _section(text: str, title: str) -> str:
    return text.partition(f"{title}:\n")[2].partition("\n\n")[0]


def _parameters(node: Definition) -> list[str]:
    """Names of what a caller passes: parameters of a function; ``__init__`` parameters or fields of a class."""
    if isinstance(node, Function):
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *filter(None, [node.args.vararg])]
        return [one.arg for one in every if one.arg not in ("self", "cls") and not one.arg.startswith("_")]
    for inner in node.body:
        if isinstance(inner, Function) and inner.name == "__init__":
            return _parameters(inner)
    if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return []
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
    fields = [one for one in fields if not re.search(r"ClassVar|init=False", ast.unparse(one))]
    return [one.target.id for one in fields if not one.target.id.startswith("_")]


def _errors(node: Definition) -> set[str]:
    """Classes of the errors that a body itself raises; "" for an error that another function makes."""
    if isinstance(node, ast.ClassDef):
        makers = [inner for inner in node.body if isinstance(inner, Function)]
        return {error for one in makers if one.name in ("__init__", "__post_init__") for error in _errors(one)}
    found, caught = _raised(node), set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and getattr(inner.func, "id", "") in CHECKS:
            found.add("InputError")
        elif isinstance(inner, ast.Try):
            handled = " ".join(ast.unparse(handler.type) for handler in inner.handlers if handler.type)
            caught |= {error for part in inner.body for error in _raised(part) if re.search(rf"\b{error}\b", handled)}
    return found - caught - NO_FAULT


def _raised(node: ast.AST) -> set[str]:
    """Classes in the statements ``raise Error(...)`` below a node."""
    makers = [one.exc.func for one in ast.walk(node) if isinstance(one, ast.Raise) and isinstance(one.exc, ast.Call)]
    names = [ast.unparse(maker) for maker in makers]
    return {name if name.endswith("Error") else "InputError" if name == "fail" else "" for name in names}


def _methods_of_bases(package: Path) -> dict[str, set[str]]:
    """Methods that the bases of a class define, bases of bases included, by ``package.Class``.

    A base is looked for in its own package first, and then in those that are imported.
    """
    classes: dict[str, ast.ClassDef] = {}
    for path in package.rglob("*.py"):
        nodes = [node for node in tree(path).body if isinstance(node, ast.ClassDef)]
        classes |= {f"{path.relative_to(package).parts[0]}.{node.name}": node for node in nodes}
    elsewhere = {name.partition(".")[2]: name for name in classes}

    def above(name: str) -> set[str]:
        found = set()
        for base in classes[name].bases:
            called = ast.unparse(base).partition("[")[0]
            parent = f"{name.partition('.')[0]}.{called}"
            parent = parent if parent in classes else elsewhere.get(called, "")
            if parent in classes and parent != name:
                found |= {inner.name for inner in classes[parent].body if isinstance(inner, Function)} | above(parent)
        return found

    return {name: above(name) for name in classes}


def test_docstrings_say_what_a_caller_needs():
    assert not text_faults(PACKAGE)


def test_the_rules_are_in_force_in_every_package():
    names = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert {name for name in names if not name.startswith("_")} == {*FULL}


PLANTED = '''
class Base:
    """The contract of all noise."""
    def draw(self, key, start, stop):
        """Draw noise at ``start`` to ``stop`` under ``key``.

        Raises:
            InputError: the positions are out of order.
        """
        raise InputError("...")
class GoodChild(Base):
    """A law that keeps to the contract."""
    def draw(self, key, start, stop):
        """Draw noise of this law."""
        raise InputError("...")
class Curt:
    """C."""
class Shape(Protocol):
    """Anything that has an area."""
    def area(self): ...

@dataclass
class Fields:
    """A law with three settings.

    Args:
        scale: C.
        stop: one past the last.
    """
    scale: float
    stop: int
    law: str
    square: ClassVar[bool]
    _cut: int

    def __post_init__(self):
        check_real(scale=self.scale)
    @property
    def cap(self):
        """The cap."""
    @property
    def good_cap(self):
        """The cap of each node."""
def curt():
    """One."""
def public():
    """Public."""
def noun():
    """The noise of a release."""

def unraised(noise):
    """Return noise that is checked."""
    if noise < 0:
        raise fail("noise", noise, "to be positive")

def other_class(noise):
    """Return noise that is checked.

    Raises:
        InputError: the noise is negative.
    """
    raise LedgerError("...")
def made_elsewhere(noise):
    """Return noise that is checked."""
    raise _damaged(noise)

def unnamed(noise, key, start):
    """Return noise that depends on ``key``.

    Args:
        noise: the noise in steps.
        stop: one past the last.
    """

def good(noise, key, start):
    """Return noise that depends on ``key``, from ``start`` on.

    Args:
        noise: the noise in steps, which a message may hold
            on two lines.

    Raises:
        InputError: the noise is negative.
    """
    check_int(noise=noise)
    try:
        raise ValueError("caught")
    except (KeyError, ValueError):
        raise

def _private(noise, key, start):
    """C."""
'''
SAID = """
    Curt: expected a first line of 4 words or more, got 'C.'
    Fields: expected InputError in a section Raises, got 'none'
    Fields: expected law to be explained in Args or as ``law``
    Fields: expected 3 words or more about scale, got 'C.'
    Fields.cap: expected a first line of 4 words or more, got 'The cap.'
    curt: expected a first line of 4 words or more, got 'One.'
    public: expected a first line of 4 words or more, got 'Public.'
    noun: expected a first line that opens with a verb such as Return, got 'The noise of a release.'
    unraised: expected InputError in a section Raises, got 'none'
    other_class: expected LedgerError in a section Raises, got 'InputError: the noise is negative.'
    made_elsewhere: expected an error in a section Raises, got 'none'
    unnamed: expected start to be explained in Args or as ``start``
    unnamed: expected only parameters in Args, got stop
"""


def test_planted_faults_are_found(tmp_path):
    for place in ("noise", "noise/deep"):
        (tmp_path / place).mkdir()
    (tmp_path / "noise" / "laws.py").write_text(PLANTED)
    (tmp_path / "noise" / "_inside.py").write_text('def curt():\n    """C."""\n')
    assert text_faults(tmp_path) == [f"noise.laws.{line.strip()}" for line in SAID.strip().splitlines()]
    for place, name in (("noise/deep/laws.py", "noise.deep.laws.curt: "), ("errors.py", "errors.curt: ")):
        (tmp_path / place).write_text('def curt():\n    """C."""\n')
        assert any(fault.startswith(name) for fault in text_faults(tmp_path))


def test_commands_and_options_are_explained():
    app = get_command(cli.app)
    assert [fault for word, one in app.commands.items() for fault in command_faults(word, one)] == []


def test_a_curt_command_is_found():
    toy = typer.Typer()

    @toy.command()
    def curt(table: str = typer.Option("", help="A table."), plain: str = ""):
        """Print it.

        Args:
            table: the table of nodes.
        """

    assert [
        fault.partition(", got")[0] for fault in command_faults("curt", get_command(toy)) if "completion" not in fault
    ] == [
        "curt: expected a first line of 4 words or more that opens with a verb",
        "curt: expected no section Args or Raises, which --help prints",
        "curt: expected a help text of 3 words or more for table",
        "curt: expected a help text of 3 words or more for plain",
    ]
