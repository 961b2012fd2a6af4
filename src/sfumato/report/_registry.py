"""The fields of the public registry of deployments of differential privacy, from a certificate and its deployment record.

The registry (registry.opendp.org) knows three tiers: what is published and by whom; which privacy, at which parameters, in which
model of trust; and how it was made and accounted for. All that a certificate implies is taken from it. What nobody wrote yet
is left out, with what to write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.privacy.units import Unit, unit_from_dict
from sfumato.record._certificate import price_words, promise_words
from sfumato.record._deployment import ASKED, FLAVORS
from sfumato.record._shown import NO_RELEASE
from sfumato.report._person import num_records
from sfumato.report._words import ACCOUNTING, claim_words, event_words, plain, settings_words

if TYPE_CHECKING:
    from sfumato.report._run import Run

_RELATIONS = {
    "add-remove": "one of them lacks one such record, and they agree in everything else",
    "remove": "the record is empty in one of them, and they agree in everything else",
    "replace": "the record has other values in one of them, and they agree in everything else",
}
_PARTS = {
    "node_ids": "who is in the data",
    "roles": "which nodes train and which test",
    "owners": "which nodes belong to one person",
    "features": "features",
    "labels": "labels",
    "arcs": "links",
}


@dataclass(frozen=True)
class Field:
    """A field of the registry.

    ``path`` is its place below ``deployment``, with dots. ``value`` is None if nobody wrote it yet, ``tier`` the one that needs
    it, or 0, and ``asked`` says what to write.
    """

    path: str
    value: Any
    tier: int = 0
    asked: str = ""

    @property
    def missing(self) -> bool:
        return self.value is None


@dataclass(frozen=True)
class Registered:
    """What a run tells the registry.

    ``slug`` is a name for the address of the record; None without a product.
    """

    slug: str | None
    fields: tuple[Field, ...]

    @property
    def tier(self) -> int:
        """The highest tier of which nothing is missing; 0 if something of the first one is."""
        return min((field.tier - 1 for field in self.fields if field.missing and field.tier), default=3)

    @property
    def missing(self) -> dict[str, str]:
        return {field.path: field.asked for field in self.fields if field.missing}

    def to_dict(self) -> dict[str, Any]:
        """Return the filled fields as the registry nests them."""
        found: dict[str, Any] = {}
        for field in self.fields:
            *above, name = field.path.split(".")
            inner = found
            for section in above:
                inner = inner.setdefault(section, {})
            if not field.missing:
                inner[name] = field.value
        return {**({} if self.slug is None else {"url_slug": self.slug}), "deployment": found}

    def to_yaml(self) -> str:
        """Return the YAML that the registry takes, with a comment in the place of each missing field."""
        lines = [
            f"# Fields of tier {self.tier} and below are complete." if self.tier else "# Tier 1 is not complete yet."
        ]
        lines += ["# url_slug: missing. Write a short name for the address."] if self.slug is None else []
        lines += [f"url_slug: {scalar(self.slug)}"] if self.slug is not None else []
        lines.append("deployment:")
        opened: list[str] = []
        for field in self.fields:
            *above, name = field.path.split(".")
            for depth, section in enumerate(above):
                if opened[: depth + 1] != above[: depth + 1]:
                    lines.append(f"{'  ' * (depth + 1)}{section}:")
                    opened = above[: depth + 1]
            indent = "  " * (len(above) + 1)
            tier = f" (tier {field.tier})" if field.tier else ""
            lines.append(
                f"{indent}# {name}: missing. Write {field.asked}{tier}."
                if field.missing
                else f"{indent}{name}: {scalar(field.value)}"
            )
        return "\n".join([*lines, ""])


def registered(run: Run) -> Registered:
    """Return the fields of the registry, filled from the certificate of a run.

    Raises:
        InputError: the run has no privacy.
    """
    certificate = run.claimed()
    record = certificate.get("deployment", {})
    unit = unit_from_dict(dict(certificate["unit"]))
    found = [
        *_basic(record),
        *_guarantee(certificate, record, unit),
        *_model(certificate),
        *_made(certificate, record),
    ]
    tier = Registered(None, tuple(found)).tier
    found += [
        Field("administrative.evidence_sources", None, 0, "where the deployment is described, such as a paper or page"),
        Field("administrative.status", "Draft"),
        Field("administrative.registry_authors", None, 0, "who fills in this record"),
        Field("administrative.tier", tier or None, 0, "1, as soon as nothing of tier 1 is missing"),
    ]
    return Registered(_slug(record), tuple(found))


def _slug(record: Mapping[str, str]) -> str | None:
    if not record:
        return None
    words = f"{record['product']} {record['curator']} {record['publication_date'][:4]}".lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")


def _basic(record: Mapping[str, str]) -> Iterator[Field]:
    def asked(path: str, name: str) -> Field:
        return Field(f"basic.{path}", record.get(name), 1, ASKED[name])

    yield asked("name", "product")
    kind = record.get("curator_type")
    curators = kind and [{"data_curator_name": record["curator"], "data_curator_type": kind}]
    wanted = f"a list with a data_curator_name and a data_curator_type, {ASKED['curator_type']}"
    yield Field("basic.data_curators", curators, 1, wanted)
    yield asked("description", "description")
    yield asked("intended_use", "intended_use")
    yield Field("basic.data_product_type", "Machine learning model", 1)
    yield asked("data_product_region", "region")
    yield asked("data_product_sector", "sector")
    yield asked("publication_date", "publication_date")


def _guarantee(certificate: Mapping[str, Any], record: Mapping[str, str], unit: Unit) -> Iterator[Field]:
    claim, facts = certificate["claim"], certificate["public_facts"]
    yield Field("dp_variant.variant_name", FLAVORS[claim["delta"] > 0], 2)
    yield Field("dp_variant.data_domain", record.get("data_domain"), 3, ASKED["data_domain"])
    yield Field("dp_variant.unprotected_quantities", _public(certificate, unit), 3)
    level = "user" if unit.trust in ("local", "servers") else unit.name
    yield Field("privacy_loss.privacy_unit", f"{level.capitalize()}-level: {certificate['protects']}", 2)
    differ = f"Two data sets are neighbors if {_RELATIONS[unit.relation]}. A record is: {certificate['protects']}."
    yield Field("privacy_loss.privacy_unit_details", " ".join([differ, *certificate["caveats"]]), 3)
    counted = num_records(unit, facts)
    asked = "about how many records there are, if that is public; never count protected records for it"
    yield Field("privacy_loss.number_of_privacy_units", counted or None, 0, asked)
    yield Field("privacy_loss.privacy_parameters.epsilon", claim["epsilon"], 2)
    if claim["delta"] > 0:
        yield Field("privacy_loss.privacy_parameters.delta", claim["delta"], 2)
    whole = f"{claim_words(claim)} for everything that this run released together (epsilon is shown rounded upward)."
    yield Field(
        "privacy_loss.privacy_parameters_details",
        " ".join([whole, *promise_words(certificate), *price_words(certificate)]),
        3,
    )


def _public(certificate: Mapping[str, Any], unit: Unit) -> str:
    facts = {name: value for name, value in certificate["public_facts"].items() if value is not None}
    known = "; ".join(f"{name.replace('_', ' ')} {plain(value)}" for name, value in facts.items())
    texts = [f"Not protected: {', '.join(_PARTS[part] for part in unit.public)}.", f"Public facts: {known}."]
    if certificate["assumed_public"]:
        texts.append(f"Assumed public, and read from the data: {'; '.join(certificate['assumed_public'])}.")
    return " ".join(texts)


def _model(certificate: Mapping[str, Any]) -> Iterator[Field]:
    arrived = "arrival" in certificate
    central = certificate["trust_model"] == "trusted curator"
    yield Field("deployment_model.model_name", "Central" if central else "Local", 2)
    yield Field("deployment_model.model_name_details", f"Trust model: {certificate['trust_model']}.", 3)
    trusted = " ".join([*certificate["assumptions"], f"Adversary: {certificate['adversary']}"])
    yield Field("deployment_model.trust_assumptions", trusted, 3)
    yield Field("deployment_model.actors", _actors(certificate["who_may_see"]), 3)
    yield Field("deployment_model.release_type", "Many releases" if arrived else "One release", 2)
    yield Field("deployment_model.release_type_details", _covers(certificate), 3)
    yield Field("deployment_model.data_source_type", "Dynamic" if arrived else "Static", 2)
    source = "Nodes arrived after an earlier run." if arrived else "The run read one data set, as it was then."
    yield Field("deployment_model.data_source_type_details", source, 2)
    yield Field("deployment_model.access_type", "Non-interactive", 2)
    yield Field("deployment_model.access_type_details", "Readers get released files. Nobody queries the data.", 3)


def _actors(shown: Mapping[str, list[str]]) -> str:
    titles = {"anyone": "Anyone may see", "the node itself": "Each node alone may see", "never": "Nobody may see"}
    return " ".join(f"{titles[who]}: {'; '.join(what)}." for who, what in shown.items() if what)


def _covers(certificate: Mapping[str, Any]) -> str:
    others = certificate["composition"]["builds_on"]
    runs = [
        f"The weights come from another run (epsilon {one['epsilon']}, delta {one['delta']}), whose cost comes on top."
        for one in (others[:-1] if "arrival" in certificate else others)  # an edge pays in the run or in its arrival
    ]
    return " ".join([certificate["composition"]["covers"], *runs])


def _made(certificate: Mapping[str, Any], record: Mapping[str, str]) -> Iterator[Field]:
    settings = settings_words(certificate["settings"])
    tuning = [
        f"Settings: {settings}. The claim assumes that they and the budget were chosen without looking at protected data."
    ]
    if "candidates" in certificate:
        tuning = [
            f"A charged selection chose the settings among {len(certificate['candidates'])} candidates: {settings}."
        ]
    tuning += [f"Read from the data and assumed public: {'; '.join(certificate['assumed_public'])}."] * bool(
        certificate["assumed_public"]
    )
    yield Field("implementation.preprocessing_and_hyperparameter_tuning", " ".join(tuning), 3)
    noise = [f"{one['name']}: {event_words(one['event'])}." for one in certificate["releases"]]
    noise = noise or [NO_RELEASE]
    made = f"Sfumato {certificate['version']}, method {certificate['method']}."
    told = [made, *noise, certificate["randomness"], *certificate["side_channels"], certificate["data_collection"]]
    yield Field("implementation.mechanisms", " ".join(told), 3)
    composed = ACCOUNTING[certificate["accounting"]["method"]]
    yield Field("implementation.composition", f"All releases together: {composed}. {_covers(certificate)}", 3)
    processed = "Predictions are computed from the releases, and cost nothing more."
    if certificate["who_may_see"]["the node itself"]:
        processed += " One that reads a node's own features is for this node alone."
    yield Field("implementation.post_processing", processed, 3)
    reasons = None
    if record:
        reasons = f"Epsilon: {record['epsilon_rationale']} Delta: {record['delta_rationale']}"
        reasons += f" {record['implementation']}" if "implementation" in record else ""
    yield Field("implementation.justification", reasons, 3, "why epsilon, delta and the method were chosen so")
    useful = "how useful the model is, from public data alone; scores that read protected data must not be told"
    yield Field("implementation.utility", None, 0, useful)
    contact = f"Contact: {record['contact']}. " if record else ""
    ledger = f"The head of the ledger is {certificate['ledger_head']}; `sfumato verify` checks the release."
    yield Field("implementation.additional_information", contact + ledger)


def scalar(value: Any) -> str:
    """A value as YAML: JSON, save that a number with an exponent needs a decimal point."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(r"^(-?\d+)(e)", r"\1.0\2", text) if isinstance(value, float) else text
