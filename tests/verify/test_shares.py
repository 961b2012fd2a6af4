"""Estimates from what two servers opened: the verifier computes each number again, and finds one that is not it."""

import json

import pytest
from opened_made import opened_file
from two_made import OPERATORS

from sfumato.cli import invoke
from sfumato.collect.two._estimate import estimate
from sfumato.verify import describe_survey, verify_survey

CLASSES = ("a", "b", "c")
CELLS = {f"u{number:02}": number // 8 for number in range(40)}
LABELS = {user: CLASSES[number % 3] for number, user in enumerate(CELLS) if number > 9}


def written(folder, change=lambda stated: None, epsilon=1.0, by_cell=True):
    file = opened_file(CELLS, LABELS, CLASSES, epsilon)
    stated = estimate(file, by_cell=by_cell).to_dict()
    change(stated)
    (folder / "said.json").write_text(json.dumps(stated))
    file.write(folder / "opened.sfumato")
    return folder / "said.json", folder / "opened.sfumato"


@pytest.mark.parametrize("epsilon", [0.015625, 0.5, 1, 3.0, 20.0])
@pytest.mark.parametrize("by_cell", [True, False])
def test_honest_estimates_are_valid(tmp_path, epsilon, by_cell):
    files = written(tmp_path, epsilon=epsilon, by_cell=by_cell)
    result = verify_survey(*files)
    assert result.problems == ()
    told = describe_survey(files[0], result)
    for words in (f"epsilon {epsilon:g} against everybody", OPERATORS[1].sign_key.hex(), "is the word of the servers"):
        assert words in told
    assert "author" not in told


def at(*path, value=None, by=0.0):
    def change(stated):
        for name in path[:-1]:
            stated = stated[name]
        stated[path[-1]] = stated[path[-1]] + by if value is None else value

    return change


FORGED = {
    "another share": (at("answers", "label", 0, "estimate", by=1e-4), "it.answers.label[0].estimate"),
    "a narrower interval": (at("answers", "label", 1, "low", by=0.001), "it.answers.label[1].low"),
    "a wider range": (at("answers", "label", 1, "most", value=2.0), "it.answers.label[1].most"),
    "another class": (at("answers", "label", 1, "name", value="d"), "it.answers.label[1].name"),
    "a class less": (lambda stated: stated["answers"]["label"].pop(), "holds 2 items, expected 3"),
    "a share of an empty cell": (at("cells", 0, "shares", value=[{"name": "a"}]), "it.cells[0].shares"),
    "another share of a cell": (at("cells", 2, "shares", 0, "high", by=-0.01), "it.cells[2].shares[0].high"),
    "a smaller epsilon": (at("privacy", "epsilon", value=0.5), "it.privacy.epsilon: 0.5 differs from 1.0"),
    "another unit": (at("privacy", "unit", value="local"), "it.privacy.unit"),
    "another key": (at("servers", 0, "sign", value="0" * 64), "it.servers[0].sign"),
    "more answers": (at("reports", value=40), "it.reports: 40 differs from 30"),
    "nobody silent": (at("left_out", "failed", value=10), "it.left_out.failed"),
    "another file": (at("sha256", value="0" * 64), "it.sha256"),
    "a central epsilon": (at("privacy", "central", value=0.1), "it.privacy.central: is not expected"),
    "surer": (at("confidence", value=0.99), "it.confidence"),
    "no number": (at("answers", "label", 0, "estimate", value=float("nan")), "it is malformed"),
    "a truth value": (at("cells", 0, "reports", value=False), "it.cells[0].reports"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "named"), FORGED.values(), ids=FORGED)
def test_forged_estimates_are_found(tmp_path, change, named):
    files = written(tmp_path, change)
    result = verify_survey(*files)
    assert not result.valid
    assert named in " | ".join(result.problems)
    assert "against everybody" not in describe_survey(files[0], result)


def test_a_changed_file_is_found(tmp_path):
    said, opened = written(tmp_path)
    opened.write_bytes(opened.read_bytes()[:-1])
    assert "it is not canonical JSON" in " ".join(verify_survey(said, opened).problems)
    _, opened = written(tmp_path)
    for text in ("[]", "3", "{}", "{"):
        said.write_text(text)
        assert not verify_survey(said, opened).valid


def test_the_command_line_writes_and_checks_them(tmp_path, capsys):
    _, opened = written(tmp_path)
    out = tmp_path / "out.json"
    assert invoke(["collect", "estimate", str(opened), "--out", str(out)]) == 0
    capsys.readouterr()
    assert invoke(["verify", str(out), "--collection", str(opened)]) == 0
    assert "VALID" in capsys.readouterr().out
    assert invoke(["verify", str(out), "--collection", str(opened), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["privacy"] == {"unit": "servers", "epsilon": 1.0, "delta": 0.0}
