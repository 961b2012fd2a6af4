"""A run knows its graph again by ids and public values, in any order of rows and named columns, and however it is held."""

import json
import shutil
import stat
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import sfumato as sf
from sfumato.errors import DataError, InputError, SfumatoWarning
from sfumato.graph._packed import PackedRows
from sfumato.graph._subgraph import induced
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.graph._targets import Targets
from sfumato.method._identity import Identity, in_classes, in_columns
from sfumato.scoring._scores import score

EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=5)
NAMES = np.array([f"person {(7 * v) % 60:02}" for v in range(60)])
ORDER = np.random.default_rng(3).permutation(60)


def graph_of(seed=0, **fields):
    made = stochastic_block_model(60, 3, mean_degree=8, num_features=4, seed=seed).with_split(seed=0)
    return replace(made, **{"node_ids": NAMES, "feature_names": ("a", "b", "c", "d"), **fields})


GRAPH = graph_of()


def fit(method, unit=EDGE, graph=GRAPH):
    return method.calibrate(sf.Budget(4.0, 1e-6), unit, graph.public_facts(unit)).fit(graph)


@pytest.fixture(scope="module")
def fitted():
    return fit(sf.GAP(num_hops=1, epochs=1))


@pytest.fixture(scope="module")
def run(fitted, tmp_path_factory):
    return fitted.save(tmp_path_factory.mktemp("identity") / "run")


@pytest.mark.parametrize("ids", [NAMES, np.arange(60) * 10, np.arange(60).astype(str), None])
def test_rows_are_found_by_their_ids(ids):
    graph = graph_of(node_ids=ids)
    known = Identity.from_dict(
        json.loads(json.dumps(Identity.of(graph, EDGE.public).to_dict(), default=np.ndarray.tolist))
    )
    turned = induced(graph, ORDER)
    rows = known.rows(turned)
    assert rows.tolist() == np.argsort(ORDER).tolist()
    back = known.ordered(turned)
    assert np.array_equal(back.indices, graph.indices)
    assert known.difference(back) is None
    assert known.difference(turned) is not None
    assert known.rows(induced(graph, ORDER[:59])) is None
    assert known.rows(replace(graph, node_ids=np.arange(60) + 1)) is None
    assert known.rows(replace(induced(graph, range(59)), node_ids=None)) is None


def test_ids_of_numbers_and_of_text_are_the_same_as_in_the_digest():
    known = Identity.of(graph_of(node_ids=None), ())
    assert known.rows(graph_of(node_ids=np.arange(60)[::-1].astype(str))).tolist() == list(range(59, -1, -1))


@pytest.mark.parametrize("wide", [False, True])
def test_features_are_the_same_however_they_are_held(wide):
    x = np.zeros((60, 100 if wide else 3), np.float32)
    x[np.arange(60), np.arange(60) % x.shape[1]] = 1
    codes = (np.arange(60) % x.shape[1] + 1)[:, None].astype(np.uint8)
    signed = np.where(x == 0, np.float32(-0.0), x)
    entries = sp.csr_matrix(x)
    stored = sp.csr_matrix((np.append(entries.data, 0), np.append(entries.indices, 2),
                            np.append(entries.indptr[:-1], len(entries.data) + 1)), x.shape)  # fmt: skip
    one = graph_of(x=x, feature_names=())
    known = Identity.of(one, EDGE.public)
    for same in (signed, entries, stored, PackedRows(None, codes, (x.shape[1],))):
        assert known.difference(one.changed(x=same)) is None
    other = x.copy()
    other[59, 0] += 1
    assert known.difference(one.changed(x=other)) == "features"
    assert known.difference(one.changed(x=sp.csr_matrix(other))) == "features"


def test_labels_are_compared_by_their_names_and_only_where_both_have_them():
    known = Identity.of(GRAPH, EDGE.public)
    renamed = replace(GRAPH, y=2 - GRAPH.y, classes=GRAPH.classes[::-1])
    assert known.difference(renamed) is None
    assert known.difference(replace(GRAPH, y=2 - GRAPH.y)) == "labels"
    assert known.difference(replace(GRAPH, y=None)) is None
    assert known.difference(replace(GRAPH, y=np.where(np.arange(60) < 5, -1, GRAPH.y))) == "labels"
    numbers = replace(GRAPH, y=None, classes=(), targets=Targets("number", np.arange(60), limits=(0, 60)))
    known = Identity.of(numbers, EDGE.public)
    other = replace(numbers, targets=Targets("number", np.arange(1, 61), limits=(0, 60)), classes=())
    assert (known.difference(numbers), known.difference(other)) == (None, "labels")


@pytest.mark.parametrize(
    ("unit", "parts"), [(EDGE, ["features", "labels"]), (NODE, []), (sf.NoPrivacy(), ["features", "labels", "arcs"])]
)
def test_only_what_is_public_is_digested_and_each_time_with_another_key(unit, parts):
    one, two = (Identity.of(GRAPH, unit.public) for _ in range(2))
    assert list(one.digests) == parts
    assert not {*one.digests.values()} & {*two.digests.values()}


def test_named_columns_are_put_in_order_and_others_are_refused(fitted):
    columns = [2, 0, 3, 1]
    turned = replace(GRAPH, x=GRAPH.x[:, columns], feature_names=tuple(np.array(GRAPH.feature_names)[columns]))
    np.testing.assert_array_equal(fitted.predict_proba(turned), fitted.predict_proba(GRAPH))
    np.testing.assert_array_equal(in_columns(turned, GRAPH.feature_names).x, GRAPH.x)
    sparse = replace(turned, x=sp.csr_matrix(turned.x))
    np.testing.assert_allclose(fitted.predict_proba(sparse), fitted.predict_proba(GRAPH), atol=1e-6)
    with pytest.raises(InputError, match="got 'e' in the place of 'd'"):
        fitted.predict_proba(replace(GRAPH, feature_names=("a", "b", "c", "e")))


@pytest.mark.parametrize("count", [59, 61])
@pytest.mark.parametrize("unit", [EDGE, NODE])
def test_rows_without_ids_are_those_of_a_graph_of_that_size_alone(unit, count, tmp_path):
    graph = graph_of(node_ids=None)
    fitted = fit(sf.LabelMessages(epochs=1), unit, graph)
    other = stochastic_block_model(count, 3, mean_degree=8, num_features=4, seed=0)
    for one in (fitted, sf.load(fitted.save(tmp_path / "run"))):
        with pytest.raises(InputError, match="other node ids"):
            one.predict(replace(other, feature_names=graph.feature_names))


@pytest.mark.parametrize("unit", [EDGE, NODE])
def test_a_graph_with_other_classes_is_another_one_also_where_labels_are_protected(unit):
    fitted = fit(sf.LabelMessages(epochs=1), unit)
    with pytest.raises(InputError, match="with the same node ids but other classes"):
        fitted.predict(replace(GRAPH, classes=("a", "b", "c")))
    assert fitted.difference(replace(GRAPH, y=None, classes=())) is None


def test_ranges_follow_their_columns():
    ranged = replace(GRAPH, ranges=(("a", 0, 1), ("c", None, 5)))
    turned = replace(GRAPH, feature_names=("c", "b", "a", "d"), ranges=(("c", None, 5), ("a", 0, 1)))
    assert in_columns(turned, GRAPH.feature_names).ranges == ranged.ranges


def test_pairs_and_rows_are_those_of_the_order_that_was_asked():
    fitted, turned = fit(sf.LinkMessages()), induced(GRAPH, ORDER)
    np.testing.assert_array_equal(fitted.embeddings(turned), fitted.embeddings(GRAPH)[ORDER])
    pairs = np.array([[0, 5, 9], [3, 7, 0]])
    np.testing.assert_array_equal(fitted.score_pairs(turned, pairs), fitted.score_pairs(GRAPH, ORDER[pairs]))
    (nodes, others), scores = fitted.best_pairs(turned, 2)
    assert nodes.tolist() == np.repeat(np.arange(60), 2).tolist()
    (_, mine), expected = fitted.best_pairs(GRAPH, 2)
    np.testing.assert_array_equal(scores.reshape(60, 2), expected.reshape(60, 2)[ORDER])
    np.testing.assert_array_equal(ORDER[others].reshape(60, 2), mine.reshape(60, 2)[ORDER])


def test_the_identity_stands_beside_the_release_and_for_its_owner_alone(run):
    path = run / "identity.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["ids"] == NAMES.tolist()
    released = b"".join(one.read_bytes() for one in (run / "release").iterdir())
    assert b"person" not in released
    for digest in json.loads(path.read_text())["digests"].values():
        assert digest.encode() not in released


def test_a_release_alone_knows_its_graph_by_the_digest_of_ids_in_order(fitted, run, tmp_path):
    copy = sf.load(shutil.copytree(run / "release", tmp_path / "copy"))
    np.testing.assert_array_equal(copy.predict_proba(GRAPH), fitted.predict_proba(GRAPH))
    with pytest.raises(InputError, match="put them back in order, which spends nothing"):
        copy.predict_proba(induced(GRAPH, ORDER))
    assert not (copy.save(tmp_path / "again") / "identity.json").exists()


def test_the_identity_of_another_run_is_refused(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "identity.json").write_text(json.dumps(Identity.of(graph_of(node_ids=None), ()).to_dict()))
    with pytest.raises(DataError, match=r"identity\.json has other node ids than the release"):
        sf.load(copy)


@pytest.mark.parametrize("unit", [EDGE, NODE])
def test_inference_takes_the_user_at_their_word_that_a_graph_with_the_same_ids_is_another(unit):
    """The same people at another time: only arcs changed, which nothing public tells."""
    fitted = fit(sf.GAP(num_hops=1, epochs=1), unit)
    later = induced(replace(graph_of(1), x=GRAPH.x, y=GRAPH.y), ORDER)
    plan = fitted.calibrate_inference(sf.Budget(1.0, 1e-6), unit, later.public_facts(unit))
    with pytest.warns(SfumatoWarning, match="has the node ids of the one that was trained on, and is read and charged"):
        inferred = plan.fit(later)
    assert inferred.certificate.epsilon == plan.epsilon
    assert inferred.predict_proba(later).shape == (60, 3)


def test_inference_reads_named_columns_in_the_order_of_training(fitted):
    other = graph_of(1, node_ids=np.arange(60))
    turned = replace(other, x=other.x[:, ::-1], feature_names=other.feature_names[::-1])
    plan = fitted.calibrate_inference(sf.Budget(1.0, 1e-6), EDGE, turned.public_facts(EDGE))
    inferred = plan.fit(turned)
    np.testing.assert_array_equal(inferred.predict_proba(turned), inferred.predict_proba(other))


def test_classes_in_another_order_are_refused_until_they_are_put_in_order(fitted, monkeypatch):
    """Answers are numbers of the classes of training: the same names in another order would be scored as errors."""
    turned = replace(GRAPH, y=2 - GRAPH.y, classes=GRAPH.classes[::-1])
    for ask in (fitted.predict, fitted.predict_proba, fitted.difference, lambda graph: score(fitted, graph)):
        with pytest.raises(InputError, match=r"same classes in another order.*fitted\.graph_key\.in_columns"):
            ask(turned)
    again = fitted.graph_key.in_columns(turned)
    assert (again.classes, again.y.tolist()) == (GRAPH.classes, GRAPH.y.tolist())
    assert score(fitted, again) == score(fitted, GRAPH)
    plan = fitted.calibrate_inference(sf.Budget(2.0, 1e-6), EDGE, turned.public_facts(EDGE))
    seen = []
    monkeypatch.setattr(type(plan.method), "run", lambda self, plan, graph, session: seen.append(graph) or 1 / 0)
    with pytest.raises(ZeroDivisionError), pytest.warns(SfumatoWarning):
        plan.fit(turned)
    assert seen[0].classes == GRAPH.classes


def test_names_of_several_labels_are_put_in_order_too():
    targets = Targets("multilabel", np.eye(3, 2), ("a", "b"))
    graph = sf.graph.Graph.from_edges([0], [1], 3, directed=False, targets=targets)
    turned = in_classes(graph, ("b", "a"))
    assert (turned.classes, turned.targets.values.tolist()) == (("b", "a"), np.eye(3, 2)[:, ::-1].tolist())


@pytest.mark.parametrize("part", ["labels", "features"])
def test_what_was_changed_since_is_named_with_the_way_that_costs_nothing(fitted, part):
    y = np.where(np.arange(60) == 7, -1, GRAPH.y)
    other = replace(GRAPH, y=y) if part == "labels" else replace(GRAPH, x=GRAPH.x + 1)
    with pytest.raises(
        InputError, match=f"If it is the fitted graph, put its {part} back.*that costs nothing"
    ) as caught:
        fitted.predict(other)
    assert ("a label that was emptied since" in str(caught.value)) == (part == "labels")
    with pytest.raises(InputError) as caught:
        fitted.predict(replace(GRAPH, node_ids=None))
    assert "put its" not in str(caught.value)
