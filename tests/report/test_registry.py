"""The fields of the public registry: those of the certificate as it states them, and a request for each that is missing."""

import pytest
from report_samples import RECORD, claimed_run

import sfumato as sf
from sfumato.errors import InputError
from sfumato.privacy.events import LaplaceEvent
from sfumato.record._arrivals import Arrival, marks
from sfumato.report import registered
from sfumato.report._registry import Field, Registered

EDGE = sf.EdgeLevel(directed=False)


def test_what_the_certificate_implies_is_taken_from_it():
    found = registered(claimed_run(EDGE, record=RECORD)).to_dict()["deployment"]
    assert found["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-6}
    assert found["privacy_loss"]["privacy_unit"] == "Edge-level: the presence of any one undirected edge"
    assert found["dp_variant"]["variant_name"] == "Approximate DP"
    assert found["deployment_model"]["model_name"] == "Central"
    assert (
        "Not protected: who is in the data, which nodes train and which test, features, labels."
        in (found["dp_variant"]["unprotected_quantities"])
    )
    assert "num_features" in found["dp_variant"]["unprotected_quantities"]
    assert "Gaussian noise, standard deviation 5.5" in found["implementation"]["mechanisms"]
    assert "closed form of the Gaussian mechanism" in found["implementation"]["composition"]
    assert found["basic"]["data_curators"] == [{"data_curator_name": "A University", "data_curator_type": "Nonprofit"}]
    assert found["administrative"] == {"status": "Draft", "tier": 3}


@pytest.mark.parametrize(
    ("unit", "model", "variant", "count"),
    [
        (sf.NodeLevel(max_out_degree=3), "Central", "Approximate DP", 60),
        (sf.LocalLevel(), "Local", "Approximate DP", 60),
        (sf.LinkLevel(), "Local", "Pure DP", None),
        (sf.ClassLevel(), "Central", "Approximate DP", 3),
        (sf.SubclassLevel(4), "Central", "Approximate DP", 12),
        (sf.RecordLevel(), "Central", "Approximate DP", None),
    ],
    ids=repr,
)
def test_units_differ_in_trust_and_number(unit, model, variant, count):
    found = registered(claimed_run(unit, (LaplaceEvent(2.0),))).to_dict()["deployment"]
    assert found["deployment_model"]["model_name"] == model
    assert found["dp_variant"]["variant_name"] == variant
    assert found["privacy_loss"].get("number_of_privacy_units") == count
    assert ("delta" in found["privacy_loss"]["privacy_parameters"]) == (variant == "Approximate DP")


def test_a_run_that_builds_on_others_says_so():
    runs = [{"ledger_head": "0" * 64, "epsilon": 2.0, "delta": 1e-6}]

    def model(**stated):
        run = claimed_run(EDGE, builds_on=runs, **stated)
        return registered(run).to_dict()["deployment"]["deployment_model"]

    inferred, arrived = model(), model(arrival=Arrival("a" * 64, "b" * 64, marks(["ann"])))
    assert (inferred["release_type"], inferred["data_source_type"]) == ("One release", "Static")
    assert "(epsilon 2.0, delta 1e-06), whose cost comes on top" in inferred["release_type_details"]
    assert (arrived["release_type"], arrived["data_source_type"]) == ("Many releases", "Dynamic")
    assert "an edge pays in one of them, once" in arrived["release_type_details"]
    assert "on top" not in arrived["release_type_details"]


def test_what_nobody_wrote_is_asked_for():
    bare = registered(claimed_run(EDGE))
    assert (bare.tier, bare.slug) == (0, None)
    assert bare.missing["basic.intended_use"] == "what it is for"
    assert "scores that read protected data must not be told" in bare.missing["implementation.utility"]
    assert set(registered(claimed_run(EDGE, record=RECORD)).missing) == {
        "privacy_loss.number_of_privacy_units", "implementation.utility", "administrative.evidence_sources",
        "administrative.registry_authors",
    }  # fmt: skip
    part = registered(claimed_run(EDGE, record={name: text for name, text in RECORD.items() if name != "region"}))
    assert part.tier == 0
    assert "administrative.tier" in part.missing


def test_tiers_end_below_what_is_missing():
    fields = [Field("a.x", 1, 1), Field("a.y", 2, 2), Field("a.z", None, 3, "z"), Field("a.w", None, 0, "w")]
    assert Registered(None, tuple(fields)).tier == 2
    assert Registered(None, tuple(fields[:2])).tier == 3


@pytest.mark.parametrize("record", [RECORD, None], ids=["record", "bare"])
def test_the_yaml_holds_the_same_record(record):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    found = registered(claimed_run(EDGE, record=record))
    text = found.to_yaml()
    assert yaml.safe_load(text) == found.to_dict()
    for path, asked in found.missing.items():
        assert f"# {path.rpartition('.')[2]}: missing. Write {asked}" in text


def test_numbers_and_texts_survive_yaml():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    values = [1e-07, 1.5e-12, 0.9999999999784277, 1e300, 4, 'a: # "b" \'\u00e9 \U0001f600', ["x"]]
    found = Registered("s", tuple(Field(f"a.f{i}", value) for i, value in enumerate(values)))
    assert list(yaml.safe_load(found.to_yaml())["deployment"]["a"].values()) == values


def test_a_run_without_privacy_is_not_registered(bare_run):
    with pytest.raises(InputError, match="without a guarantee nothing of it may be published"):
        registered(bare_run)
