"""Lies in the spec are named. What docs/certificate.md says that nobody can see passes, changed in all files at once."""

import shutil

import pytest
from contracts_forgery import rewrite, unpriced

import sfumato as sf
from sfumato.graph import stochastic_block_model
from sfumato.verify import describe, verify


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    graph = stochastic_block_model(40, 3, mean_degree=6, num_features=4, seed=0).with_split()
    unit = sf.NodeLevel(max_out_degree=3)
    plan = sf.GAP(epochs=1, num_hops=1).calibrate(sf.Budget(8.0, 1e-5), unit, graph.public_facts(unit))
    return plan.fit(graph).save(tmp_path_factory.mktemp("honest") / "run")


COMPARED = " (compared with certificate.json)"
LIES = [
    ("noise_multiplier", 0.001, "noise_multiplier: is not a known field"), ("labels", {"n1": 0}, "labels: is not a known field"),
    ("settings", {}, f"settings.batch_size: is missing{COMPARED}"),
    ("method", "mlp", f"method: 'mlp' differs from 'gap'{COMPARED}"),
    ("budget", None, f"budget: None differs from {{'delta': 1e-05, 'epsilon': 8.0}}{COMPARED}"),
    ("public", {"num_nodes": 3}, f"public.num_nodes: 3 differs from 40{COMPARED}"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value", "said"), LIES)
def test_other_lies_in_the_spec_are_caught(honest, tmp_path, field, value, said):
    run = shutil.copytree(honest, tmp_path / "run")
    rewrite(run, lambda certificate, spec: spec.update({field: value}))
    found = verify(run).problems
    assert f"spec.json: {said}" in found
    assert all(text.startswith(f"spec.json: {field}") for text in found), found


UNSEEN = {
    "facts that were assumed public": lambda c, s: [c.update(assumed_public=[]), s["public"].update(assumed=[])],
    "what arcs of others cost, in an older form": lambda c, s: [unpriced(c), c.update(format=2)],
    "a larger claim and budget": lambda c, s: [c["claim"].update(delta=2e-5), c["budget"].update(delta=1e-4, epsilon=9.0),
                                               s.update(budget=c["budget"])],
    "the name of the graph": lambda c, s: s["graph"].update(name="moon"),
}  # fmt: skip


@pytest.mark.parametrize("change", UNSEEN.values(), ids=UNSEEN)
def test_what_docs_say_that_nobody_can_see_is_not_seen(honest, tmp_path, change):
    """Changed in all files at once. Whoever finds a way to see one of them takes it off the list in docs/certificate.md too."""
    run = shutil.copytree(honest, tmp_path / "run")

    def everywhere(certificate, spec):
        certificate["assumed_public"] = spec["public"]["assumed"] = ["classes"]
        change(certificate, spec)

    rewrite(run, everywhere)
    result = verify(run)
    assert result.problems == ()
    said = "with arcs that others own and that point at the node: no epsilon is stated"
    assert (said in describe(run, result)) == (result.prices == ())
