"""The words by which methods are asked for: names that the field has for them lead to ours."""

import pytest

from sfumato.catalog import WORDS, check_word, meant
from sfumato.errors import InputError


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("gcn", "With privacy start with 'auto'"),
        ("GAT", "With privacy start with 'auto'"),
        ("GraphSAGE", "'sage'"),
        ("dp-sgd", "'mlp' with --unit node"),
        ("dpsgd", "sf.DPSGD"),
        ("gap-ndp", "Write 'gap' with --unit node."),
        ("ProGAP_EDP", "Write 'progap' with --unit edge."),
        ("DP-GNN", "Did you mean 'dpgnn'?"),
        ("labelmessages", "Did you mean 'label-messages'?"),
        ("pate", "`sfumato pate --help`"),
        ("svm", "'linear'"),
        ("labl-only", "Did you mean 'label-only'?"),
        ("gpa", "Did you mean 'gap'?"),
    ],
)
def test_a_name_of_the_field_leads_to_a_method(asked, answer):
    assert answer in meant(asked)
    with pytest.raises(InputError, match="Expected method to be one of auto, "):
        check_word(asked)


@pytest.mark.parametrize("asked", ["xyz", "gmm", "knn", "", "-", "ndp"])
def test_no_method_is_suggested_for_a_word_that_is_like_none(asked):
    assert meant(asked) == ""


def test_a_method_that_exists_is_never_sent_elsewhere():
    assert [check_word(word) for word in WORDS] == list(WORDS)


def test_every_method_in_an_answer_exists():
    from sfumato.catalog import _FIELD

    named = {word for said in _FIELD.values() for word in said.split("'")[1::2]}
    assert len(named) >= 10
    assert named <= WORDS.keys()
