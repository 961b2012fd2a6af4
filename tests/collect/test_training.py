"""Training from a closed collection: the same bits as the simulated path, and users without a report count for nothing."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from collect_made import (
    GRAPH,
    USERS,
    closed,
    collection,
    drawn,
    features,
    label,
    link_collection,
    links,
    schema,
    write_tables,
)  # fmt: skip
from scipy.sparse import csr_matrix

from sfumato.catalog import load
from sfumato.cli import invoke
from sfumato.collect._graph import Tables, graph_of
from sfumato.collect._reading import read_closed, stream_any
from sfumato.collect._training import check_joined, collected, method_of, prepare
from sfumato.collect._wire import decode, encode, public_id
from sfumato.errors import DataError, InputError, SchemaError
from sfumato.graph import from_scipy
from sfumato.local import _blink as blink
from sfumato.local import _method as local_method
from sfumato.local._collection import ANSWERED, FEATURES, LABELS, received
from sfumato.local._drop import Agreement
from sfumato.noise.coins import SecretWords
from sfumato.randomizers._links import LinkReports
from sfumato.record._deployment import ASKED
from sfumato.verify import verify


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def edges(folder):
    return Tables(str(folder / "edges.csv"))


@pytest.fixture(scope="module")
def labeled(folder):
    return Tables(str(folder / "edges.csv"), str(folder / "nodes.csv"), "class")


SAME = {
    "hybrid": ("lpgnn", None, {"features": features(), "label": label()}),
    "network": ("lpgnn", "lpgnn-2021", {"features": features(), "label": label(mechanism="randomized-response")}),
    "label-only": ("label-only", None, {"label": label()}),
    "pgc": ("pgc", None, {"features": features(mechanism="pgc", per_feature=True)}),
    "pgc on other reports": ("pgc", None, {"features": features(mechanism="multi-bit")}),
    "laplace": ("lpgnn", "lpgnn-2021", {"features": features(mechanism="laplace"), "label": label()}),
}


@pytest.mark.parametrize(("word", "preset", "parts"), SAME.values(), ids=SAME)
def test_the_bits_are_those_of_the_simulated_path(monkeypatch, edges, labeled, word, preset, parts):
    training = prepare(collection(**parts), edges if "label" in parts else labeled, word, preset)
    from_devices = training.fit(seed=3)
    sent = {name: array for name, array in training.collected.reports.items() if name in (FEATURES, LABELS)}
    monkeypatch.setattr(local_method, "encode", lambda *_: sent)
    asked = replace(training.graph, x=None if training.graph.x is None else GRAPH.x, y=GRAPH.y)
    simulated = training.plan.fit(asked, seed=3)
    assert from_devices.weights.keys() == simulated.weights.keys()
    for name, weights in simulated.weights.items():
        np.testing.assert_array_equal(from_devices.weights[name], weights)
    np.testing.assert_array_equal(from_devices.predict_proba(training.graph), simulated.predict_proba(asked))
    assert from_devices.plan.epsilon == simulated.plan.epsilon


def test_links_have_the_bits_of_the_simulated_path(monkeypatch, folder):
    made, reports = link_collection()
    training = prepare(made, Tables(None, str(folder / "nodes.csv"), "class"), "blink")
    from_devices = training.fit(seed=3)
    monkeypatch.setattr(blink.Blink, "collect", lambda *_: reports)
    simulated = training.plan.fit(training.graph, seed=3)
    (name,) = from_devices.weights
    np.testing.assert_array_equal(from_devices.weights[name], simulated.weights[name])
    for released, array in simulated.released.items():
        np.testing.assert_array_equal(from_devices.released[released], array)


@pytest.mark.parametrize(
    "mechanism", ["multi-bit", "one-bit", "laplace", "gaussian", "piecewise", "pgc", "collision", "direction"]
)
def test_rows_of_missing_users_are_neutral(edges, labeled, mechanism):
    there = USERS[:100]
    made = collection(there, features=features(mechanism=mechanism, per_feature=mechanism == "pgc", delta=1e-6))
    graph = graph_of(made, labeled)
    reports, asked = collected(made, graph).reports, made.schema.features
    method = method_of("lpgnn", made.schema)
    facts = graph.public_facts(method.unit)
    estimate = received(method, graph, facts, dict(reports)).features
    ids = np.array([public_id(made.schema, user) for user in there])
    given = asked.randomizer.encode(GRAPH.x[:100], SecretWords(bytes(32)), ids)
    rows = estimate.toarray()
    np.testing.assert_array_equal(rows[:100], asked.randomizer.estimate(given).toarray())
    middle = 0.0 if mechanism in ("collision", "direction") else 0.5
    np.testing.assert_allclose(rows[100:], middle)
    weight = np.random.default_rng(0).normal(size=(6, 2))
    np.testing.assert_allclose(estimate @ weight, rows @ weight, atol=1e-9)
    assert reports[ANSWERED].tolist() == [1] * 100 + [0] * 50


def test_a_label_alone_is_a_report_without_features(edges):
    asked = schema(features=features(), label=label())
    messages = drawn(asked, GRAPH.x, GRAPH.y, USERS)
    only = drawn(replace(asked, features=None), None, GRAPH.y, USERS)  # its digest differs, so it is written anew
    assert only.keys() == messages.keys()
    messages["u005"] = encode(asked, "u005", {"label": decode(asked, messages["u005"]).answers["label"]})
    made = closed(asked, messages)
    training = prepare(made, edges, "lpgnn")
    reports = training.collected.reports
    assert reports[ANSWERED][[4, 5]].tolist() == [3, 2]
    assert reports[LABELS][5] >= 0
    estimate = received(training.plan.method, training.graph, training.plan.public, dict(reports)).features
    np.testing.assert_allclose(estimate.toarray()[5], 0.5)


def test_nodes_are_those_of_all_tables_and_of_the_collection(folder, tmp_path):
    (tmp_path / "edges.csv").write_text("from,to\nu001,u000\nu001,x9\n")
    (tmp_path / "nodes.csv").write_text("id\nu002\nzed\n")
    made = collection(USERS[:20], label=label())
    graph = graph_of(made, Tables(str(tmp_path / "edges.csv"), str(tmp_path / "nodes.csv")))
    assert graph.node_ids.tolist() == [*USERS[:20], "x9", "zed"]
    assert graph.num_edges == 2
    assert graph.y is None
    assert graph.classes == ("a", "b", "c")
    reports = collected(made, graph).reports
    assert reports["users"][:2].tolist() == [public_id(made.schema, user) for user in USERS[:2]]
    assert reports["users"][-2:].tolist() == [-1, -1]
    assert reports[LABELS][-2:].tolist() == [-1, -1]


def test_roles_follow_from_the_collection_and_the_ids(edges):
    made = collection(USERS[:120], label=label())
    graph = graph_of(made, edges)
    digest = bytes.fromhex(made.sha256)
    for place, user in enumerate(USERS):
        drawn_ = int.from_bytes(hashlib.sha256(digest + user.encode()).digest()[:8], "big")
        wanted = 3 if place >= 120 else 0 if drawn_ < 2**64 * 2 / 3 else 1
        assert graph.roles[place] == wanted
    assert 60 < graph.train_mask.sum() < 100
    assert not graph.test_mask.any()


def test_ids_of_digits_stay_apart(tmp_path):
    """007 is not 7: ids are texts in a collection."""
    users = [f"{number:03}" for number in range(30)]
    asked = schema(label=label())
    made = closed(asked, drawn(asked, None, GRAPH.y[:30], users))
    (tmp_path / "edges.csv").write_text("from,to\n007,7\n")
    graph = graph_of(made, Tables(str(tmp_path / "edges.csv")))
    assert graph.num_nodes == 31
    (tmp_path / "edges.csv").write_text("from,to\n10,11\n")
    assert graph_of(made, Tables(str(tmp_path / "edges.csv"))).num_nodes == 32


def test_a_list_that_is_missing_tells_nothing(folder):
    """Beliefs and links of the users who reported are those of a collection among them; the others have their features."""
    made, reports = link_collection(USERS[:120])
    training = prepare(made, Tables(None, str(folder / "nodes.csv"), "class"), "blink")
    fitted = training.fit()
    method, reported = training.plan.method, np.arange(150) < 120
    fit = method.fit(reports, training.graph, 0, reported)
    (name,) = fitted.weights
    np.testing.assert_array_equal(fitted.weights[name], fit.scores[name])
    np.testing.assert_allclose(fit.scores["beliefs"][120:][~training.graph.train_mask[120:]],
                               fit.scores["mlp"][120:][~training.graph.train_mask[120:]], rtol=1e-6)  # fmt: skip
    wrong = LinkReports(reports.degrees, reports.bits.copy())
    wrong.bits[120:] ^= 255
    wrong.bits[:, 15:] ^= 255
    again = method.fit(wrong, training.graph, 0, reported)
    np.testing.assert_array_equal(fit.scores["beliefs"], again.scores["beliefs"])
    heard = method.fit(wrong, training.graph, 0, np.arange(150) < 121)
    assert not np.array_equal(fit.scores["beliefs"], heard.scores["beliefs"])


def test_another_roster_is_refused(folder, tmp_path):
    made, _ = link_collection()
    lines = (folder / "nodes.csv").read_text().splitlines()
    (tmp_path / "nodes.csv").write_text("\n".join([lines[0], lines[2], lines[1], *lines[3:]]) + "\n")
    with pytest.raises(DataError, match="users of the roster in its order"):
        graph_of(made, Tables(None, str(tmp_path / "nodes.csv"), "class"))


REFUSED = {
    "pgc asks for no label": ("pgc", {"features": features(), "label": label()}, "features and no label with pgc"),
    "label-only asks for no features": (
        "label-only",
        {"features": features(), "label": label()},
        "a label and no features",
    ),
    "lpgnn asks for no links": ("lpgnn", {"links": links()}, "Take one of blink"),
    "blink asks for links": ("blink", {"label": label()}, "links with blink"),
    "a curator": (
        "gap",
        {"label": label()},
        "Expected one of lpgnn, label-only, pgc, pgc-links, blink with a collection",
    ),
    "sets as classes": (
        "lpgnn",
        {"features": features(mechanism="pgc", per_feature=True), "label": label()},
        "drop or forward where reports are sets",
    ),
}


@pytest.mark.parametrize(("word", "parts", "said"), REFUSED.values(), ids=REFUSED)
def test_a_method_that_does_not_fit_the_questions_is_refused(word, parts, said):
    with pytest.raises(InputError, match=said):
        method_of(word, schema(**parts), "pgc-2020" if "drop or" in said else None)


@pytest.mark.parametrize(
    ("word", "parts", "preset", "given", "held"),
    [
        ("blink", {"links": links()}, None, ("rule=hard", "width=4"), {"rule": "hard", "width": 4}),
        ("label-only", {"label": label()}, None, ("form=propagation",), {"form": "propagation", "epsilon_x": 0.0}),
        ("lpgnn", {"features": features(), "label": label()}, "lpgnn-2021", ("loss=forward",), {"loss": "forward"}),
    ],
)  # fmt: skip
def test_what_the_questions_leave_open_can_be_set(word, parts, preset, given, held):
    made = vars(method_of(word, schema(**parts), preset, given))
    assert {name: made[name] for name in held} == held


@pytest.mark.parametrize(
    ("word", "parts", "given", "message"),
    [
        (
            "blink",
            {"links": links()},
            "degree_share=0.5",
            "no --set degree_share with a collection: its schema fixes it",
        ),
        ("lpgnn", {"features": features()}, "cap=5", "Expected no --set cap with a collection"),
        ("label-only", {"label": label()}, "mechanism=pgc", "Expected no --set mechanism with --epsilon-x 0"),
        ("pgc", {"features": features()}, "steps_y=5", "--set steps_y only with loss drop"),
    ],
)
def test_what_the_questions_fix_cannot_be_set(word, parts, given, message):
    with pytest.raises(InputError, match=message):
        method_of(word, schema(**parts), None, (given,))


def test_tables_that_do_not_fit_are_refused(edges, labeled):
    with pytest.raises(InputError, match="users report their label"):
        graph_of(collection(label=label()), labeled)
    with pytest.raises(InputError, match="Expected `nodes` and `label`"):
        graph_of(collection(features=features()), edges)
    with pytest.raises(InputError, match="Expected `edges`"):
        graph_of(collection(label=label()), Tables())
    with pytest.raises(InputError, match="users report their links"):
        graph_of(link_collection()[0], labeled)
    with pytest.raises(DataError, match="Collect more reports"):
        graph_of(collection(USERS[:1], label=label()), edges)


def test_reports_do_not_fit_a_trusted_curator(edges):
    from sfumato.central._gap import GAP
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import EdgeLevel

    training = prepare(collection(label=label()), edges, "label-only")
    graph = GRAPH.with_split()
    plan = GAP().calibrate(Budget(1.0, 1e-5), EdgeLevel(directed=False), graph.public_facts(EdgeLevel(directed=False)))
    with pytest.raises(InputError, match="Take a local method"):
        plan.fit(graph, collected=training.collected)


def test_the_validation_accuracy_is_that_of_users_who_report_no_label(edges):
    """Predictions of label-only at a user who reported lean on that very report; held out, they do not."""
    asked = schema(label=label(epsilon=8.0, mechanism="randomized-response"))
    answers = np.random.default_rng(1).integers(0, 3, 150)  # of the links they tell nothing
    made = closed(asked, drawn(asked, None, answers, USERS))
    training = prepare(made, edges, "label-only")
    fitted = training.fit()
    mean, low, high = training.validation(fitted)
    assert 0 <= low < mean < high <= 1
    assert mean < 0.6
    val = training.graph.val_mask
    assert (fitted.predict(training.graph) == answers)[val].mean() > 0.8


@pytest.mark.parametrize(
    "parts", [{"label": label(epsilon=1.0)}, {"features": features(), "label": label(epsilon=4.0)}]
)
def test_predictions_of_the_hybrid_are_held_out_too(edges, parts):
    made = collection(**parts)
    training = prepare(made, edges, "lpgnn")
    fitted = training.fit()
    held = received(training.plan.method, training.graph, training.plan.public, fitted.released)
    scores = training.plan.method.held_out(fitted.weights, held)
    changed = held.labels.copy()
    val = np.flatnonzero(training.graph.val_mask)
    assert np.isfinite(scores).all()
    assert not np.array_equal(scores[val], training.plan.method.predict(fitted.weights, held)[val])
    share = Agreement(held.transition).share(scores[val].argmax(1), changed[val])
    assert training.validation(fitted)[0] == Agreement(held.transition).accuracy(share, len(val))[0]


def test_a_run_loads_predicts_and_verifies(edges, tmp_path):
    parts = {"features": features(mechanism="collision", epsilon=3.0), "label": label(mechanism="randomized-response")}
    training = prepare(collection(USERS[:130], **parts), edges, "lpgnn", "lpgnn-2021")
    fitted = training.fit()
    run = fitted.save(tmp_path / "run")
    loaded = load(run)
    np.testing.assert_array_equal(loaded.predict_proba(training.graph), fitted.predict_proba(training.graph))
    assert loaded.collection == (run / "release" / "collection.bin").read_bytes()
    assert verify(run).problems == ()
    assert verify(loaded.save(tmp_path / "again")).problems == ()
    words = str(loaded.certificate)
    assert "130 reports to test-1" in words
    assert "simulated" not in words
    assert "true labels" not in words
    assert "from reports and public facts alone" in words


@pytest.fixture
def train(folder, tmp_path, capsys):
    """Train from a collection beside the table of edges into the folder ``run``; exit code and both outputs."""

    def run(word, made, *options):
        made.write(tmp_path / "closed")
        sources = ("--collection", tmp_path / "closed", "--edges", folder / "edges.csv", "--out", tmp_path / "run")
        code = invoke(["train", word, *map(str, (*sources, *options))])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def test_the_command_line_trains_predicts_and_verifies(train, tmp_path, capsys):
    made, run = collection(USERS[:140], features=features(), label=label()), tmp_path / "run"
    record = dict.fromkeys(ASKED, "words") | {"publication_date": "2026-12-01", "flavor": "Approximate DP"}
    record |= {"curator_type": "Nonprofit", "sector": "Education"}
    deployment = tmp_path / "deployment.toml"
    deployment.write_text("".join(f'{name} = "{text}"\n' for name, text in record.items()))
    code, out, _ = train("lpgnn", made, "--deployment", deployment, "--threads", "1", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["test_accuracy"] is None
    assert found["validation_accuracy"].keys() == {"mean", "low", "high"}
    assert found["privacy"]["epsilon"] == 4.0
    assert (found["collection"]["reports"], found["missing"]) == (140, 10)
    assert invoke(["verify", str(run)]) == 0
    told = capsys.readouterr().out
    assert "140 reports" in told
    assert "deployment record: words, by words, 2026-12-01" in told
    assert invoke(["predict", str(run)]) == 0
    assert len((run / "predictions.csv").read_text().splitlines()) == 151
    assert invoke(["report", str(run)]) == 0
    page = (run / "reports" / "index.html").read_text()
    for words in ("140 reports", "Validation accuracy"):
        assert words in page
    assert "true labels or other" not in page
    for audience, said in (("public", "not even those who collect the reports"), ("reviewer", "140 reports")):
        assert invoke(["report", str(run), "--audience", audience]) == 0
        assert said in (run / "reports" / f"{audience}.html").read_text()
    capsys.readouterr()
    assert invoke(["evaluate", str(run)]) == 2
    assert "validation.json" in capsys.readouterr().err
    assert invoke(["predict", str(run), "--dataset", "campus", "--out", str(tmp_path / "p.csv")]) == 2
    capsys.readouterr()
    code, out, err = train("lpgnn", made)
    assert (code, "new folder" in err) == (2, True)


def test_links_are_learned_from_a_collection_of_features(train, folder, tmp_path, capsys):
    made = collection(USERS[:140], features=features(mechanism="pgc", per_feature=True))
    run, pairs = tmp_path / "run", tmp_path / "pairs.csv"
    for option, value in (("--label", "class"), ("--preset", "pgc-2020")):
        code, _, err = train("pgc", made, "--task", "link", option, value)
        assert (code, f"Expected no {option} with --task link" in err) == (2, True)
    code, out, _ = train("pgc", made, "--task", "link", "--threads", "1", "--set", "max_epochs=400", "--json")
    found = json.loads(out)
    assert json.loads((run / "release" / "spec.json").read_text())["settings"]["max_epochs"] == 400
    assert (code, found["task"], found["validation_accuracy"], found["missing"]) == (0, "link", None, 10)
    assert 0.5 < found["validation_auc"] <= 1
    assert verify(run).problems == ()
    assert "140 reports" in (run / "guarantee.txt").read_text()
    pairs.write_text(f"a,b\n{USERS[0]},{USERS[149]}\n")
    for wanted in (("--pairs", pairs), ("--embeddings", tmp_path / "codes.csv")):
        assert invoke(["predict", str(run), *map(str, wanted)]) == 0
    assert len((tmp_path / "codes.csv").read_text().splitlines()) == 151
    assert len((run / "scores.csv").read_text().splitlines()) == 2
    assert invoke(["report", str(run)]) == 0
    assert "Validation AUC" in (run / "reports" / "index.html").read_text()
    capsys.readouterr()
    for command in ("predict", "evaluate"):
        assert invoke([command, str(run)]) == 2
    assert "validation.json" in capsys.readouterr().err
    clear = prepare(made, Tables(str(folder / "edges.csv")), "pgc-links")
    assert (clear.plan.epsilon, clear.plan.unit.labels) == (found["privacy"]["epsilon"], False)
    assert clear.graph.num_classes == 0


def test_a_forged_report_of_a_collection_is_refused(edges, tmp_path):
    fitted = prepare(collection(features=features(mechanism="pgc", per_feature=True)), edges, "pgc-links").fit()
    fitted.released[FEATURES][3] = 1 - fitted.released[FEATURES][3]
    found = verify(fitted.save(tmp_path / "run")).problems
    assert len(found) == 1
    assert "row 3 differs from the report of its user" in found[0]


def test_mostly_silent_nodes_are_told(train, tmp_path):
    def trained(count, name):
        code, out, err = train(
            "label-only", collection(USERS[:count], label=label()), "--json", "--out", tmp_path / name
        )
        assert code == 0
        return [text for key, text in json.loads(out)["caveats"] if key == "few-reports"], err

    (text,), err = trained(74, "most")
    assert text.startswith("76 nodes have no report, and only 74 have one.")
    assert f"Warning: {text} [few-reports]" in err
    assert trained(75, "half")[0] == []


@pytest.mark.parametrize(
    ("edges", "said"), [("x1,x2\n", "names nodes such as 'x"), ("", "has no edge"), ("u000,x1\nx1,u001\n", "'x1'")]
)
def test_links_among_nobody_who_reported_are_refused(tmp_path, edges, said):
    path = tmp_path / "edges.csv"
    path.write_text("from,to\n" + edges)
    with pytest.raises(DataError, match=f"such as 'u000', got none in the table of edges, which .*{said}"):
        prepare(collection(USERS[:30], label=label()), Tables(str(path)), "label-only")
    path.write_text("from,to\nu000,u001\n" + edges)
    assert prepare(collection(USERS[:30], label=label()), Tables(str(path)), "label-only").graph.num_edges >= 1


def test_public_labels_are_called_public(train, folder, tmp_path):
    made = collection(features=features(mechanism="pgc", per_feature=True))
    code, out, _ = train("pgc", made, "--nodes", folder / "nodes.csv", "--label", "class")
    assert code == 0
    assert "on public labels that training did not read" in out
    assert "No true label was read" not in out
    assert invoke(["report", str(tmp_path / "run")]) == 0
    assert "may lie outside 0 to 100" not in (tmp_path / "run" / "reports" / "index.html").read_text()


def test_the_method_is_shown_as_it_was_typed(train):
    code, out, _ = train("lpgnn", collection(features=features(), label=label()))
    assert code == 0
    assert out.startswith("lpgnn (hybrid) from collection test-1: 150 users reported; 0 nodes have no report.")
    assert "may lie outside 0 to 100 %; the interval is cut there. No true label was read" in out


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("--epsilon-x", "1"), "the schema of the collection fixes it"),
        (("--mechanism", "collision"), "the schema of the collection fixes it"),
        (("--delta", "1e-5"), "the schema of the collection fixes it"),
        (("--ledger", "l.jsonl"), "devices keep the ledgers"),
        (("--resumable",), "a stopped run is simply started again"),
        (("--seeds", "2"), "there is one fit"),
        (("--split", "50/25/25"), "roles follow from the collection"),
        (("--controls",), "no true value is here"),
        (("--dataset", "campus"), "no meaning"),
        (("--task", "link"), "Expected --task link with pgc beside a collection, and with no other, got 'label-only'"),
    ],
)
def test_options_beside_a_collection_are_refused(train, tmp_path, given, why):
    code, _, err = train("label-only", collection(label=label()), *given)
    assert code == 2
    assert why in err
    assert not (tmp_path / "run").exists()


def test_what_is_no_collection_is_refused(tmp_path):
    with pytest.raises(DataError, match="there is none"):
        read_closed(str(tmp_path / "none"))
    made = collection(label=label())
    made.write(tmp_path / "closed")
    assert read_closed(str(tmp_path / "closed")).sha256 == made.sha256
    data = (tmp_path / "closed").read_bytes()
    (tmp_path / "closed").write_bytes(data[:-1])
    with pytest.raises((DataError, SchemaError)):
        read_closed(str(tmp_path / "closed"))


def test_a_store_is_read_once_it_is_closed(tmp_path):
    module = pytest.importorskip("sfumato.collect._store")
    made, path = collection(USERS[:20], label=label()), str(tmp_path / "reports.sqlite")
    store = module.Store.create(path, made.schema)
    store.enrol([module.Enrolment(user, module.Keys(bytes(32), bytes(32))) for user in USERS[:20]])
    store.add([module.Upload(*one, bytes(64)) for one in zip(USERS[:20], made.messages, strict=True)])
    with pytest.raises(DataError, match="to be closed"):
        read_closed(path)
    with stream_any(path) as stream:
        assert tuple(stream.messages) == made.messages
    store.close()
    assert read_closed(path).sha256 == made.sha256


def test_edges_between_users_who_did_not_report_are_named():
    graph = from_scipy(csr_matrix(([1, 1], ([0, 1], [1, 0])), (3, 3)), directed=False, node_ids=["ann", "bob", "cy"])
    with pytest.raises(
        DataError, match=r"such as 'cy', got none in the table of edges, which names nodes such as '(ann|bob)'"
    ):
        check_joined(graph, np.array([False, False, True]), "reported")
    with pytest.raises(DataError, match=r"in the table of edges, which has no edge\."):
        check_joined(from_scipy(csr_matrix((3, 3)), directed=False), np.array([False, False, True]), "reported")
