"""Every method with a proof for owned arcs states what arcs of others cost, and the verifier derives it again."""

import shutil
from dataclasses import replace

import pytest
from contracts_forgery import event, everywhere, problems, release, rewrite
from contracts_quick import quick

import sfumato as sf
from sfumato.catalog import METHODS
from sfumato.graph import stochastic_block_model
from sfumato.record._certificate import price_words
from sfumato.report._run import read_run, run_page
from sfumato.verify import describe, verify

UNITS = [sf.NodeLevel(max_out_degree=1), sf.NodeLevel(max_out_degree=8, relation="replace")]
OWNED = [name for name, method in METHODS.items() if "node" in method.card.units]
READS_NO_ARCS = {"mlp", "linear", "scattering", "graph-split", "dpar"}
INCIDENT_ONLY = {"promised-messages"}


def graph_of(seed=0):
    graph = stochastic_block_model(90, 3, mean_degree=8, homophily=0.8, num_features=64, seed=seed).with_split()
    return replace(graph, image_shape=(1, 8, 8))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.relation)
@pytest.mark.parametrize("name", sorted({*OWNED} - INCIDENT_ONLY))
def test_a_run_under_owned_arcs_states_prices_that_verify(name, unit, tmp_path):
    graph = graph_of()
    fitted = quick(name).calibrate(sf.Budget(1.0, 1e-3), unit, graph.public_facts(unit)).fit(graph)
    values = fitted.certificate.values
    epsilons = [price["epsilon"] for price in values["prices"]]
    if name in READS_NO_ARCS:
        assert epsilons == [fitted.certificate.epsilon] * 3
    else:
        stated = [fitted.certificate.epsilon, *(epsilon for epsilon in epsilons if epsilon is not None)]
        assert stated == sorted(set(stated))
        assert len(stated) >= 3
    run = fitted.save(tmp_path / "run")
    result = verify(run)
    assert (result.problems, list(result.prices)) == ((), values["prices"])
    assert "with arcs that others own and that point at the node: 1 arc, epsilon " in describe(run, result)
    assert price_words(values)[0] in str(fitted.certificate)
    assert sf.load(run).plan.releases == fitted.plan.releases
    for number, (change, named) in enumerate(cheaper(values)):
        forged = shutil.copytree(run, tmp_path / str(number))
        rewrite(forged, change)
        assert named in problems(forged)


def cheaper(values):
    """Every way to say of one release or one price that it costs a little less than it does."""
    for index, one in enumerate(values["releases"]):
        moves, noise = one["arc_change"], one["event"]["noise_multiplier"]
        yield release(index, arc_change=0.9 * moves or 0.1), f"releases[{index}].arc_change: expected {moves:.9g}"
        yield event(index, noise_multiplier=0.99 * noise), "claim.epsilon: "  # the claim is of more noise
    for index, one in enumerate(values["prices"]):
        if one["epsilon"] is not None:
            below = [*values["prices"]]
            below[index] = {**one, "epsilon": 0.998 * one["epsilon"]}
            yield everywhere("prices", below), f"prices[{index}].epsilon: "


def test_the_page_of_a_run_shows_them(tmp_path):
    graph = graph_of()
    fitted = quick("label-messages").calibrate(sf.Budget(1.0, 1e-3), UNITS[0], graph.public_facts(UNITS[0])).fit(graph)
    assert "1 arc, epsilon = " in run_page(read_run(fitted.save(tmp_path / "run")))


def test_runs_from_before_their_price_was_known_verify_without_one(tmp_path):
    graph = graph_of()
    fitted = quick("dpgnn").calibrate(sf.Budget(1.0, 1e-3), UNITS[0], graph.public_facts(UNITS[0])).fit(graph)
    run = fitted.save(tmp_path / "run")
    rewrite(run, without_prices)
    assert verify(run).problems == ()


def without_prices(certificate, spec):
    """Leave out what earlier runs did not state of arcs that others own."""
    del certificate["prices"]
    for one in certificate["releases"]:
        del one["arc_change"]


def test_other_units_state_none(tmp_path):
    graph = graph_of()
    for method, unit in (
        (quick("gap"), sf.EdgeLevel(directed=False)),
        (quick("graph-split"), sf.NodeLevel(arcs="incident")),
    ):
        fitted = method.calibrate(sf.Budget(1.0, 1e-3), unit, graph.public_facts(unit)).fit(graph)
        assert "prices" not in fitted.certificate.values
        run = fitted.save(tmp_path / method.name)
        assert verify(run).problems == ()
        stated = [{"arcs": arcs, "epsilon": 1.0} for arcs in (1, 5, 25)]
        rewrite(run, lambda certificate, spec, stated=stated: certificate.update(prices=stated))
        assert "certificate.json: prices: not expected, since none is known under this unit" in problems(run)
