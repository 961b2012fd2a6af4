"""A changed byte is found with file and field; a consistent run that says more than was charged does not pass."""

import json
import math
import random
import re
import struct

import numpy as np
import pytest
from contracts_forgery import assert_named, problems, rewrite, seal, sign, unpriced, with_tensors, write_json
from contracts_honest import CLOSE, EDGE, block

import sfumato as sf
from sfumato.errors import InputError, LedgerError
from sfumato.record.ledger import canonical_json
from sfumato.verify import describe, verify

OTHER = block(130, homophily=0.8, seed=1).with_split()


@pytest.fixture
def run(copy_of):
    """What a forger starts from who has no key."""
    return copy_of("gap")


@pytest.fixture
def signed(run):
    """The release of the same run with its signature."""
    sign(run / "release")
    return run / "release"


def test_a_signed_run_is_valid(signed):
    assert verify(signed).signed
    assert verify(signed).problems == ()


FILES = ["certificate.json", "ledger.jsonl", "model.safetensors", "releases.safetensors", "spec.json", "manifest.json",
         "signature.json"]  # fmt: skip
RANDOM = random.Random(3)


def flipped(data, position):
    return data[:position] + bytes([data[position] ^ (1 << RANDOM.randrange(8))]) + data[position + 1 :]


CUTS = {
    "first byte": lambda data: flipped(data, 0),
    "last byte": lambda data: flipped(data, len(data) - 1),
    "header": lambda data: flipped(data, 9),
    **{f"random {k}": lambda data: flipped(data, RANDOM.randrange(len(data))) for k in range(8)},
    "truncated": lambda data: data[:-1],
    "halved": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "longer": lambda data: data + b"\n",
    "doubled": lambda data: data + data,
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("name", FILES)
def test_any_changed_byte_names_its_file(signed, name, cut):
    path = signed / name
    path.write_bytes(cut(path.read_bytes()))
    assert_named(signed, (name, "signature.json: " if name == "manifest.json" else name))


def smuggle(release):
    (release / "hop0.npy").write_bytes(b"raw")


def nest(release):
    (release / "more").mkdir()
    (release / "more" / "certificate.json").write_bytes((release / "certificate.json").read_bytes())


def swap(one, two):
    def change(release):
        (release / one).rename(release / "x")
        (release / two).rename(release / one)
        (release / "x").rename(release / two)

    return change


def link(release):
    (release / "spec.json").rename(release.parent / "outside.json")
    (release / "spec.json").symlink_to(release.parent / "outside.json")


FOLDER_FAULTS = [
    (smuggle, "hop0.npy: "), (nest, "more: is a link, a folder"), (link, "spec.json: is a link"),
    (swap("model.safetensors", "releases.safetensors"), "model.safetensors: "),
    (swap("spec.json", "ledger.jsonl"), "spec.json: "),
    (lambda release: (release / "spec.json").rename(release / "Spec.json"), "spec.json: is missing"),
    (lambda release: (release / "spec.json").rename(release / "sp\u0435c.json"), "spec.json: is missing"),
    *[(lambda release, name=name: (release / name).unlink(), f"{name}: is missing") for name in FILES[:6]],
]  # fmt: skip


@pytest.mark.parametrize(("change", "problem"), FOLDER_FAULTS)
def test_files_that_come_go_or_change_places_are_named(signed, change, problem):
    change(signed)
    assert_named(signed, problem)


CYRILLIC = str.maketrans("aeo", "\u0430\u0435\u043e")
LOOK_ALIKE = "Whoever runs the training may see the data and follows the method.".translate(CYRILLIC)
# One field of one file, with the manifest rewritten: file, path, new value (a function takes the old one), what is named.
EDITS = [
    ("certificate", "format", 1, "format"),
    ("certificate", "version", "", "version"),
    ("certificate", "version", "1.0 0,1 0,2", "version"),
    ("certificate", "version", "1." + 100 * "0", "version"),
    ("certificate", "notes", ["0,1"] * 9, "notes: expected a list of at most 8 items"),
    ("certificate", "notes", ["0,1 " * 126], "notes[0]: expected a text of 1 to 500 characters"),
    ("certificate", "notes", ["a\tb \t"], "notes[0]: expected printable characters"),
    ("certificate", "notes", ["a\u200bb\u2060"], "notes[0]: expected printable characters"),
    ("certificate", "notes", ["safe\x1b[2K"], "notes[0]: expected printable characters"),
    ("certificate", "composition.builds_on", 17 * [{}], "composition.builds_on: expected a list of at most 16"),
    ("certificate", "method", "mlp", "method"),
    ("certificate", "method", "g\u0430p", "method"),
    ("certificate", "settings.width", 17, "spec.json: settings.width"),
    ("certificate", "settings.learning_rate", 1, "spec.json: settings.learning_rate"),
    ("certificate", "unit.max_out_degree", 100, "unit.max_out_degree"),
    ("certificate", "unit.relation", "replace", "unit.relation"),
    ("certificate", "protects", lambda old: old + " ", "protects"),
    ("certificate", "protects", lambda old: old.replace("any one node", "every node"), "protects"),
    ("certificate", "trust_model", "no trust needed", "trust_model"),
    ("certificate", "adversary", lambda old: old.replace(": the guarantee is computational", ""), "adversary"),
    ("certificate", "claim.epsilon", lambda old: old / 2, "claim.epsilon"),
    ("certificate", "claim.epsilon", lambda old: math.nextafter(old, 0), "claim.epsilon"),
    ("certificate", "claim.epsilon", None, "claim.epsilon"),
    ("certificate", "claim.delta", 1e-6, "claim.delta"),
    ("certificate", "budget.epsilon", 100.0, "spec.json: budget.epsilon"),
    ("certificate", "budget.epsilon", 10**400, "budget.epsilon"),
    ("certificate", "releases.0.event.noise_multiplier", lambda old: 2 * old, "releases[0].event.noise_multiplier"),
    ("certificate", "releases.0.event.type", "gaussian", "releases[0].event"),
    ("certificate", "releases.0.event.relation", "replace", "releases[0].event.relation"),
    ("certificate", "releases.1.affected_coordinates", 1, "releases[1].affected_coordinates"),
    ("certificate", "releases.1.visible_to", "the node itself", "releases[1].visible_to"),
    ("certificate", "releases", lambda old: old[::-1], "releases[0].name"),
    ("certificate", "releases", lambda old: old[1:], "releases"),
    ("certificate", "accounting.method", "gaussian", "accounting.method"),
    ("certificate", "accounting.delta_sampler", 0.0, "accounting.delta_sampler"),
    ("certificate", "accounting.sampler_tau", 0, "accounting.sampler_tau"),
    ("certificate", "randomness", lambda old: old.replace("256", "128"), "randomness"),
    ("certificate", "public_facts.num_train", 120, "spec.json: public.num_train"),
    ("certificate", "public_facts.directed", True, "spec.json: public.directed"),
    ("certificate", "assumed_public", ["classes"], "spec.json: public.assumed"),
    ("certificate", "who_may_see.anyone", lambda old: [*old, "predictions"], "who_may_see.anyone"),
    ("certificate", "who_may_see.anyone.1", "w\u0435ights", "who_may_see.anyone[1]"),
    ("certificate", "who_may_see.never", [], "who_may_see.never"),
    ("certificate", "who_may_see.the node itself", ..., "who_may_see.the node itself"),
    ("certificate", "assumptions", lambda old: old[1:], "assumptions"),
    ("certificate", "assumptions", lambda old: [*old, "The weather is fine."], "assumptions"),
    ("certificate", "assumptions", lambda old: old[::-1], "assumptions[0]"),
    ("certificate", "assumptions.0", LOOK_ALIKE, "assumptions[0]"),
    ("certificate", "assumptions.2", lambda old: old[:-1], "assumptions[2]"),
    ("certificate", "caveats", [], "caveats"),
    ("certificate", "caveats", lambda old: [*old, "None of this matters."], "caveats"),
    ("certificate", "caveats.0", lambda old: old.replace("may still", "cannot"), "caveats[0]"),
    ("certificate", "side_channels", lambda old: old[:1], "side_channels"),
    ("certificate", "side_channels.1", lambda old: old.replace("not ", ""), "side_channels[1]"),
    ("certificate", "side_channels", ..., "side_channels"),
    ("certificate", "composition.covers", "All runs.", "composition.covers"),
    ("certificate", "composition.builds_on", [{"ledger_head": "0" * 64, "epsilon": 1, "delta": 0}], "releases"),
    ("certificate", "data_collection", "Covered.", "data_collection"),
    ("certificate", "ledger_head", "0" * 64, "ledger_head"),
    ("certificate", "approved_by", "NIST", "approved_by"),
    ("spec", "format", 2, "format"),
    ("spec", "method", "mlp", "method"),
    ("spec", "settings.width", 17, "settings.width"),
    ("spec", "settings", {}, "settings"),
    ("spec", "unit", {"name": "none", "relation": "none"}, "unit"),
    ("spec", "budget", None, "budget"),
    ("spec", "public.num_nodes", 119, "public.num_nodes"),
    ("spec", "public.assumed", ["classes"], "public.assumed"),
    ("spec", "graph.num_nodes", 121, "graph.num_nodes"),
    ("spec", "graph.classes", lambda old: old[1:], "graph.classes"),
    ("spec", "graph.feature_names", ["a"], "graph.feature_names"),
    ("spec", "graph.ids_digest", "none", "graph.ids_digest"),
    ("spec", "graph.name", 201 * "a", "graph.name: expected a name of at most 200 characters"),
    ("spec", "graph.name", "moon\u2063\u2064", "graph.name: expected printable characters"),
    ("spec", "graph.classes.0", "0\u200d", "graph.classes[0]: expected printable characters"),
    ("spec", "graph.classes.0", "0,1 " * 51, "graph.classes[0]: expected a name of at most 200 characters"),
    ("spec", "noise_multiplier", 0.001, "noise_multiplier"),
    ("spec", "graph", ..., "graph"),
]  # fmt: skip


def edit(path, field, value):
    document = json.loads(path.read_text())
    *parents, last = (int(key) if key.isdigit() else key for key in field.split("."))
    inner = document
    for key in parents:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value(inner[last]) if callable(value) else value
    write_json(path, document)


@pytest.mark.parametrize(("name", "field", "value", "named"), EDITS)
def test_an_edited_field_is_named_even_if_the_manifest_is_rewritten(run, name, field, value, named):
    edit(run / "release" / f"{name}.json", field, value)
    seal(run / "release")
    assert_named(run, named if ".json: " in named else f"{name}.json: {named}")


@pytest.mark.parametrize(("name", "field", "value", "named"), [
    *EDITS[::40], ("certificate", "version", "9.9", ""), ("certificate", "notes", ["Trust me."], ""),
    ("spec", "graph.name", "moon", ""),
])  # fmt: skip
def test_a_signature_covers_every_field(signed, name, field, value, named):
    edit(signed / f"{name}.json", field, value)
    seal(signed)
    result = verify(signed)
    assert "signature.json: signature: does not sign manifest.json" in result.problems
    assert not result.signed


TEXT_EDITS = {
    "duplicate key": (b'"format":3', b'"format":3,"format":3'),
    "not a number": (b'"mean_degree":', b'"mean_degree":NaN,"x":'),
    "infinite": (b'"mean_degree":', b'"mean_degree":1e999,"x":'),
    "thousands of digits": (b'"mean_degree":', b'"mean_degree":' + b"9" * 5000 + b',"x":'),
    "space": (b'"format":3', b'"format": 3'),
    "escaped letter": (b'"trusted curator"', b'"trusted \\u0063urator"'),
    "soft hyphen": (b'"trusted curator"', '"trusted\u00ad curator"'.encode()),
    "float for integer": (b'"format":3', b'"format":3.0'),
    "carriage return": (b"}\n", b"}\r\n"),
    "comment": (b"{", b"/* */{"),
    "not UTF-8": (b"trusted", b"trust\xffed"),
    "deep": (b'"notes":[]', b'"notes":' + b"[" * 50_000 + b"]" * 50_000),
}


@pytest.mark.parametrize(("old", "new"), TEXT_EDITS.values(), ids=TEXT_EDITS)
def test_other_spellings_of_the_certificate_are_refused(run, old, new):
    path = run / "release" / "certificate.json"
    before = path.read_bytes()
    assert old in before
    path.write_bytes(before.replace(old, new, 1) if old != b"}\n" else before[:-2] + new)
    seal(run / "release")
    assert_named(run, "certificate.json: ")


def quieter(line):
    entry = json.loads(line)
    entry["release"]["event"]["noise_multiplier"] /= 2
    return canonical_json(entry) + "\n"


LEDGER_EDITS = {
    "reordered": (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "line 2: index"),
    "reversed": (lambda lines: lines[::-1], "line 1: index"),
    "dropped": (lambda lines: lines[:-1], ": 3 releases were made"),
    "dropped within": (lambda lines: [*lines[:2], *lines[3:]], "line 3: index"),
    "repeated": (lambda lines: [*lines, lines[-1]], "line 6: index"),
    "another plan": (lambda lines: [*lines, lines[0]], "line 6: index"),
    "empty line": (lambda lines: [*lines, "\n"], "line 6: is not valid JSON"),
    "torn": (lambda lines: [*lines[:-1], lines[-1][:-9]], "line 5: is not valid JSON"),
    "no end": (lambda lines: [*lines[:-1], lines[-1][:-1]], "line 5: is not canonical"),
    "less noise": (lambda lines: [*lines[:2], quieter(lines[2]), *lines[3:]], "line 3: hash"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "named"), LEDGER_EDITS.values(), ids=LEDGER_EDITS)
def test_a_changed_ledger_names_its_line(run, change, named):
    path = run / "release" / "ledger.jsonl"
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))
    seal(run / "release")
    assert_named(run, f"ledger.jsonl{'' if named[0] == ':' else ' '}{named}")


def relabel(data):
    """A second name for the same bytes, in a header of the same length."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    text = json.dumps({**header, "raw": next(iter(header.values()))}).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


TENSOR_EDITS = {
    "truncated": lambda data: data[:-4],
    "extended": lambda data: data + bytes(4),
    "half the type": lambda data: re.sub(rb'"[FI]\d\d"', b'"F16"', data, count=1),
    "unknown type": lambda data: re.sub(rb'"[FI]\d\d"', b'"F99"', data, count=1),
    "shared bytes": relabel,
    "long header": lambda data: struct.pack("<Q", 2**63) + data[8:],
    "no header": lambda data: data[8:],
}


@pytest.mark.parametrize("name", ["model.safetensors", "releases.safetensors"])
@pytest.mark.parametrize("change", TENSOR_EDITS.values(), ids=TENSOR_EDITS)
def test_changed_tensor_files_are_named(run, name, change):
    path = run / "release" / name
    path.write_bytes(change(path.read_bytes()))
    seal(run / "release")
    assert_named(run, f"{name}: ")


MANIFEST_EDITS = [
    ("format", 2, "manifest.json: format"), ("files", [], "manifest.json: files"),
    ("files", {}, "certificate.json: is not listed"), ("files.signature.json", "0" * 64, "manifest.json: files.signature"),
    ("files.spec.json", "0" * 64, "spec.json"), ("extra", 1, "manifest.json: extra"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value", "named"), MANIFEST_EDITS)
def test_a_changed_manifest_is_named(run, field, value, named):
    path = run / "release" / "manifest.json"
    document = json.loads(path.read_text())
    outer = document["files"] if field.startswith("files.") else document
    outer[field.removeprefix("files.")] = value
    write_json(path, document)
    assert_named(run, named)


def test_resealing_alone_changes_nothing(run):
    rewrite(run, lambda certificate, spec: None)
    assert verify(run).problems == ()


def test_a_spec_of_another_unit_is_caught_and_not_loaded(run):
    rewrite(run, lambda certificate, spec: spec.update(unit={"name": "none", "relation": "none"}, budget=None))
    assert "spec.json: unit.arcs: is missing" in problems(run)
    with pytest.raises((LedgerError, InputError), match="unit"):
        sf.load(run)


FORGERIES = {
    "an encoder that was never charged": (lambda c: c["releases"].pop(0), "releases: expected ['encoder',"),
    "an encoder that is denied": (
        lambda c: c["releases"].pop(0) and c["settings"].update(encoder=False), "releases[0].shape: expected nodes",
    ),
    "a hop that was never charged": (lambda c: c["releases"].pop(2), "releases: expected ['encoder',"),
    "hops under another name": (lambda c: c["releases"][1].update(name="noise/1"), "releases: expected ['encoder',"),
    "a second network": (lambda c: c["releases"].append({**c["releases"][0], "name": "head"}), "releases: expected"),
    "more training nodes than nodes": (lambda c: c["public_facts"].update(num_train=10**6), "public_facts.num_train"),
    "more training nodes, drawn more rarely": (
        lambda c: c["public_facts"].update(num_train=120), "releases[0].event.sampling_prob: expected",
    ),
    "rare sampling": (lambda c: c["releases"][0]["event"].update(sampling_prob=0.01), "releases[0].event.sampling_prob: exp"),
    "one step": (lambda c: c["releases"][0]["event"].update(steps=1), "releases[0].event.steps: expected"),
    "words of another unit": (lambda c: c.update(protects="any one node and all its edges"), "protects"),
    "arcs among settings": (
        lambda c: c["settings"].update(arcs=[[1, 2]]), "settings.arcs: is not a setting of method gap",
    ),
    "two learning rates": (lambda c: c["settings"].update(learning_rate=[1, 2]), "settings.learning_rate: expected positive"),
    "a number for a flag": (lambda c: c["settings"].update(encoder=1), "settings.encoder: expected flag"),
    "no clip": (lambda c: c["settings"].pop("l2_clip_norm"), "settings.l2_clip_norm: is missing"),
    "an unknown method": (lambda c: c.update(method="trust-me"), "method: trust-me is not known here"),
    "a mechanism without a bracket": (
        lambda c: c["releases"][1].update(event={"type": "zcdp", "rho": 1e-9, "count": 1}),
        "releases[1].event.type: zcdp cannot be verified here",
    ),
    "facts that are not protected": (
        lambda c: c.update(assumed_public=["classes", "classes"]), "assumed_public[1]: classes appears twice",
    ),
    "arcs among the facts": (
        lambda c: c.update(assumed_public=["0,1 0,2"]), "assumed_public[0]: 0,1 0,2 is no fact that is read off data",
    ),
    "a smaller claim": (lambda c: c["claim"].update(epsilon=c["claim"]["epsilon"] * 0.99), "claim.epsilon"),
    "a smaller delta": (lambda c: c["claim"].update(delta=c["claim"]["delta"] * 0.9), "claim.epsilon"),
    "more noise": (
        lambda c: [r["event"].update(noise_multiplier=0.5 * r["event"]["noise_multiplier"]) for r in c["releases"]], "claim",
    ),
    "fewer touched coordinates": (lambda c: c["releases"][1].update(affected_coordinates=1), "releases[1].affected"),
    "hops that arcs of others hardly move": (
        lambda c: [r.update(arc_change=0.0) for r in c["releases"]], "releases[1].arc_change: expected 0.447213595",
    ),
    "a price that is too small": (
        lambda c: c["prices"][0].update(epsilon=0.98 * c["prices"][0]["epsilon"]), "prices[0].epsilon: ",
    ),
    "a price above all prices": (lambda c: c["prices"][2].update(epsilon=31.0), "prices[2].epsilon: 31 is above 30"),
    "a price that is left out": (lambda c: c["prices"].pop(), "prices: expected those of [1, 5, 25] arcs"),
    "a price that is denied": (lambda c: c["prices"][0].update(epsilon=None), "prices[0].epsilon: is null, expected about"),
    "prices that are left out": (lambda c: c.pop("prices"), "prices: is missing"),
    "no change by arcs": (lambda c: c["releases"][1].pop("arc_change"), "releases[1].arc_change: expected 0.447213595"),
    "neither prices nor one change by arcs": (
        lambda c: [c.pop("prices"), c["releases"][2].pop("arc_change")], "releases[2].arc_change: expected 0.447213595",
    ),
    "nothing about arcs": (unpriced, "releases[0].arc_change: expected 0, as unit and settings imply, got none"),
    "nothing about arcs but one": (
        lambda c: [unpriced(c), c.update(format=2), c["releases"][0].update(arc_change=0.0)],
        "releases[1].arc_change: expected 0.447213595",
    ),
    "prices alone, in an older form": (
        lambda c: [c.update(format=2), *(r.pop("arc_change") for r in c["releases"])], "releases[0].arc_change: expected 0,",
    ),
    "no privacy": (lambda c: c.update(unit={"name": "none", "relation": "none"}), "claim.epsilon"),
    "incident arcs": (lambda c: c["unit"].update(arcs="incident"), "releases[1].name: an aggregate has no bounded"),
    "records": (lambda c: c.update(unit={"name": "record", "relation": "add-remove"}), "unit.name: gap has no proof"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "named"), FORGERIES.values(), ids=FORGERIES)
def test_consistent_forgeries_are_caught(copy_of, change, named):
    run = copy_of("gap that samples")

    def everywhere(certificate, spec):
        change(certificate)
        stated = ("method", "settings", "unit", "budget")
        spec.update({key: certificate[key] for key in stated})
        spec["public"] = {**certificate["public_facts"], "assumed": certificate["assumed_public"]}

    rewrite(run, everywhere)
    assert_named(run, f"certificate.json: {named}")


def test_listed_files_beyond_those_of_a_release_are_refused(run):
    (run / "release" / "arcs.csv").write_bytes(b"0,1\n0,2\n")
    seal(run / "release")
    assert verify(run).problems == (
        "arcs.csv: is not a file of a release; remove it", "manifest.json: files.arcs.csv: must not be listed",
    )  # fmt: skip


ARCS = np.arange(8, dtype=np.float32)
WEIGHTS_EDITS = {
    "arcs": (lambda t: t.update({"classifier.arcs": ARCS}), "classifier.arcs: belongs to no"),
    "integer arcs": (lambda t: t.update({"classifier.arcs": ARCS.astype(np.int64)}), "header: is not a valid safetensors"),
    "cached arcs": (lambda t: t.update({"cache/arcs": ARCS.astype(np.int64)}), "cache/arcs: belongs to no"),
    "counter": (
        lambda t: t.update({"classifier.norm.num_batches_tracked": ARCS.astype(np.int64)}),
        "classifier.norm.num_batches_tracked: expected shape [1]",
    ),
    "one hop more": (lambda t: t.update({"classifier.base.3.bias": ARCS}), "classifier.base.3.bias: belongs to no"),
    "wider": (lambda t: t.update({"classifier.head.bias": ARCS}), "classifier.head.bias: expected shape [3]"),
    "turned": (lambda t: t.update({"encoder.mlp.layers.0.weight": np.zeros((4, 16), np.float32)}), "encoder.mlp.layers.0"),
    "integers": (lambda t: t.update({"classifier.head.bias": np.zeros(3, np.int32)}), "header: is not a valid safetensors"),
    "missing": (lambda t: t.pop("classifier.norm.bias"), "classifier.norm.bias: is missing"),
    "no numbers": (lambda t: t["classifier.head.bias"].fill(np.nan), "classifier.head.bias: holds numbers that are not"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "named"), WEIGHTS_EDITS.values(), ids=WEIGHTS_EDITS)
def test_weights_that_no_charge_counts_are_still_those_of_the_networks(copy_of, change, named):
    assert f"model.safetensors: {named}" in with_tensors(copy_of("gap of edges"), "model", change)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (None, None), (1.0, 0.0), (0.0, 1e-6), (3.0, 1e-6)])
def test_weights_of_another_run_are_not_free_and_not_in_the_claim(run, epsilon, delta):
    origin = {"ledger_head": "ab" * 32, "epsilon": epsilon, "delta": delta}

    def change(certificate, spec):
        kept = [release for release in certificate["releases"] if release["name"].startswith("aggregate/")]
        certificate["releases"], certificate["composition"]["builds_on"] = kept, [origin]
        certificate["caveats"] = [text for text in certificate["caveats"] if not text.startswith("DP-SGD")]
        draws = sum(release["affected_coordinates"] for release in kept)
        share = (1 + math.exp(certificate["claim"]["epsilon"])) * 2.0**-100 * draws
        certificate["accounting"].update(method="gaussian", delta_sampler=share)

    rewrite(run, change)
    result = verify(run)
    free = [text for text in result.problems if text.startswith("certificate.json: composition.builds_on[0].")]
    assert result.valid == (not free) == bool(epsilon and delta), result.problems
    shown = next(line for line in describe(run, result).splitlines() if line.startswith("not in this claim: "))
    assert "ab" * 32 in shown
    assert f"epsilon {epsilon}, delta {delta}" in shown


def test_weights_of_another_unit_are_not_certified():
    fitted = sf.GAP(num_hops=1, epochs=1).calibrate(None, sf.NoPrivacy(), CLOSE.public_facts(sf.NoPrivacy())).fit(CLOSE)
    with pytest.raises(InputError, match="unit of training"):
        fitted.calibrate_inference(sf.Budget(1.0, 1e-6), EDGE, OTHER.public_facts(EDGE))


def test_inference_names_its_origin_and_warns_of_the_training_graph(tmp_path):
    budget = sf.Budget(2.0, 1e-6)
    fitted = sf.GAP(epochs=1).calibrate(budget, EDGE, CLOSE.public_facts(EDGE)).fit(CLOSE)
    inferred = fitted.calibrate_inference(budget, EDGE, OTHER.public_facts(EDGE)).fit(OTHER)
    assert fitted.ledger.head[:16] in str(inferred.certificate)
    assert verify(inferred.save(tmp_path / "inferred")).problems == ()
    with pytest.warns(sf.errors.SfumatoWarning, match="has the node ids of the one that was trained on"):
        fitted.calibrate_inference(budget, EDGE, CLOSE.public_facts(EDGE)).fit(CLOSE)
