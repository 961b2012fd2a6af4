"""The verifier derives every plan of statistics again, and refuses certificates that say something else."""

import importlib.util
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import sfumato as sf
from sfumato.errors import InputError
from sfumato.graph._graph import PublicFacts
from sfumato.statistics._counts import degree_ends
from sfumato.statistics._statistics import AUTO, ROWS, Statistics, shares_of
from sfumato.verify import verify
from sfumato.verify._methods import rules_of
from sfumato.verify._releases import release_faults
from sfumato.verify._statistics import num_ends, stats_of

_HOME = Path(__file__).parents[1] / "contracts" / "contracts_forgery.py"
_SPEC = importlib.util.spec_from_file_location("contracts_forgery", _HOME)
forgery = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(forgery)

EDGE, ARC = sf.EdgeLevel(directed=False), sf.EdgeLevel(directed=True)
NODE = sf.NodeLevel(arcs="incident")
ALL = "edges,mixing,degrees,triangles,wedges,stars,node-degrees"
GRAPH = sf.graph.campus(300, seed=0)


def made(folder, stats, unit, graph=GRAPH, delta=1e-6, **how):
    public = graph.public_facts(unit, assume_public=True)
    return Statistics(stats, **how).calibrate(sf.Budget(1.0, delta), unit, public).fit(graph).save(folder)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Runs by name, made once."""
    folder = tmp_path_factory.mktemp("statistics")
    arcs = np.repeat(np.arange(300), np.diff(GRAPH.indptr))
    directed = sf.graph.Graph.from_edges(arcs, GRAPH.indices, 300, directed=True)
    promised = GRAPH.changed(max_degree=200)
    return {
        "edge": made(folder / "edge", ALL, EDGE),
        "pure": made(folder / "pure", "edges,degrees:3", EDGE, delta=0.0),
        "node": made(folder / "node", "edges,mixing,degrees,triangles,groups", NODE, promised, delta=0.0),
        "arc": made(folder / "arc", "edges,degrees,mutual", ARC, directed, delta=0.0),
        "grouped": made(folder / "grouped", "degrees,triangles", EDGE, grouped=True),
    }


@pytest.fixture
def forged(honest, tmp_path):
    """Rewrite a copy of a run everywhere alike, and return the problems."""

    def forge(name, change):
        run = shutil.copytree(honest[name], tmp_path / "run")
        forgery.rewrite(run, change)
        return verify(run).problems

    return forge


@pytest.mark.parametrize("name", ["edge", "pure", "node", "arc", "grouped"])
def test_honest_runs_are_valid(forged, honest, name):
    assert verify(honest[name]).problems == ()
    assert forged(name, lambda *_: None) == ()


def index(certificate, name):
    return next(i for i, one in enumerate(certificate["releases"]) if one["name"] == name)


def event(name, **values):
    return lambda certificate, _: certificate["releases"][index(certificate, name)]["event"].update(values)


def times(name, factor):
    """Another epsilon of one release."""

    def change(certificate, _):
        found = certificate["releases"][index(certificate, name)]["event"]
        found["epsilon"] *= factor

    return change


def without(name):
    return lambda certificate, _: certificate["releases"].pop(index(certificate, name))


def shape(name, *sides):
    return lambda certificate, _: certificate["releases"][index(certificate, name)].update(shape=[*sides])


def pure_bounds(certificate, _):
    found = certificate["releases"][index(certificate, "bounds")]
    found["event"] = {"type": "pure", "epsilon": found["event"]["epsilon"], "count": 1}


def all_cheaper(certificate, _):
    """Every release at half its epsilon, and half the claim: consistent, but the settings cannot tell. The noise would."""
    for one in certificate["releases"]:
        one["event"]["epsilon"] /= 2


def claim(**values):
    return forgery.part("claim", **values)


def unit(**values):
    return forgery.part("unit", **values)


SET, FACT, BOTH = forgery.setting, forgery.facts, forgery.both
FORGERIES = [
    ("edge", without("bounds"), "releases: expected"),
    ("edge", without("stars"), "releases: expected"),
    ("edge", times("triangles", 0.5), "its share"),
    ("edge", times("degrees", 1.001), "its share"),
    ("edge", times("bounds", 0.1), "its share"),
    ("edge", pure_bounds, "expected one release of type approximate"),
    ("edge", event("bounds", failure=1e-12), "event.failure: expected"),
    ("edge", BOTH(event("bounds", failure=9.99e-7), SET(failure=9.99e-7), claim(epsilon=0.9)), "claim.epsilon"),
    ("edge", SET(failure=0.0), "settings.failure: expected a number above 0"),
    ("edge", SET(failure=1e-6), "settings.failure: expected a number above 0 and below delta"),
    ("edge", SET(failure=1.0), "settings.failure"),
    ("edge", SET(failure=True), "settings.failure"),
    ("edge", claim(delta=4e-7), "settings.failure: expected a number above 0 and below delta"),
    ("edge", claim(epsilon=0.5), "claim.epsilon"),
    ("edge", event("degrees", count=2), "expected one release of type pure"),
    ("edge", event("degrees", type="laplace"), "event"),
    ("edge", shape("edges", 2), "shape: expected"),
    ("edge", shape("mixing", 1), "shape: expected"),
    ("edge", shape("degrees", 1, 10), "shape: expected"),
    ("edge", shape("node-degrees", 1, 299), "shape: expected"),
    ("edge", SET(stats="edges"), "releases: expected"),
    ("edge", SET(stats=ALL.replace("stars", "stars:5")), "its share"),
    ("edge", SET(stats="edges,edges"), "settings.stats: expected names"),
    ("edge", SET(stats="auto"), "settings.stats: expected names"),
    ("edge", SET(stats="edges:1e400"), "settings.stats: expected names"),
    ("edge", SET(stats="edges:nan"), "settings.stats: expected names"),
    ("edge", SET(stats=7), "settings.stats"),
    ("edge", SET(grouped=True), "shape: expected"),
    ("edge", SET(grouped=0), "settings.grouped"),
    ("edge", SET(more=1), "is not a setting"),
    ("edge", unit(directed=True), "unit.directed: statistics have a proof"),
    ("edge", FACT(directed=True), "no proof for directed graphs"),
    ("edge", FACT(num_classes=0), "shape: expected"),
    ("edge", FACT(num_nodes=299), "shape: expected"),
    ("edge", forgery.everywhere("who_may_see", {"anyone": ["weights"], "the node itself": [], "never": []}), "who_may_see"),
    ("pure", event("degrees", epsilon=0.1), "its share"),
    ("node", forgery.no_fact("max_degree"), "max_degree"),
    ("node", FACT(max_degree=None), "public_facts.max_degree: expected a bound"),
    ("node", FACT(max_degree=100), "shape: expected"),
    ("node", unit(arcs="owned", max_out_degree=200), "max_degree: expected a bound on degrees under incident arcs"),
    ("node", SET(grouped=True), "no proof for single nodes and groups"),
    ("node", SET(stats="edges,mixing,degrees,node-degrees"), "no proof for single nodes and groups"),
    ("node", without("groups"), "releases: expected"),
    ("node", shape("groups", 2), "shape: expected"),
    ("node", times("groups", 0.5), "its share"),
    ("edge", SET(stats=ALL + ",groups"), "sizes of groups are public"),
    ("node", FACT(num_classes=0), "no groups in a graph without classes"),
    ("arc", SET(stats="edges,degrees,triangles"), "no proof for directed graphs"),
    ("arc", FACT(directed=False), "no pairs of arcs in undirected graphs"),
    ("arc", without("in-degrees"), "releases: expected"),
    ("arc", SET(stats="edges,degrees,mutual,weight"), "weights of edges need a declared bound"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "named"), FORGERIES)
def test_consistent_forgeries_are_named(forged, name, change, named):
    found = forged(name, change)
    assert any(named in one for one in found), found


def test_half_the_epsilon_everywhere_is_a_smaller_claim_that_holds(forged):
    """The noise that was drawn is no part of a certificate: who signs a run answers for it."""

    def change(certificate, spec):
        all_cheaper(certificate, spec)
        certificate["claim"]["epsilon"] = round(certificate["claim"]["epsilon"] / 2, 4)

    assert forged("edge", change) == ()


def resaved(run, file, change):
    release = run / "release"
    tensors = load_file(release / file)
    change(tensors)
    save_file(tensors, release / file)
    forgery.seal(release)
    return verify(run).problems


@pytest.mark.parametrize(
    ("file", "change", "named"),
    [
        ("releases.safetensors", lambda found: found.update(edges=found["edges"].astype(np.float64)), "dtype F64"),
        ("releases.safetensors", lambda found: found.update(edges=np.zeros(2, np.int64)), "has shape"),
        ("releases.safetensors", lambda found: found.pop("stars"), "is missing"),
        ("releases.safetensors", lambda found: found.update(exact=found["edges"]), "belongs to no release"),
        ("model.safetensors", lambda found: found.update({"group.sizes": found["group.sizes"] * 2}), "add up"),
        ("model.safetensors", lambda found: found.update({"group.sizes": -found["group.sizes"]}), "add up"),
        ("model.safetensors", lambda found: found.update({"group.sizes": found["group.sizes"] + 0.5}), "add up"),
        (
            "model.safetensors",
            lambda found: found.update({"group.sizes": found["group.sizes"] * np.nan}),
            "group.sizes",
        ),
        ("model.safetensors", lambda found: found.update(extra=np.zeros(3, np.float32)), "belongs to no network"),
    ],
)
def test_other_tensors_are_refused(honest, tmp_path, file, change, named):
    run = shutil.copytree(honest["edge"], tmp_path / "run")
    found = resaved(run, file, change)
    assert any(named in one for one in found), found


def asked(stats):
    """What the library reads, or None if it refuses."""
    try:
        found = shares_of(stats)
    except InputError:
        return None
    return {name: share or float(ROWS[name].share) for name, share in found.items()}


@pytest.mark.parametrize(
    "stats",
    ["edges", "edges,degrees:3", " edges , degrees : 3 ", "edges:\u0663", "edges:1_0", "edges:+2", "edges:1e3", "edges:0x1",
     "edges:inf", "edges:nan", "edges:-0", "edges:1e400", "edges:1e-400", "edges,", "", ",", "edges:", "edges::2", "Edges",
     "edges\n", "\u00a0edges", "edges:1000001", "edges:1000000", "bounds", "in-degrees", "edges;degrees", "x" * 2000],
)  # fmt: skip
def test_both_read_the_same_words(stats):
    assert stats_of(stats) == asked(stats)


def test_both_read_random_words_alike():
    rng, parts = random.Random(0), [*ROWS, ":", ",", " ", "1", "0.5", "e5", "-", ".", "\u0661", "edges:2"]
    for _ in range(3000):
        stats = "".join(rng.choices(parts, k=rng.randint(1, 6)))
        assert stats_of(stats) == asked(stats), stats


def facts_of(directed, nodes, classes, most):
    return PublicFacts(nodes, nodes, 0, classes, directed=directed, max_degree=most, max_weight=9.0)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("nodes", [1, 2, 50, 20_000])
def test_every_plan_is_derived_again(nodes, classes, grouped):
    """Every statistic under every unit that has a proof; the catalog's contract of rules does not know statistics."""
    from sfumato.errors import UnsupportedUnitError
    from sfumato.privacy.units import unit_to_dict

    tried = 0
    for unit, directed in ((EDGE, False), (ARC, True), (NODE, False), (NODE, True)):
        for name in (*ROWS, AUTO, "edges,mixing:3,degrees"):
            public, method = facts_of(directed, nodes, classes, min(nodes, 5)), Statistics(name, grouped, failure=1e-9)
            try:
                if name == AUTO:
                    method = method.named(unit, public)
                releases = method.releases(unit, public, 2.0)
            except (UnsupportedUnitError, InputError):  # the second: for such a graph
                continue
            certificate = {
                "format": 3, "method": "statistics", "settings": dict(method.settings), "unit": unit_to_dict(unit),
                "public_facts": public.to_dict(), "assumed_public": [], "composition": {"builds_on": []}, "collection": None,
                "claim": {"epsilon": 1.0, "delta": 1e-6}, "releases": [release.to_dict() for release in releases],
            }  # fmt: skip
            rules = rules_of("statistics")
            certificate = json.loads(json.dumps(certificate))
            if not any(one["name"] == "bounds" for one in certificate["releases"]):
                certificate["settings"]["failure"] = 0.0
            assert [*rules.setting_faults(certificate), *rules.faults(certificate)] == []
            assert [*release_faults(certificate, rules)] == []
            tried += 1
    assert tried > 5 or (grouped and not classes)


@pytest.mark.parametrize("most", [1, 2, 8191, 8192, 8193, 8320, 8321, 10**5, 2**31 - 2])
def test_both_count_at_the_same_degrees(most):
    ends = degree_ends(most)
    assert num_ends(most) == len(ends)
    assert (np.diff(ends) > 0).all()
    assert ends[-1] < most
