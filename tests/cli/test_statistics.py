"""`sfumato describe`: answers with intervals from tables, stores and data sets, in a run folder that verifies."""

import csv
import json

import numpy as np
import pytest

AGES = ("0-17", "18-39", "40-64", "65+")
NODES = 200


@pytest.fixture(scope="module")
def contacts(tmp_path_factory):
    """The words that name a table of contacts: people with ages, no number of contacts above 12, and a schema that says so."""
    folder, rng = tmp_path_factory.mktemp("contacts"), np.random.default_rng(0)
    ages, pairs, degrees = rng.integers(0, 4, NODES), set(), np.zeros(NODES, int)
    for u, v in rng.integers(0, NODES, (3000, 2)).tolist():
        if u < v and max(degrees[u], degrees[v]) < 12 and (u, v) not in pairs and (ages[u] == ages[v] or u % 3 == 0):
            pairs.add((u, v))
            degrees[[u, v]] += 1
    write(folder / "people.csv", [("id", "age", "email"), *((f"p{v}", AGES[ages[v]], f"{v}@x") for v in range(NODES))])
    write(folder / "contacts.csv", [("one", "other"), *((f"p{u}", f"p{v}") for u, v in sorted(pairs))])
    write(folder / "long.csv", [("one", "other", "minutes"), *((f"p{u}", f"p{v}", 10) for u, v in sorted(pairs))])
    (folder / "schema.toml").write_text(f"max_degree = 12\n[columns.age]\ncategories = {json.dumps(AGES)}\n")
    inside = sum(ages[u] == ages[v] == 0 for u, v in pairs)
    tables = ["--nodes", folder / "people.csv", "--edges", folder / "contacts.csv"]
    return {"tables": tables, "schema": ["--schema", folder / "schema.toml"], "pairs": len(pairs), "youngest": inside}


def write(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


EDGE = ["--unit", "edge", "--epsilon", "4", "--delta", "1e-6"]
NODE = ["--unit", "node", "--arcs", "incident", "--epsilon", "4"]


@pytest.fixture
def describe(sfumato, tmp_path):
    """Run the command with an output folder, and return what it said."""

    def run(*words, out="run"):
        return sfumato("describe", *words, "--out", tmp_path / out)

    return run


def test_a_contact_matrix_by_age(describe, contacts, sfumato, tmp_path):
    done = describe(*contacts["tables"], "--by", "age", *EDGE)
    assert done.code == 0, done.err
    assert "An interval covers the noise that protects people, and nothing else." in done.out
    assert "0-17 and 18-39" in done.out
    assert "Cost: epsilon " in done.out
    assert sfumato("verify", tmp_path / "run").code == 0
    with (tmp_path / "run" / "answers.csv").open() as file:
        rows = list(csv.DictReader(file))
    pair = next(row for row in rows if (row["group"], row["other_group"]) == ("0-17", "0-17"))
    assert float(pair["low"]) - 60 < contacts["youngest"] < float(pair["high"]) + 60
    stored = json.loads((tmp_path / "run" / "answers.json").read_text())
    assert [one["what"] for one in stored["answers"]] == [row["what"] for row in rows]


def test_people_with_all_their_contacts(describe, contacts):
    done = describe(*contacts["tables"], *contacts["schema"], "--by", "age", *NODE, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["settings"]["stats"] == "edges,mixing,degrees,groups"
    privacy = {"unit": "node-incident", "relation": "remove", "epsilon": pytest.approx(4), "delta": 0}
    assert told["privacy"] == privacy
    first = told["answers"][0]
    assert first["what"] == "number of edges"
    assert first["low"] <= first["value"] <= first["high"]
    assert {"out", "seconds", "peak_mb", "answers", "privacy"} <= told.keys()


def test_a_promise_stands_beside_the_claim(describe, contacts, sfumato, tmp_path):
    describe(*contacts["tables"], *contacts["schema"], "--by", "age", *NODE)
    words = "graphs in which no node has more than 12 edges"
    assert words in (tmp_path / "run" / "guarantee.txt").read_text()
    assert "promised: no node has more than 12 arcs" in sfumato("verify", tmp_path / "run").out
    for audience in ("owner", "reviewer", "public", "regulator"):
        sfumato("report", tmp_path / "run", "--audience", audience, "--out", tmp_path / "page.html")
        assert words in (tmp_path / "page.html").read_text(), audience
    for kind in ("card", "registry"):
        done = sfumato("export", kind, tmp_path / "run", "--out", tmp_path / kind)
        assert done.code == 0, done.err
        assert words in (tmp_path / kind).read_text(), kind
    describe(*contacts["tables"], "--by", "age", *EDGE, out="edge")
    assert "no node has more" not in (tmp_path / "edge" / "guarantee.txt").read_text()


def test_a_twin_of_people_reads_no_table(describe, contacts, sfumato, tmp_path):
    describe(*contacts["tables"], *contacts["schema"], "--by", "age", *NODE)
    done = sfumato("twin", tmp_path / "run", "--out", tmp_path / "twin")
    assert done.code == 0, done.err
    with (tmp_path / "twin" / "nodes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [str(at) for at in range(NODES)]
    assert {row["label"] for row in rows} <= {*AGES, ""}
    text = (tmp_path / "twin" / "README.txt").read_text()
    assert "none stands for one of it" in text
    assert "no node has more than 12 edges" in text
    done = sfumato("twin", tmp_path / "run", contacts["tables"][0], contacts["tables"][1], "--out", tmp_path / "other")
    assert done.code == 2
    assert "Drop it: nodes of the twin are made up" in done.err


def test_help_shows_what_a_first_user_of_statistics_needs(sfumato):
    shown, train = sfumato("describe", "--help").out, sfumato("train", "--help").out
    for option in ("--by", "--arcs", "--edge-weight", "--max-weight"):
        assert f"  {option} <" in shown
        assert f"  {option} <" not in train


def test_without_groups_there_is_no_mixing(describe, contacts):
    done = describe(*contacts["tables"], *EDGE, "--json")
    assert json.loads(done.out)["settings"]["stats"] == "edges,degrees,triangles,wedges"
    done = describe(*contacts["tables"], "--directed", "--unit", "edge", "--epsilon", 1, "--json", out="second")
    assert json.loads(done.out)["settings"]["stats"] == "edges,degrees,mutual"


def test_classes_of_a_schema_without_a_label_are_no_groups(describe, contacts, tmp_path):
    (tmp_path / "s.toml").write_text('classes = ["2004", "2005"]\n')
    done = describe(*contacts["tables"], "--schema", tmp_path / "s.toml", *EDGE, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["settings"]["stats"] == "edges,degrees,triangles,wedges"


def test_weights_have_a_bound(describe, contacts):
    tables = [*contacts["tables"][:3], contacts["tables"][3].with_name("long.csv")]
    done = describe(*tables, *EDGE, "--edge-weight", "minutes", "--max-weight", 60, "--stats", "edges,weight")
    assert "sum of the weights" in done.out


def test_answers_again_cost_nothing(describe, contacts, sfumato, tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    words = (*contacts["tables"], *EDGE, "--ledger", ledger, "--total-epsilon", 5)
    first = json.loads(describe(*words, "--json").out)
    spent = ledger.read_bytes()
    again = sfumato("describe", "--from-run", tmp_path / "run", "--least", 30, "--json")
    told = json.loads(again.out)
    assert told["left_out"] > 0
    kept = [one for one in first["answers"] if not one["count"] or one["high"] >= 30]
    assert told["answers"] == kept
    files = {name: (tmp_path / "run" / name).read_bytes() for name in ("answers.csv", "answers.json")}
    assert "left out" in sfumato("describe", "--from-run", tmp_path / "run", "--widest", 0.01).out
    elsewhere = ("describe", "--from-run", ledger, "--confidence", 0.8, "--least", 30, "--out", tmp_path / "again")
    assert "holds its number in at least 80 %" in sfumato(*elsewhere).out
    assert len((tmp_path / "again" / "answers.csv").read_text().splitlines()) < files["answers.csv"].count(b"\n")
    assert {name: (tmp_path / "run" / name).read_bytes() for name in files} == files
    assert sfumato(*elsewhere).code == 2  # a folder that is there is not written again
    assert "Drop it, or drop --from-run" in sfumato("describe", "--from-run", tmp_path / "run", "--epsilon", 1).err
    assert ledger.read_bytes() == spent
    assert describe(*words, out="second").code == 1  # the ledger has 1 left
    assert sfumato("verify", ledger).code == 0


def test_what_can_be_asked(sfumato):
    told = {one["name"]: one for one in json.loads(sfumato("describe", "--list", "--json").out)}
    assert told["triangles"]["units"] == ["edge (undirected)", "node (undirected)"]
    assert told["degrees"]["share"] == 8
    assert "mutual" in sfumato("describe", "--list").out


def test_a_dry_run_says_how_near_answers_would_be(contacts, sfumato):
    words = ("describe", *contacts["tables"], "--by", "age", *EDGE, "--dry-run")
    done = sfumato(*words)
    assert done.code == 0, done.out
    assert "within" in done.out
    assert "Nothing was spent" in done.out
    told = {one["release"]: one["half_width"] for one in json.loads(sfumato(*words, "--json").out)["expected"]}
    assert told["triangles"] is None
    assert told["edges"] > told["degrees"] / 4 > 0
    assert sfumato(*words, "--stats", "edges,triangle").code == 2


def test_a_run_of_statistics_predicts_nothing(describe, contacts, sfumato, tmp_path):
    describe(*contacts["tables"], *EDGE, "--stats", "edges")
    for command in ("predict", "evaluate", "serve"):
        done = sfumato(command, tmp_path / "run")
        assert done.code == 2
        assert f"sfumato describe --from-run {tmp_path / 'run'}" in done.err
    assert "nissim2007smooth" in sfumato("cite", tmp_path / "run").out


@pytest.mark.parametrize(
    ("fragment", "words"),
    [
        ("Did you mean 'triangles'?", [*EDGE, "--stats", "edges,triangels"]),
        ("Write degrees:3", [*EDGE, "--stats", "degrees:many"]),
        ("stand once", [*EDGE, "--stats", "edges,edges"]),
        ("delta above 0 for triangles, wedges", ["--unit", "edge", "--epsilon", "1"]),
        ("Promise a bound on degrees", NODE),
        ("--arcs incident with a promised bound", ["--unit", "node", "--epsilon", "1", "--max-degree", "9"]),
        ("sfumato collect estimate", ["--unit", "local", "--epsilon", "1"]),
        ("Name a public column of groups (--by COLUMN", [*EDGE, "--stats", "edges,mixing"]),
        ("weights, got none", [*EDGE, "--stats", "edges,weight"]),
        ("'agee'", [*EDGE, "--by", "agee"]),
        ("Write 95 percent as 0.95", [*EDGE, "--confidence", "95"]),
        ("share above 0", [*EDGE, "--stats", "edges:-1"]),
        ("Groups are named by --by COLUMN", [*EDGE, "--label", "age"]),
        ("Expected --epsilon with --unit edge, got none. 1 is", ["--unit", "edge"]),
        ("is public when the unit is", [*EDGE, "--by", "age", "--stats", "groups"]),
        ("(--undirected)", [*EDGE, "--directed", "--stats", "triangles"]),
        ("more at some node", [*NODE, "--max-degree", 2]),
        ("integer >= 1", [*EDGE, "--threads", "0"]),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_reason(refused, contacts, tmp_path, fragment, words):
    refused(fragment, "describe", *contacts["tables"], *words, "--out", tmp_path / "run")


def test_other_refusals(refused, describe, contacts, tmp_path, run_of):
    refused("Drop it", "describe", "--dataset", "campus", "--by", "status", *EDGE, "--out", tmp_path / "run")
    refused(
        "classes of the label",
        "describe",
        *contacts["tables"],
        "--by",
        "age",
        *NODE,
        "--max-degree",
        12,
        "--out",
        tmp_path / "run",
    )
    refused("Name a new run folder", "describe", *contacts["tables"], *EDGE)
    refused("got one of gap", "describe", "--from-run", run_of("gap --unit none"))
    describe(*contacts["tables"], *EDGE)
    refused("exists", "describe", *contacts["tables"], *EDGE, "--out", tmp_path / "run")


def moved(text, factor):
    """All estimates at once, and no interval."""
    told = json.loads(text)
    answers = [{**one, "value": one["value"] * factor} for one in told["answers"]]
    return json.dumps({**told, "answers": answers})


LIES = [
    ("answers.csv", lambda text: text.replace("number of edges", "number of arcs")),
    ("answers.csv", lambda text: "\n".join(text.splitlines()[:-1])),
    ("answers.csv", lambda text: text.replace(",exact", ",approximate", 1)),
    ("answers.csv", lambda text: text + text.splitlines()[-1] + "\n"),
    ("answers.json", lambda text: text.replace('"low": ', '"low": 1', 1)),
    ("answers.json", lambda text: text.replace('"coverage": 0.9', '"coverage": 0.99', 1)),
    ("answers.json", lambda text: text.replace('"confidence": 0.95', '"confidence": 0.99')),
    ("answers.json", lambda text: text.replace('"confidence": 0.95', '"confidence": "all"')),
    ("answers.json", lambda text: "[" * 100_000),
    ("answers.json", lambda text: "[]"),
    ("answers.json", lambda text: text.replace('"confidence": 0.95', '"truth": 7, "confidence": 0.95')),
    ("answers.json", lambda text: text.replace('"count": true', '"truth": 7, "count": true', 1)),
    ("answers.json", lambda text: text.replace('"span": null', '"span": [1, 2]', 1)),
    ("answers.json", lambda text: moved(text, 1.01)),
    ("answers.json", lambda text: moved(text, 0.99)),
    ("guarantee.txt", lambda text: text.replace("one undirected edge", "one whole person")),
    ("guarantee.txt", lambda text: ""),
]


def test_answers_that_do_not_follow_from_the_release_are_found(describe, contacts, sfumato, tmp_path):
    run = tmp_path / "run"
    describe(*contacts["tables"], "--by", "age", *EDGE, "--stats", "edges,mixing")
    assert sfumato("verify", run).code == 0
    for name, change in LIES:
        text = (run / name).read_text()
        (run / name).write_text(change(text))
        done = sfumato("verify", run)
        assert done.code == 1
        assert name in done.out
        (run / name).write_text(text)
    (run / "answers.csv").unlink()
    assert not json.loads(sfumato("verify", run, "--json").out)["valid"]
    (run / "answers.json").unlink()
    assert sfumato("verify", run).code == 0  # a release needs no answers beside it


def test_a_run_that_does_not_verify_has_no_twin_and_no_answers(describe, contacts, sfumato, tmp_path):
    run = tmp_path / "run"
    describe(*contacts["tables"], "--by", "age", *EDGE, "--stats", "edges,mixing")
    certificate = run / "release" / "certificate.json"
    certificate.write_text(certificate.read_text().replace('"epsilon":4', '"epsilon":1'))
    for words in (("twin", run), ("describe", "--from-run", run)):
        done = sfumato(*words, "--out", tmp_path / "made")
        assert done.code == 2
        assert "`sfumato verify`" in done.err or "damaged" in done.err
        assert not (tmp_path / "made").exists()


def test_words_of_another_version_are_named(describe, contacts, sfumato, tmp_path, monkeypatch):
    run = tmp_path / "run"
    describe(*contacts["tables"], *EDGE, "--stats", "edges")
    (run / "guarantee.txt").write_text("Protects everybody.\n")
    monkeypatch.setattr("sfumato.cli._run.__version__", "99")
    done = sfumato("verify", run)
    assert done.code == 0
    assert "beside it: guarantee.txt: does not say what the certificate says" in done.out
