"""Learning from what two servers opened: their counts and nothing else, by the command line and in every page."""

import json

import numpy as np
import pytest
from collect_made import CLASSES, GRAPH, USERS, collection, label, write_tables
from opened_made import opened_file
from two_made import OPERATORS, Pair

from sfumato.catalog import load
from sfumato.cli import invoke
from sfumato.collect._graph import Tables
from sfumato.collect._reading import read_any, read_opened
from sfumato.collect._training import method_of, prepare
from sfumato.collect._wire import public_id
from sfumato.collect.two._files import Agreed, OpenedFile
from sfumato.collect.two._training import graph_of
from sfumato.collect.two._training import prepare as prepare_opened
from sfumato.errors import DataError, InputError
from sfumato.local import _shared_counts as module
from sfumato.local._cells import cells_of
from sfumato.local._collection import topology
from sfumato.local._shared_counts import COUNTS, SharedCounts
from sfumato.verify import verify

ASKED = USERS[:120]
CELLS = dict(zip(ASKED, map(int, cells_of(topology(GRAPH), np.arange(150) < 120, 16)), strict=False))
LABELS = {user: CLASSES[GRAPH.y[place]] for place, user in enumerate(ASKED)}


def made(key=0, epsilon=2.0, labels=LABELS, **how):
    return opened_file(CELLS, labels, CLASSES, epsilon=epsilon, key=key, **how)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def edges(folder):
    return Tables(str(folder / "edges.csv"))


def test_the_model_is_that_of_the_counts_and_the_public_graph(edges):
    file = made()
    training = prepare_opened(file, edges, "shared-counts")
    graph, fitted = training.graph, training.fit()
    assert graph.node_ids.tolist() == USERS
    assert graph.y is None
    assert graph.classes == tuple(CLASSES)
    assert graph.train_mask.tolist() == [user in CELLS for user in USERS]
    rows = file.join().rows(USERS)
    np.testing.assert_array_equal(fitted.released[COUNTS], rows)
    assert fitted.released["users"][:2].tolist() == [public_id(file.agreed.agreement, user) for user in USERS[:2]]
    assert (fitted.released["users"][120:] == -1).all()
    np.testing.assert_array_equal(fitted.weights["probabilities"], SharedCounts(2.0).learned(GRAPH, rows))
    assert (fitted.predict(graph) == GRAPH.y).mean() > 0.75  # with this key 0.86
    assert fitted.plan.epsilon == 2.0


def test_nodes_are_those_of_all_tables_and_cells(tmp_path):
    (tmp_path / "edges.csv").write_text("from,to\nu001,u000\nu001,x9\n")
    (tmp_path / "nodes.csv").write_text("id\nu002\nzed\n")
    graph = graph_of(made(), Tables(str(tmp_path / "edges.csv"), str(tmp_path / "nodes.csv")))
    assert graph.node_ids.tolist() == [*ASKED, "x9", "zed"]
    assert graph.num_edges == 2
    assert graph.train_mask[:-2].all()
    assert not graph.train_mask[-2:].any()


def test_a_run_says_who_signed_and_what_was_not_checked(edges, tmp_path):
    file = made(labels={user: label for user, label in LABELS.items() if user > "u020"})
    training = prepare_opened(file, edges, "shared-counts")
    fitted = training.fit()
    run = fitted.save(tmp_path / "run")
    assert verify(run).problems == ()
    loaded = load(run)
    assert loaded.collection == file.content
    np.testing.assert_array_equal(loaded.predict_proba(training.graph), fitted.predict_proba(training.graph))
    assert verify(loaded.save(tmp_path / "again")).problems == ()
    facts, words = loaded.certificate.values["collection"], str(loaded.certificate)
    assert loaded.certificate.values["unit"]["name"] == "servers"
    assert [server["sign"] for server in facts["servers"]] == [one.sign_key.hex() for one in OPERATORS]
    assert (facts["sha256"], facts["agreement"]) == (file.sha256, file.agreed.agreement.sha256)
    assert (facts["asked"], facts["reports"]) == (120, 99)
    for part in ("99 reports of 120 users to two-1", "Not checked, and the word of both: that each server drew its noise",
                 OPERATORS[1].sign_key.hex()[:16], "do not collude", "who reports a label"):  # fmt: skip
        assert part in words
    for part in ("simulated", "true labels"):
        assert part not in words


@pytest.fixture
def train(folder, tmp_path, capsys):
    """Train from a file of what two servers opened into the folder ``run``; exit code and both outputs."""

    def run(file, *options, word="shared-counts"):
        file.write(tmp_path / "opened.sfumato")
        sources = (
            "--collection",
            tmp_path / "opened.sfumato",
            "--edges",
            folder / "edges.csv",
            "--out",
            tmp_path / "run",
        )
        code = invoke(["train", word, *map(str, (*sources, *options))])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def test_the_command_line_trains_predicts_verifies_and_reports(train, tmp_path, capsys):
    run = tmp_path / "run"
    code, out, _ = train(made(), "--threads", "1", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["method"], found["labels"], found["test_accuracy"]) == ("shared-counts", "opened", None)
    assert (found["collection"]["reports"], found["missing"], found["caveats"]) == (120, 30, [])
    assert found["privacy"] == {"unit": "servers", "relation": "replace", "epsilon": 2.0, "delta": 0.0}
    assert invoke(["verify", str(run)]) == 0
    assert "not checked: that each server drew its noise" in capsys.readouterr().out
    assert invoke(["predict", str(run)]) == 0
    assert len((run / "predictions.csv").read_text().splitlines()) == 151
    assert invoke(["report", str(run)]) == 0
    page = (run / "reports" / "index.html").read_text()
    for words in ("120 reports", "Validation accuracy", "of cells that were held out"):
        assert words in page
    for audience, said in (
        ("public", "Your own device splits what you tell between two servers."),
        ("regulator", "Each of the two servers has to keep secret the halves that it got"),
        ("reviewer", "120 reports"),
    ):
        assert invoke(["report", str(run), "--audience", audience]) == 0
        text = (run / "reports" / f"{audience}.html").read_text()
        assert said in text
        for wrong in ("played their role", "took part", "collect withdraw", "simulated"):
            assert wrong not in text
    capsys.readouterr()
    assert invoke(["evaluate", str(run)]) == 2
    assert "validation.json" in capsys.readouterr().err


def test_the_words_name_all_who_were_asked(train):
    code, out, err = train(made(labels={user: label for user, label in LABELS.items() if user < "u070"}))
    assert code == 0
    assert out.startswith(
        "shared-counts from collection two-1: 70 of 120 users who were asked reported; 80 nodes have no report."
    )
    assert "The interval is of the noise of both servers." in out
    assert "80 nodes have no report, and only 70 have one." in err


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("--epsilon-y", "1"), "or the agreement of two servers, and devices"),
        (("--epsilon", "1"), "or the agreement of two servers, and devices"),
        (("--set", "epsilon_y=3"), "both signed it, and it set their noise"),
        (("--preset", "lpgnn-2021"), "Expected no --preset with what two servers opened"),
        (("--label", "class"), "their counts tell of labels"),
        (("--ledger", "l.jsonl"), "devices keep the ledgers"),
        (("--seeds", "2"), "there is one fit"),
        (("--split", "50/25/25"), "roles follow from the collection"),
        (("--task", "link"), "Expected --task link with pgc beside a collection"),
    ],
)
def test_options_that_the_agreement_fixes_are_refused(train, tmp_path, given, why):
    code, _, err = train(made(), *given)
    assert code == 2
    assert why in err
    assert not (tmp_path / "run").exists()


def test_other_methods_and_files_are_refused(train, tmp_path):
    code, _, err = train(made(), word="lpgnn")
    assert code == 2
    assert "Expected shared-counts with what two servers opened, got 'lpgnn'" in err
    with pytest.raises(InputError, match="It learns from what two servers opened"):
        method_of("shared-counts", collection(label=label()).schema)
    collection(label=label()).write(tmp_path / "closed")
    assert read_opened(str(tmp_path / "closed")) is None
    assert read_any(str(tmp_path / "closed")).reports
    (tmp_path / "agreed").write_text(made().agreed.text)
    with pytest.raises(DataError, match="on which they agreed before the first report"):
        read_any(str(tmp_path / "agreed"))
    (tmp_path / "broken").write_bytes(made().content[:-9])
    with pytest.raises(DataError):
        read_any(str(tmp_path / "broken"))


def test_tables_that_do_not_fit_are_refused(edges, tmp_path):
    with pytest.raises(InputError, match="Expected `edges`"):
        prepare_opened(made(), Tables(), "shared-counts")
    path = tmp_path / "edges.csv"
    path.write_text("from,to\nx1,x2\n")
    with pytest.raises(DataError, match="between two users who were asked, such as 'u000'"):
        prepare_opened(made(), Tables(str(path)), "shared-counts")
    with pytest.raises(DataError, match="at least 2 reports that were counted, got 1"):
        prepare_opened(made(labels={"u000": "a"}), edges, "shared-counts")


def test_cells_beyond_memory_are_refused(edges, monkeypatch):
    monkeypatch.setattr(module, "_MOST_CELLS", 3)
    with pytest.raises(DataError, match="Expected at most about 3 cells"):
        prepare_opened(made(), edges, "shared-counts")


def test_small_agreements_of_whole_numbers_verify(edges, tmp_path):
    """An epsilon that both wrote without a point is the same number."""
    fitted = prepare_opened(made(epsilon=1), edges, "shared-counts").fit()
    assert verify(fitted.save(tmp_path / "run")).problems == ()


def test_what_two_real_servers_opened_is_learned_from(tmp_path):
    """Shares, proofs and both books, to a verified run; some users have no link, and some who have one were not asked."""
    pair = Pair(tmp_path, users=24, size=4, epsilon=4.0)
    pair.enrol()
    pair.stored([place // 8 for place in range(24)])
    agreed = Agreed(pair.agreement, pair.partition, pair.signatures)
    file = OpenedFile(agreed, tuple(pair.exchange()))
    links = [(f"u{a}", f"u{b}") for a in range(20) for b in range(a) if a // 8 == b // 8] + [("u1", "stranger")]
    (tmp_path / "edges.csv").write_text("from,to\n" + "".join(f"{a},{b}\n" for a, b in links))
    training = prepare_opened(file, Tables(str(tmp_path / "edges.csv")), "shared-counts")
    assert training.graph.num_nodes == 25
    fitted = training.fit()
    assert verify(fitted.save(tmp_path / "run")).problems == ()
    np.testing.assert_allclose(fitted.predict_proba(training.graph).sum(axis=1), 1, rtol=1e-5)


def exact(method, rows, counts):
    """What the validation accuracy estimates: the same votes, with counts without noise."""
    cells, right = rows[:, 0], 0.0
    for third in range(3):
        rest = rows.copy()
        rest[(cells >= 0) & (cells % 3 == third), 1:] = 0
        guesses = method.learned(GRAPH, rest).argmax(axis=1)
        for cell in {*cells[cells >= 0].tolist()}:
            if cell % 3 == third:
                inside = cells == cell
                right += (counts[cell] * np.bincount(guesses[inside], minlength=3)).sum() / inside.sum()
    return right / counts.sum()


@pytest.mark.parametrize("answers", [1.0, 0.6])
def test_validation_is_right_on_average_and_its_interval_covers(answers):
    """Fixed keys: the error is noise of mean zero, and at least 95 of 100 intervals hold what noise hides."""
    rng = np.random.default_rng(4)
    labels = {user: label for user, label in LABELS.items() if rng.random() < answers}
    counts = np.zeros((1 + max(CELLS.values()), 3))
    for user, one in labels.items():
        counts[CELLS[user], CLASSES.index(one)] += 1
    errors, held = [], 0
    for key in range(60):
        rows = made(key, 1.0, labels).join().rows(USERS)
        mean, low, high = SharedCounts(1.0).validation(GRAPH, rows)
        wanted = exact(SharedCounts(1.0), rows, counts)
        errors.append(mean - wanted)
        held += low <= wanted <= high
    assert abs(np.mean(errors)) < 3.5 * np.std(errors) / np.sqrt(60)
    assert held >= 57, held


def test_no_class_is_known_where_links_say_nothing(edges):
    """Classes that have nothing to do with links are predicted as well as the largest one is."""
    rng = np.random.default_rng(2)
    file = made(labels={user: CLASSES[rng.integers(3)] for user in ASKED}, epsilon=20.0)
    training = prepare_opened(file, edges, "shared-counts")
    mean, _, high = training.validation(training.fit())
    assert mean < 0.5
    assert high < 0.6


def test_schemas_and_openings_are_prepared_by_their_own(edges):
    with pytest.raises(AttributeError):
        prepare(made(), edges, "lpgnn")
