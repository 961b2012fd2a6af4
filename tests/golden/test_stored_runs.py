"""Kept runs of formats 2 and 3 still verify, load and predict: what was published stays readable."""

import json
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato.graph._graph import Graph
from sfumato.verify import verify

KEPT = Path(__file__).parent
PUBLIC_KEY = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
# On the path 0 - 1 - 2 - 3 with one-hot features: GAP of one hop and width 2, trained when the run was kept.
PREDICTIONS = {
    "format-2/edge": [0.386743, 0.392134, 0.492548, 0.284874],
    "format-2/node": [0.366137, 0.263541, 0.311105, 0.477442],
    "format-3/edge": [0.437411, 0.215362, 0.485771, 0.362522],
    "format-3/node": [0.486129, 0.206000, 0.419278, 0.311155],
}
TUNED = {
    "format-2/tuned": [0.440091, 0.315966, 0.469876, 0.334017],
    "format-3/tuned": [0.375077, 0.211571, 0.504874, 0.455363],
}


def path_graph():
    edges = ([0, 1, 2], [1, 2, 3])
    return Graph.from_edges(*edges, 4, directed=False, y=[0, 1, 0, 1], x=np.eye(4), classes=("no", "yes"), name="path")


@pytest.mark.parametrize("kept", PREDICTIONS)
def test_a_kept_run_verifies_with_its_key(kept, tmp_path):
    (tmp_path / "key").write_text(PUBLIC_KEY)
    result = verify(KEPT / kept, tmp_path / "key")
    assert (result.problems, result.signed) == ((), True)
    assert result.unit["name"] == kept.partition("/")[2]
    assert result.caveats[0].startswith("The graph has 4 nodes")  # which a certificate of format 2 does not say
    certificate = json.loads((KEPT / kept / "release" / "certificate.json").read_text())
    assert f"format-{certificate['format']}" == kept.partition("/")[0]


@pytest.mark.parametrize("kept", PREDICTIONS)
def test_a_kept_run_loads_and_predicts_as_it_did(kept, tmp_path):
    fitted = sf.load(KEPT / kept)
    probabilities = fitted.predict_proba(path_graph())
    np.testing.assert_allclose(probabilities[:, 1], PREDICTIONS[kept], atol=1e-5)
    assert str(fitted.certificate).startswith(f"Protects {fitted.plan.unit.describe()}.")
    copy = fitted.save(tmp_path / "copy")
    assert verify(copy).problems == ()
    for name in ("certificate.json", "ledger.jsonl", "spec.json"):
        assert (copy / "release" / name).read_bytes() == (KEPT / kept / "release" / name).read_bytes()


@pytest.mark.parametrize("kept", TUNED)
def test_a_kept_tuned_run_verifies_loads_and_lists_its_candidates(kept):
    """Best of a random number of trials at node level, records replaced; unsigned."""
    result = verify(KEPT / kept)
    assert (result.problems, result.unit["relation"]) == ((), "replace")
    fitted = sf.load(KEPT / kept)
    assert [one["settings"]["num_hops"] for one in fitted.certificate.values["candidates"]] == [1, 2]
    np.testing.assert_allclose(fitted.predict_proba(path_graph())[:, 1], TUNED[kept], atol=1e-5)


BEFORE_LAST_STAGE = {
    "piloted": [0.432139, 0.000421, 0.520344, 0.766533],
    "tuned-piloted": [0.000255, 0.000079, 0.259008, 0.333564, 0.260065, 0.161627, 0.408337, 0.000335],
    "linear": [0.477081, 0.495303, 0.476072, 0.527616],
    "tuned-linear": [
        0.4521329998970032,
        0.45223501324653625,
        0.46845000982284546,
        0.4912700057029724,
        0.4917359948158264,
        0.48889100551605225,
        0.43748900294303894,
        0.4938330054283142,
    ],
}


@pytest.mark.parametrize("kept", BEFORE_LAST_STAGE)
def test_node_level_runs_without_last_stage_or_scale_verify_load_and_predict_as_they_did(kept):
    """Piloted heads read rows beside features, the test had three numbers, and the second hop another part of the rest."""
    run, expected = KEPT / "format-3" / kept, BEFORE_LAST_STAGE[kept]
    assert verify(run).problems == ()
    nodes = np.arange(len(expected))
    path = Graph.from_edges(nodes[:-1], nodes[1:], len(nodes), directed=False, y=nodes % 2, x=np.eye(len(nodes)),
                            classes=("no", "yes"), name="path")  # fmt: skip
    np.testing.assert_allclose(sf.load(run).predict_proba(path)[:, 1], expected, atol=1e-5)
