"""Citations: what a run used and nothing else, as BibTeX that another program reads."""

import re

import bibtexparser
import pytest
from report_samples import certificate

from sfumato.attacks._listing import ATTACKS
from sfumato.catalog import CARDS, GRAPH_CARDS
from sfumato.datasets._listing import CARDS as DATASETS
from sfumato.privacy.events import KINDS, GaussianEvent, PoissonGaussianEvent
from sfumato.report import _cite as cite
from sfumato.report._cite import citations, references

NEEDED = {
    "article": {"author", "title", "journal", "year"},
    "inproceedings": {"author", "title", "booktitle", "year"},
    "book": {"author", "title", "publisher", "year"},
    "misc": {"author", "title"},
}


def keys(text):
    """Keys of the entries of a BibTeX text that parses without a fault."""
    library = bibtexparser.parse_string(text)
    assert not library.failed_blocks
    return [entry.key for entry in library.entries]


def test_references_are_complete():
    library = bibtexparser.parse_string("\n".join(references().values()))
    assert not library.failed_blocks
    for entry in library.entries:
        fields = {field.key: field.value for field in library.entries_dict[entry.key].fields}
        assert not NEEDED[entry.entry_type] - set(fields), entry.key
        assert entry.entry_type != "misc" or {"eprint", "archiveprefix"} <= set(fields)
        assert re.fullmatch(r"(19|20)\d\d", fields["year"])
        assert fields["year"] in entry.key
        assert all(re.fullmatch(r"[^,]+, [^,]+", name) for name in fields["author"].split(" and ")), entry.key
        assert "--" in fields.get("pages", "--")


def test_reader_keeps_every_entry():
    text = (cite.Path(cite.__file__).with_name("references.bib")).read_text()
    assert len(references()) == text.count("\n@") + 1


def test_every_work_is_used_and_every_use_has_a_work():
    cards = [{name: one.citations for name, one in table.items()} for table in (CARDS, GRAPH_CARDS, ATTACKS, KINDS)]
    tables = (*cards, cite._ACCOUNTING, *(card.cites for card in DATASETS.values()))
    assert {key for table in tables for works in table.values() for key in works} == set(references())


def test_edge_level_run():
    found = keys(citations(certificate(), "facebook100/Berkeley13"))
    assert found[:2] == ["sfumato", "sajadmanesh2023gap"]
    assert {"balle2018improving", "dong2022gaussian", "traud2012social"} <= set(found)
    assert "abadi2016deep" not in found
    assert len(found) == len(set(found))


def test_node_level_run():
    values = certificate("node", events=(PoissonGaussianEvent(0.1, 2.0, 10), GaussianEvent(2.0)))
    values["accounting"]["method"] = "pld"
    found = keys(citations(values, "campus"))
    assert {"abadi2016deep", "doroshenko2022connect"} <= set(found)
    assert "balle2018improving" not in found


@pytest.mark.parametrize(
    ("name", "expected"), [("npz/cora_ml", "bojchevski2018deep"), ("npz/amazon_cs", "shchur2018pitfalls")]
)
def test_the_nearest_data_set_is_cited(name, expected):
    assert keys(citations(certificate("none", None, ()), name))[-1] == expected


def test_nested_events_are_found():
    values = certificate()
    inner = {"type": "laplace", "noise_multiplier": 1.0, "count": 1}
    values["releases"][0]["event"] = {"type": "composed", "events": [inner], "count": 2}
    assert "dwork2006calibrating" in keys(citations(values, "campus"))
    trials = {"type": "selection", "rule": "geometric", "mean_trials": 10, "candidates": [[inner]]}
    values["releases"][0]["event"] = trials
    assert {"papernot2022hyperparameter", "dwork2006calibrating"} <= set(keys(citations(values, "campus")))
