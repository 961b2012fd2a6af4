"""Methods with so few steps, and so small networks, that a fit takes no time: what holds of them holds of longer ones."""

from dataclasses import fields, replace
from functools import cache
from math import isqrt

import numpy as np

import sfumato as sf
from sfumato.catalog import METHODS, PAIR_METHODS, method_named
from sfumato.central._tuned import Tuned
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.graph import stochastic_block_model
from sfumato.graph._graph import Graph
from sfumato.local._method import AskingMethod
from sfumato.privacy.units import UNITS as KINDS

UNITS = {
    "none": sf.NoPrivacy(),
    "arc": sf.EdgeLevel(directed=True),
    "edge": sf.EdgeLevel(directed=False),
    "node": sf.NodeLevel(max_out_degree=5),
    "node-replace": sf.NodeLevel(max_out_degree=5, relation="replace"),
    "node-incident": sf.NodeLevel(arcs="incident"),
    "record": sf.RecordLevel(),
    "record-replace": sf.RecordLevel(relation="replace"),
    "local": sf.LocalLevel(),
    "link": sf.LinkLevel(),
}
UNITS |= {
    title: form
    for unit in KINDS
    if unit not in {type(one) for one in UNITS.values()}
    for title, (form, *_) in unit.forms().items()
}
"""Units of every kind, by name."""

SHORT = {"epochs": 2, "steps": 2, "max_epochs": 2, "width": 4}


def quick(name, **settings):
    """The method of this name; a width that is chosen by another setting stays as it is."""
    known = {field.name for field in fields(method_named(name))}
    try:
        return method_named(name, **{key: value for key, value in SHORT.items() if key in known}, **settings)
    except InputError:
        return method_named(name, **settings)


class AnyOwners(Graph):
    """A graph whose edges, or nodes, have owners where the unit is a person, with the bound of the unit: it fits every unit."""

    def public_facts(self, unit, **how):
        known = replace(self, nodes_per_person=getattr(unit, "nodes_per_person", None))
        facts = Graph.public_facts(known, unit, **how)
        return replace(facts, edges_per_person=getattr(unit, "edges_per_person", None))


def pixels(num_nodes, seed=1, num_features=144, max_degree=None, **how):
    """A graph of three classes whose features may be pixels, for methods that learn from images; degrees are promised."""
    made = stochastic_block_model(num_nodes, 3, num_features=num_features, seed=seed, **{"mean_degree": 8, **how})
    side = isqrt(num_features)
    owned = replace(made.with_split(seed=0), cells=np.arange(num_nodes), nodes_per_person=2)
    shown = replace(owned, max_degree=max_degree or num_nodes // 2, image_shape=(1, side, side))
    return AnyOwners(**{field.name: getattr(shown, field.name) for field in fields(shown) if field.name != "_checked"})


def proves(method, unit, facts):
    """Whether a method has a plan under a unit, for a graph of these facts; what can be, is not calibrated."""
    if not unit.private:
        return True
    try:
        if isinstance(method, sf.Auto):
            return planned(method, unit, facts) is not None
        return unit.name in method.card.units and method.releases(unit, facts, 1.0) is not None
    except UnsupportedUnitError:
        return False


CURATORS = [name for name, method in METHODS.items() if not issubclass(method, AskingMethod)]
BIG, SMALL = pixels(120, 1, mean_degree=20), pixels(60)
SUPPORTED = [
    (name, title)
    for name in CURATORS
    for title, unit in UNITS.items()
    if proves(quick(name), unit, BIG.public_facts(unit))
]
"""Methods of a trusted curator with the units that they have a proof for."""
FORMS = [form for unit in KINDS for forms in unit.forms().values() for form in forms]
FORMS += [sf.NodeLevel(5), sf.LocalLevel(features=False), sf.LocalLevel(labels=False)]
FACTS = {unit: SMALL.public_facts(unit) for unit in FORMS}


def entries():
    """Every entry of the catalog, and what wraps one."""
    methods = {name: method_named(name) for name in (*METHODS, *PAIR_METHODS)} | {"auto": sf.Auto()}
    return methods | {"tuned gap": Tuned((sf.GAP(num_hops=1), sf.GAP(num_hops=2)))}


def planned(method, unit, facts):
    return method.calibrate(sf.Budget(2.0, 1e-6) if unit.trust == "curator" and unit.private else None, unit, facts)


@cache
def plans():
    """Whatever can be planned on the small graph, under every form of every unit."""
    found = []
    for method in entries().values():
        for unit in FORMS if method.unit is None else (method.unit,):
            try:
                found.append(planned(method, unit, FACTS[unit]))
            except (UnsupportedUnitError, InputError):
                continue
    return found
