"""The page for data protection officers answers what people ask first for every unit, and marks what nobody has written yet."""

import re
from dataclasses import replace
from html import unescape

import pytest
from report_samples import HOSTILE, RECORD, assert_sound, claimed_run

import sfumato as sf
from sfumato.attacks._listing import ATTACKS
from sfumato.errors import InputError
from sfumato.record._deployment import ASKED
from sfumato.report import regulator_page
from sfumato.report._everyday import ASSUMED
from sfumato.report._intruder import RISKS
from sfumato.report._rules import RULES

EDGE = sf.EdgeLevel(directed=False)
UNITS = {
    EDGE: ("one link between you and one other person", "whether you two are linked"),
    sf.EdgeLevel(directed=True): ("one half of a link", "whether one half of a link is in the data"),
    sf.NodeLevel(max_out_degree=3): ("at most 3 of the links that start at you", "holds your data or is empty"),
    sf.NodeLevel(arcs="incident"): ("every link to you or from you", "holds your data or is empty"),
    sf.NodeLevel(relation="replace"): ("your whole entry in the data", "is the real one or another one"),
    sf.RecordLevel(): ("your whole entry in the data", "was used or left out"),
    sf.LocalLevel(): ("your properties and your group, as you told", "which of two possible answers"),
    sf.LinkLevel(): ("one entry in your list of links", "whether one certain person is in your list"),
    sf.ClassLevel(): ("everything that the data holds of one group", "which of two lists of entries one group has"),
    sf.SubclassLevel(4, "declared"): (
        "one part that was defined before the run",
        "which of two lists of entries one such part has",
    ),
}
"""What each unit protects, and what stays uncertain: the answer to the first question."""
ATTACK = {
    "attack": "links",
    "knowledge": "predictions for all nodes",
    "target": "whether two nodes are linked",
    "auc": 0.612, "auc_low": 0.6, "auc_high": 0.625, "baseline": 0.55, "baseline_high": 0.56, "baseline_low": 0.54,
    "baseline_name": "similar features", "withheld": False, "tpr_at_1pct_fpr": 0.034, "tpr_at_0.1pct_fpr": None,
}  # fmt: skip
COLLECTION = {
    "name": "c", "sha256": "a" * 64, "schema": "b" * 64, "reports": 3, "opens": "2026-12-01T00:00:00Z",
    "closes": "2027-01-01T00:00:00Z",
}  # fmt: skip
AUDIT = {"flagged": False, "epsilon_lower_bound": 0.25, "claimed": 1.0, "evidence": [], "reach": None, "untested": []}


def sections(page):
    """The text below each heading of a page, by heading."""
    root = assert_sound(page)
    names = {one.get("id"): one.text for one in root.iter() if one.get("id") and one.tag in ("h2", "h3", "h4")}
    return {
        names[one.get("aria-labelledby")]: unescape(" ".join(" ".join(one.itertext()).split()))
        for one in root.iter("section")
    }


def page_of(unit, record=RECORD, later=None, **more):
    return regulator_page(replace(claimed_run(unit, record=record), **more), "VALID: runs/first", later)


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_a_reader_finds_the_answer_to_each_question(unit):
    """The questions and what the answer must hold were written before the page was."""
    found = sections(page_of(unit, attacks=(ATTACK,)))
    protects, stays = UNITS[unit]
    pure = unit.trust == "link"
    expected = {
        "1. Who is protected, and what about them?": f"Protected is|{protects}|What is hidden is|{stays}|"
        "The data, in the words of the owner: in words",
        "2. From whom?": "From everyone who sees the release|holds for every attack|Not from the owner",
        "3. What leaves?": "anyone may see it: |the numbers that the model consists of|in the words of the owner: in words",
        "4. What must be kept secret?": "The owner has to keep|The real data|"
        "The sums before random numbers were added|The key from which",
        "5. How sure is the protection?": "at most 73.2 of 100|epsilon is at most 1.|"
        f"{'no exception' if pure else 'one in a million'}",
        "6. What is not protected, and what remains possible?": "What the data of other people says about you|"
        "it remains possible to guess",
        "7. What happens if I leave?": "cannot be called back|2.72 times as likely|What the owner does: in words",
        "8. Who is responsible, and what is it for?": "The owner: A University. Questions go to: privacy@university.example.|"
        "What the release is for: in words|Why these data are needed: in words",
        "9. How was it tested?": "1 attack was run on the release: with the release the attacker guessed better",
        "10. For how long?": "does not wear off|How long the owner keeps the data: in words|looked at again: in words",
        "11. What may be asked or published again?": "Of the release, anything|the numbers add up",
        "12. Who can check this, and how?": "sfumato verify runs/first|No program checks what the owner wrote|not signed",
        "13. On what assumptions does it rest?": "Nobody breaks the encryption|is no part of the limit",
    }
    assert [name for name in found if name in expected] == list(expected)
    for question, parts in expected.items():
        for part in parts.split("|"):
            assert part in found[question], (question, found[question])
        assert "From: " in found[question]
    assert "Nothing is open" in found["What is still open"]


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_one_thing_has_one_word(unit):
    """The answers speak of the owner, the release, the limit and the protected part, and never call them by a second name."""
    answers = sections(page_of(unit, attacks=(ATTACK,)))["What people ask first"].lower()
    for other in (
        "publisher",
        "curator",
        "those who",
        "your part",
        "record ",
        "records",
        "noise",
        "arc",
        "node",
        "feature",
    ):
        assert other not in re.sub(r"from: [^.]*\.|record of the motivated intruder", "", answers), other


def test_what_nobody_wrote_is_a_marked_blank_and_is_listed():
    page = page_of(EDGE, None)
    found = sections(page)
    assert 'class="blank">The owner writes here who decides why and how the data are used' in page
    assert "20 of 20 fields are blank." in found["What is still open"]
    for name in ("controller", "legal_basis", "deletion", "review"):
        assert f"{name} {ASKED[name]}" in found["What is still open"]
        assert f"(field {name})" in page
    assert "Not tested yet. The owner runs: sfumato attack links runs/first" in found["9. How was it tested?"]


def test_a_later_record_fills_blanks_and_changes_nothing():
    early = {name: text for name, text in RECORD.items() if name not in ("review", "controller")}
    found = sections(page_of(EDGE, early, RECORD))["What is still open"]
    assert "Written by the owner after the run, so not in its certificate: controller, review." in found
    with pytest.raises(
        InputError, match="curator of the deployment record to be 'A University', as the certificate of the run says"
    ):
        page_of(EDGE, RECORD, {**RECORD, "curator": "Another"})


def test_attacks_are_told_under_the_question_that_they_try():
    weak = {**ATTACK, "attack": "degree", "auc_low": 0.4, "tpr_at_1pct_fpr": None, "withheld": True}
    found = sections(page_of(EDGE, attacks=(ATTACK, weak), audit=AUDIT))
    assert "picks the true one 61.2 times in 100 (95 % interval 60.0 to 62.5)" in found["Linkability"]
    assert (
        "the best other guess (similar properties) does so 55.0 times, a coin 50 times. With 1 false alarm in 100, "
        "the attacker finds 3.4 of 100" in found["Linkability"]
    )
    assert "The release helped this attacker." in found["Linkability"]
    assert (
        "The release did not help, but for chance. The release shows predictions to each person alone"
        in found["Inference"]
    )
    assert "Not tested yet. The owner runs: sfumato attack membership-lira runs/first" in found["Singling out"]
    assert "is not protected: who is in the data" in found["Singling out"]
    assert (
        "2 attacks were run on the release: with it 1 of the attackers guessed better" in found["9. How was it tested?"]
    )
    assert "epsilon is at least 0.25, and did not refute" in found["9. How was it tested?"]
    refuted = sections(page_of(EDGE, audit={**AUDIT, "flagged": True}))["9. How was it tested?"]
    assert "it must not be relied on" in refuted


def test_many_links_links_of_others_and_links_listed_twice_have_their_price():
    ten = sections(page_of(EDGE))["7. What happens if I leave?"]
    assert "The epsilons of all add up, and delta grows too: for ten links epsilon is at most 10." in ten
    assert "up to 100 of 100 guesses about all ten together can be right" in ten
    for unit in (sf.EdgeLevel(directed=True), sf.LinkLevel()):  # halves of links, and entries in two lists
        assert "for ten links epsilon is at most 20. In" in sections(page_of(unit))["7. What happens if I leave?"]
    assert "the release may show it as it was" in ten
    assert "then epsilon is 2." in sections(page_of(sf.LinkLevel()))["5. How sure is the protection?"]
    run = claimed_run(sf.NodeLevel(max_out_degree=3))
    run = replace(
        run, certificate={**run.certificate, "prices": [{"arcs": 1, "epsilon": 2.5}, {"arcs": 25, "epsilon": None}]}
    )
    found = sections(regulator_page(run, ""))["6. What is not protected, and what remains possible?"]
    assert "1 2.5 92.5 25 no limit known 100" in found
    assert "for ten links" not in sections(page_of(sf.NodeLevel(max_out_degree=3)))["7. What happens if I leave?"]


def test_a_blank_for_health_data_is_open_as_well():
    page = page_of(EDGE, {name: text for name, text in RECORD.items() if name != "expert"})
    found = sections(page)["What is still open"]
    assert "1 of 20 fields is blank." in found
    assert "elsewhere it may stay blank" in found
    assert "Nothing is open" not in page
    assert "The owner writes here" not in page_of(EDGE)


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_a_number_of_guesses_comes_with_its_condition(unit):
    found = sections(page_of(unit))
    told = [text for text in found.values() if re.search(r"At most [0-9.]+ of 100 guesses", text)]
    assert len(told) >= 3
    for text in told:
        guesses = re.findall(r"At most [0-9.]+ of 100 guesses[^(]*", text)
        assert all("both answers were equally likely before" in one for one in guesses)
    assert (
        "both answers were equally likely before (answer 5)"
        in found["6. What is not protected, and what remains possible?"]
    )


def test_links_that_others_list_are_told_wherever_they_count():
    hidden = "belongs to the entry of that person, and is not hidden with your entry"
    told = ("1. Who is protected, and what about them?", "5. How sure is the protection?",
            "6. What is not protected, and what remains possible?", "7. What happens if I leave?")  # fmt: skip
    run = claimed_run(sf.NodeLevel(max_out_degree=3))
    bare = sections(regulator_page(run, ""))
    prices = {"prices": [{"arcs": 1, "epsilon": 2.5}]}
    priced = sections(regulator_page(replace(run, certificate={**run.certificate, **prices}), ""))
    for question in told:
        assert hidden in bare[question]
        assert "each link of yours is such a link too" in bare[question]
        assert "states no limit for your entry and such links together." in bare[question]
        assert "its first row applies to nearly everyone" in priced[question]
    assert "ask the owner to delete them there too" in bare[told[3]]
    assert "all alike" not in bare[told[0]]
    for unit in (sf.NodeLevel(arcs="incident"), EDGE):
        assert hidden not in page_of(unit)
        assert "Everybody in the data, all alike." in sections(page_of(unit))[told[0]]


@pytest.mark.parametrize(
    ("epsilon", "said"),
    [
        (1.0, ""),
        (1.2, "This limit is moderate: "),
        (4.0, "This limit is weak: it allows"),
        (9.0, "promises almost nothing"),
    ],
)
def test_a_weak_limit_is_called_weak(epsilon, said):
    run = claimed_run(EDGE)
    run = replace(run, certificate={**run.certificate, "claim": {"epsilon": epsilon, "delta": 1e-6}})
    found = sections(regulator_page(run, ""))
    for name in ("5. How sure is the protection?", "(c) Risks for people"):
        assert said in found[name]
        assert ("This limit is" in found[name]) == bool(said)


def test_the_answer_about_tests_names_what_was_aimed_at_and_what_was_not_tried():
    public = {**ATTACK, "attack": "attributes", "target": "whether a node has a hidden property"}
    text = sections(page_of(EDGE, attacks=(ATTACK, public)))["9. How was it tested?"]
    assert "wanted to know, and what is protected: whether two people are linked." in text
    assert "counts as public already (answer 6): whether a person has a hidden property." in text
    assert "Not tried: attackers who know a person and want to know whether this person's data were used." in text
    assert (
        "No attack aimed at what counts as public already (answer 6)."
        in sections(page_of(EDGE, attacks=({**ATTACK, "attack": "degree"},)))["9. How was it tested?"]
    )  # how many links a person has follows from links, which are protected
    alone = sections(page_of(EDGE, attacks=(public,)))["9. How was it tested?"]
    assert "No attack aimed at what is protected." in alone
    assert "nothing." not in alone
    entries = sections(page_of(sf.NodeLevel(arcs="incident"), attacks=(public,)))["9. How was it tested?"]
    assert "No attack aimed at what counts as public already (answer 6)." in entries
    assert "Not tried: any attack on the release" in sections(page_of(EDGE, audit=AUDIT))["9. How was it tested?"]


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_words_are_explained_and_numbers_have_one_form(unit):
    found = sections(page_of(unit, attacks=(ATTACK,)))
    opening = found["What people ask first"].split("1. Who is protected")[0]
    for word in ("Certificate", "Model", "Run", "Attack", "Ledger", "label or class"):
        assert word in opening, word
    assert "95 % interval says" in found["The motivated intruder: what was tested"]
    for name in ("How to check", "Map to NIST SP 800-226", "Map to ISO/IEC 27559"):
        assert "a node is a person" in found[name]
    for name, text in found.items():
        assert "1e-0" not in text, name
        assert name.startswith("Map to") or not re.search("Gaussian|SGD", text), name


def test_what_is_outside_of_every_limit_is_told():
    found = sections(page_of(EDGE))
    outside = found["6. What is not protected, and what remains possible?"]
    assert "How long the program ran" in outside
    assert "an error of the owner, a secret that gets out, or a broken encryption" in outside
    assert "every attack on the release" in found["2. From whom?"]
    assert "anyone knows, with or without names" in found["3. What leaves?"]
    assert "The certificate is published too." in found["3. What leaves?"]
    assert "had from the owner: privacy@university.example." in found["3. What leaves?"]
    assert "withdrawing it does the same as being deleted" in found["7. What happens if I leave?"]


def test_a_conclusion_has_an_example():
    """At epsilon 1, what happens in 1 of 100 cases happens in at most e of 100 with the protected part."""
    found = sections(page_of(EDGE))["7. What happens if I leave?"]
    assert "in 1 of 100 cases if a link of yours had been left out, they conclude in at most 2.8 of 100 cases" in found


@pytest.mark.parametrize(
    ("facts", "words", "links"),
    [
        ({"image_shape": [1, 8, 8]}, "sfumato attack membership-lira runs/first", "There are no links in these data."),
        ({"target": "number"}, "sfumato audit runs/first", "No attack of Sfumato reads such a release"),
    ],
)
def test_only_tests_that_can_be_run_are_asked_for(facts, words, links):
    run = claimed_run(EDGE)
    run = replace(run, certificate={**run.certificate, "public_facts": {**run.certificate["public_facts"], **facts}})
    found = sections(regulator_page(run, ""))
    assert words in found["9. How was it tested?"]
    assert links in found["Linkability"]


def test_every_assumption_is_in_everyday_words():
    trusts = [sf.LocalLevel(), sf.LinkLevel(), EDGE]
    said = [text for unit in trusts for text in claimed_run(unit).certificate["assumptions"]]
    collected = claimed_run(sf.LocalLevel(), collection=COLLECTION).certificate["assumptions"]
    assert {*said, *collected} <= {*ASSUMED}


def test_nobody_is_asked_to_test_what_is_public():
    found = sections(page_of(sf.LocalLevel()))
    assert "The owner runs: sfumato attack attributes runs/first" in found["9. How was it tested?"]
    assert "Not tested: in this release it is public who is linked to whom." in found["Linkability"]


def test_a_report_of_a_collection_can_be_deleted():
    run = claimed_run(sf.LocalLevel(), collection=COLLECTION)
    found = sections(regulator_page(run, ""))
    assert "Your own device changes your report at random before it sends anything." in found["2. From whom?"]
    assert "A report of your device can be deleted from the store too" in found["7. What happens if I leave?"]


def test_every_attack_of_the_library_belongs_to_one_question():
    assert sorted(name for one in RISKS for name in one.attacks) == sorted(ATTACKS)


def test_rules_are_told_with_source_and_date_and_no_advice():
    page = page_of(EDGE)
    found = sections(page)["Rules and guidelines"]
    for rule in RULES.values():
        assert f"{rule.name} ({rule.issued}): " in found
        assert rule.issued.split()[-1].isdigit()
    assert "looked up on 28 November 2026" in found
    assert page.count("This page is no legal advice.") == 3
    assert "do not publish" not in page


def test_no_score_of_the_model_is_on_the_page():
    scores = {"metrics": {"test_accuracy": {"mean": 0.5}}, "curves": {"encoder": [1.0]}}
    assert page_of(EDGE, **scores) == page_of(EDGE)
    assert "for those who supervise, and not for publication" in page_of(EDGE, attacks=(ATTACK,))


def test_texts_cannot_leave_their_place():
    page = page_of(EDGE, dict.fromkeys(RECORD, HOSTILE), attacks=({**ATTACK, "knowledge": HOSTILE},))
    assert_sound(page)
    assert "<script" not in page


def test_a_population_and_earlier_runs_are_told():
    people = {"population": {"name": "town", "total_epsilon": 4.0, "total_delta": 1e-5}}
    origins = [{"ledger_head": "0" * 64, "epsilon": 2.0, "delta": 1e-6}]
    run = claimed_run(EDGE, builds_on=origins)
    run = replace(run, certificate={**run.certificate, **people})
    text = sections(regulator_page(run, ""))["11. What may be asked or published again?"]
    assert "ledger of town. Through all releases there, epsilon is at most 4." in text
    assert "It builds on earlier releases" in text


def test_a_run_without_privacy_has_no_page(bare_run):
    with pytest.raises(InputError, match="without a guarantee nothing of it may be published"):
        regulator_page(bare_run, "")
