"""The rules of the verifier plan what each method releases, under every unit that it has a proof for and with every candidate."""

import json

import pytest
from torch import nn

from sfumato.catalog import CARDS, METHODS, PAIR_METHODS, method_named
from sfumato.central._dpsgd import DPSGD, OWN_NETWORK
from sfumato.central._hop_network import PrivateTrainer
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.graph._graph import PublicFacts
from sfumato.privacy.units import UNITS, NodeLevel, RecordLevel, unit_to_dict
from sfumato.verify._claim import change_faults
from sfumato.verify._methods import METHODS as RULES
from sfumato.verify._methods import rules_of
from sfumato.verify._releases import release_faults

FACTS = (
    PublicFacts(1000, 750, 256, 3, directed=False, max_degree=100, image_shape=(1, 16, 16)),
    PublicFacts(60, 40, 546, 5, directed=True, max_degree=7, image_shape=(3, 13, 14)),
)


def units():
    """Every form of every unit, under which something is claimed."""
    return [unit for kind in UNITS for forms in kind.forms().values() for unit in forms if unit.private]


def certificate(method, unit, facts):
    """What a certificate says before any data is seen, with noise of multiplier 1; None if the method refuses the unit."""
    unit = method.unit if method.unit is not None and method.unit.name == unit.name else unit
    try:
        releases = method.releases(unit, facts, 1.0)
    except (UnsupportedUnitError, InputError):  # the second: for such a graph
        return None
    public = {key: value for key, value in facts.to_dict().items() if key != "assumed"}
    stated = {
        "format": 3, "method": method.name, "settings": dict(method.settings), "unit": unit_to_dict(unit),
        "public_facts": public, "assumed_public": [], "composition": {"builds_on": []}, "collection": None,
        "claim": {"epsilon": 1.0, "delta": 0.0}, "releases": [release.to_dict() for release in releases],
    }  # fmt: skip
    return json.loads(json.dumps(stated))


@pytest.mark.parametrize("facts", FACTS, ids=["undirected", "directed"])
@pytest.mark.parametrize("name", [*METHODS, *PAIR_METHODS])
def test_rules_plan_what_the_method_releases(name, facts):
    rules, base, compared = rules_of(name), method_named(name), set()
    for changes in ({}, *(CARDS[name].candidates or ())):
        for unit in units():
            stated = certificate(type(base)(**{**base.settings, **changes}), unit, facts)
            if stated is None or stated["unit"]["name"] not in rules.audience:
                continue
            assert not list(rules.setting_faults(stated))
            assert not list(release_faults(stated, rules)), (unit, changes)
            assert not list(change_faults(stated, rules)), (unit, changes)
            compared.add(stated["unit"]["name"])
    assert facts.directed or compared == {*rules.audience}


@pytest.mark.parametrize("unit", [NodeLevel(max_out_degree=7), NodeLevel(arcs="incident"), RecordLevel("replace")])
def test_rules_plan_what_a_network_of_the_users_own_releases(unit):
    stated = certificate(DPSGD(nn.Linear(256, 3), batch_size=8), unit, FACTS[0])
    rules = rules_of("dpsgd")
    assert not [*rules.setting_faults(stated), *release_faults(stated, rules), *change_faults(stated, rules)]
    assert rules.caveats(stated) == [OWN_NETWORK]
    stated["settings"]["num_parameters"] += 1
    assert list(release_faults(stated, rules))


@pytest.mark.parametrize("unit", [NodeLevel(max_out_degree=7), NodeLevel(max_out_degree=7, relation="replace")])
def test_rules_plan_what_a_private_trainer_releases(unit):
    stated = certificate(PrivateTrainer(nn.Linear(3 * 256, 3), batch_size=8), unit, FACTS[0])
    rules = rules_of("dpsgd-hops")
    assert not [*rules.setting_faults(stated), *release_faults(stated, rules), *change_faults(stated, rules)]
    stated["settings"]["num_hops"] = 1
    assert list(release_faults(stated, rules))


def test_every_method_of_the_catalog_has_rules():
    assert {*METHODS, *PAIR_METHODS} <= RULES.keys()
