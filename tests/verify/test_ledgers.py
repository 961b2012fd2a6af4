"""Lines of ledgers as whoever keeps the file could write them: each fault has its own problem, by its line."""

import hashlib
import json

import pytest
from verify_written import canonical

from sfumato.verify import main, verify_ledger
from sfumato.verify._charges import Sum, mu_of
from sfumato.verify._folder import id_faults
from sfumato.verify._ledger_lines import dates, head_faults, kind_faults, mark_faults
from sfumato.verify._population import population_faults

PLAN, OTHER = "a" * 64, "b" * 64
CLAIM = {"run": "1" * 32, "plan": PLAN, "epsilon": 1.0, "delta": 1e-6, "mu": 0.2, "draws": 10, "method": "gap"}
RUN = {"kind": "run", "claim": CLAIM}
MARK = {"kind": "spent", "run": CLAIM["run"], "what": "first noise", "mark": "0" * 32}


def header(**changes):
    stated = {"composition": "basic", "total_epsilon": 2.0, "total_delta": 1e-5, "format": 2}
    return {"kind": "header", "header": {**stated, "dataset": {"name": "graph", "ids_digest": "0" * 64}, **changes}}


def arrival(*nodes, **changes):
    return {"kind": "arrival", "claim": CLAIM, "arrival": {"plan": PLAN, "extends": OTHER, "nodes": nodes, **changes}}


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([RUN, MARK, MARK, arrival("a"), arrival("b")], None),
        ([RUN, header()], "line 3: expected one header, in the first line"),
        ([RUN, RUN], "line 3: run 11111111 is charged twice"),
        ([MARK], "line 2: no run of this name was charged before"),
        ([RUN, MARK, {**MARK, "mark": "1" * 32}], "line 4: a second mark: noise was drawn twice under one claim"),
        ([RUN, arrival("a", plan=OTHER)], "line 3: these nodes extend no run that was charged as much before"),
        ([RUN, {**arrival("a"), "claim": {**CLAIM, "epsilon": 1.1}}], "line 3: these nodes extend no run that was"),
        ([RUN, {**arrival("a"), "claim": {**CLAIM, "delta": 2e-6}}], "line 3: these nodes extend no run that was"),
        ([arrival("a"), RUN], "line 2: these nodes extend no run that was charged as much before"),
        ([RUN, arrival("a", "b"), arrival("b")], "line 4: a node arrives twice after one run"),
        ([{"kind": "deletion", "records": 1}], "line 2: nobody can leave a list of ids"),
    ],
)
def test_each_line_fits_those_before(lines, problem):
    found = list(kind_faults([header(), *lines]))
    assert [text.startswith(problem or "?") for text in found] == ([] if problem is None else [True])


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (None, "is missing or damaged"),
        (b"{", "is missing or damaged"),
        (b"[]\n", "is missing or damaged"),
        (b'{"entries":3,"hash":"c"}\n', "names another last line"),
        (b'{"entries":2,"hash":"d"}\n', "names another last line"),
        (b'{"entries":2,"hash":"c"}\n', None),
        (b'{"entries":1,"hash":"b"}\n', None),  # its writer was stopped between both files
    ],
)
def test_the_head_names_one_of_the_last_two_lines(tmp_path, written, problem):
    if written is not None:
        (tmp_path / "l.jsonl.head").write_bytes(written)
    found = list(head_faults(tmp_path / "l.jsonl", [{"index": 0, "hash": "b"}, {"index": 1, "hash": "c"}]))
    assert [problem in text for text in found] == ([] if problem is None else [True])


def test_a_clock_that_was_set_back_is_told():
    assert list(dates([{"at": "2026-01-02"}, {}, {"at": "2026-01-03"}])) == []
    assert [text[:7] for text in dates([{"at": "2026-01-02"}, {}, {"at": "2026-01-01"}])] == ["line 3 "]


SCHEDULE = {"epsilons": [1.0, 0.5], "delta": 1e-6}


@pytest.mark.parametrize(
    ("stated", "claims", "problem"),
    [
        ({"schedule": SCHEDULE}, [{}, {"epsilon": 0.5}], None),
        ({"schedule": SCHEDULE}, [{}, {"epsilon": 0.6}], "run 2 claims more than the plan has for it, epsilon 0.5"),
        ({"schedule": SCHEDULE}, [{"delta": 2e-6}], "run 1 claims more than the plan has for it, epsilon 1.0"),
        ({"schedule": SCHEDULE}, [{"epsilon": 0.1}] * 3, "the plan is for 2 runs, got 3"),
        ({}, [{}, {}], None),
        ({}, [{}, {"epsilon": 1.000001}], "the sum of epsilon is 2.000001, above the total of 2"),
        ({}, [{"delta": 6e-6}] * 2, "the sum of delta is 0.000012, above the total of 0.00001"),
        ({"composition": "gdp"}, [{}, {}], None),
        ({"composition": "gdp"}, [{}, {"mu": None}], "rule gdp: a claim states no mu"),
        ({"composition": "gdp"}, [{"mu": 0.5}] * 2, "rule gdp: all claims together are 0.707106781187-GDP, which"),
        ({"composition": "gdp", "total_delta": 0.0}, [{"draws": 0}], "which exceeds epsilon 2.0 at delta 0.0"),
        ({"composition": "gdp"}, [{"draws": 10**40}], "of noise exceed the samplers' share of delta"),
    ],
)
def test_sums_and_plans_are_held(stated, claims, problem):
    found = list(Sum(header(**stated)["header"]).faults([{**CLAIM, **claim} for claim in claims]))
    assert [problem in text for text in found] == ([] if problem is None else [True]), found


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"population": None}, None),
        ({"population": {"name": "town ", "total_epsilon": 4.0, "total_delta": 1e-5}}, "name: expected a name without"),
        ({"collection": {}}, "population: not expected of reports that devices sent"),
        ({"claim": {"epsilon": 4.1, "delta": 1e-6}}, "total_epsilon: 4.0 is less than the claim of this run, 4.1"),
        ({"claim": {"epsilon": None, "delta": 1e-6}}, "total_epsilon: 4.0 is less than the claim of this run, None"),
        ({"claim": {"epsilon": 1.0, "delta": 2e-5}}, "total_delta: 1e-05 is less than the claim of this run, 2e-05"),
    ],
)
def test_a_run_claims_no_more_than_its_population_may_spend(changes, problem):
    town = {"name": "town", "total_epsilon": 4.0, "total_delta": 1e-5}
    found = list(population_faults({"population": town, "claim": {"epsilon": 1.0, "delta": 1e-6}, **changes}))
    assert [problem in text for text in found] == ([] if problem is None else [True]), found


@pytest.mark.parametrize(
    ("written", "digest_of", "nodes", "problem"),
    [
        ("a\nb", "a\nb", 2, None),
        ("a\nb", "a\nc", 2, "its SHA-256 differs from graph.ids_digest"),
        ("a\nb", "a\nb", 3, "holds 2 lines, expected 3"),
        ("a\n\x1bb", "a\n\x1bb", 2, "expected printable characters"),
    ],
)
def test_ids_are_those_of_the_graph(tmp_path, written, digest_of, nodes, problem):
    spec = {"graph": {"ids_digest": hashlib.sha256(digest_of.encode()).hexdigest(), "num_nodes": nodes}}
    assert list(id_faults(tmp_path, spec)) == []
    (tmp_path / "ids.txt").write_text(written)
    found = list(id_faults(tmp_path, spec))
    assert [problem in text for text in found] == ([] if problem is None else [True]), found


@pytest.mark.parametrize(
    ("marked", "problem"),
    [
        (["first noise"], None),
        (["first noise", "aggregate/1", "aggregate/1/learners"], None),
        (["aggregate/1"], "no line marks its first noise"),
        (["first noise", "aggregate/10"], "a line marks the noise of aggregate/10, which this run does not release"),
        (["first noise", "x"], "a line marks the noise of x"),
    ],
)
def test_marks_are_those_of_releases(marked, problem):
    certificate = {"releases": [{"name": "aggregate/1"}, {"name": "head"}]}
    entries = [header(), RUN, *({**MARK, "what": what} for what in marked)]
    found = list(mark_faults(CLAIM["run"], certificate, entries))
    assert [problem in text for text in found] == ([] if problem is None else [True]), found


@pytest.mark.parametrize(
    ("stated", "fits"), [(0.5, True), (0.5 + 1e-12, True), (0.4999, False), (1.0, False), (0.0, False)]
)
def test_mu_is_what_the_releases_imply(stated, fits):
    event = {"type": "gaussian", "noise_multiplier": 2.0, "count": 1}
    found, implied = mu_of(stated, [{"event": event}])
    assert (found == implied) == fits


def test_a_file_that_is_not_there_is_told(tmp_path, capsys):
    assert main([str(tmp_path / "none.jsonl"), "--runs", str(tmp_path)]) == 2
    assert "none.jsonl': no such file." in capsys.readouterr().err


def test_the_command_line_takes_a_ledger(tmp_path, capsys):
    path = tmp_path / "l.jsonl"
    path.write_text(canonical({"kind": "run"}))
    assert main([str(path)]) == 1
    told = capsys.readouterr().out
    assert told.startswith(f"NOT VALID: {path}\nproblem: line 1: ")
    assert not verify_ledger(path).valid
    assert json.loads(path.read_bytes()) == {"kind": "run"}
