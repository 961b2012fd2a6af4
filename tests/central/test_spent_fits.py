"""A resumable fit whose folder is put back as it was: the same bits for one claim, or a refusal, at every moment of the copy."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from run_copies import contents, put_back, states

import sfumato as sf
from sfumato import verify
from sfumato.central import _gap as gap
from sfumato.central._tuned import Tuned
from sfumato.errors import LedgerError
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.local import LabelOnly
from sfumato.method import hops as engine
from sfumato.noise.keys import new_key
from sfumato.record._dataset_ledger import DatasetLedger, read_account
from sfumato.record._resume import FitState

GRAPH = stochastic_block_model(40, 2, mean_degree=8, num_features=3, seed=1).with_split(seed=0)
OTHER = replace(GRAPH, x=GRAPH.x[::-1].copy())
EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=4)
METHOD = sf.GAP(width=4, epochs=2, batch_size=15)


def plan_of(unit, method=METHOD):
    return method.calibrate(sf.Budget(2.0, 1e-6), unit, GRAPH.public_facts(unit))


@pytest.fixture(scope="module", params=[EDGE, NODE], ids=["edge", "node"])
def plan(request):
    return plan_of(request.param)


@pytest.fixture
def run(tmp_path):
    FitState.create(tmp_path / "run" / "private").close()
    return tmp_path / "run"


def shared(run):
    return DatasetLedger(run.parent / "ledger.jsonl", 3.0, 1e-5)


def fit(plan, run, graph=GRAPH, progress=None):
    """Take the state up and release; the state stays, as if this were the last thing before a copy is put back."""
    state = FitState.open(run / "private")
    try:
        ledger = run / "release" / "ledger.jsonl"
        fitted = plan.fit(graph, ledger=ledger, dataset_ledger=shared(run), state=state, progress=progress)
        return fitted.save(run)
    finally:
        state.close()


def copied_at_the_start(plan, run):
    """Finish a run; what it released, after its folder was put back as it was when it held nothing but its key."""
    copy = shutil.copytree(run, run.with_name("copy"))
    fit(plan, run)
    released = contents(run / "release")
    put_back(copy, run)
    return released


def copied_once_bound(plan, run):
    """The same for a copy taken once plan and graph are bound, and no operand is."""
    copy = run.with_name("copy")
    real = DatasetLedger.reserve

    def reserve(*given, **named):
        if not copy.exists():
            shutil.copytree(run, copy)
        return real(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatasetLedger, "reserve", reserve)
        fit(plan, run)
    released = contents(run / "release")
    put_back(copy, run)
    return released


@pytest.mark.parametrize("copied", [copied_at_the_start, copied_once_bound])
def test_an_old_copy_draws_the_same_bits_for_the_same_claim(plan, run, copied):
    released = copied(plan, run)
    fit(plan, run)
    assert contents(run / "release") == released
    assert states(shared(run)) == ["spent"]


def test_an_old_copy_that_knows_no_graph_yet_is_refused_for_another_one(plan, run):
    """Its state binds the other graph for the first time: only the data set's ledger knows better."""
    copied_at_the_start(plan, run)
    with pytest.raises(LedgerError, match=r"is spent: its first noise was drawn already.*Nothing was drawn now"):
        fit(plan, run, OTHER)
    assert not (run / "release").exists()
    assert states(shared(run)) == ["spent"]


def test_an_old_copy_of_other_settings_is_refused(plan, run):
    """As much is claimed, and planned, but something else is learned."""
    copied_at_the_start(plan, run)
    with pytest.raises(LedgerError, match="first noise"):
        fit(plan_of(plan.unit, replace(METHOD, learning_rate=0.02)), run)


def test_an_old_copy_whose_operand_differs_is_refused_before_its_release(plan, run, monkeypatch):
    """Other code, or a processor that rounds otherwise, shows in operands alone, which the copy has not bound yet."""
    copied_once_bound(plan, run)
    normalize = gap.normalize_rows
    monkeypatch.setattr(gap, "normalize_rows", lambda rows: normalize(rows) * np.float32(0.999))
    monkeypatch.setattr(engine, "noisy_neighborhood_sum", lambda *args: pytest.fail("it was computed"))
    with pytest.raises(LedgerError, match="its aggregate/1 was drawn already"):
        fit(plan, run)


def test_an_old_copy_whose_gradients_differ_is_refused_before_it_stores_any(run, monkeypatch):
    from sfumato.bounded import _gradients as gradients

    plan = plan_of(NODE)
    copied_once_bound(plan, run)
    clipped = gradients.clipped_gradient_sum
    monkeypatch.setattr(gradients, "clipped_gradient_sum", lambda *args: 99 * (clipped(*args) // 100))
    with pytest.raises(LedgerError, match="its encoder was drawn already"):
        fit(plan, run)
    assert set(contents(run / "release")) == {"ledger.jsonl"}


def test_another_key_under_the_name_of_a_spent_claim_is_refused(plan, run):
    copied_at_the_start(plan, run)
    path = run / "private" / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "key": new_key().hex()}))
    with pytest.raises(LedgerError, match="is spent"):
        fit(plan, run)


def test_an_old_copy_of_local_reports_is_refused_for_other_users(run):
    """Coins are used again with the key: another value under the same coins must not be reported."""
    method = LabelOnly(epsilon_x=None, epsilon_y=1.0)
    plan = method.calibrate(None, method.unit, GRAPH.public_facts(method.unit))
    released = copied_at_the_start(plan, run)
    with pytest.raises(LedgerError, match="first noise"):
        fit(plan, run, replace(GRAPH, y=1 - GRAPH.y))
    put_back(run.with_name("copy"), run)
    fit(plan, run)
    assert contents(run / "release") == released


def test_a_selection_that_comes_out_otherwise_is_refused(run, monkeypatch):
    from sfumato.central import _tuned as tuned

    plan = plan_of(EDGE, Tuned((METHOD, replace(METHOD, num_hops=1)), "logarithmic", 3))
    released = copied_once_bound(plan, run)
    fit(plan, run)
    assert contents(run / "release") == released
    put_back(run.with_name("copy"), run)
    real = tuned._run

    def other(*given):
        weights, arrays, score = real(*given)
        return weights, {name: values + 1 for name, values in arrays.items()}, score

    monkeypatch.setattr(tuned, "_run", other)
    with pytest.raises(LedgerError, match="its tuned was drawn already"):
        fit(plan, run)


def test_a_run_is_reserved_until_its_first_noise(plan, run, monkeypatch):
    monkeypatch.setattr(engine, "noisy_neighborhood_sum", lambda *args: pytest.fail("stopped"))
    seen = []
    real = DatasetLedger.reserve
    monkeypatch.setattr(
        DatasetLedger, "reserve", lambda *given, **named: real(*given, **named) or seen.append(states(shared(run)))
    )
    with pytest.raises(pytest.fail.Exception):
        fit(plan, run)
    assert (seen, states(shared(run))) == ([["reserved"]], ["spent"])


def test_a_plain_run_spends_its_claim_too(plan, tmp_path):
    plan.fit(GRAPH, dataset_ledger=shared(tmp_path / "run"))
    assert states(shared(tmp_path / "run")) == ["spent"]


def test_marks_tell_nothing_and_the_verifier_reads_no_ledger_of_the_data_set(plan, run):
    """Two runs on one graph have nothing in common there but their plan."""
    fit(plan, run)
    key = FitState.open(run / "private")
    key.close()
    account = read_account(run.parent / "ledger.jsonl")
    marks = set(account.marks[key.run].values())
    assert len(marks) == 1 + len(plan.releases)
    assert not marks & set(key.values["bound"].values())
    assert not any(mark in (run / "release" / "ledger.jsonl").read_text() for mark in marks)
    (run.parent / "ledger.jsonl").unlink()
    assert verify.verify(run).problems == ()
