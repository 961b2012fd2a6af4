"""What progress says of a stage of a fit, in words for readers who do not know the method."""

from __future__ import annotations

_WORDS = {
    "encoder": "fitting a network on features",
    "features": "fitting a network on features",
    "smoothed": "fitting a network on smoothed features",
    "neighborhoods": "fitting a network on neighborhoods",
    "wiring": "fitting a network on links",
    "linear": "fitting a linear model on features",
    "trees": "fitting trees on features",
    "classifier": "fitting the classifier",
    "head": "fitting the final model",
    "network": "fitting a network",
    "coefficients": "computing features of images",
    "teachers": "training teachers",
    "student": "training the student",
    "ceiling": "training the student on true labels",
}


def in_words(stage: str) -> str:
    """Return what progress says of a stage, by its name in ledgers and learning curves; unknown names stay as they are."""
    name, _, number = stage.partition("/")
    if number.isdecimal() and name in ("network", "stage"):
        return f"fitting network {int(number) + 1}"
    return _WORDS.get(stage, stage)
