"""A run that is internally consistent but says more, or something else, than what was charged must not pass."""

import hashlib
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import sfumato as sf
from sfumato.errors import InputError, LedgerError
from sfumato.graph import stochastic_block_model
from sfumato.privacy.ledger import canonical_json
from sfumato.verify import verify

NODE = sf.NodeLevel(max_out_degree=10)
EDGE = sf.EdgeLevel(directed=False)


def graph_of(seed, num_nodes=120):
    graph = stochastic_block_model(num_nodes, 3, mean_degree=12, homophily=0.8, num_features=4, seed=seed)
    return graph.with_split()


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    graph = graph_of(0)
    plan = sf.GAP(epochs=1, batch_size=40).calibrate(sf.Budget(8.0, 1e-5), NODE, graph.public_facts(NODE))
    return plan.fit(graph).save(tmp_path_factory.mktemp("honest") / "run")


@pytest.fixture
def run(honest, tmp_path):
    assert verify(honest).problems == ()
    return shutil.copytree(honest, tmp_path / "run")


def rewrite(run, change):
    """Change certificate, ledger plan and spec alike, then chain and seal again as a forger would."""
    release = run / "release"
    certificate, spec = (json.loads((release / name).read_text()) for name in ("certificate.json", "spec.json"))
    change(certificate, spec)
    plan = {key: certificate[key] for key in ("method", "unit", "releases", "claim")}
    plan["delta_sampler"] = certificate["accounting"]["delta_sampler"]
    bodies = [{"kind": "plan", "plan": plan}, *({"kind": "release", "release": r} for r in certificate["releases"])]
    lines, previous = [], "0" * 64
    for index, body in enumerate(bodies):
        entry = {"index": index, "previous": previous, **body}
        previous = entry["hash"] = hashlib.sha256(canonical_json(entry).encode()).hexdigest()
        lines.append(canonical_json(entry) + "\n")
    certificate["ledger_head"] = previous
    (release / "ledger.jsonl").write_text("".join(lines))
    (release / "certificate.json").write_text(canonical_json(certificate) + "\n")
    (release / "spec.json").write_text(canonical_json(spec) + "\n")
    seal(release)


def seal(release):
    names = sorted(path.name for path in release.iterdir() if path.name != "manifest.json")
    files = {name: hashlib.sha256((release / name).read_bytes()).hexdigest() for name in names}
    (release / "manifest.json").write_text(canonical_json({"format": 1, "files": files}) + "\n")


def problems(run):
    result = verify(run)
    assert not result.valid
    return " | ".join(result.problems)


def test_resealing_alone_changes_nothing(run):
    rewrite(run, lambda certificate, spec: None)
    assert verify(run).problems == ()


def test_a_spec_of_another_unit_is_caught_and_not_loaded(run):
    rewrite(run, lambda certificate, spec: spec.update(unit={"name": "none", "relation": "none"}, budget=None))
    assert "spec.json: unit: differs" in problems(run)
    with pytest.raises((LedgerError, InputError), match="unit"):
        sf.load(run)


@pytest.mark.parametrize(
    ("field", "value"), [("noise_multiplier", 0.001), ("labels", {"n1": 0}), ("settings", {}), ("method", "mlp")]
)
def test_other_lies_in_the_spec_are_caught(run, field, value):
    rewrite(run, lambda certificate, spec: spec.update({field: value}))
    assert "spec.json" in problems(run)


@pytest.mark.parametrize(("field", "value"), [("sampling_prob", 0.01), ("steps", 1)])
def test_sampling_must_follow_from_public_facts(run, field, value):
    def change(certificate, spec):
        for release in certificate["releases"]:
            if field in release["event"]:
                release["event"][field] = value

    rewrite(run, change)
    assert f"event.{field}: expected" in problems(run)


def test_a_larger_public_number_of_training_nodes_is_caught(run):
    def change(certificate, spec):
        certificate["public_facts"]["num_train"] = spec["public"]["num_train"] = 10**6

    rewrite(run, change)
    assert "sampling_prob: expected" in problems(run)


def test_words_must_describe_the_unit(run):
    rewrite(run, lambda certificate, spec: certificate.update(protects="any one node and all its edges"))
    assert "protects" in problems(run)


def test_smuggled_tensors_are_caught(run):
    path = run / "release" / "model.safetensors"
    tensors = load_file(path)
    save_file({**tensors, "raw_sums": np.zeros((120, 16), np.float32)}, path)
    seal(run / "release")
    assert "raw_sums" in problems(run)
    save_file({**tensors, "encoder.extra": np.zeros(3, np.float32)}, path)
    seal(run / "release")
    assert "encoder: expected" in problems(run)


def test_weights_of_another_unit_are_not_certified():
    graph, other = graph_of(0), graph_of(1, 130)
    fitted = sf.GAP(num_hops=1, epochs=1).calibrate(None, sf.NoPrivacy(), graph.public_facts(EDGE)).fit(graph)
    with pytest.raises(InputError, match="unit of training"):
        fitted.calibrate_inference(sf.Budget(1.0, 1e-6), EDGE, other.public_facts(EDGE))


def test_inference_names_its_origin_and_refuses_the_training_graph():
    graph, other = graph_of(0), graph_of(1, 130)
    budget = sf.Budget(2.0, 1e-6)
    fitted = sf.GAP(epochs=1).calibrate(budget, EDGE, graph.public_facts(EDGE)).fit(graph)
    inferred = fitted.calibrate_inference(budget, EDGE, other.public_facts(EDGE)).fit(other)
    assert fitted.ledger.head[:16] in str(inferred.certificate)
    with pytest.raises(InputError, match="other node ids"):
        fitted.calibrate_inference(budget, EDGE, graph.public_facts(EDGE)).fit(graph)
