"""The certificate: only for a finished plan, canonical as a file, readable as text."""

import json

import pytest

from sfumato.errors import LedgerError
from sfumato.noise._rectangles import SAMPLER_TAU
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent
from sfumato.privacy.units import EdgeLevel, NodeLevel, NoPrivacy, RecordLevel, unit_from_dict, unit_to_dict
from sfumato.record._certificate import COVERS, FIXED, Certificate, Statement, caveats, certify, total_draws
from sfumato.record.ledger import Ledger, Release, canonical_json
from sfumato.verify._units import UNITS
from sfumato.verify._words import _SUMS, _of_events

RELEASES = (
    Release("aggregate/1", GaussianEvent(3.5), (4, 16), 32),
    Release("aggregate/2", GaussianEvent(3.5), (4, 16), 32),
)
SGD = Release("encoder", PoissonGaussianEvent(0.1, 2.0, 50), (30,), 30)
VISIBLE = {"anyone": ["parameters", "noisy rows"], "the node itself": ["its prediction"], "never": ["exact sums"]}


def build(unit=None, charges=2, epsilon=1.0, delta=1e-7, releases=RELEASES, **changes):
    plan = {"method": "gap", "unit": {}, "claim": {"epsilon": epsilon, "delta": delta}, "delta_sampler": 2e-28}
    ledger = Ledger(plan, releases)
    for release in releases[:charges]:
        ledger.charge(release.name)
    arguments = {
        "version": "0.1.0", "settings": {"num_hops": 2}, "unit": unit or EdgeLevel(directed=False),
        "budget": {"epsilon": 1.0, "delta": 1e-7}, "accounting": "gaussian",
        "public_facts": {"num_nodes": 60, "num_classes": 0, "directed": False},
        "assumed_public": [], "who_may_see": VISIBLE,
    }  # fmt: skip
    return certify(Statement(ledger, **{**arguments, **changes})), ledger


@pytest.mark.parametrize("charges", [0, 1])
def test_an_unfinished_plan_has_no_certificate(charges):
    with pytest.raises(LedgerError, match=f"Expected 2 releases in the ledger, got {charges}"):
        build(charges=charges)


def test_it_holds_the_claim_and_what_was_charged():
    origin = {"ledger_head": "ab" * 32, "epsilon": 2.0, "delta": 1e-7}
    certificate, ledger = build(notes=("Extra.",), builds_on=(origin,))
    values = certificate.values
    assert (certificate.epsilon, certificate.delta) == (1.0, 1e-7)
    assert values["releases"] == [entry["release"] for entry in ledger.entries[1:]]
    assert values["ledger_head"] == ledger.head == ledger.entries[-1]["hash"]
    assert values["accounting"] == {"method": "gaussian", "delta_sampler": 2e-28, "sampler_tau": SAMPLER_TAU}
    assert {key: values[key] for key in FIXED} == FIXED
    assert values["notes"] == ["Extra."]
    assert values["composition"] == {"covers": COVERS, "builds_on": [origin]}
    assert unit_from_dict(values["unit"]) == EdgeLevel(directed=False)


CAVEATS = [
    (EdgeLevel(directed=False), False, RELEASES, []),
    (EdgeLevel(directed=True), True, RELEASES, []),
    (EdgeLevel(directed=True), False, RELEASES, ["half of an edge"]),
    (NodeLevel(max_out_degree=5), True, RELEASES, ["still be inferred"]),
    (NodeLevel(max_out_degree=5), False, (*RELEASES, SGD), ["still be inferred", "Each end", "takes for granted"]),
    (RecordLevel(), False, (SGD,), ["takes for granted"]),
]


@pytest.mark.parametrize(("unit", "directed", "releases", "words"), CAVEATS)
def test_caveats_follow_from_unit_direction_and_mechanisms_and_the_verifier_agrees(unit, directed, releases, words):
    found = caveats(unit, directed, releases)
    assert len(found) == len(words)
    assert all(word in sentence for word, sentence in zip(words, found, strict=True))
    stated = {"unit": unit_to_dict(unit), "public_facts": {"directed": directed}}
    written = {**stated, "releases": [release.to_dict() for release in releases]}
    rules = UNITS[unit.name]
    assert [*rules.caveats(written), *_of_events(written, _SUMS[0])] == found
    assert rules.protects(stated["unit"]) == unit.describe()


def test_json_is_canonical_and_comes_back():
    certificate, _ = build()
    text = certificate.to_json()
    assert text == canonical_json(json.loads(text)) + "\n"
    assert Certificate(json.loads(text)) == certificate
    assert Certificate(json.loads(text)).to_json() == text


def test_equal_runs_have_equal_certificates():
    assert build()[0].to_json() == build()[0].to_json()
    assert build(epsilon=0.5)[0].to_json() != build()[0].to_json()


def test_text_names_unit_numbers_audience_and_assumptions():
    text = str(build(assumed_public=["classes", "num_features"])[0])
    assert "Protects the presence of any one undirected edge." in text
    assert "epsilon = 1, delta = 1e-07" in text
    assert "(unit edge, relation add-remove)" in text
    assert "Anyone may see: parameters; noisy rows." in text
    assert "The node itself may see: its prediction." in text
    assert "Never to be shown: exact sums." in text
    assert "Assumed public, read from the data: classes; num_features." in text
    sentences = [*FIXED["assumptions"], *FIXED["side_channels"], FIXED["adversary"], FIXED["data_collection"], COVERS]
    assert all(sentence in text for sentence in sentences)
    assert "ledger" not in text
    origin = {"ledger_head": "ab" * 32, "epsilon": 2.0, "delta": 1e-7}
    assert f"(ledger {'ab' * 8}, epsilon 2.0, delta 1e-07)" in str(build(builds_on=(origin,))[0])


def test_text_leaves_out_what_is_empty():
    text = str(build(who_may_see={"anyone": ["parameters"], "the node itself": [], "never": []})[0])
    assert "may see: parameters" in text
    assert "node itself" not in text
    assert "Never" not in text
    assert "read from the data" not in text


def test_text_of_a_node_unit_names_the_cap():
    text = str(build(NodeLevel(max_out_degree=50, relation="replace"))[0])
    assert "its label and the (at most 50) out-arcs it owns" in text
    assert "relation replace" in text


def test_without_privacy_the_text_says_so():
    certificate, _ = build(NoPrivacy(), epsilon=None, delta=None, releases=(), budget=None, accounting="none")
    assert certificate.epsilon is certificate.delta is None
    assert certificate.values["budget"] == {"epsilon": None, "delta": None}
    assert str(certificate).startswith("No privacy")
    assert "epsilon" not in str(certificate)


def test_total_draws():
    assert total_draws([*RELEASES, SGD]) == 32 + 32 + 1500
    assert total_draws([]) == 0


def test_a_factor_is_told_up_to_the_largest_that_is_imagined_and_not_beyond():
    from sfumato.record import _shown as shown

    most = shown._MOST_IN_WORDS
    assert len(shown.factor_words({"epsilon": most, "delta": 0.0})) == 1
    assert shown.factor_words({"epsilon": most + 0.01, "delta": 0.0}) == []
