"""Training and what follows it, from the command line: run folder, verification, prediction, budget."""

import csv
import json
import re
from pathlib import Path

import pytest

from sfumato.loops.kernels import loops

EDGE = ("--unit", "edge", "--epsilon", "4", "--delta", "1e-5")
RELEASE = {
    "certificate.json", "ledger.jsonl", "manifest.json", "model.safetensors", "releases.safetensors", "spec.json",
}  # fmt: skip
TRAIN_KEYS = {
    str: ("method", "dataset", "unit", "task", "device", "target", "score", "floor_method", "ceiling_method", "out"),
    dict: (
        "test_scores", "test_accuracy", "test_macro_f1", "floor", "label_control", "ceiling", "control_scores",
        "without_information", "detail", "verdict", "floor_release", "privacy", "seconds",
    ),
    float: ("graph_gain_recovered", "peak_mb"),
    list: ("unused",),
    bool: ("evaluation_private",),
}  # fmt: skip


def loads(text):
    """One strict JSON object on one line."""
    assert text.count("\n") == 1
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def trained(run_of):
    return run_of("gap --unit edge --epsilon 4 --delta 1e-5")


def test_campus_end_to_end(small_campus, sfumato, tmp_path):
    out = tmp_path / "run"
    result = sfumato("train", "gap", "--dataset", "campus", *EDGE, "--out", out, "--threads", "1", "--json")
    assert result.code == 0
    assert result.err == ""
    values = loads(result.out)
    assert {key: type(value) for key, value in values.items()} == {
        key: of for of in TRAIN_KEYS for key in TRAIN_KEYS[of]
    }
    for score in ("test_accuracy", "test_macro_f1", "floor", "ceiling"):
        assert list(values[score]) == ["mean", "low", "high", "seeds"]
        assert 0 < values[score]["mean"] < 1
        assert (values[score]["low"], values[score]["high"], values[score]["seeds"]) == (None, None, 1)
    assert 4 * 0.999 <= values["privacy"].pop("epsilon") <= 4
    assert values["privacy"] == {"unit": "edge", "relation": "add-remove", "delta": 1e-5}
    assert values["evaluation_private"] is False
    assert set(values["seconds"]) == {"load", "train", "total"}
    assert (values["dataset"], values["task"], values["out"]) == ("campus", "node", str(out))
    floor, ceiling, reached = (values[name]["mean"] for name in ("floor", "ceiling", "test_accuracy"))
    assert floor - 0.2 < reached  # of 45 test nodes, and with noise
    assert values["graph_gain_recovered"] == pytest.approx((reached - floor) / (ceiling - floor))
    assert names(out) == {"release", "evaluation", "guarantee.txt", "identity.json"}
    assert names(out / "release") == RELEASE
    assert names(out / "evaluation") == {"metrics.json", "curves.json", "source.json"}
    assert json.loads((out / "evaluation" / "metrics.json").read_text()) == loads(result.out)
    verdict = loads(sfumato("verify", out, "--json").out)
    assert verdict["claim"].pop("epsilon") == pytest.approx(4, rel=1e-3)
    assert verdict == {
        "valid": True,
        "arrivals": 0, "problems": [], "unit": {"name": "edge", "relation": "add-remove", "directed": False},
        "claim": {"delta": 1e-5}, "key": None, "origin_checked": False, "caveats": [], "prices": [], "aside": [],
    }  # fmt: skip
    again = loads(sfumato("evaluate", out, "--json").out)
    assert again["test_accuracy"] == pytest.approx(reached)
    assert sfumato("predict", out).code == 0


def test_predicting_on_the_same_graph_is_free(trained, tables, sfumato, tmp_path):
    for name, source in (("stored.csv", ()), ("named.csv", tables["first"])):
        result = sfumato("predict", trained, *source, "--out", tmp_path / name, "--json")
        assert loads(result.out) == {"out": str(tmp_path / name), "nodes": 200, "epsilon_spent": 0.0}
    assert (tmp_path / "stored.csv").read_bytes() == (tmp_path / "named.csv").read_bytes()
    rows = list(csv.DictReader((tmp_path / "stored.csv").read_text().splitlines()))
    assert [row["node"] for row in rows] == [f"n{v}" for v in range(200)]
    assert {row["predicted"] for row in rows} <= {"2004", "2005", "2006"}
    for row in rows:
        shares = {name: float(row[f"p({name})"]) for name in ("2004", "2005", "2006")}
        assert sum(shares.values()) == pytest.approx(1, abs=1e-5)
        assert max(shares, key=shares.get) == row["predicted"]


def test_predicting_on_another_graph_is_refused_without_a_budget_and_charged_with_one(trained, tables, refused, sfumato,
                                                                                       tmp_path):  # fmt: skip
    other = [*tables["second"], "--out", tmp_path / "p.csv"]
    refused("spends budget", "predict", trained, *other)
    refused("spends budget", "predict", trained, *other, "--epsilon", "2", "--delta", "1e-5")
    new = tmp_path / "new"
    result = sfumato("predict", trained, *other, "--epsilon", "2", "--delta", "1e-6", "--new-run", new, "--json")
    assert result.code == 0
    assert loads(result.out)["epsilon_spent"] == pytest.approx(2, rel=1e-3)
    certificate = json.loads((new / "release" / "certificate.json").read_text())
    assert certificate["budget"] == {"epsilon": 2.0, "delta": 1e-6}
    assert [release["name"] for release in certificate["releases"]] == ["aggregate/1", "aggregate/2"]
    assert loads(sfumato("verify", new, "--json").out)["valid"] is True
    assert sfumato("predict", new, *tables["second"], "--out", tmp_path / "again.csv", "--json").code == 0
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "p.csv").read_bytes()


def test_another_graph_needs_the_columns_of_training(trained, tables, refused, tmp_path):
    budget = ("--epsilon", "2", "--delta", "1e-5", "--new-run", tmp_path / "new", "--out", tmp_path / "p.csv", "--json")
    refused("num_features to be 4", "predict", trained, *tables["wider"], *budget)
    renamed = tmp_path / "nodes.csv"
    renamed.write_text(Path(tables["second"][1]).read_text().replace("f0,f1", "f0,g1", 1))
    refused("feature_names", "predict", trained, "--nodes", renamed, *tables["second"][2:], *budget)


def test_another_graph_needs_no_labels(trained, tables, sfumato, tmp_path):
    nodes, new, out = tmp_path / "unlabeled.csv", tmp_path / "new", tmp_path / "p.csv"
    rows = Path(tables["second"][1]).read_text().splitlines()
    nodes.write_text("".join(row.rsplit(",", 1)[0] + "\n" for row in rows))
    budget = ("--epsilon", "2", "--delta", "1e-6", "--new-run", new, "--out", out, "--json")
    result = sfumato("predict", trained, "--nodes", nodes, *tables["second"][2:4], *budget)
    assert result.code == 0, result.err
    assert sfumato("verify", new).code == 0
    assert {line.split(",")[1] for line in out.read_text().splitlines()[1:]} <= {"2004", "2005", "2006"}


BUDGET = ("--epsilon", "4", "--delta", "1e-5")


def test_a_signed_run_verifies_with_its_key_alone(tables, sfumato, tmp_path):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_pem_public_key,
    )

    for name in ("mine", "other"):
        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (tmp_path / f"{name}.pem").touch(0o600)
        (tmp_path / f"{name}.pem").write_bytes(private)
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (tmp_path / f"{name}.pub").write_bytes(public)
    run = tmp_path / "run"
    arguments = ["train", "mlp", *tables["first"], "--unit", "record", *BUDGET, "--sign-key", tmp_path / "mine.pem"]
    assert sfumato(*arguments, "--assume-public", "--out", run, "--json").code == 0
    assert names(run / "release") == {*RELEASE, "signature.json"}
    unasked = sfumato("verify", run)
    assert unasked.code == 0
    assert "origin: not checked" in unasked.out
    mine = sfumato("verify", run, "--public-key", tmp_path / "mine.pub", "--json")
    assert mine.code == 0
    raw = load_pem_public_key((tmp_path / "mine.pub").read_bytes()).public_bytes_raw()
    assert (loads(mine.out)["key"], loads(mine.out)["origin_checked"]) == (raw.hex(), True)
    other = sfumato("verify", run, "--public-key", tmp_path / "other.pub", "--json")
    assert other.code == 1
    found = loads(other.out)
    assert (found["valid"], found["key"], found["origin_checked"]) == (False, raw.hex(), False)
    (tmp_path / "weak").write_text("01" + 62 * "0")
    weak = sfumato("verify", run, "--public-key", tmp_path / "weak")
    assert (weak.code, weak.out) == (2, "")
    (run / "release" / "certificate.json").unlink()
    gone = loads(sfumato("verify", run, "--json").out)
    assert (gone["valid"], gone["unit"], gone["claim"]) == (False, None, None)


def test_an_unsigned_run_does_not_pass_for_a_signed_one(trained, sfumato, tmp_path):
    (tmp_path / "key.pub").write_text("ab" * 32)
    assert sfumato("verify", trained).code == 0
    assert sfumato("verify", trained, "--public-key", tmp_path / "key.pub").code == 1


def test_neither_messages_nor_certificate_depend_on_private_data(tables, sfumato, tmp_path):
    seen = []
    for name in ("first", "second"):
        out = tmp_path / name
        arguments = ["train", "gap", *tables[name], "--unit", "node", "--max-degree", "10", *BUDGET]
        result = sfumato(*arguments, "--assume-public", "--verbose", "--out", out)
        assert result.code == 0
        assert "The scores above read true labels, and must stay." in result.out
        public = [(out / "release" / file).read_bytes() for file in ("certificate.json", "ledger.jsonl")]
        seen.append((result.err.replace(str(Path(tables[name][1]).parent), ""), *public))
    assert seen[0] == seen[1]
    assert f"Neighborhoods are summed in {loops().NAME}.\n" in seen[0][0]
    assert "\nfitting a network on features ...\nfitting the classifier ...\n" in seen[0][0]


def test_budget_answers(sfumato):
    asked = ("budget", "epsilon", "--noise-multiplier", "6.6166", "--steps", "2", "--delta", "1e-7")
    values = loads(sfumato(*asked, "--json").out)
    assert set(values) == {"epsilon", "method"}
    assert values["epsilon"] == pytest.approx(1, abs=1e-4)
    assert "epsilon = 1.00" in sfumato(*asked).out
    noise = loads(sfumato("budget", "noise", "--epsilon", "1", "--steps", "2", "--delta", "1e-7", "--json").out)
    assert noise["noise_multiplier"] == pytest.approx(6.6166, abs=1e-4)
    replace = ("budget", "noise", "--epsilon", "1", "--steps", "2", "--delta", "1e-7", "--relation", "replace")
    assert loads(sfumato(*replace, "--json").out)["noise_multiplier"] == pytest.approx(2 * noise["noise_multiplier"])


def test_the_budget_by_moments_stands_beside_theorem_5_of_class_level_privacy(sfumato):
    """That of the faces: what was published is less than half of what any valid bound can be."""
    asked = ("budget", "epsilon", "--noise-multiplier", "0.8", "--sampling-prob", "0.33", "--steps", "307", "--delta", "1e-2",
             "--relation", "replace")  # fmt: skip
    moments, exact = (loads(sfumato(*asked, "--method", word, "--json").out) for word in ("moments", "pld"))
    assert moments["theorem_5"] == pytest.approx(62, abs=0.1)
    assert moments["epsilon"] > exact["epsilon"] > 112
    assert "62.040598, which is not a bound" in sfumato(*asked, "--method", "moments").out
    assert "strong_composition" not in moments  # it is of records that are added or removed
    slides = (
        "--noise-multiplier",
        4,
        "--sampling-prob",
        0.01,
        "--steps",
        10_000,
        "--delta",
        1e-5,
        "--method",
        "moments",
    )
    told = sfumato("budget", "epsilon", *slides).out
    assert "epsilon = 1.258575" in told
    assert "strong composition of 2016 states 9.339065, which is not a bound" in told


def test_datasets_are_listed(sfumato, monkeypatch):
    rows = {row["name"]: row for row in loads(sfumato("datasets", "--json").out)["datasets"]}
    assert rows["campus"]["present"] is True
    assert rows["facebook100/Berkeley13"]["num_nodes"] == 18980
    assert "campus" in sfumato("datasets").out
    monkeypatch.setenv("COLUMNS", "80")
    shown = sfumato("datasets").out
    assert all(name in shown for name in rows)
    assert re.search(r"campus +4,000 +225,252 +71 +6 +yes\n", re.sub(" +\n", "\n", shown))
    assert "campus: generated; needs no files" in shown
    assert "…" not in shown


def test_version_and_help(sfumato):
    from sfumato import __version__

    assert sfumato("--version").out == __version__ + "\n"
    for word in ("", "train", "predict", "evaluate", "verify", "budget", "budget epsilon", "budget noise", "datasets"):
        result = sfumato(*word.split(), "--help")
        assert (result.code, result.err) == (0, "")
        assert f"Usage: sfumato {word}".strip() in result.out
