"""The deployment record: who publishes a run, what for, and why at this epsilon, in the words of a person.

It is read from a TOML file before any data is, so that nothing in it can follow from protected data unless its author puts it
there. The certificate holds it as it stands. Of all fields the flavor alone is compared with the claim; nobody checks the rest.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any

from sfumato._validate import fail, nearest
from sfumato.errors import InputError

FLAVORS = ("Pure DP", "Approximate DP")
"""How differential privacy is called at delta 0, and at any delta."""
MOST_CHARACTERS = 500
ASKED: Mapping[str, str] = {
    "product": "the name of what is published",
    "curator": "who publishes it",
    "contact": "whom people can ask about it, and how",
    "description": "what it is, in a sentence or two",
    "intended_use": "what it is for",
    "publication_date": "the day of publication, such as 2026-12-01",
    "data_domain": "whose data it was learned from, and which data",
    "flavor": "Pure DP where delta is 0, or Approximate DP",
    "epsilon_rationale": "why epsilon is as large as it is",
    "delta_rationale": "why delta is as large as it is",
    "curator_type": "what the curator is: Government, Industry or Nonprofit",
    "sector": "the field of life: Technology, Healthcare, Education, Government, Energy or Finance",
    "region": "the region that the data describe, or whose laws apply",
    "implementation": "what else a reader should know of how it was made",
    "controller": "who decides why and how the data are used, with an address",
    "processor": "who else works on the data for the controller, or that nobody does",
    "officer": "the data protection officer and how to reach them, or that there is none",
    "legal_basis": "on which legal ground the data are used, such as consent",
    "necessity": "why the purpose needs these data, and less would not do",
    "risks": "which harm could come to people, and how likely it is",
    "measures": "what protects the data beside the noise, such as who has access to them",
    "recipients": "who is given what was released",
    "retention": "how long the data are kept",
    "deletion": "what happens when somebody asks to be deleted from the data",
    "review": "when all of this is looked at again",
    "expert": "who determined for HIPAA that the risk is very small, when, and where that is written",
}
"""What to write in each field. Those from ``curator_type`` on may be left out; those from ``controller`` on are for data
protection officers, and fill the blanks on their page."""
KNOWN: Mapping[str, tuple[str, ...]] = {
    "curator_type": ("Government", "Industry", "Nonprofit"),
    "sector": ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
}
"""The words that the registry's schema knew in November 2026; it takes no others."""
_UNCHECKED = "written by a person, and checked by nobody"


@dataclass(frozen=True)
class Deployment:
    """The deployment record of a run, as a person wrote it. Line breaks in its texts count as spaces.

    Args:
        product: the name of what is published.
        curator: who publishes it.
        contact: whom people can ask about it.
        description: what it is.
        intended_use: what it is for.
        publication_date: the day of publication, such as 2026-12-01.
        data_domain: whose data it was learned from.
        flavor: ``Pure DP`` where delta is 0, or ``Approximate DP``.
        epsilon_rationale: why epsilon is as large as it is.
        delta_rationale: why delta is as large as it is.
        curator_type: what the curator is, one of the words in ``KNOWN``.
        sector: the field of life that the data are about, one of the words in ``KNOWN``.
        region: the region that the data describe, or whose laws apply.
        implementation: what else a reader should know of how it was made.
        controller: who decides why and how the data are used, with an address.
        processor: who else works on the data for the controller, or that nobody does.
        officer: the data protection officer and how to reach them, or that there is none.
        legal_basis: on which legal ground the data are used, such as consent.
        necessity: why the purpose needs these data, and less would not do.
        risks: which harm could come to people, and how likely it is.
        measures: what protects the data beside the noise, such as who has access to them.
        recipients: who is given what was released.
        retention: how long the data are kept.
        deletion: what happens when somebody asks to be deleted from the data.
        review: when all of this is looked at again.
        expert: who determined for HIPAA that the risk is very small, when, and where that is written.

    Raises:
        InputError: a field is no text of 1 to 500 printable characters, or no such day, flavor, type or sector.

    >>> Deployment.from_dict({"product": "Friends", "flavour": "Pure DP"})
    Traceback (most recent call last):
    sfumato.errors.InputError: Expected the deployment record to have known fields, got 'flavour'. Did you mean 'flavor'?
    """

    product: str
    curator: str
    contact: str
    description: str
    intended_use: str
    publication_date: str
    data_domain: str
    flavor: str
    epsilon_rationale: str
    delta_rationale: str
    curator_type: str | None = None
    sector: str | None = None
    region: str | None = None
    implementation: str | None = None
    controller: str | None = None
    processor: str | None = None
    officer: str | None = None
    legal_basis: str | None = None
    necessity: str | None = None
    risks: str | None = None
    measures: str | None = None
    recipients: str | None = None
    retention: str | None = None
    deletion: str | None = None
    review: str | None = None
    expert: str | None = None

    def __post_init__(self) -> None:
        for name, asked in ASKED.items():
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            text = " ".join(value.split()) if isinstance(value, str) else ""
            if not (text.isprintable() and 0 < len(text) <= MOST_CHARACTERS):
                expected = f"to be a text of 1 to {MOST_CHARACTERS} printable characters"
                raise fail(_called(name), value, expected, f"Write {asked}.")
            if text not in KNOWN.get(name, (text,)):
                expected = f"to be {', '.join(KNOWN[name])}: the registry of deployments takes no other word"
                raise fail(_called(name), value, expected, "Choose one, or leave the field out.")
            object.__setattr__(self, name, text)
        if not _is_day(self.publication_date):
            raise fail(_called("publication_date"), self.publication_date, "to be a day such as 2026-12-01")
        if self.flavor not in FLAVORS:
            raise fail(
                _called("flavor"), self.flavor, f"to be {' or '.join(FLAVORS)}", "The first is for delta 0 alone."
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Deployment:
        """Build a record from its fields by name.

        Raises:
            InputError: a field is unknown, missing or malformed.
        """
        for name in values:
            if name not in ASKED:
                remedy = nearest(name, ASKED) or f"Its fields are {', '.join(ASKED)}."
                raise fail("the deployment record", name, "to have known fields", remedy)
        missing = [name for name in ASKED if name not in values and name not in _OPTIONAL]
        if missing:
            wanted = "; ".join(f"{name}: {ASKED[name]}" for name in missing)
            raise InputError(f"Expected the deployment record to have {missing[0]}, got none. Write {wanted}.")
        day = values["publication_date"]  # TOML has a type for days
        return cls(**{**values, "publication_date": day.isoformat() if type(day) is date else day})

    @classmethod
    def read(cls, path: str | Path) -> Deployment:
        """Read a record from a TOML file.

        Raises:
            InputError: the file cannot be read or is no TOML, or a field is unknown, missing or malformed.
        """
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"Cannot read {str(path)!r}: {error.strerror or error}. Check the path.") from error
        except ValueError as error:
            raise InputError(f"Expected {str(path)!r} to be TOML: {error}. Put texts between quotes.") from error
        try:
            return cls.from_dict(values)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    def check(self, delta: float | None) -> None:
        """Refuse a claim that the record does not fit: one without privacy (``delta`` None), or weaker than its flavor.

        Raises:
            InputError: there is no claim, or the flavor is that of delta 0 and ``delta`` is above it.
        """
        if delta is None:
            raise InputError(
                "Expected a deployment record with a privacy unit, got none: without a guarantee nothing may be published. Drop "
                "the record, or name a unit."
            )
        if delta > 0 and self.flavor == FLAVORS[0]:
            raise fail(_called("flavor"), self.flavor, f"to be {FLAVORS[1]!r}, since delta is {delta:g}")

    def to_dict(self) -> dict[str, str]:
        """Return the fields that are filled, as the certificate holds them."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        return f"the record of {self.product!r}"


_OPTIONAL = {field.name for field in fields(Deployment) if field.default is None}


def words(record: Mapping[str, str]) -> str:
    """Return a deployment record as one line of a certificate, its fields in the order of ``ASKED``, however they were kept."""
    said = "; ".join(f"{name.replace('_', ' ')}: {record[name].rstrip('.')}" for name in ASKED if name in record)
    return f"Deployment record, {_UNCHECKED}: {said}."


def _called(name: str) -> str:
    return f"{name} of the deployment record"


def _is_day(text: str) -> bool:
    try:
        return re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False
