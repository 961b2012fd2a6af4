"""Bytes that say nothing of the run: a release has one spelling, and its free text is short and visible."""

import json
import struct
from dataclasses import replace

import pytest
from contracts_forgery import problems, seal
from contracts_honest import EDGE, block
from safetensors.numpy import load_file

import sfumato as sf
from sfumato.errors import DataError, InputError
from sfumato.record._certificate import Certificate
from sfumato.verify import verify

GRAPH, BUDGET = block(60).with_split(), sf.Budget(2.0, 1e-6)
ARCS = bytes(b" \t"[bit] for bit in [0, 1, 1, 0] * 13_000)
"""The 52 kB of the review: a bit a space or a tab."""


@pytest.fixture
def run(copy_of):
    return copy_of("gap of edges")


def compact(fields):
    return json.dumps(fields, separators=(",", ":")).encode()


def padded(text):
    return text + b" " * (-len(text) % 8)


def turned(fields):
    """The same tensors, written from the last to the first."""
    end, found = 0, {}
    for name, one in reversed(fields.items()):
        start, stop = one["data_offsets"]
        end += stop - start
        found[name] = {**one, "data_offsets": [end - stop + start, end]}
    return found


SPELLINGS = {
    "spaces and tabs inside": lambda fields: padded(compact(fields).replace(b":", b":" + ARCS, 1)),
    "spaces and tabs before": lambda fields: padded(ARCS + compact(fields)),
    "spaces and tabs at the end": lambda fields: padded(compact(fields) + ARCS),
    "eight spaces more": lambda fields: padded(compact(fields)) + b" " * 8,
    "a tab for a space": lambda fields: (compact(fields) + b"\t" * 16)[: len(padded(compact(fields) + b" "))],
    "spaces after colons": lambda fields: padded(json.dumps(fields).encode()),
    "another order": lambda fields: padded(compact(dict(reversed(fields.items())))),
    "data in another order": lambda fields: padded(compact(turned(fields))),
    "another order of fields": lambda fields: padded(compact({k: dict(reversed(v.items())) for k, v in fields.items()})),
    "an escaped letter": lambda fields: padded(compact(fields).replace(b'"aggregate', b'"\\u0061ggregate', 1)
                                               .replace(b'"classifier', b'"\\u0063lassifier', 1)),
    "metadata": lambda fields: padded(compact({"__metadata__": {"arcs": "0 1"}, **fields})),
}  # fmt: skip


@pytest.mark.parametrize("name", ["model", "releases"])
@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_tensors_have_one_header(run, name, spelling):
    """The safetensors package reads all of these; neither the verifier nor the library does."""
    path = run / "release" / f"{name}.safetensors"
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    text = spelling(json.loads(data[8 : 8 + length]))
    assert text != data[8 : 8 + length]
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
    seal(run / "release")
    assert load_file(path)
    assert f"{name}.safetensors: header: is not a valid safetensors header: it " in problems(run)
    with pytest.raises(DataError, match="not in canonical form"):
        sf.load(run)


@pytest.mark.parametrize("name", ["n" * 201, "a\u200bb", "a\nb"])
@pytest.mark.parametrize("where", ["name", "classes", "feature_names"])
def test_names_that_no_release_may_hold_are_refused_before_anything_is_spent(where, name):
    plan = sf.GAP(epochs=1).calibrate(BUDGET, EDGE, GRAPH.public_facts(EDGE))
    names = {"name": name, "classes": ("0", "1", name), "feature_names": (name, "b", "c", "d")}
    with pytest.raises(DataError, match=r"at most 200 characters, all printable.*Rename it"):
        plan.fit(replace(GRAPH, **{where: names[where]}))


def test_names_of_any_language_are_kept(tmp_path):
    graph = replace(GRAPH, name="\u7db2", classes=("s\u00ed", "\u043d\u0435\u0442", "\U0001f600"))
    plan = sf.GAP(epochs=1).calibrate(BUDGET, EDGE, graph.public_facts(EDGE))
    assert verify(plan.fit(graph).save(tmp_path / "run")).problems == ()


def test_models_are_not_handed_on_without_end(honest):
    other, fitted = block(70, seed=1).with_split(), sf.load(honest("gap of edges"))
    values = json.loads(fitted.certificate.to_json())
    values["composition"]["builds_on"] = 16 * [{"ledger_head": "ab" * 32, "epsilon": 1.0, "delta": 1e-6}]
    asked = BUDGET, EDGE, other.public_facts(EDGE)
    with pytest.raises(InputError, match="builds_on to hold at most 16 runs, got 17"):
        replace(fitted, certificate=Certificate(values)).calibrate_inference(*asked)
    values["composition"]["builds_on"].pop()
    assert replace(fitted, certificate=Certificate(values)).calibrate_inference(*asked).epsilon
