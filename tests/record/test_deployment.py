"""A deployment record is read whole or refused, with what to write; and it promises no more than the claim."""

import datetime

import pytest

from sfumato.errors import InputError
from sfumato.record._deployment import ASKED, Deployment

FILLED = {**ASKED} | {"publication_date": "2026-12-01", "flavor": "Pure DP"}
FILLED |= {"curator_type": "Nonprofit", "sector": "Education"}


def test_a_record_keeps_what_was_written(tmp_path):
    path = tmp_path / "deployment.toml"
    lines = [f'{name} = "{text}"' for name, text in FILLED.items() if name not in ("publication_date", "description")]
    lines += ["publication_date = 2026-12-01", 'description = """\none line\n  and another"""']
    path.write_text("\n".join(lines))
    record = Deployment.read(path)
    assert record.to_dict() == FILLED | {"description": "one line and another"}
    assert Deployment(**record.to_dict()) == record
    assert Deployment.from_dict(FILLED | {"publication_date": datetime.date(2026, 12, 1)}).to_dict() == FILLED


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"flavour": "x"}, "got 'flavour'. Did you mean 'flavor'"),
        ({"password": "x"}, "Its fields are product, curator"),
        ({"curator": ""}, "Expected curator of the deployment record to be a text of 1 to 500 printable characters, got ''"),
        ({"curator": 5}, "got 5. Write who publishes it"),
        ({"sector": ["Finance"]}, "got ['Finance']. Write the field of life"),
        ({"product": "a" * 501}, "1 to 500 printable characters"),
        ({"product": "a\u200bb"}, "printable"),
        ({"product": "a\x1b[2K"}, "printable"),
        ({"publication_date": "1.12.2026"}, "to be a day such as 2026-12-01, got '1.12.2026'"),
        ({"publication_date": "2026-02-30"}, "to be a day such as"),
        ({"publication_date": datetime.datetime(2026, 12, 1)}, "publication_date"),
        ({"sector": "Sports"}, "to be Technology, Healthcare, Education, Government, Energy, Finance: the registry"),
        ({"curator_type": "nonprofit"}, "to be Government, Industry, Nonprofit: the registry of deployments takes no other"),
        ({"flavor": "pure"}, "Pure DP or Approximate DP, got 'pure'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_what_to_write(change, named):
    with pytest.raises(InputError) as refused:
        Deployment.from_dict(FILLED | change)
    assert named in str(refused.value)


def test_all_that_is_missing_is_said_at_once():
    with pytest.raises(InputError) as refused:
        Deployment.from_dict({"product": "Friends"})
    assert "to have curator, got none" in str(refused.value)
    assert "delta_rationale: why delta" in str(refused.value)
    assert "region" not in str(refused.value)


@pytest.mark.parametrize(("text", "named"), [("product = Friends", "to be TOML"), (None, "Check the path")])
def test_a_file_that_cannot_be_read_is_named(tmp_path, text, named):
    path = tmp_path / "deployment.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=named):
        Deployment.read(path)


def test_a_record_names_no_stronger_flavor_than_the_claim():
    pure, approximate = Deployment(**FILLED), Deployment(**FILLED | {"flavor": "Approximate DP"})
    pure.check(0.0)
    approximate.check(0.0)
    approximate.check(1e-7)
    with pytest.raises(InputError, match="to be 'Approximate DP', since delta is 1e-07"):
        pure.check(1e-7)
    with pytest.raises(InputError, match="without a guarantee nothing may be published"):
        pure.check(None)
