"""Pages for the public and for reviewers: sound under every unit, true to the certificate, and without any score."""

import json
from dataclasses import replace
from html import unescape

import pytest
from report_samples import GAUSSIAN, HOSTILE, RECORD, assert_sound, claimed_run

import sfumato as sf
from sfumato.catalog import GRAPH_CARDS, METHODS, graph_method, method_named
from sfumato.errors import InputError
from sfumato.pate._folder import WHO_MAY_SEE
from sfumato.privacy.events import PoissonGaussianEvent
from sfumato.privacy.units import UNITS
from sfumato.record._certificate import caveats
from sfumato.record.ledger import Release
from sfumato.report import public_page, reviewer_page
from sfumato.report._everyday import LIMITS, SEEN
from sfumato.report._person import NOT_PROTECTED, person_of

CLAIMED = [
    sf.EdgeLevel(directed=False), sf.EdgeLevel(directed=True), sf.NodeLevel(max_out_degree=3), sf.NodeLevel(arcs="incident"),
    sf.NodeLevel(relation="replace"), sf.RecordLevel(), sf.RecordLevel(relation="replace"), sf.LocalLevel(),
    sf.LocalLevel(features=False), sf.LinkLevel(), sf.ClassLevel(), sf.ClassLevel("add-remove"), sf.SubclassLevel(4),
    sf.SubclassLevel(4, "declared"), sf.PersonLevel(3, False), sf.PersonNodesLevel(3), sf.ServersLevel(),
]  # fmt: skip


def words(page):
    """The text of a page's main part."""
    root = assert_sound(page)
    return " ".join(unescape(" ".join(root.find(".//main").itertext())).split())


@pytest.mark.parametrize("unit", CLAIMED, ids=repr)
def test_pages_are_sound_under_every_unit(unit):
    run = claimed_run(unit, record=RECORD)
    public, reviewer = words(public_page(run)), words(reviewer_page(run, "VALID: runs/first\nclaim: none"))
    assert "epsilon is at most 1." in public
    assert "right in at most 73.2 of 100" in public
    for text in (*run.certificate["caveats"], *(NOT_PROTECTED[part] for part in unit.public)):
        assert LIMITS.get(text, text) in public
    for text in (*run.certificate["assumptions"], *run.certificate["side_channels"], "VALID: runs/first"):
        assert text in reviewer
    assert json.dumps(run.certificate["ledger_head"]) in reviewer


def test_every_unit_that_claims_something_has_words():
    assert {type(unit) for unit in CLAIMED} == {unit for unit in UNITS if unit.private}
    assert len({person_of(claimed_run(unit).certificate).what for unit in CLAIMED}) >= 10


@pytest.mark.parametrize("method", METHODS)
def test_what_a_method_shows_and_hides_has_everyday_words(method):
    shown = [
        method_named(method).who_may_see(unit).values()
        for unit in CLAIMED
        if unit.name in method_named(method).card.units
    ]
    assert {phrase for one in shown for phrases in one for phrase in phrases} <= {*SEEN}


def test_what_pate_shows_and_hides_has_everyday_words():
    assert {phrase for phrases in WHO_MAY_SEE.values() for phrase in phrases} <= {*SEEN}


def test_what_statistics_show_and_hide_has_everyday_words():
    shown = [graph_method(name).card.audience for name in GRAPH_CARDS]
    assert {phrase for one in shown for phrase in (*one.outputs, *one.never)} <= {*SEEN}


def test_limits_of_a_node_are_in_everyday_words():
    unit, event = sf.NodeLevel(max_out_degree=3), PoissonGaussianEvent(0.1, 2.0, 10)
    found = caveats(unit, False, [Release("head", event, (1,), 1)])
    half = sf.EdgeLevel(directed=True).caveats(directed=False)
    owned = sf.PersonNodesLevel(3).caveats(directed=False)[:1]
    assert [len(found), *sorted([*found, *half, *owned])] == [3, *sorted(LIMITS)]
    run = claimed_run(unit, record=RECORD)
    values = {**run.certificate, "caveats": [*found, "A sentence for experts."]}
    text = words(public_page(replace(run, certificate=values)))
    for expert in (*found, "joint DP", "aggregates", "noise", "AES", "hop", "DP-SGD"):
        assert expert not in text
    assert all(text.count(LIMITS[one]) == 1 for one in found)
    assert "written for experts: A sentence for experts." in text


def test_the_record_is_said_to_be_unchecked():
    run = claimed_run(sf.EdgeLevel(directed=False), record=RECORD)
    public = words(public_page(run))
    assert "“The publisher” is A University." in public
    assert "No program has checked what they say. Name Dorm groups Published by A University" in public
    assert "Questions about this model go to: privacy@university.example" in public
    assert "Nobody checked what they say" in words(reviewer_page(run, ""))


def test_the_page_of_a_reviewer_opens_with_what_is_asked_first_and_folds_the_certificate():
    page = reviewer_page(claimed_run(sf.EdgeLevel(directed=False), record=RECORD), "VALID: runs/first")
    text = words(page)
    assert text.startswith("In short Claim epsilon = 1, delta = 1e-06 Protects the presence of any one undirected edge")
    for said in ("VALID, says the verifier. The release is not signed", "A University (privacy@university.example)"):
        assert said in text[:1600]
    assert text.index("The guarantee") < text.index("How to verify") < text.index("Deployment record")
    folded = page[page.index("<details>") : page.index("</details>")]
    assert "ledger_head" in folded
    assert "{" not in page[page.index("<main") : page.index("<details>")]


def test_pages_without_a_record_say_so():
    run = claimed_run(sf.EdgeLevel(directed=False))
    assert "The publisher named nobody to ask." in words(public_page(run))
    assert "The run has no deployment record" in words(reviewer_page(run, ""))


def test_delta_is_told_exactly_and_only_where_it_is():
    some, none = (words(public_page(claimed_run(unit))) for unit in (sf.EdgeLevel(directed=False), sf.LinkLevel()))
    assert "Here it is at most one in a million (written 1e-06)." in some
    assert "The next section names an exception." in some
    assert "Here delta is 0: the limit above has no exception." in none
    assert "The next section" not in none


def test_a_link_that_both_report_counts_twice():
    text = words(public_page(claimed_run(sf.LinkLevel())))
    assert "Then epsilon is 2, and a guess is right in at most 88.1 of 100 cases." in text


def test_links_of_others_have_their_price():
    run = claimed_run(sf.NodeLevel(max_out_degree=3))
    values = {**run.certificate, "prices": [{"arcs": 1, "epsilon": 2.5}, {"arcs": 25, "epsilon": None}]}
    text = words(public_page(replace(run, certificate=values)))
    assert "1 2.5 92.5 25 no limit known 100" in text
    assert "The table below" in text
    assert "The table below" not in words(public_page(run))


def test_who_held_the_values_of_simulated_devices_is_told():
    facts = {"name": "c", "sha256": "a" * 64, "schema": "b" * 64, "reports": 3, "opens": "2026-12-01T00:00:00Z",
             "closes": "2027-01-01T00:00:00Z"}  # fmt: skip
    simulated, collected = claimed_run(sf.LocalLevel()), claimed_run(sf.LocalLevel(), collection=facts)
    assert "you have to trust them" in words(public_page(simulated))
    assert "not even those who collect the reports" in words(public_page(collected))
    assert "you have to trust them" not in words(public_page(collected))


def test_earlier_models_and_read_facts_are_named():
    runs = [{"ledger_head": "0" * 64, "epsilon": 2.0, "delta": 1e-6}]
    text = words(public_page(claimed_run(sf.EdgeLevel(directed=False), builds_on=runs)))
    assert "Earlier models, on which this one builds." in text
    assert "read from the data and count as public: how many properties of a person there are." in text
    assert "Earlier models" not in words(public_page(claimed_run(sf.EdgeLevel(directed=False))))


@pytest.mark.parametrize("signed", [True, False])
def test_the_signature_is_told(signed):
    run = claimed_run(sf.EdgeLevel(directed=False), signed=signed)
    assert ("The files are signed." in words(public_page(run))) == signed
    assert ("--public-key KEY" in words(reviewer_page(run, ""))) == signed


def test_texts_cannot_leave_their_place():
    run = claimed_run(sf.EdgeLevel(directed=False), record=dict.fromkeys(RECORD, HOSTILE))
    for page in (public_page(run), reviewer_page(run, HOSTILE)):
        assert_sound(page)
        assert "<script" not in page


def test_no_score_is_on_the_pages():
    """What the folder knows beyond the release does not change a byte."""
    run = claimed_run(sf.EdgeLevel(directed=False))
    evaluation = {"metrics": {"test_accuracy": {"mean": 0.5}}, "curves": {"encoder": [1.0]}}
    known = replace(run, **evaluation, audit={"x": 1}, attacks=({"x": 1},))
    assert public_page(known) == public_page(run)
    assert reviewer_page(known, "") == reviewer_page(run, "")


def test_a_run_without_privacy_has_no_page(bare_run):
    for page in (public_page, lambda run: reviewer_page(run, "")):
        with pytest.raises(InputError, match="unit none: without a guarantee nothing of it may be published"):
            page(bare_run)


def test_an_epsilon_of_zero_and_a_large_one_are_called_what_they_are():
    run = claimed_run(sf.EdgeLevel(directed=False), GAUSSIAN)
    for epsilon, said in ((0.0, "does not depend on your part at all"), (9.0, "promises you almost nothing")):
        values = {**run.certificate, "claim": {"epsilon": epsilon, "delta": 0.0}}
        assert said in words(public_page(replace(run, certificate=values)))
