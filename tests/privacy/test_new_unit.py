"""A new unit is one class and one line of the table ``UNITS``: everything that names units then knows it."""

import inspect
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pytest

import sfumato as sf
from sfumato.bounded._routing import routed_sensitivity
from sfumato.bounded.aggregation import HOPS, hop_sensitivity
from sfumato.cli._options import Options
from sfumato.cli._parse import parse
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.experiments._runs import Run
from sfumato.privacy import units
from sfumato.privacy.units import Declared, Unit, unit_from_dict, unit_named, unit_to_dict
from sfumato.record._certificate import caveats
from sfumato.report._words import unit_words


@dataclass(frozen=True)
class Households(Unit):
    """All records of one household; the word takes a size, such as ``household:4``."""

    most: int
    name: ClassVar[str] = "households"
    words: ClassVar[dict[str, str]] = {"household": "all records of one household"}
    parameter: ClassVar[str] = "SIZE"
    relation: ClassVar[str] = "replace"
    public: ClassVar[tuple[str, ...]] = ("node_ids", "roles")

    @classmethod
    def parse(cls, word, parameter, declared):
        """One size."""
        if parameter is None or not parameter.isdigit():
            raise InputError(
                f"Expected unit to be {word}:SIZE, such as {word}:4, got size {parameter!r}. Write a number."
            )
        return cls(int(parameter))

    def describe(self):
        """Say in plain words what is protected."""
        return f"all records of any one household of at most {self.most}"

    def caveats(self, directed):
        """Some are larger."""
        return ["Larger households are protected less."]


HELP = """
from dataclasses import dataclass
from typing import ClassVar
from sfumato.errors import InputError
from sfumato.privacy import units
from sfumato.privacy.units import Unit
{toy}
units.UNITS = (*units.UNITS, Households)
import typer
from sfumato.cli import app
commands = typer.main.get_command(app).commands
print(*(option.help for option in commands["train"].params if option.name == "unit"))
"""
GRAPH = sf.graph.campus(60, seed=0)
FACTS = GRAPH.public_facts(Households(4))


@pytest.fixture(autouse=True)
def table(monkeypatch):
    """The one line of the table."""
    monkeypatch.setattr(units, "UNITS", (*units.UNITS, Households))


def test_the_command_line_word_takes_its_parameter(tmp_path):
    assert unit_named("household:4", Declared(False)) == Households(4)
    graph = sf.graph.campus(60, seed=0)
    options = Options(method="gap", unit="household:4", out=tmp_path, dataset="campus", epsilon=1.0, delta=1e-6)
    request = parse(options).request
    assert request.unit_on(graph) == Households(4)
    assert request.budget == sf.Budget(1.0, 1e-6)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("household", "such as household:4"),
        ("household:", "to be household:SIZE, got 'household:'"),
        ("household:many", "got size 'many'"),
        ("edge:5", "to be 'edge' alone, got 'edge:5'"),
        ("none:", "to be 'none' alone"),
        (
            "family:4",
            "to be one of none, arc, edge, node, node-incident, person, person-nodes, local, link, servers, record, class, "
            "subclass, household, got 'family:4'",
        ),
    ],
)
def test_a_wrong_parameter_is_refused_before_any_file_is_read(tmp_path, text, told):
    with pytest.raises(InputError, match=told):
        unit_named(text, Declared(False))
    with pytest.raises(InputError, match=told):
        parse(Options(method="gap", unit=text, out=tmp_path, dataset="no-such-file", epsilon=1.0, delta=1e-6))


def test_certificates_ledgers_and_reports_name_it():
    assert unit_to_dict(Households(4)) == {"name": "households", "relation": "replace", "most": 4}
    assert unit_from_dict({"name": "households", "relation": "replace", "most": 4}) == Households(4)
    assert caveats(Households(4), False, ()) == ["Larger households are protected less."]
    assert unit_words("household:4") == "all records of one household (household:4)"


def test_help_names_it():
    done = subprocess.run(
        [sys.executable, "-c", HELP.format(toy=inspect.getsource(Households))], capture_output=True, text=True
    )
    assert done.stdout == (
        "What is protected: none, arc, edge, node, node-incident, person, person-nodes, record, class, subclass or "
        "household:SIZE. Local methods imply theirs (local, link or servers).\n"
    ), done.stderr


def test_an_experiment_takes_it():
    assert Run("mine", "gap", "household:4", epsilons=(1.0,), delta=1e-6).unit == "household:4"
    with pytest.raises(InputError, match="got size 'x'"):
        Run("mine", "gap", "household:x", epsilons=(1.0,), delta=1e-6)


@pytest.mark.parametrize("method", [sf.MLP(), sf.GAP(), sf.ProGAP(), sf.LabelMessages(), sf.SAGE()])
def test_no_method_claims_a_proof_that_it_has_not(method):
    with pytest.raises(UnsupportedUnitError):
        method.calibrate(sf.Budget(1.0, 1e-6), Households(4), FACTS)


def test_auto_finds_no_method():
    with pytest.raises(UnsupportedUnitError):
        sf.Auto().calibrate(sf.Budget(1.0, 1e-6), Households(4), FACTS)


@dataclass(frozen=True)
class Pairs(sf.EdgeLevel):
    """Two edges, which inherit from one edge and not its proofs."""

    name: ClassVar[str] = "pairs"


@pytest.mark.parametrize("bound", [partial(hop_sensitivity, released_messages=True), routed_sensitivity])
def test_a_unit_inherits_no_bound(bound):
    assert bound(sf.EdgeLevel(directed=False)) <= 1.5
    with pytest.raises(UnsupportedUnitError, match="no bounded sensitivity"):
        bound(Pairs(directed=False))


def test_a_method_has_a_proof_where_its_card_says_so(monkeypatch):
    """A bound of a hop alone lets no method train under a unit that neither card nor verifier names."""
    monkeypatch.setitem(HOPS, "pairs", lambda *_: (3.0, 4))
    with pytest.raises(UnsupportedUnitError, match="Use one of its units"):
        sf.GAP().calibrate(sf.Budget(1.0, 1e-6), Pairs(directed=False), GRAPH.public_facts(Pairs(directed=False)))


@dataclass(frozen=True)
class Answers(Households):
    """Households whose labels are public."""

    name: ClassVar[str] = "answers"
    public: ClassVar[tuple[str, ...]] = ("node_ids", "roles", "labels")


def test_private_features_are_not_read_in_the_clear_where_labels_are_public():
    with pytest.raises(UnsupportedUnitError, match="DP-SGD has no bounded sensitivity"):
        sf.MLP().calibrate(sf.Budget(1.0, 1e-6), Answers(4), GRAPH.public_facts(Answers(4)))


def test_joint_predictions_are_for_the_node_alone_where_features_are_protected():
    assert Households(4).audience(["weights"]) == {
        "anyone": ["weights"],
        "the node itself": ["predictions that read the node's own features (joint DP)"],
        "never": [],
    }
    assert sf.EdgeLevel(directed=False).audience(["weights"])["anyone"] == ["weights", "predictions for all nodes"]
    assert sf.NoPrivacy().audience(["weights"])["anyone"] == []
