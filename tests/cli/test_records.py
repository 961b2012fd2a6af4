"""A deployment record on its way from a file into a certificate, into a registry's fields and onto plain pages."""

import json
import shutil
from pathlib import Path

import pytest
from contracts_forgery import seal

from sfumato.record._deployment import ASKED
from sfumato.record.ledger import canonical_json
from sfumato.verify import verify

EDGE = ("--unit", "edge", "--epsilon", "2", "--delta", "1e-5")
RECORD = {name: f"{name} in words" for name in ASKED} | {"publication_date": "2026-12-01", "flavor": "Approximate DP"}
RECORD |= {"curator_type": "Nonprofit", "sector": "Education"}


@pytest.fixture
def record(tmp_path):
    """Write a record with changes; None leaves a field out."""

    def write(**changes):
        path = tmp_path / "deployment.toml"
        kept = {name: text for name, text in (RECORD | changes).items() if text is not None}
        path.write_text("".join(f"{name} = {json.dumps(text)}\n" for name, text in kept.items()))
        return path

    return write


def certificate(run):
    return json.loads((run / "release" / "certificate.json").read_text())


def test_a_record_goes_into_the_certificate(sfumato, tables, record, tmp_path):
    run = tmp_path / "run"
    assert sfumato("train", "gap", *tables["first"], *EDGE, "--deployment", record(), "--out", run).code == 0
    assert certificate(run)["deployment"] == RECORD
    assert "checked by nobody: product: product in words" in (run / "guarantee.txt").read_text()
    told = sfumato("verify", run)
    assert told.code == 0
    assert "deployment record: product in words, by curator in words, 2026-12-01; a person wrote it" in told.out
    assert json.loads(sfumato("verify", run, "--json").out)["deployment"] == RECORD


@pytest.mark.parametrize("command", ["train", "tune"])
@pytest.mark.parametrize(
    ("changes", "unit", "named"),
    [
        ({"curator": None}, EDGE, "to have curator, got none. Write curator: who publishes it"),
        ({"flavor": "Pure DP"}, EDGE, "to be 'Approximate DP', since delta is 1e-05"),
        ({}, ("--unit", "none"), "nothing of such a run may be published"),
    ],
    ids=["missing", "flavor", "none"],
)
def test_a_record_that_does_not_fit_stops_a_run_before_it_spends(
    sfumato, tables, record, tmp_path, command, changes, unit, named
):
    ledger = () if "none" in unit else ("--ledger", tmp_path / "all.jsonl", "--total-epsilon", "9")
    options = ("--deployment", record(**changes), "--out", tmp_path / "run")
    result = sfumato(command, "gap", *tables["first"], *unit, *ledger, *options)
    assert (result.code, result.out) == (2, "")
    assert named in result.err
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "all.jsonl").exists()


def test_a_tuned_run_keeps_its_record(sfumato, tables, record, tmp_path):
    run = tmp_path / "run"
    options = ("--trials", "2", "--deployment", record(), "--no-controls", "--out", run)
    assert sfumato("tune", "gap", *tables["first"], *EDGE, *options).code == 0
    assert certificate(run)["deployment"] == RECORD
    assert verify(run).valid


def test_a_run_of_links_from_reports_keeps_its_record(sfumato, tables, record, tmp_path):
    options = ("--task", "link", "--epsilon-x", "1", "--no-controls", "--out", tmp_path / "run")
    deployed = ("--deployment", record(flavor="Pure DP"))
    assert sfumato("train", "pgc", *tables["first"], *options, *deployed).code == 0
    assert certificate(tmp_path / "run")["deployment"]["curator"] == RECORD["curator"]


def test_a_resumed_run_keeps_the_record_of_its_start(sfumato, tables, record, tmp_path, monkeypatch):
    run, path = tmp_path / "run", record()
    options = ("--deployment", path, "--resumable", "--out", run)
    with monkeypatch.context() as patch:
        patch.setattr("sfumato.method.hops.noisy_neighborhood_sum", interrupt)
        assert sfumato("train", "gap", *tables["first"], *EDGE, *options).code == 130
    other = sfumato("train", "--resume", run, "--deployment", record(curator="Another"))
    assert other.code == 2
    assert "Expected --deployment the record of 'product in words', with which the run was started" in other.err
    path.unlink()
    assert sfumato("train", "--resume", run).code == 0
    assert certificate(run)["deployment"] == RECORD


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_the_registry_gets_yaml_and_json(sfumato, trained, tmp_path):
    run, out = trained["edge"], tmp_path / "new" / "registry.yaml"
    printed = sfumato("export", "registry", run)
    assert printed.code == 0
    assert "    # name: missing. Write the name of what is published (tier 1)." in printed.out
    assert "Tier 0. Missing: basic.name" in printed.err
    told = json.loads(sfumato("export", "registry", run / "release", "--out", out, "--json").out)
    assert out.read_text() == printed.out
    assert told["tier"] == 0
    stated = {name: certificate(run)["claim"][name] for name in ("epsilon", "delta")}
    assert told["record"]["deployment"]["privacy_loss"]["privacy_parameters"] == stated
    assert sfumato("export", "registry", run, "--out", out).code == 2


@pytest.mark.parametrize("audience", ["reviewer", "public"])
def test_pages_for_others_stand_beside_the_page_of_the_owner(sfumato, trained, audience):
    run = trained["edge"]
    result = sfumato("report", run, "--audience", audience)
    assert (result.code, result.err) == (0, "")
    assert "holds no scores, and may leave" in result.out
    page = (run / "reports" / f"{audience}.html").read_text()
    assert "73.2 of 100" in page or "at most 88.1 of 100" in page


def test_the_page_of_a_data_protection_officer_tells_attacks_and_takes_a_later_record(
    sfumato, refused, trained, record, tmp_path
):
    run = Path(shutil.copytree(trained["edge"], tmp_path / "run"))
    result = sfumato("report", run, "--audience", "regulator")
    assert (result.code, result.err) == (0, "")
    assert "holds no scores, and may leave" in result.out
    assert sfumato("attack", "degree", run).code == 0
    result = sfumato("report", run, "--audience", "regulator", "--deployment", record())
    assert (result.code, result.err) == (0, "")
    assert "do not publish it" in result.out
    page = (run / "reports" / "regulator.html").read_text()
    assert "(sfumato attack degree)" in page
    assert "controller in words" in page
    refused(
        "to be 'Approximate DP', since delta",
        "report",
        run,
        "--audience",
        "regulator",
        "--deployment",
        record(flavor="Pure DP"),
    )
    refused("with --audience regulator alone", "report", run, "--deployment", record())


@pytest.mark.parametrize(
    "command",
    [*(("report", "--audience", one) for one in ("public", "reviewer", "regulator")), ("export", "registry")],
)
def test_what_cannot_be_told_is_refused(refused, trained, tmp_path, command):
    words, options = [word for word in command if word in ("report", "export", "registry")], command[len(command) - 2 :]
    options = options if "--audience" in options else ()
    refused("without a guarantee nothing of it may be published", *words, trained["none"], *options)
    forged = Path(shutil.copytree(trained["edge"], tmp_path / "forged"))
    path = forged / "release" / "certificate.json"
    path.write_text(path.read_text().replace('"trusted curator"', '"a trusted curator"'))
    seal(forged / "release")
    refused("Expected a run that `sfumato verify` finds valid", *words, forged, *options)


@pytest.mark.parametrize(
    ("unit", "changes", "named"),
    [
        (
            "edge",
            {"flavor": "Pure DP"},
            "deployment.flavor: expected Approximate DP, since delta is above 0, got Pure DP",
        ),
        ("edge", {"arcs": "0,1"}, "deployment.arcs: is not a known field"),
        ("edge", {"region": "safe\x1b[2K"}, "deployment.region: expected printable characters"),
        ("edge", {"region": "a" * 501}, "deployment.region: expected a text of 1 to 500 characters"),
        ("none", {}, "deployment: not expected, since nothing is claimed"),
        ("edge", {}, None),
    ],
    ids=["flavor", "field", "character", "length", "none", "fine"],
)
def test_the_verifier_checks_form_and_flavor_of_a_record(trained, tmp_path, unit, changes, named):
    run = Path(shutil.copytree(trained[unit], tmp_path / "run"))
    values = certificate(run) | {"deployment": RECORD | changes}
    (run / "release" / "certificate.json").write_text(canonical_json(values) + "\n")
    seal(run / "release")
    found = verify(run).problems
    assert [one.startswith(f"certificate.json: {named}") for one in found] == [True] * (named is not None)


def test_an_unknown_audience_is_refused(refused, trained):
    refused(
        "to be one of owner, reviewer, public, regulator, got 'king'", "report", trained["edge"], "--audience", "king"
    )


def test_a_card_is_written_once_and_only_of_a_run_that_verifies(sfumato, refused, trained, tmp_path):
    out = tmp_path / "cards" / "README.md"
    told = sfumato("export", "card", trained["edge"] / "release", "--out", out, "--json")
    assert (told.code, json.loads(told.out)) == (0, {"out": str(out)})
    assert out.read_text().startswith("---\nmodel_name: ")
    refused("which exists", "export", "card", trained["edge"], "--out", out)
    refused("without a guarantee", "export", "card", trained["none"], "--out", tmp_path / "none.md")
    refused(
        "to be outside release/", "export", "card", trained["edge"], "--out", trained["edge"] / "release" / "README.md"
    )
