"""What rules and guidelines say, as far as the page for data protection officers needs it: each fact with source and date.

The facts are paraphrased, and none of them is legal advice. A new rule is one entry of ``RULES``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LOOKED_UP = "28 November 2026"
NO_ADVICE = "This page is no legal advice. Whether the law is satisfied is for its readers to judge, case by case."


@dataclass(frozen=True)
class Rule:
    """A rule or guideline: its name, who issued it and when, and the fact that the page takes from it."""

    name: str
    issued: str
    said: str

    def __str__(self) -> str:
        return f"{self.name} ({self.issued}): {self.said}"


RULES: Mapping[str, Rule] = {
    "ico": Rule(
        "Anonymisation guidance",
        "Information Commissioner's Office, United Kingdom, 28 March 2025",
        "The risk that a person is identified must be sufficiently remote. Indicators are singling out, linkability and "
        "inferences. A motivated-intruder test is a good start; its result is to be recorded and reviewed.",
    ),
    "wp216": Rule(
        "Opinion 05/2014 on anonymisation techniques, WP216",
        "Article 29 Working Party, the predecessor of the European Data Protection Board, 10 April 2014",
        "It asks three questions: can one person still be singled out, can records that relate to a person be linked, and "
        "can something be inferred about a person?",
    ),
    "edpb": Rule(
        "Opinion 28/2024 on AI models",
        "European Data Protection Board, 17 December 2024",
        "A model that was trained on personal data is not anonymous by itself. It is so, case by case, if it is insignificantly "
        "likely that data of a person are extracted from it or obtained by questions to it.",
    ),
    "gdpr": Rule(
        "General Data Protection Regulation, Regulation (EU) 2016/679",
        "European Union, 27 April 2016",
        "Article 4 defines controller and processor, Article 17 is the right to erasure, and Article 35(7) says what a data "
        "protection impact assessment holds: description, necessity, risks and measures.",
    ),
    "hipaa": Rule(
        "HIPAA Privacy Rule, 45 CFR 164.514(b)(1), expert determination",
        "United States; guidance of the Department of Health and Human Services of 26 November 2012",
        "A person with suitable knowledge determines that the risk is very small that an anticipated recipient identifies "
        "somebody, alone or with other available information, and documents methods and results.",
    ),
    "nist": Rule(
        "SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees",
        "National Institute of Standards and Technology, United States, March 2025",
        "A guarantee rests on its parameters, its unit, its algorithms, and on what lies below them, down to how data are "
        "collected.",
    ),
    "iso": Rule(
        "ISO/IEC 27559:2022, Privacy enhancing data de-identification framework",
        "International Organization for Standardization, November 2022",
        "It asks for an assessment of context, of data and of identifiability, for mitigation, and for governance.",
    ),
}
