"""Tables that went wrong give a graph or an error of ours with exit code 2, and never a private value."""

import contracts_mutated as mutated
import pytest

from sfumato.errors import DataError
from sfumato.graph import read_csv


def faults(count, seed=0):
    came, found = mutated.run(count, seed)
    assert min(came["graph"], came["error"]) >= count // 20, came  # mutations of both kinds
    return found


def test_a_sample_of_mutated_tables():
    assert faults(40) == []


@pytest.mark.soak
def test_five_thousand_mutated_tables():
    assert faults(5000, seed=100_000) == []


def test_a_marked_value_that_is_told_is_a_fault(monkeypatch):
    monkeypatch.setattr(mutated, "read_csv", lambda *files, **how: (_ for _ in ()).throw(DataError("got zebrafinch")))
    assert {what for _, what, _ in mutated.run(7, 1)[1]} == {"told"}
    monkeypatch.setattr(mutated, "read_csv", lambda *files, **how: int("x"))
    assert {what for _, what, _ in mutated.run(7, 1)[1]} == {"fault"}


@pytest.mark.parametrize("head", ['id,"age\n', 'id,age"\n', '"id,age\n'])
def test_a_row_of_names_with_an_open_quote_tells_no_row(head, tmp_path):
    (tmp_path / "nodes.csv").write_text(head + "".join(f'n{v},quokka{v}"\n' for v in range(9)))
    (tmp_path / "edges.csv").write_text("from,to\n")
    with pytest.raises(DataError) as caught:
        read_csv(tmp_path / "nodes.csv", tmp_path / "edges.csv", label="year")
    assert "quokka" not in str(caught.value)
