"""Locally private methods from the command line: what is implied, printed, written, charged and refused."""

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.catalog import method_for
from sfumato.cli import invoke
from sfumato.cli._local import implied, look
from sfumato.errors import InputError
from sfumato.evaluation._controls import controls
from sfumato.evaluation._run import _lost
from sfumato.graph import read_csv
from sfumato.graph._graph import Graph, PublicFacts
from sfumato.local._hybrid import Hybrid
from sfumato.local._label_only import LabelOnly
from sfumato.local._presets import preset
from sfumato.noise._rectangles import SAMPLER_TAU
from sfumato.report._run import read_run, run_page

ASKED = ("--epsilon-y", "1")
BOTH = ("--epsilon-x", "2", *ASKED)


def loads(text):
    assert text.count("\n") == 1
    return json.loads(text)


@pytest.fixture(scope="module")
def trained(tables, tmp_path_factory):
    """A label-only run on the first graph; tests must not write into it."""
    out = tmp_path_factory.mktemp("local") / "run"
    assert invoke(["train", "label-only", *tables["first"], *ASKED, "--out", str(out), "--json"]) == 0
    return out


def test_a_local_run_end_to_end(sfumato, tables, tmp_path):
    out = tmp_path / "run"
    result = sfumato("train", "label-only", *tables["first"], *ASKED, "--out", out, "--threads", "1", "--json")
    assert (result.code, result.err) == (0, "")
    values = loads(result.out)
    assert values["privacy"] == {
        "unit": "local", "relation": "replace", "epsilon": 1.0, "delta": 0.0, "epsilon_x": 0.0, "epsilon_y": 1.0,
    }  # fmt: skip
    assert (values["unit"], values["method"], values["floor"], values["label_control"]) == (
        "local",
        "label-only",
        None,
        None,
    )
    assert values["test_accuracy"]["mean"] > 0.6
    assert values["ceiling"]["mean"] > 0.6
    assert values["graph_gain_recovered"] is None
    assert json.loads((out / "evaluation" / "source.json").read_text())["split"] == "50/25/25"
    verdict = loads(sfumato("verify", out, "--json").out)
    assert (verdict["valid"], verdict["problems"], verdict["claim"]) == (True, [], {"epsilon": 1.0, "delta": 0.0})
    assert loads(sfumato("evaluate", out, "--json").out)["test_accuracy"] == values["test_accuracy"]["mean"]


def test_what_follows_training_works(trained, sfumato, tmp_path):
    predictions, page = tmp_path / "p.csv", tmp_path / "page.html"
    assert sfumato("predict", trained, "--out", predictions).code == 0
    with predictions.open() as file:
        assert len(list(csv.DictReader(file))) == 200
    assert sfumato("report", trained, "--out", page).code == 0
    text = page.read_text()
    assert "users trust nobody" in text
    assert "delta = 0" in text
    assert "sum of the epsilons of all parts" in text
    assert "trusted curator" not in text
    assert "kondor2002diffusion" in sfumato("cite", trained).out


def test_lpgnn_is_the_hybrid_beside_its_controls_unless_a_preset_is_named(sfumato, tables, tmp_path):
    result = sfumato("train", "lpgnn", *tables["first"], *BOTH, "--controls", "--out", tmp_path / "run")
    assert result.code == 0
    for words in (
        "floor: ",
        "control: labels alone",
        "control: no graph",
        "ceiling (reference)",
        "epsilon = 3, delta = 0",
    ):
        assert words in " ".join(result.out.split()), words
    assert "feature-reports 2, label-reports 1" in (tmp_path / "run" / "guarantee.txt").read_text()
    values = json.loads((tmp_path / "run" / "evaluation" / "metrics.json").read_text())
    assert (values["method"], values["privacy"]["epsilon"]) == ("hybrid", 3.0)
    assert all(values[name] for name in ("floor", "label_control", "no_features", "mlp", "ceiling"))
    assert sfumato("verify", tmp_path / "run").code == 0


def test_the_floor_of_the_default_is_the_network_on_features_that_tell_nothing():
    method = Hybrid(epsilon_x=1.0, epsilon_y=0.5, label_mechanism="randomized-response")
    plan = method.calibrate(None, method.unit, PublicFacts(100, 50, 4, 3, False))
    found = {one.name: one.method for one in controls(plan)}
    floor = found["floor"]
    assert (floor.name, floor.features_in, floor.epsilon_x, floor.steps_x, floor.scale) == (
        "lpgnn",
        "random",
        0,
        8,
        True,
    )
    assert (floor.loss, floor.select, floor.epsilon_y, floor.label_mechanism) == (
        "forward", "debiased", 0.5, "randomized-response",
    )  # fmt: skip
    assert found["no_features"] == replace(method, epsilon_x=0.0)
    assert (found["mlp"].backbone, found["mlp"].mechanism, found["mlp"].epsilon_x) == ("mlp", "collision", 1.0)


def test_every_control_has_a_title_where_it_is_printed(trained):
    run = replace(read_run(trained), released={})
    page = run_page(run)
    values = json.loads((trained / "evaluation" / "metrics.json").read_text())
    assert {control.name for control in LabelOnly.card.controls} <= set(values)
    assert "default without features" not in page
    values["no_features"] = values["mlp"] = values["test_accuracy"]
    text = run_page(replace(run, metrics=values, certificate={**run.certificate, "method": Hybrid.card.name}))
    titles = {control.name: control.title for control in Hybrid.card.controls}
    for title in (titles["no_features"], titles["mlp"]):
        assert title.replace("control", "Control") in text


def test_pgc_prints_what_a_user_spends_beside_what_a_feature_does(sfumato, tables, tmp_path):
    result = sfumato("train", "pgc", *tables["first"], "--epsilon-x", "1", "--out", tmp_path / "run", "--json")
    assert result.code == 0
    assert loads(result.out)["privacy"] == {
        "unit": "local", "relation": "replace", "epsilon": 4.0, "delta": 0.0, "epsilon_x": 1.0, "epsilon_y": None,
        "per_feature": True,
    }  # fmt: skip
    certificate = json.loads((tmp_path / "run" / "release" / "certificate.json").read_text())
    assert certificate["unit"]["labels"] is False
    assert "on each of the 4 features" in certificate["caveats"][0]
    assert sfumato("verify", tmp_path / "run").code == 0


def test_everything_in_the_clear_is_unit_none(sfumato, tables, tmp_path):
    out, clear = tmp_path / "run", ("--epsilon-x", "inf", "--epsilon-y", "inf")
    result = sfumato("train", "pgc", *tables["first"], *clear, "--out", out, "--json")
    assert result.code == 0
    privacy = loads(result.out)["privacy"]
    assert (privacy["unit"], privacy["epsilon"], privacy["epsilon_x"], privacy["epsilon_y"]) == (
        "none",
        None,
        None,
        None,
    )
    assert sfumato("verify", out).code == 0


def test_gaussian_noise_takes_a_delta(sfumato, tables, tmp_path):
    options = ("--preset", "lpgnn-2021", *BOTH, "--mechanism", "gaussian", "--delta", "1e-6", "--set", "epochs=5")
    result = sfumato("train", "lpgnn", *tables["first"], *options, "--out", tmp_path / "run", "--json")
    assert result.code == 0
    privacy = loads(result.out)["privacy"]
    assert privacy["epsilon"] == pytest.approx(3, rel=1e-6)
    assert privacy["epsilon"] <= 3
    assert privacy["delta"] == 1e-6
    assert sfumato("verify", tmp_path / "run").code == 0


MEMBERS, CLIPPED = "entries above 0 count as members", "which are clipped"
NUMBERS = ("a,b", lambda v: f"{v},{30 - v}")
BINARY = ("a,b", lambda v: f"{v % 2},{v // 2 % 2}")
RANGES = "[columns.a]\nmin = 0\nmax = 99\n[columns.b]\nmin = -69\nmax = 30\n"


@pytest.fixture
def written(tmp_path):
    """Write a ring of 100 users with these columns; the options that name it."""

    def write(columns, label=lambda v: f"k{v % 2}", schema=None):
        names, row = columns
        head = ",".join(part for part in ("id", names, "y") if part)
        rows = (",".join(part for part in (f"n{v}", row(v), label(v)) if part) for v in range(100))
        (tmp_path / "nodes.csv").write_text("\n".join((head, *rows)) + "\n")
        arcs = (f"n{v},n{(v + step) % 100}" for v in range(100) for step in (2, 6))
        (tmp_path / "edges.csv").write_text("\n".join(("source,target", *arcs)) + "\n")
        options = ["--nodes", tmp_path / "nodes.csv", "--edges", tmp_path / "edges.csv", "--label", "y"]
        if schema is None:
            return options
        (tmp_path / "schema.toml").write_text(schema)
        return [*options, "--schema", tmp_path / "schema.toml"]

    return write


@pytest.mark.parametrize(
    ("columns", "schema", "asked", "said"),
    [
        (NUMBERS, None, Hybrid(2.0, 1.0), MEMBERS),
        (NUMBERS, RANGES, Hybrid(2.0, 1.0), MEMBERS),
        (NUMBERS, None, Hybrid(2.0, 1.0, "multi-bit"), CLIPPED),
        (NUMBERS, RANGES, Hybrid(2.0, 1.0, "multi-bit"), ""),
        (BINARY, None, Hybrid(2.0, 1.0), ""),
        (NUMBERS, None, Hybrid(0.0, 1.0), ""),
        (NUMBERS, None, Hybrid(None, 1.0), ""),
    ],
)
def test_what_numeric_columns_lose(columns, schema, asked, said, written):
    options = written(columns, schema=schema)
    found = _lost(asked, read_csv(options[1], options[3], label="y", schema=options[-1] if schema else None))
    assert said in found
    assert bool(said) == bool(found)


def test_what_columns_lose_is_told_in_evaluation_alone(sfumato, written, tmp_path):
    result = sfumato("train", "lpgnn", *written(NUMBERS), *BOTH, "--out", tmp_path / "run", "--json")
    assert (result.code, result.err) == (0, "")
    assert MEMBERS in json.loads((tmp_path / "run" / "evaluation" / "metrics.json").read_text())["features_lost"]
    assert "features_lost" not in loads(result.out)


def test_wide_sparse_features_are_looked_at_where_they_are_stored():
    x = sp.csr_matrix(([1.0, 3.0], ([0, 1], [2, 5])), shape=(4, 90), dtype=np.float32)
    graph = Graph.from_edges([0, 1], [1, 2], 4, directed=False, x=x, y=[0, 1, 0, 1], classes=("a", "b"))
    assert MEMBERS in _lost(Hybrid(epsilon_x=1.0), graph)
    assert _lost(Hybrid(epsilon_x=1.0), replace(graph, x=x.minimum(1))) == ""


@pytest.mark.parametrize(
    ("method", "columns", "label", "extra", "said"),
    [
        ("lpgnn", ("", lambda v: ""), None, BOTH, "Ask for none: lpgnn with --epsilon-x 0"),
        ("pgc", ("", lambda v: ""), None, ("--epsilon-x", "1"), "Ask for none: lpgnn with --epsilon-x 0"),
        ("pgc", ("", lambda v: ""), None, ("--task", "link", "--epsilon-x", "1"), "add columns to the node table"),
        ("lpgnn", BINARY, lambda v: "k", BOTH, "Expected labels of 2 classes or more, got 1. Name another --label"),
        ("lpgnn", BINARY, None, ("--epsilon-x", "100", *ASKED, "--mechanism", "gaussian", "--delta", "1e-6"),
         "below 54.8 together for mechanism gaussian with delta 1e-06"),
    ],
)  # fmt: skip
def test_a_graph_without_what_is_asked_for_is_refused(method, columns, label, extra, said, refused, written, tmp_path):
    options = written(columns, label) if label else written(columns)
    refused(said, "train", method, *options, *extra, "--out", tmp_path / "run")


def test_the_largest_gaussian_epsilon_that_is_let_through_can_be_planned():
    largest = float(np.log(1e-6) - np.log(SAMPLER_TAU * 2))
    facts, graph = (
        PublicFacts(4, 2, 2, 2, False),
        Graph.from_edges(
            [0], [1], 4, directed=False, x=np.eye(4, 2, dtype=np.float32), y=[0, 1, 0, 1], classes=("a", "b")
        ),
    )
    inside, outside = (Hybrid(x, 1.0, "gaussian", delta=1e-6) for x in (largest - 1.01, largest - 0.99))
    look(graph, inside)
    assert inside.calibrate(None, inside.unit, facts).delta == 1e-6
    with pytest.raises(InputError, match="too large for its noise sampler"):
        look(graph, outside)


def test_another_graph_is_a_new_collection(trained, refused, tables, tmp_path):
    spend = ("--epsilon", "1", "--delta", "1e-5", "--new-run", tmp_path / "new", "--out", tmp_path / "p.csv")
    for extra in (spend, spend[-2:]):
        refused("a local method, which has no private inference", "predict", trained, *tables["second"], *extra)


def test_an_epsilon_of_labels_goes_before_that_of_the_preset():
    assert preset("pgc-2020", "campus", 1.0, 2.0)["epsilon_y"] is None
    asked = method_for("pgc", {"epsilon_x": 1.0, "epsilon_y": 2.0}, "campus")
    assert (asked.epsilon_y, asked.label_mechanism, asked.loss) == (2.0, "randomized-response", "cross-entropy")


@pytest.mark.parametrize(
    ("given", "epsilon_x"),
    [
        ({}, 0.0),
        ({"epsilon_x": 2.0}, 2.0),
        ({"mechanism": "multi-bit"}, None),
        ({"preset": "lpgnn-2021"}, None),
        ({"unit": "none"}, math.inf),
        ({"method": "label-only"}, 0.0),
        ({"method": "pgc"}, None),
    ],
)
def test_the_default_asks_for_no_features(given, epsilon_x):
    asked = dict.fromkeys(("split", "unit", "preset", "mechanism", "epsilon_x", "epsilon_y"))
    assert implied({"method": "lpgnn", **asked, **given})["epsilon_x"] == epsilon_x


REFUSED = [
    ("label-only", "", "Expected --epsilon-y with label-only"),
    ("label-only", "--epsilon-y 1 --epsilon 1", "--epsilon-x and --epsilon-y with label-only"),
    ("label-only", "--epsilon-y 1 --delta 1e-6", "--delta with --mechanism gaussian only"),
    ("label-only", "--epsilon-y 1 --unit edge", "Expected --unit local with label-only"),
    ("label-only", "--epsilon-y 1 --unit none", "Expected --unit local with label-only"),
    ("label-only", "--epsilon-y inf --unit local", "or none with both epsilons inf"),
    ("label-only", "--epsilon-y 1 --epsilon-x 2", "epsilon_x to be 0 for label-only"),
    ("label-only", "--epsilon-y 1 --resumable", "no --resumable with label-only"),
    ("label-only", "--epsilon-y 1 --mechanism pgc", "no --mechanism with label-only"),
    ("label-only", "--epsilon-y 1 --preset lpgnn-2021", "--preset lpgnn-2021 with lpgnn"),
    ("label-only", "--epsilon-y 1 --hops 2", "--hops with one of"),
    ("label-only", "--epsilon-y 1 --max-degree 9", "--max-degree with --unit node"),
    ("label-only", "--epsilon-y -1", "Expected --epsilon-y to be a finite number > 0"),
    ("label-only", "--epsilon-y 0", "For values in the clear pass inf."),
    ("lpgnn", "--mechanism multi-bit --epsilon-y 1", "Expected --epsilon-x with lpgnn"),
    ("lpgnn", "--preset lpgnn-2020 --epsilon-x 2 --epsilon-y 1", "preset to be one of lpgnn-2021, pgc-2020"),
    ("lpgnn", "--preset lpgnn-2021 --epsilon-y 1", "Expected --epsilon-x with lpgnn"),
    ("lpgnn", "--preset lpgnn-2021 --mechanism magic --epsilon-x 2 --epsilon-y 1", "mechanism to be one of multi-bit"),
    ("lpgnn", "--unit link --epsilon-x 2 --epsilon-y 1", "Expected --unit local with lpgnn"),
    ("lpgnn", "--task link --epsilon-x 2 --epsilon-y 1", "--task link with method link-messages or pgc, got 'lpgnn'"),
    ("lpgnn", "--epsilon-x -1 --epsilon-y 1", "--epsilon-x to be a finite number >= 0 and <= 10000, got -1.0"),
    ("lpgnn", "--epsilon-x nan --epsilon-y 1", "got nan. For values in the clear pass inf."),
    ("pgc", "--preset lpgnn-2021 --epsilon-x 2 --epsilon-y 1", "--preset lpgnn-2021 with lpgnn"),
    ("pgc", "--epsilon-x 0", "To ask for no features take lpgnn without --preset"),
    ("pgc", "--task link", "Expected --epsilon-x"),
    ("pgc", "--task link --epsilon-x 0", "Expected --epsilon-x to be a finite number > 0"),
    ("pgc", "--task link --epsilon-x 1 --epsilon 1", "--epsilon-x"),
    ("pgc", "--task link --epsilon-x 1 --unit edge", "Expected --unit local"),
    ("pgc", "--task link --epsilon-x 1 --epsilon-y 1", "Expected no --epsilon-y with --task link: no label is read"),
    ("pgc", "--task link --epsilon-x 1 --split 50/25/25", "Expected no --split with --task link"),
    ("pgc", "--task link --epsilon-x 1 --preset pgc-2020", "Expected no --preset with --task link"),
    ("pgc-links", "--epsilon-x 1", "Expected --task link with method pgc-links"),
    ("blink", "", "Expected --epsilon with blink, got none"),
    ("blink", "--epsilon 5 --delta 1e-6", "Expected no --delta with blink"),
    ("blink", "--epsilon 5 --unit edge", "Expected --unit link with blink, got edge"),
    ("blink", "--epsilon 5 --unit local", "Expected --unit link with blink, got local"),
    ("blink", "--unit none", "Expected --unit link with blink, got none"),
    (
        "blink",
        "--epsilon 5 --epsilon-x 1",
        "--epsilon-x with one of lpgnn, pgc, label-only, pgc-links, got method 'blink'",
    ),
    ("blink", "--epsilon 5 --mechanism pgc", "--mechanism with one of lpgnn, pgc, pgc-links, got"),
    ("blink", "--epsilon 5 --task link", "--task link with method link-messages or pgc, got 'blink'"),
    ("blink", "--epsilon -1", "epsilon to be"),
    ("blink", "--epsilon 5 --directed", "directed to be False"),
    ("gap", "--epsilon-x 1 --unit edge", "--epsilon-x with one of lpgnn, pgc, label-only"),
    ("gap", "--unit local", "--unit local with one of lpgnn, pgc, label-only"),
    ("gap", "--unit link", "--unit link with one of blink, got method 'gap'"),
    ("gap", "--task link --unit edge", "--task link with method link-messages or pgc, got 'gap'"),
    ("gap", "--preset pgc-2020 --unit edge", "--preset with lpgnn, got method 'gap'"),
]
"""Of what every method refuses alike (``--hops``, ``--resumable`` and others of one list) there is one row."""


@pytest.mark.parametrize(("method", "asked", "said"), REFUSED)
def test_options_that_contradict_the_trust_of_a_method_are_refused(method, asked, said, refused, tables, tmp_path):
    refused(said, "train", method, *tables["first"], *asked.split(), "--out", tmp_path / "run")
