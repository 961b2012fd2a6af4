"""Mutated messages: none ends in anything but a refusal, and what is accepted is canonical."""

import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from wire_messages import Mutator, accepted

from sfumato.collect import _wire as wire

TARGET = Path(__file__).with_name("fuzz_wire.py")


def mutate(count, seed):
    """How many of so many messages were accepted and refused."""
    mutator, counts = Mutator(seed), Counter()
    for _ in range(count):
        counts[accepted(*mutator.next())] += 1
    return counts


def test_mutated_messages():
    counts = mutate(10_000, seed=1)
    assert min(counts[True], counts[False]) > 500


def without_padding(layouts, part):
    left = sum(layout.bits for layout in layouts)
    return unpack(layouts, (int.from_bytes(part, "big") & (1 << left) - 1).to_bytes(len(part), "big"))


def with_a_tail(schema, message):
    for end in range(len(message), 0, -1):
        with suppress(wire.WireError):
            return split(schema, message[:end])
    return split(schema, message)


unpack, split = wire._unpack, wire.split
FAULTS = {
    "_unpack": without_padding,
    "split": with_a_tail,
    "_check": lambda layout, drawn, values: None,
    "check_user": lambda user: user,
}


@pytest.mark.parametrize("check", FAULTS)
def test_mutations_find_a_decoder_that_lacks_a_check(monkeypatch, check):
    monkeypatch.setattr(wire, check, FAULTS[check])
    with pytest.raises((AssertionError, wire.WireError)):
        mutate(10_000, seed=1)


@pytest.mark.soak
def test_a_million_mutated_messages(capsys):
    counts = mutate(int(os.environ.get("SFUMATO_SOAK_MESSAGES", 1_000_000)), seed=2)
    with capsys.disabled():
        print(f"\nmutated messages: {counts[True]} accepted, all canonical; {counts[False]} refused")
    assert min(counts.values()) > 0


@pytest.mark.soak
def test_guided_mutations(tmp_path, capsys):
    if find_spec("atheris") is None:
        pytest.skip("atheris is not installed")
    mutator = Mutator(3)
    for place, schema in enumerate(mutator.schemas):
        (tmp_path / f"seed-{place}").write_bytes(bytes([place]) + mutator.message(schema))
    runs = os.environ.get("SFUMATO_SOAK_MESSAGES", "1000000")
    command = [sys.executable, TARGET, f"-runs={runs}", "-seed=1", f"-artifact_prefix={tmp_path}/found-", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    with capsys.disabled():
        print("\n" + done.stderr.strip().splitlines()[-1])
