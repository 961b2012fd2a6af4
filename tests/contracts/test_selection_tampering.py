"""Tuned runs: whatever is said of a candidate that did not win is held to the rules of a run with its settings."""

import shutil

import pytest
from contracts_forgery import problems, rewrite

import sfumato as sf
from sfumato.central._dpar import DPAR
from sfumato.central._edgerand import EdgeRand
from sfumato.graph import stochastic_block_model
from sfumato.verify import verify

REPLACE = sf.NodeLevel(max_out_degree=5, relation="replace")
EDGE = sf.EdgeLevel(directed=False)
GAPS = (sf.GAP(num_hops=1, epochs=1, batch_size=45), sf.GAP(num_hops=2, epochs=1, batch_size=45))


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A tuned run for each unit, and the number of the candidate that lost."""
    graph = stochastic_block_model(120, 3, mean_degree=20, num_features=5, seed=1).with_split()
    runs = {}
    for unit in (REPLACE, EDGE):
        tuned = sf.Tuned(GAPS, mean_trials=4)
        fitted = tuned.calibrate(sf.Budget(8.0, 1e-5), unit, graph.public_facts(unit)).fit(graph)
        run = fitted.save(tmp_path_factory.mktemp(unit.name) / "run")
        runs[unit.name] = run, 1 - GAPS.index(fitted.plan.method)
    return runs


def forge(honest, unit, folder, change):
    """Let ``change(certificate, loser)`` rewrite a copy of a run, everywhere alike."""
    kept, loser = honest[unit]
    run = shutil.copytree(kept, folder / "run")
    rewrite(run, lambda certificate, spec: change(certificate, loser))
    return run


@pytest.mark.parametrize("unit", ["node", "edge"])
def test_the_honest_run_is_valid_and_lists_its_candidates(honest, unit, tmp_path):
    run = forge(honest, unit, tmp_path, lambda certificate, loser: None)
    assert verify(run).problems == ()
    values = sf.load(run).certificate.values
    assert [one["settings"]["num_hops"] for one in values["candidates"]] == [1, 2]
    assert {one["method"] for one in values["candidates"]} == {"gap"}
    assert values["settings"] in [one["settings"] for one in values["candidates"]]
    assert values["notes"] == []
    assert 'Chosen among: {"method":"gap","settings":{"batch_size":45,' in str(sf.load(run).certificate)


def trial(certificate, index):
    return certificate["releases"][0]["event"]["candidates"][index]


def sampled(certificate, index):
    return [event for event in trial(certificate, index) if event["type"] == "poisson-gaussian"]


def cheaper(certificate, loser):
    """The construction of the review: add-remove under a replace unit, with noise divided by 1.6."""
    for event in sampled(certificate, loser):
        event.update(relation="add-remove", noise_multiplier=event["noise_multiplier"] / 1.6)


def swapped(certificate, loser):
    events = trial(certificate, loser)
    events[0], events[1] = events[1], events[0]


def rare(certificate, loser):
    for event in sampled(certificate, loser):
        event.update(steps=1, sampling_prob=1e-6)


def sampled_score(certificate, loser):
    trial(certificate, loser)[-1] = {**sampled(certificate, loser)[0], "steps": 1, "sampling_prob": 0.001}


LARGE = {"type": "gaussian", "noise_multiplier": 1e6, "count": 1}
HIDDEN = {
    "add-remove": (cheaper, "releases[0].event.relation: expected replace, the unit's, got add-remove"),
    "nothing": (lambda c, loser: trial(c, loser).clear(), "events: expected "),
    "one Gaussian": (lambda c, loser: trial(c, loser).__setitem__(slice(None), [LARGE]), "events: expected "),
    "rarely sampled": (rare, "releases[0].event.sampling_prob: expected "),
    "no score": (lambda c, loser: trial(c, loser).pop(), "events: expected "),
    "a sampled score": (sampled_score, "events: expected the last one to be one Gaussian release, of the score"),
    "two scores": (
        lambda c, loser: trial(c, loser)[-1].update(count=2),
        "events: expected the last one to be one Gaussian release, of the score",
    ),
    "hop before encoder": (swapped, "releases[0].event.type: expected poisson-gaussian, got gaussian"),
    "a step less": (lambda c, loser: sampled(c, loser)[0].update(steps=1), "releases[0].event.steps: expected "),
}


@pytest.mark.parametrize(("change", "named"), HIDDEN.values(), ids=HIDDEN)
def test_the_events_of_a_losing_candidate_are_those_of_its_settings(honest, tmp_path, change, named):
    run = forge(honest, "node", tmp_path, change)
    assert f"certificate.json: candidates[{honest['node'][1]}]: {named}" in problems(run)


def event_of(certificate):
    return certificate["releases"][0]["event"]


SELECTION = {
    "fewer trials": (lambda c, _: event_of(c).update(mean_trials=40), "claim.epsilon"),
    "a dearer rule": (lambda c, _: event_of(c).update(rule="geometric"), "claim.epsilon"),
    "less noise": (lambda c, _: trial(c, 0)[0].update(noise_multiplier=0.1), "claim.epsilon"),
    "no candidate": (lambda c, _: event_of(c).update(candidates=[]), "candidates"),
    "more in each candidate": (
        lambda c, _: [one.extend(3 * [one[0]]) for one in event_of(c)["candidates"]],
        "candidates",
    ),
    "fewer draws": (lambda c, _: c["releases"][0].update(affected_coordinates=3), "affected_coordinates"),
    "another name": (lambda c, _: c["releases"][0].update(name="aggregate/1"), "named tuned"),
    "a closed form": (lambda c, _: c["accounting"].update(method="pld"), "accounting.method"),
    "no caveat": (lambda c, _: c.update(caveats=[]), "caveats"),
    "for the node itself": (
        lambda c, _: c["releases"][0].update(visible_to="the node itself"),
        "releases[0].visible_to: expected 'anyone', got 'the node itself'",
    ),
    "another shape": (
        lambda c, _: c["releases"][0].update(shape=[120, 16]),
        "certificate.json: releases: expected one selection, named tuned, of shape [1]",
    ),
}


@pytest.mark.parametrize(("change", "named"), SELECTION.values(), ids=SELECTION)
@pytest.mark.parametrize("unit", ["node", "edge"])
def test_the_selection_itself_is_what_was_charged(honest, tmp_path, unit, change, named):
    assert named in problems(forge(honest, unit, tmp_path, change))


def test_all_rules_of_a_method_hold_for_every_candidate(tmp_path):
    """Randomized response over more outcomes costs less; a run with these settings has two."""
    graph = stochastic_block_model(60, 2, mean_degree=5, num_features=3, seed=1).with_split()
    tuned = sf.Tuned([EdgeRand(epochs=epochs, width=4) for epochs in (1, 2)], mean_trials=3)
    run = tuned.calibrate(sf.Budget(4.0, 1e-5), EDGE, graph.public_facts(EDGE)).fit(graph).save(tmp_path / "run")
    assert verify(run).problems == ()

    def more_outcomes(certificate, spec):
        for events in certificate["releases"][0]["event"]["candidates"]:
            for event in events:
                if event["type"] == "randomized-response":
                    event["num_outcomes"] = 10**9

    rewrite(run, more_outcomes)
    assert "expected randomized response over 2 outcomes" in problems(run)


def test_candidates_leave_the_same_out_of_the_claim(tmp_path, monkeypatch):
    graph, unit = stochastic_block_model(60, 2, mean_degree=5, num_features=3, seed=1).with_split(), sf.NodeLevel()
    candidates = [DPAR(steps=2, mechanism="none", public_test_graph=True), DPAR(steps=3, mechanism="none")]
    with pytest.raises(sf.errors.InputError, match="to leave the same out of the claim"):
        sf.Tuned(candidates)
    monkeypatch.setattr(DPAR, "limits", ())
    plan = sf.Tuned(candidates, mean_trials=3).calibrate(sf.Budget(8.0, 1e-4), unit, graph.public_facts(unit))
    run = plan.fit(graph).save(tmp_path / "run")
    assert "expected a candidate with the limits of the claim that the chosen one has" in problems(run)


def test_hops_of_a_losing_candidate_are_counted(honest, tmp_path):
    """At edge level, where a trial is its hops alone."""
    run = forge(honest, "edge", tmp_path, lambda certificate, loser: trial(certificate, loser).pop())
    assert "]: events: expected " in problems(run)


def settings_of(certificate, index):
    return certificate["candidates"][index]["settings"]


def twins(certificate, loser):
    certificate["candidates"][loser] = certificate["candidates"][1 - loser]


def all_alike(certificate, loser):
    twins(certificate, loser)
    trial(certificate, loser)[:] = trial(certificate, 1 - loser)


def single(certificate, loser):
    del certificate["candidates"][loser]
    del event_of(certificate)["candidates"][loser]


ELSEWHERE = [{"ledger_head": "0" * 64, "epsilon": 1.0, "delta": 1e-6}]
LISTS = {
    "a candidate twice": (twins, "candidates: expected at least two, all different"),
    "one candidate under two numbers": (all_alike, "candidates: expected at least two, all different"),
    "another order": (lambda c, _: c["candidates"].reverse(), "candidates[0]: events: expected "),
    "another method": (lambda c, loser: c["candidates"][loser].update(method="mlp"), "method: expected gap, got mlp"),
    "no list": (lambda c, _: c.pop("candidates"), "candidates: is missing"),
    "a shorter list": (
        lambda c, loser: c["candidates"].pop(loser), "releases[0].event.candidates: expected 1, as in candidates, got 2",
    ),
    "nothing to choose from": (single, "candidates: expected at least two, all different"),
    "settings that were never tried": (
        lambda c, loser: settings_of(c, 1 - loser).update(learning_rate=0.5), "settings: expected those of one of candidates",
    ),
    "arcs among settings": (
        lambda c, loser: settings_of(c, loser).update(arcs=[[1, 2]]), "settings.arcs: is not a setting of method gap",
    ),
    "other epochs": (lambda c, loser: settings_of(c, loser).update(epochs=2), "releases[0].event.steps: expected "),
    "weights from elsewhere": (
        lambda c, _: c["composition"].update(builds_on=ELSEWHERE), "composition.builds_on: expected none",
    ),
    "fewer draws": (
        lambda c, _: c["releases"][0].update(affected_coordinates=c["releases"][0]["affected_coordinates"] - 1),
        "releases[0].affected_coordinates: expected ",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "named"), LISTS.values(), ids=LISTS)
def test_the_list_of_candidates_is_that_of_the_charged_events(honest, tmp_path, change, named):
    found = problems(forge(honest, "node", tmp_path, change))
    assert named in found
    assert "certificate.json: " in found


def test_candidates_without_a_selection_are_refused(tmp_path):
    graph = stochastic_block_model(60, 3, mean_degree=12, num_features=5, seed=1).with_split()
    plan = sf.GAP(epochs=1).calibrate(sf.Budget(8.0, 1e-5), EDGE, graph.public_facts(EDGE))
    run = plan.fit(graph).save(tmp_path / "run")
    chosen = {"method": "gap", "settings": {"num_hops": 3, "anything": "at all"}}
    rewrite(run, lambda certificate, spec: certificate.update(candidates=[chosen]))
    assert problems(run) == "certificate.json: candidates: not expected, since no selection was charged"
