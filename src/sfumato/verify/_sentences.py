"""The sentences of a certificate that follow from the trust model alone. **A new trust model is one entry of** :data:`SENTENCES`.

Sentences that are the same in all runs stand in the JSON Schema.
"""

from __future__ import annotations

from typing import Any

_EVALUATED = "Evaluation: accuracies, curves and controls read true labels and are not protected."
_OF_A_CURATOR: dict[str, Any] = {
    "trust_model": "trusted curator",
    "randomness": "Noise and sampling coins come from AES-256 and HMAC-SHA256 under a 256-bit key drawn from the operating "
    "system for this run alone.",
    "assumptions": [
        "Whoever runs the training may see the data and follows the method.",
        "The key, the sampling coins and every value before its noise stay secret.",
        "Settings and budget were chosen without looking at protected data, and what is listed as public may be known.",
    ],
    "side_channels": [
        "Floating point: noise is whole numbers added to whole numbers, so the spacing of floats reveals nothing.",
        "Time and memory: running time, memory use, file sizes and power draw are not protected.",
        "Messages: whether a run stops, its errors and its logs are not protected.",
        _EVALUATED,
    ],
}
_OF_DEVICES: dict[str, Any] = {
    "trust_model": "local: users trust nobody",
    "randomness": "Coins of every report come from AES-256 under a 256-bit key drawn from the operating system. Devices draw "
    "their own; this run simulated them in one process, under a key for this run alone.",
    "side_channels": [
        "Floating point: reports are whole numbers, so the spacing of floats reveals nothing.",
        "Time and memory: a device's running time, memory use and power draw are not protected.",
        "Messages: whether a device reports, its errors and its logs are not protected.",
        _EVALUATED,
    ],
}


_SIMULATED = (
    "Every device randomizes its own values, follows the method and keeps its coins to itself. This run simulated the "
    "devices: whoever ran it held the values, and the guarantee is about everyone who sees only what was sent."
)
_SENT = (
    "Every device randomizes its own values, follows the method and keeps its coins to itself. The reports were collected from "
    "devices, and this run read nothing else of their users' values."
)


def _collected(public: str) -> list[str]:
    return [
        _SIMULATED,
        public,
        "One collection: a second one, or anything else that is told about a user, adds up.",
        "Settings, ranges and budget were chosen without looking at protected data, and what is listed as public may be known.",
    ]


SENTENCES: dict[str, dict[str, Any]] = {
    "curator": _OF_A_CURATOR,
    "local": {
        **_OF_DEVICES,
        "assumptions": _collected(
            "Links and roles are public, and so is who reports a label. A user's values may still be inferred from what linked "
            "users report."
        ),
    },
    "link": {
        **_OF_DEVICES,
        "assumptions": _collected(
            "Features, labels and roles are public. A link may still be inferred from them, from other users' lists, and from "
            "the list of the user at its other end."
        ),
    },
    "servers": {
        **_OF_DEVICES,
        "trust_model": "two servers that do not collude: users trust neither alone",
        "randomness": "Noise of each server comes from AES-256 under a key of its own, drawn from the operating system. This run "
        "simulated users and servers in one process, under a key for this run alone.",
        "assumptions": [
            "Both servers follow the method or only one does, and they do not collude: together they hold every label. This run "
            "simulated users and servers: whoever ran it held the labels, and the guarantee is about everyone who sees only what "
            "was opened, and about either server in a deployment with proofs of valid shares.",
            "Links and roles are public, and so is who reports a label. A user's label may still be inferred from what is opened "
            "of the user's cell without it.",
            *_collected("")[2:],
        ],
    },
    "curator of records": {
        **_OF_A_CURATOR,
        "assumptions": [
            *_OF_A_CURATOR["assumptions"],
            "Every record reaches exactly one teacher, by a hash of its id; no other teacher reads it.",
            "The public pool holds no private record, and which of its rows were asked about was chosen without looking at "
            "votes.",
        ],
    },
}


def _from_devices(simulated: dict[str, Any]) -> dict[str, Any]:
    """Sentences of a run on reports that devices sent, from those of one that simulated them."""
    return {
        **simulated,
        "randomness": "Coins of every report come from AES-256 under a 256-bit key drawn from the operating system of the user's "
        "own device.",
        "assumptions": [_SENT, *simulated["assumptions"][1:]],
        "side_channels": [
            *simulated["side_channels"][:-1],
            "Evaluation: accuracies and curves are computed from reports and public facts alone, which costs nothing more.",
        ],
    }


SENTENCES |= {f"{trust}, from devices": _from_devices(SENTENCES[trust]) for trust in ("local", "link")}
SENTENCES["servers, from devices"] = {
    **SENTENCES["servers"],
    "randomness": "Noise of each server comes from AES-256 under a key of its own, drawn from its operating system, and coins of "
    "shares from the operating system of the user's own device.",
    "assumptions": [
        "Both servers follow the method or only one does, and they do not collude: together they hold every label. What they "
        "opened was collected from devices, and this run read nothing else of their users' labels.",
        "Checked: both servers signed the agreement and what they opened, every user is in one cell, and the counts of a cell "
        "add up to its reports. Not checked, and the word of both: that each server drew its noise, opened once, and added the "
        "shares that it got and no others.",
        *SENTENCES["servers"]["assumptions"][1:],
    ],
    "side_channels": [
        *_OF_DEVICES["side_channels"][:-1],
        "Evaluation: accuracies are computed from opened counts and public facts alone, which costs nothing more.",
    ],
}
