"""Runs of networks of the user's own, forged: the verifier names what contradicts the folder."""

import json
import shutil

import pytest
import torch
from contracts_forgery import both, event, facts, part, problems, rewrite, setting, with_tensors
from torch import nn

import sfumato as sf
from sfumato.verify._epsilon import epsilon_bracket
from sfumato.verify._methods import rules_of
from sfumato.verify._tensors import read_tensors

UNITS = {
    "hops": sf.NodeLevel(max_out_degree=10),
    "replaced hops": sf.NodeLevel(max_out_degree=10, relation="replace"),
    "records": sf.RecordLevel(),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of each kind, of 800 nodes."""
    folder = tmp_path_factory.mktemp("runs")
    graph = sf.graph.stochastic_block_model(800, 3, mean_degree=8, num_features=4, seed=0).with_split(seed=0)
    torch.manual_seed(0)
    for name, unit in UNITS.items():
        how = {"epochs": 1, "batch_size": 200}
        method = sf.PrivateTrainer(nn.Linear(12, 3), **how) if "hops" in name else sf.DPSGD(nn.Linear(4, 3), **how)
        plan = method.calibrate(sf.Budget(4.0, 1e-5), unit, graph.public_facts(unit, assume_public=True))
        plan.fit(graph).save(folder / name)
    return folder


@pytest.fixture
def copied(made, tmp_path):
    return lambda name: shutil.copytree(made / name, tmp_path / "run")


def settled(certificate, _):
    """Claim what the events that are written now cost, and leave prices for problems."""
    events = [release["event"] for release in certificate["releases"]]
    certificate["claim"]["epsilon"] = epsilon_bracket(events, certificate["claim"]["delta"])[1]


def louder(certificate):
    for release in certificate["releases"]:
        release["event"]["noise_multiplier"] *= 2


def wider(certificate):
    """The cap that was 10 is said to be 100."""
    certificate["unit"]["max_out_degree"] = 100


@pytest.mark.parametrize("name", ["hops", "replaced hops"])
@pytest.mark.parametrize("change", [louder, wider])
def test_less_noise_than_is_claimed_is_seen_in_hops(made, name, change):
    """Whatever else was made to fit: words, prices, sizes, and a claim of what these events cost."""
    release, rules = made / name / "release", rules_of("dpsgd-hops")
    certificate, found = json.loads((release / "certificate.json").read_text()), []
    stored = read_tensors(release / "releases.safetensors", found)
    assert list(rules.value_faults(certificate, stored)) == found == []
    change(certificate)
    said = [text.partition(", ")[0].partition(": the ")[0] for text in rules.value_faults(certificate, stored)]
    assert said == [f"aggregate/{hop}: holds less noise than was charged" for hop in (1, 2)]


def test_removed_records_cannot_be_called_replaced(made):
    release = made / "hops" / "release"
    certificate = json.loads((release / "certificate.json").read_text())
    certificate["unit"]["relation"] = "replace"
    stored = read_tensors(release / "releases.safetensors", [])
    assert len(list(rules_of("dpsgd-hops").value_faults(certificate, stored))) == 2


def test_a_hop_that_is_not_noisy_at_all_is_seen(copied):
    found = with_tensors(copied("hops"), "releases", lambda held: held.update({name: held[name] * 0 for name in held}))
    assert found.count("holds less noise") == 2


@pytest.mark.parametrize("name", UNITS)
def test_a_format_from_before_the_method_is_refused(copied, name):
    """In format 2 nothing said how roles were made, so that more training nodes than were drawn made epsilon smaller."""
    run, last = copied(name), -1
    fewer = both(facts(num_train=800), event(last, sampling_prob=0.25, steps=4), settled)
    rewrite(run, both(lambda certificate, _: certificate.update(format=2), fewer))
    assert (
        f"format: expected 3, in which method {'dpsgd-hops' if 'hops' in name else 'dpsgd'} began, got 2"
        in problems(run)
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (event(-1, steps=2), "event.steps: expected 3"),
        (event(-1, sampling_prob=0.1), "event.sampling_prob: expected 0.333333333"),
        (setting(batch_size=100), "event.sampling_prob: expected 0.166666667"),
        (setting(num_parameters=4), "shape: expected [4], got [15]"),
        (facts(num_train=700), "num_train: expected 600"),
        (part("claim", epsilon=1.0), "epsilon: 1 is too small"),
        (part("composition", builds_on=[{"ledger_head": "0" * 64, "epsilon": 1.0, "delta": 1e-6}]), "takes no weights"),
    ],
)
def test_what_epsilon_rests_on_is_derived(copied, change, said):
    rewrite(copied_run := copied("records"), change)
    assert said in problems(copied_run)
