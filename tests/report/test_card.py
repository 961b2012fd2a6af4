"""A model card: YAML that parses, the claim as it is, no score, and texts that stay texts."""

from dataclasses import replace

import pytest
from report_samples import HOSTILE, RECORD, claimed_run

import sfumato as sf
from sfumato.errors import InputError
from sfumato.report import model_card

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
EDGE = sf.EdgeLevel(directed=False)


def parts(card):
    """The YAML on top, read, and the Markdown below it."""
    empty, front, text = card.split("---\n", 2)
    assert empty == ""
    return yaml.safe_load(front), text


@pytest.mark.parametrize(
    "unit", [EDGE, sf.NodeLevel(max_out_degree=3), sf.RecordLevel(), sf.ClassLevel(), sf.LinkLevel()], ids=repr
)
def test_the_card_says_what_the_certificate_says(unit):
    run = claimed_run(unit, record=RECORD | {"flavor": "Pure DP"} if unit.trust == "link" else RECORD)
    values = run.certificate
    front, text = parts(model_card(run))
    assert front["model_name"] == "Dorm groups"
    assert front["pipeline_tag"] == "graph-ml"
    assert front["tags"] == ["differential-privacy", f"{unit.name}-level", "gap"]
    told = front["differential_privacy"]
    assert {name: told[name] for name in ("epsilon", "delta")} == values["claim"]
    assert told["protects"] == values["protects"]
    assert f"Protects {values['protects']}: epsilon = 1" in text
    assert "at most 73.2 are right" in text
    for sentence in (*values["caveats"], *values["assumptions"], *values["side_channels"]):
        assert sentence in text
    assert "Whom people can ask about it, and how: privacy@university.example" in text
    assert "No score is told here" in text


def test_what_nobody_wrote_is_said_and_the_license_is_left_open():
    card = model_card(claimed_run(EDGE))
    assert parts(card)[0]["model_name"] == "gap on campus"
    assert "# license: missing." in card
    assert "Nobody wrote what this is for" in card


def test_scores_do_not_change_a_card_and_texts_cannot_leave_their_place():
    run = claimed_run(EDGE, record=dict.fromkeys(RECORD, HOSTILE))
    card = model_card(run)
    assert model_card(replace(run, metrics={"test_accuracy": {"mean": 0.5}}, attacks=({"x": 1},))) == card
    front, text = parts(card)
    assert front["model_name"].startswith("</title><script>")
    assert "<script" not in text


def test_a_run_without_privacy_has_no_card(bare_run):
    with pytest.raises(InputError, match="without a guarantee nothing of it may be published"):
        model_card(bare_run)
