"""What estimates say that a report cost: true claims are valid, and forged ones are not, as far as that can be seen."""

import json

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from sfumato.cli import invoke
from sfumato.collect import _central
from sfumato.collect._central import privacy_of
from sfumato.collect._closed import Closed
from sfumato.collect._estimate import estimate
from sfumato.collect._schema import Schema
from sfumato.collect._tokens import Token
from sfumato.collect._training import prepare
from sfumato.collect._wire import encode, public_id
from sfumato.errors import DataError, InputError
from sfumato.noise.coins import SecretWords
from sfumato.privacy._shuffling import shuffled_epsilon
from sfumato.verify import VerifyInputError, describe_survey, main, verify_survey
from sfumato.verify._survey import APPROXIMATE, ASSUMPTION, LARGE, NAMED

KEY = f"{rsa.generate_private_key(65537, 2048).public_key().public_numbers().n:x}"
ANONYMOUS = {"upload": "anonymous", "least_reports": 100, "token_key": KEY}
BASE = {"collection": "c", "purpose": "A test.", "opens": "2026-01-01T00:00:00Z", "closes": "2036-01-01T00:00:00Z",
        "server_key": "00" * 32}  # fmt: skip
LABEL = {"label": {"classes": ["a", "b", "c"], "epsilon": 0.5}}
BOTH = {**LABEL, "features": {"names": [f"f{i}" for i in range(4)], "epsilon": 0.5, "mechanism": "collision", "cap": 2}}
GAUSSIAN = {"features": {"names": ["x"], "epsilon": 0.5, "mechanism": "gaussian", "delta": 1e-9}}


def survey(parts=LABEL, users=400, named=False, **settings):
    asked = Schema.from_dict({**BASE, **({} if named else {**ANONYMOUS, **settings}), **parts})
    names = sorted(f"u{i}" if named else Token.draw().name for i in range(users))
    rng, source = np.random.default_rng(0), SecretWords(bytes(32))
    answers = [{} for _ in names]
    if asked.features:
        rows = rng.integers(0, 2, (users, asked.features.num_features)).astype(float)
        said = asked.features.randomizer.encode(rows, source, np.array([public_id(asked, one) for one in names]))
        for place, one in enumerate(answers):
            one["features"] = said.key(place)
    if asked.label:
        said = asked.label.randomizer.encode(rng.integers(0, 3, users), source)
        for place, one in enumerate(answers):
            one["label"] = said.key(place)
    return Closed(asked, tuple(encode(asked, name, one) for name, one in zip(names, answers, strict=True)))


def written(folder, closed, change=lambda stated: None, **how):
    stated = estimate(closed, **how).to_dict()
    change(stated)
    (folder / "said.json").write_text(json.dumps(stated))
    closed.write(folder / "closed.sfumato")
    return folder / "said.json", folder / "closed.sfumato"


def test_a_survey_has_both_costs_and_the_verifier_agrees(tmp_path):
    closed = survey(BOTH)
    files = written(tmp_path, closed, delta=1e-5, dishonest=100)
    result = verify_survey(*files)
    assert (result.valid, result.problems) == (True, ())
    assert result.local == {"epsilon": 1.0, "delta": 0.0}
    central = {
        "epsilon": shuffled_epsilon(1.0, 300, 1e-5),
        "delta": 1e-5,
        "honest": 300,
        "dishonest": 100,
        "assumption": ASSUMPTION,
    }
    assert result.central == central
    assert central["epsilon"] < 0.5
    told = describe_survey(files[0], result)
    assert told.startswith("VALID")
    assert "not checked: the estimates" in told
    assert told.index("local: epsilon 1,") < told.index("central: epsilon 0.") < told.index("not checked")


def test_half_of_the_reports_are_taken_for_honest_unless_somebody_says_how_many(tmp_path):
    files = written(tmp_path, survey())
    central = verify_survey(*files).central
    assert (central["honest"], central["dishonest"], central["delta"]) == (200, 200, 1e-6)
    for odd in (-1, 400, 1.5):
        with pytest.raises(InputError, match="dishonest"):
            estimate(survey(), dishonest=odd)
    for odd in (0.0, 0.99, 0.5, 0.000251):
        with pytest.raises(InputError, match="delta"):
            estimate(survey(), delta=odd)
    assert verify_survey(*written(tmp_path, survey(), delta=0.00025)).valid
    asked = survey().schema
    assert [privacy_of(asked, users).central.delta for users in (10**5, 10**6)] == [1e-6, 1e-7]


@pytest.mark.parametrize("parts", [LABEL, BOTH])
def test_reports_under_names_never_have_a_central_claim(tmp_path, parts):
    closed = survey(parts, named=True)
    said = estimate(closed, dishonest=0).privacy
    assert said.central is None
    assert "tied to its user" in said.why
    assert verify_survey(*written(tmp_path, closed)).valid


def test_why_there_is_no_central_claim_follows_from_the_schema(tmp_path):
    assert (NAMED, APPROXIMATE, LARGE) == (_central.NAMED, _central.APPROXIMATE, _central.LARGE)
    for closed in (survey(named=True), survey(GAUSSIAN)):
        files = written(tmp_path, closed, lambda stated: stated["privacy"].update(why=LARGE))
        assert any("privacy.why" in text for text in verify_survey(*files).problems)


def test_reports_with_a_delta_have_none(tmp_path):
    closed = survey(GAUSSIAN)
    assert estimate(closed).privacy.central is None
    assert verify_survey(*written(tmp_path, closed)).valid
    true = estimate(survey()).privacy.to_dict()["central"]
    files = written(tmp_path / "..", closed, lambda stated: stated["privacy"].update(central=true))
    assert any("up to a delta" in text for text in verify_survey(*files).problems)


def test_weak_reports_have_none(tmp_path):
    closed = survey({"label": {"classes": ["a", "b", "c"], "epsilon": 21.0, "mechanism": "randomized-response"}})
    assert estimate(closed).privacy.why == LARGE
    assert verify_survey(*written(tmp_path, closed)).valid
    true = {**estimate(survey()).privacy.to_dict()["central"], "epsilon": 21.0}
    files = written(tmp_path, closed, lambda stated: stated["privacy"].update(central=true))
    assert any("there is none" in text for text in verify_survey(*files).problems)


def test_the_verdict_rounds_upward_and_names_the_schema(tmp_path):
    closed = survey()
    files = written(tmp_path, closed, delta=1.0001e-6)
    told = describe_survey(files[0], verify_survey(*files))
    assert "delta 1.01e-06, if 200 of 400" in told
    assert f"schema: SHA-256 {closed.schema.sha256};" in told


def test_too_few_reports_are_not_estimated():
    with pytest.raises(DataError, match="100 anonymous reports"):
        estimate(survey(users=99))


def central(**changed):
    return lambda stated: stated["privacy"]["central"].update(changed)


FORGED = {
    "a smaller epsilon": central(epsilon=0.1),
    "an epsilon of 0": central(epsilon=0.0),
    "a delta of a half": central(epsilon=1e-9, delta=0.5),
    "a delta near 1": central(epsilon=1e-9, delta=0.99),
    "a delta above a tenth of one in 400": central(delta=0.000251),
    "no number": central(epsilon=float("nan")),
    "a smaller delta": central(delta=1e-9),
    "more users than reports": central(honest=4000, dishonest=0),
    "fewer dishonest ones": central(honest=400),
    "less than none": central(honest=500, dishonest=-100),
    "a part of a user": central(honest=200.0),
    "reports that are no whole number": lambda stated: stated.update(reports=400.0),
    "answers that are no whole number": lambda stated: stated["counts"].update(label=400.0),
    "a local epsilon that is another number": lambda stated: stated["privacy"]["local"].update(delta=0),
    "a name that hides something": lambda stated: stated["answers"]["label"][0].update(name="a\u202e"),
    "true": central(honest=True, dishonest=399),
    "other words": central(assumption="It holds."),
    "another field": central(certain=True),
    "another local cost": lambda stated: stated["privacy"]["local"].update(epsilon=0.1),
    "more reports": lambda stated: stated.update(reports=4000),
    "more answers": lambda stated: stated["counts"].update(label=4000),
    "another schema": lambda stated: stated.update(schema="0" * 64),
    "another name": lambda stated: stated.update(collection="d"),
    "another claim": lambda stated: stated.update(epsilon=0.01),
    "no answers": lambda stated: stated.update(answers={}),
    "answers of another type": lambda stated: stated.update(answers={"label": "ha"}),
    "an answer that is none": lambda stated: stated.update(answers={"label": [1.0]}),
    "an estimate in words": lambda stated: stated["answers"]["label"][0].update(estimate="half"),
    "an interval outside its range": lambda stated: stated["answers"]["label"][0].update(high=1.5),
    "another confidence": lambda stated: stated.update(confidence=0.999999),
    "a confidence of true": lambda stated: stated.update(confidence=True),
    "a local delta of false": lambda stated: stated["privacy"]["local"].update(delta=False),
    "another reason": lambda stated: stated["privacy"].update(why="A central epsilon of 0.0001 is proved."),
    "another file": lambda stated: stated.update(sha256="0" * 64),
    "no file": lambda stated: stated.update(sha256=None),
    "no privacy": lambda stated: stated.pop("privacy"),
    "a list": lambda stated: stated.update(privacy=[]),
}


def test_a_field_that_stands_twice_is_refused(tmp_path):
    file, collection = written(tmp_path, survey())
    file.write_text(file.read_text().replace('"central": {', '"central": {"epsilon": 0.01, '))
    assert "twice" in verify_survey(file, collection).problems[0]


@pytest.mark.parametrize("name", FORGED)
def test_forged_claims_are_refused(tmp_path, name):
    result = verify_survey(*written(tmp_path, survey(), FORGED[name]))
    assert not result.valid
    assert result.problems


def test_reports_under_names_are_not_made_anonymous(tmp_path):
    true = estimate(survey()).privacy.to_dict()
    closed = survey(named=True)
    files = written(tmp_path, closed, lambda stated: stated.update(privacy=true))
    assert any("tied to its user" in text for text in verify_survey(*files).problems)
    asked = Schema.from_dict({**BASE, **ANONYMOUS, **LABEL})
    dressed = tuple(one.replace(closed.schema.digest, asked.digest) for one in closed.messages)
    Closed(asked, dressed).write(tmp_path / "dressed.sfumato")
    result = verify_survey(written(tmp_path, survey())[0], tmp_path / "dressed.sfumato")
    assert any("name of a token" in text for text in result.problems)


def test_a_report_that_leaves_an_answer_out_is_refused(tmp_path):
    closed = survey(BOTH)
    odd = encode(closed.schema, "f" * 64, {"label": (0,)})
    file, _ = written(tmp_path, closed)
    Closed(closed.schema, (*closed.messages, odd)).write(tmp_path / "odd.sfumato")
    assert any("leaves an answer out" in text for text in verify_survey(file, tmp_path / "odd.sfumato").problems)


def test_a_survey_trains_nothing():
    with pytest.raises(DataError, match="anonymous survey"):
        prepare(survey(), None, "label-only")


def test_both_commands_say_the_same(tmp_path, capsys):
    file, collection = written(tmp_path, survey())
    assert main([str(file), "--collection", str(collection)]) == 0
    told = capsys.readouterr().out
    assert invoke(["verify", str(file), "--collection", str(collection)]) == 0
    assert capsys.readouterr().out == told
    assert invoke(["verify", str(file), "--collection", str(collection), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["valid"]
    forged, _ = written(tmp_path, survey(), FORGED["a smaller epsilon"])
    assert main([str(forged), "--collection", str(collection)]) == 1
    assert "NOT VALID" in capsys.readouterr().out
    assert main([str(tmp_path / "none"), "--collection", str(collection)]) == 2
    with pytest.raises(VerifyInputError):
        verify_survey(tmp_path, collection)
