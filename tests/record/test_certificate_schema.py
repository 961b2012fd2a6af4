"""The schema, the writer, the verifier and the documentation know the same fields and the same sentences."""

import json
import re
from pathlib import Path

import pytest

from sfumato.errors import InputError
from sfumato.noise import _rectangles as rectangles
from sfumato.pate._folder import ASSUMPTIONS
from sfumato.privacy import events
from sfumato.privacy.units import (
    ClassLevel,
    EdgeLevel,
    LinkLevel,
    LocalLevel,
    NodeLevel,
    NoPrivacy,
    RecordLevel,
    SubclassLevel,
    unit_to_dict,
)
from sfumato.record import _arrivals as arrivals
from sfumato.record import _collected as collected
from sfumato.record import _population as population
from sfumato.record._arrivals import Arrival, marks
from sfumato.record._certificate import COVERS, FIXED, FORMAT, LINK, LOCAL, SERVERS, Certificate, Statement, certify
from sfumato.record._deployment import ASKED, FLAVORS, KNOWN, Deployment
from sfumato.record.ledger import Ledger, Release
from sfumato.verify import _collection as collection
from sfumato.verify import _documents as documents
from sfumato.verify._arrivals import ALONE, HISTORY_COVERS, POPULATION, TOGETHER, caveats
from sfumato.verify._epsilon import SAMPLER_TAU
from sfumato.verify._sentences import SENTENCES
from sfumato.verify._units import UNITS, public_parts, unit_form_faults
from sfumato.verify.events import KINDS

SCHEMA = json.loads(documents.SCHEMA.read_text())
FORMS = SCHEMA["$defs"]
FIELDS = FORMS["certificate"]["properties"]
PAGE = Path(__file__).parents[2] / "docs" / "certificate.md"
FACTS = {"num_nodes": 4, "num_train": 3, "num_features": 0, "num_classes": 2, "directed": False,
         "max_degree": None, "mean_degree": 2.5}  # fmt: skip
UNITS_OF_THE_LIBRARY = [NoPrivacy(), EdgeLevel(directed=True), NodeLevel(max_out_degree=3), NodeLevel(arcs="incident"),
         RecordLevel(relation="replace"), LocalLevel(), LocalLevel(features=False), LinkLevel(), ClassLevel(),
         ClassLevel("add-remove"), *(SubclassLevel(4, word) for word in ("directions", "centroids", "declared"))]  # fmt: skip
EVENTS = [
    events.GaussianEvent(2.0), events.PoissonGaussianEvent(0.1, 1.0, 3), events.LaplaceEvent(2.0),
    events.RepeatedGaussianEvent(0.1, 4, 1.0, 3, "replace"), events.RandomizedResponseEvent(1.0, 3),
    events.ExponentialEvent(0.5), events.PureEvent(0.1), events.ZCDPEvent(0.5), events.ApproximateEvent(0.1, 1e-9),
    events.SelectionEvent(((events.GaussianEvent(2.0),), ()), "poisson", 2.5),
    events.ComposedEvent((events.LaplaceEvent(1.0), events.ComposedEvent((events.PureEvent(0.1),), 2)), 3),
]  # fmt: skip


def written(unit, event, candidates=(), arrival=None, collection=None, deployment=None):
    """A certificate as the library writes it, read back."""
    release = Release("aggregate/1", event, (4, 2), 4)
    plan = {"method": "gap", "unit": {}, "claim": {"epsilon": 1.0, "delta": 1e-7}, "delta_sampler": 0.0}
    ledger = Ledger(plan, [release])
    ledger.charge("aggregate/1")
    stated = Statement(
        ledger, version="0.1.0", settings={}, unit=unit, budget=None, accounting="pld", public_facts=FACTS,
        assumed_public=[], who_may_see={"anyone": ["weights"], "the node itself": [], "never": []}, notes=("free",),
        builds_on=[{"ledger_head": "0" * 64, "epsilon": None, "delta": None}], candidates=candidates,
        arrival=arrival, collection=collection, deployment=deployment,
    )  # fmt: skip
    return json.loads(certify(stated).to_json())


def faults(value, form="certificate"):
    return list(documents.form_faults(value, FORMS[form], ""))


@pytest.mark.parametrize("unit", UNITS_OF_THE_LIBRARY)
def test_the_writer_fills_exactly_the_fields_of_the_schema(unit):
    values = written(unit, EVENTS[0])
    assert faults(values) == []
    assert values.keys() == FIELDS.keys() - {
        "candidates",
        "arrival",
        "collection",
        "deployment",
        "history",
        "population",
        "prices",
    }
    tuned = [{"method": "gap", "settings": {"num_hops": hops}} for hops in (1, 2)]
    assert faults(written(unit, EVENTS[0], tuned)) == []
    assert written(unit, EVENTS[0], tuned)["candidates"] == tuned
    late = Arrival("a" * 64, "b" * 64, marks(["ann"]))
    assert faults(written(unit, EVENTS[0], arrival=late)) == []
    assert written(unit, EVENTS[0], arrival=late)["arrival"] == late.to_dict()


def test_the_writer_names_a_collection_as_the_schema_says():
    facts = {"name": "c", "sha256": "a" * 64, "schema": "b" * 64, "reports": 3, "opens": "2026-12-01T00:00:00Z",
             "closes": "2027-01-01T00:00:00Z"}  # fmt: skip
    values = written(LocalLevel(), EVENTS[0], collection=facts)
    assert faults(values) == []
    assert values["collection"] == facts
    assert values["composition"]["covers"] == collected.COVERS
    assert faults({**values, "collection": {**facts, "reports": -1}})
    assert faults({**values, "collection": {"name": "c"}})


def test_the_schema_asks_a_deployment_record_for_what_the_library_asks():
    record = dict.fromkeys(ASKED, "a") | {"publication_date": "2026-12-01", "flavor": "Pure DP"}
    record |= {name: words[0] for name, words in KNOWN.items()}
    assert faults(written(EdgeLevel(directed=True), EVENTS[0], deployment=record)) == []
    assert FORMS["deployment"]["properties"].keys() == ASKED.keys()
    assert tuple(FORMS["deployment"]["properties"]["flavor"]["enum"]) == FLAVORS
    for name in ASKED:
        rest = {key: text for key, text in record.items() if key != name}
        optional = name not in FORMS["deployment"]["required"]
        assert bool(faults(rest, "deployment")) != optional
        if optional:
            assert Deployment.from_dict(rest).to_dict() == rest
        else:
            with pytest.raises(InputError, match=f"to have {name}, got none"):
                Deployment.from_dict(rest)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_every_event_of_the_library_has_a_form(event):
    assert faults(written(UNITS_OF_THE_LIBRARY[1], event)) == []
    values = event.to_dict()
    for key in values.keys() - {"type"}:
        assert faults({**values, key: "x"}, "event")
        assert faults({k: v for k, v in values.items() if k != key}, "event") == [f"{key}: is missing"]


def test_the_events_above_are_all_there_are():
    assert {type(event) for event in EVENTS} == {*events.KINDS.values()}
    assert FORMS["event"] == documents.forms()["event"]
    assert KINDS.keys() == {event.type for event in EVENTS}


NEAR_MISSES = [
    ("flag", [True, False], [1, 0, None, "true"]),
    ("count", [1, 2**53], [0, True, 1.0, "1", 2**53 + 1, -1]),
    ("positive", [1, 1e-300, 1e300], [0, -1.0, True, float("nan"), float("inf"), 10**400]),
    ("rate", [1, 1.0, 1e-9], [0, 1.0000001, None]),
    ("index", [0, 2**53], [-1, True, 0.0, None]),
    ("epsilon", [None, 0, 3.5], [-1e-9, True, "1", float("nan")]),
    ("delta", [None, 0, 0.99], [1, 1.0, -1e-9]),
    ("classes", [2, 10], [1, 2.0, True]),
    ("count_or_null", [None, 1, 2**53], [0, True, 1.0, "1", 2**53 + 1, -1]),
    ("text", ["a", "a" * 500], ["", None, ["a"], "a" * 501]),
    ("name", ["", "\u0430", "a" * 200], [None, "a" * 201]),
    ("version", ["0.1.0", "1!2.0rc1+local"], ["", "1.0 ", "1.0\n", "\u0661", "1" * 51]),
    ("mark", ["0" * 16], ["0" * 15, "0" * 17, "A" * 16, None]),
    ("hash", ["0" * 64], ["0" * 63, "0" * 65, "0" * 64 + "\n", "A" * 64, "g" * 64, "\u0660" * 64]),
    ("relation", ["replace"], ["Replace", "remove", None, ["replace"]]),
    ("day", ["2026-12-01"], ["2026-12-1", "2026-12-01 ", "1.12.2026", None]),
    ("texts", [[], ["a"]], ["a", [""], {"a": 1}, None]),
]


@pytest.mark.parametrize(("form", "right", "wrong"), NEAR_MISSES, ids=[row[0] for row in NEAR_MISSES])
def test_every_simple_form_refuses_near_misses(form, right, wrong):
    assert [faults(value, form) for value in right] == [[]] * len(right)
    assert all(faults(value, form) for value in wrong)


def forms(node):
    """Every schema inside a schema."""
    yield node
    children = [*node.get("properties", {}).values(), *node.get("oneOf", []), *node.get("$defs", {}).values()]
    for child in [*children, *node.get("anyOf", []), *([node["items"]] if "items" in node else [])]:
        yield from forms(child)


def test_the_schema_uses_only_what_the_verifier_reads():
    """So that the verifier's small interpreter means what any JSON Schema validator means."""
    read = {"type", "const", "enum", "oneOf", "anyOf", "items", "properties", "minimum", "maximum", "exclusiveMinimum",
            "exclusiveMaximum", "minLength", "maxLength", "maxItems", "pattern", "required", "additionalProperties", "title",
            "description"}  # fmt: skip
    for form in forms(SCHEMA):
        if form is SCHEMA:
            continue
        if "$ref" in form:
            assert form.keys() <= {"$ref", "description"}
            assert form["$ref"].removeprefix("#/$defs/") in FORMS
            continue
        assert form.keys() <= read
        assert {"type", "const", "enum", "anyOf"} & form.keys()
        assert all(case.keys() == {"$ref"} for case in form.get("anyOf", []))
        if "properties" in form:
            assert form["type"] == "object"
            assert form["additionalProperties"] is False
            line = f"line {form['properties'].get('kind', {}).get('const')}"
            optional = {
                "certificate": {
                    "candidates",
                    "arrival",
                    "collection",
                    "deployment",
                    "history",
                    "population",
                    "prices",
                },
                "deployment": {
                    name for name, field in Deployment.__dataclass_fields__.items() if field.default is None
                },
                "release": {"arc_change"},
                "plan": {"arrival", "population", "history"},
                "line run": {"at", "by", "folder", "snapshot", "window"},
                "population": {"windows", "window"},
                "line arrival": {"at", "by", "folder"},
                "line population": {"at", "by"},
                "line deletion": {"at", "by"},
                "dataset_header": {"schedule", "windows"},
                "snapshot": {"cells"},
                "people": {"cells"},
                "graph_facts": {
                    "num_arcs",
                    "untrained_classes",
                    "degree_bounds",
                    "image_shape",
                    "target",
                    "target_range",
                    "max_weight",
                    "edges_per_person",
                    "nodes_per_person",
                    "num_persons",
                    "train_persons",
                    "edge_types",
                    "public_types",
                    "split",
                },
                "graph_spec": {"own"},
                "graph_key": {"ranges"},
                "asked": {"features", "label", "links", "upload", "least_reports", "token_key"},
                "asked_features": {"names", "columns"},
                "randomizers": {"features", "label", "links"},
            }
            (name,) = [key for key, one in FORMS.items() if one is form] or [line]
            assert form["properties"].keys() - set(form["required"]) == optional.get(name, set())
            assert set(form["required"]) <= form["properties"].keys()
        if "oneOf" in form:
            (tag,) = form["required"]
            assert all("const" in case["properties"][tag] for case in form["oneOf"])


def test_sentences_and_constants_are_the_same_everywhere():
    of_a_curator = {field: FIXED[field] for field in LOCAL}
    of_records = {**of_a_curator, "assumptions": [*FIXED["assumptions"], *ASSUMPTIONS]}
    of_devices = {
        f"{name}, from devices": one | collected.sentences(one, facts)
        for name, one, facts in (("local", LOCAL, {}), ("link", LINK, {}), ("servers", SERVERS, {"openings": []}))
    }
    simulated = {
        "curator": of_a_curator,
        "local": LOCAL,
        "link": LINK,
        "servers": SERVERS,
        "curator of records": of_records,
    }
    assert simulated | of_devices == SENTENCES
    assert {field: form["const"] for field, form in FIELDS.items() if "const" in form} == {
        field: text for field, text in FIXED.items() if field not in LOCAL
    }
    covers = [COVERS, population.COVERS, population.HISTORY_COVERS, collected.COVERS, arrivals.COVERS]
    again = [ALONE, POPULATION, HISTORY_COVERS, collection.COVERS, TOGETHER]
    assert FIELDS["composition"]["properties"]["covers"]["enum"] == covers == again
    assert caveats({"arrival": {}}) == [arrivals.ASSUMED]
    assert (FIELDS["format"]["minimum"], FIELDS["format"]["maximum"]) == (2, FORMAT)
    tau = FIELDS["accounting"]["properties"]["sampler_tau"]
    assert tau["minimum"] == tau["maximum"] == SAMPLER_TAU == rectangles.SAMPLER_TAU
    assert SCHEMA["$id"].endswith(f":{FORMAT}")
    assert documents.SCHEMA.name == f"certificate-{FORMAT}.schema.json"


@pytest.mark.parametrize("unit", UNITS_OF_THE_LIBRARY, ids=repr)
def test_the_verifier_knows_every_unit(unit):
    values = unit_to_dict(unit)
    assert list(unit_form_faults(values)) == []
    assert UNITS[unit.name].protects(values) == unit.describe()
    assert set(public_parts({"unit": values})) == {*unit.public} & {"features", "labels", "arcs"}
    for key in values:
        assert [*unit_form_faults({**values, key: "x"})]
        assert [*unit_form_faults({name: value for name, value in values.items() if name != key})]
    assert [*unit_form_faults({**values, "arcs_of": 3})]


def test_every_field_names_its_question_and_stands_in_the_documentation():
    assert all(len(field["description"]) > 20 for field in FIELDS.values())
    rows = re.findall(r"^\| (`[^|]+`) \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    documented = [name for cell, _ in rows for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(documented) == sorted(FIELDS)
    assert all(len([cell for cell in rest.split("|") if cell.strip()]) == 3 for _, rest in rows)


def test_a_certificate_that_was_read_says_the_same_words():
    """Keys of the JSON form are sorted; the words have an order of their own."""
    record = dict.fromkeys(ASKED, "a") | {"publication_date": "2026-12-01", "flavor": "Approximate DP"}
    record |= {name: words[0] for name, words in KNOWN.items()}
    for unit in (EdgeLevel(directed=True), NodeLevel(max_out_degree=3)):
        shown = unit.audience(["weights"], never=["sums"])
        values = {**written(unit, EVENTS[0], deployment=record), "who_may_see": shown}
        found = Certificate(values)
        assert str(Certificate(json.loads(found.to_json()))) == str(
            Certificate({**values, "who_may_see": dict(reversed(shown.items()))})
        )
