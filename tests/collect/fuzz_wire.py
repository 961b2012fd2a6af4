"""The target of atheris: ``python tests/collect/fuzz_wire.py FOLDER`` mutates messages, guided by what the decoder reaches.

The first byte of an input chooses the schema, the rest is a message. ``make soak`` runs it where atheris is installed.
"""

import sys

import atheris

with atheris.instrument_imports(include=["sfumato.collect._wire"]):
    pass

from wire_messages import accepted, all_schemas

SCHEMAS = list(all_schemas().values())


def one_input(data: bytes) -> None:
    """Refused, or canonical: anything else is an exception, which atheris reports."""
    if data:
        accepted(SCHEMAS[data[0] % len(SCHEMAS)], _with_digest(SCHEMAS[data[0] % len(SCHEMAS)], data[1:]))


def _with_digest(schema, message):
    """The message with the right digest, which no mutation would find."""
    return message[:5] + schema.digest + message[37:] if len(message) >= 37 else message


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
