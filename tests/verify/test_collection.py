"""The verifier reads a closed collection itself, and finds what differs from what devices sent by a bit, or by one of 2^64."""

import hashlib
import json
import math
import shutil

import numpy as np
import pytest
from collect_made import (
    CLASSES,
    GRAPH,
    USERS,
    closed,
    collection,
    drawn,
    features,
    label,
    link_collection,
    links,
    schema,
    write_tables,
)  # fmt: skip
from contracts_forgery import everywhere, part, problems, rewrite, seal, setting, with_tensors
from safetensors.numpy import load_file, save_file

from sfumato.collect._graph import Tables
from sfumato.collect._training import prepare
from sfumato.errors import SchemaError
from sfumato.randomizers._questions import MECHANISMS
from sfumato.record._certificate import COVERS, LOCAL
from sfumato.verify import describe, verify
from sfumato.verify._asked import parts_of, schema_faults
from sfumato.verify._collection import read

COLUMNS = {"features": features(epsilon=3.0), "label": label()}
FILE = "collection.bin"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tables(tmp_path_factory.mktemp("tables"))


def trained(made, folder, word="lpgnn"):
    public = "label" not in made.schema.parts
    tables = Tables(None if "links" in made.schema.parts else str(folder / "edges.csv"),
                    *((str(folder / "nodes.csv"), "class") if public else ()))  # fmt: skip
    training = prepare(made, tables, word)
    return training.fit()


@pytest.fixture(scope="module")
def honest(folder, tmp_path_factory):
    return trained(collection(USERS[:140], **COLUMNS), folder).save(tmp_path_factory.mktemp("honest") / "run")


@pytest.fixture
def run(honest, tmp_path):
    return shutil.copytree(honest, tmp_path / "run")


def test_the_honest_run_is_valid_and_shown(run):
    result = verify(run)
    assert result.problems == ()
    assert result.collection["reports"] == 140
    assert "collection: test-1, 140 reports from 2026-12-01T00:00:00Z" in describe(run, result)


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("label-only", {"label": label(mechanism="randomized-response")}),
        ("lpgnn", {"features": features(mechanism="collision", epsilon=3.0, cap=2), "label": label(epsilon=0.5)}),
        ("pgc", {"features": features(mechanism="pgc", per_feature=True)}),
        ("lpgnn", {"features": features(mechanism="laplace"), "label": label()}),
        ("lpgnn", {"features": features(mechanism="gaussian", delta=1e-6), "label": label()}),
        ("lpgnn", {"features": features(mechanism="piecewise", per_feature=True), "label": label()}),
        ("lpgnn", {"features": features(mechanism="direction"), "label": label()}),
    ],
)
def test_runs_of_every_method_and_mechanism_are_valid(folder, tmp_path, word, parts):
    assert verify(trained(collection(USERS[:120], **parts), folder, word).save(tmp_path / "run")).problems == ()


@pytest.mark.parametrize("count", [120, 150])
def test_a_run_on_links_is_valid_and_a_bit_of_it_is_not(folder, tmp_path, count):
    run = trained(link_collection(USERS[:count])[0], folder, "blink").save(tmp_path / "run")
    assert verify(run).problems == ()
    found = with_tensors(
        run, "releases", lambda held: held["link-reports"].__setitem__((3, 4), held["link-reports"][3, 4] ^ 2)
    )
    assert f"{FILE}: link-reports: row 3 differs" in found


def test_the_order_of_the_roster_is_checked_where_all_reported(folder, tmp_path):
    """Two users whose lists say the same of each other and of themselves can only be told apart by the roster."""
    run = trained(link_collection()[0], folder, "blink").save(tmp_path / "run")

    def exchange(tensors):
        bits = np.unpackbits(tensors["link-reports"], axis=1, count=150, bitorder="little")
        for row in (7, 8):
            said = np.delete(bits[row], row)
            bits[row] = np.insert(said, 15 - row, 0)
        bits[[7, 8]] = bits[[8, 7]]
        tensors["link-reports"] = np.packbits(bits, axis=1, bitorder="little")
        for name in ("users", "degree-reports", "answered"):
            tensors[name][[7, 8]] = tensors[name][[8, 7]]

    assert with_tensors(run, "releases", exchange) == f"{FILE}: users: are not in the order of the roster"


def pieces(data):
    found, place = [], 9
    while place < len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        found.append(data[place + 4 : place + 4 + size])
        place += 4 + size
    return json.loads(found[0]), found[1:]


def write_file(run, asked, messages):
    """Write the file as a forger would: each report names the schema anew, and the certificate names the file."""
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    digest = hashlib.sha256(text).digest()
    messages = [one[:5] + digest + one[37:] for one in messages]
    framed = (len(one).to_bytes(4, "big") + one for one in (text, *messages))
    data = b"SFRC\x01" + len(messages).to_bytes(4, "big") + b"".join(framed)
    (run / "release" / FILE).write_bytes(data)
    ids = [one[38 : 38 + one[37]] for one in messages]
    users = {one.decode(): int.from_bytes(hashlib.sha256(digest + one).digest()[:8], "big") >> 1 for one in ids}
    path = run / "release" / "releases.safetensors"
    tensors = load_file(path)
    tensors["users"] = np.array(
        [users.get(user, -1) if tensors["answered"][row] else -1 for row, user in enumerate(USERS)]
    )
    save_file(tensors, path)
    name = hashlib.sha256(data)
    facts = {"sha256": name.hexdigest(), "schema": digest.hex(), "reports": len(messages)}
    labeled = [user for user, one in zip(ids, messages, strict=True) if one[38 + len(user)] & 2]
    drawn = (int.from_bytes(hashlib.sha256(name.digest() + user).digest()[:8], "big") for user in labeled)
    train = sum(3 * one < 2**65 for one in drawn)

    def state(certificate, spec):
        certificate["collection"].update(facts)
        spec["public"]["num_train"] = certificate["public_facts"]["num_train"] = train

    rewrite(run, state)


def forge(run, change):
    """Change schema or messages of the file, and all that names it."""
    asked, messages = pieces((run / "release" / FILE).read_bytes())
    changed = change(asked, messages)
    write_file(run, asked, messages if changed is None else changed)


def test_a_file_that_is_written_anew_is_valid(run):
    """So what follows is found for what was changed, and not for how."""
    forge(run, lambda *_: None)
    assert verify(run).problems == ()


def flip(_, messages):
    messages[7] = messages[7][:-2] + bytes([messages[7][-2] ^ 1, messages[7][-1]])


def swap(_, messages):
    one, other = messages[3], messages[4]
    messages[3], messages[4] = one[:42] + other[42:], other[:42] + one[42:]


def drop(_, messages):
    del messages[9]


def double(_, messages):
    messages.insert(9, messages[9])


def add(_, messages):
    messages.append(messages[-1].replace(b"u139", b"u140"))


def turn(_, messages):
    messages[0], messages[1] = messages[1], messages[0]


def pad(_, messages):
    messages[0] = messages[0] + b"\0"


def name_other(_, messages):
    messages[0] = messages[0].replace(b"u000", b"u00 ")


def less_label(_, messages):
    flags = 42
    messages[0] = messages[0][:flags] + b"\1" + messages[0][flags + 1 : -1]


def thresholds(part, **numbers):
    def change(asked, _):
        stated = asked["randomizers"][part]["thresholds"]
        stated.update({name: str(int(stated[name]) + by) for name, by in numbers.items()})

    return change


def understate(asked, _):
    asked["randomizers"]["label"]["epsilon"] = math.nextafter(asked["randomizers"]["label"]["epsilon"], 0)


def less_in_total(asked, _):
    asked["totals"]["epsilon"] = 4.9


def ask_for_less(asked, _):
    asked["features"]["epsilon"] = 2.9


def ask_of_more(asked, _):
    asked["features"]["names"].append("f6")


FORGED = {
    "a bit of a report": (flip, "row 7 differs from the report of its user"),
    "two users": (swap, "row 3 differs from the report of its user"),
    "a report less": (drop, "feature-reports: row 9 differs from the report of its user, or from an empty one"),
    "a report twice": (double, "its reports are not in the order of the user ids, each once"),
    "a report more": (add, "users: the users with a row are not those with a report, each once"),
    "another order": (turn, "its reports are not in the order of the user ids, each once"),
    "a byte more": (pad, "a report has another length than its answers"),
    "an id with a space": (name_other, "a user id is not in its only form"),
    "a part less": (less_label, "row 0 differs from the report of its user"),
    "one of 2^64 words more": (thresholds("features", hit=1), "randomizers.features.thresholds.hit: "),
    "one of 2^64 words less": (thresholds("label", hit=-1), "randomizers.label.thresholds.hit: "),
    "more outcomes": (thresholds("label", others=1), "randomizers.label.thresholds.others: "),
    "the next lower epsilon": (understate, "randomizers.label.epsilon: expected 2, by its thresholds, got 1.99999"),
    "a smaller total": (less_in_total, "totals.epsilon: 4.9 differs from 5.0 (compared with the sum)"),
    "a smaller question": (ask_for_less, "randomizers.features.thresholds.hit: "),
    "a feature more": (ask_of_more, "public_facts.num_features: 6 differs from 7"),
    "another time": (lambda asked, _: asked.update(closes="2028-01-01T00:00:00Z"), "collection.closes: '2028-01-01T00:00:00Z'"),
    "another class": (lambda asked, _: asked["label"].update(classes=["a", "b", "d"]), "graph.classes[2]: 'c' differs from 'd'"),
    "another mechanism": (lambda asked, _: asked["features"].update(mechanism="one-bit"), "settings.mechanism: 'multi-bit'"),
    "an unknown mechanism": (lambda asked, _: asked["features"].update(mechanism="magic"), "is malformed: ValueError"),
    "an unknown field": (lambda asked, _: asked.update(note="x"), "schema.note: is not a known field"),
    "no thresholds": (lambda asked, _: asked["randomizers"].clear(), "schema.randomizers: are not those of its questions"),
    "values in the schema": (lambda asked, _: asked["label"].update(truth=[1, 2]), "schema.label.truth: is not a known field"),
    "values as a purpose": (lambda asked, _: asked.update(purpose={"u000": 1}), "schema.purpose: expected a text"),
    "values as a key": (lambda asked, _: asked.update(server_key="12"), "schema.server_key: expected 64 hexadecimal digits"),
    "a verdict as a name": (lambda asked, _: asked.update(collection="x. VALID"), "schema.collection: expected 1 to 64 letters"),
    "words as a time": (lambda asked, _: asked.update(opens="whenever"), "schema.opens: expected a time in UTC"),
    "no day": (lambda asked, _: asked.update(opens="2026-02-31T00:00:00Z"), "schema.opens: is no time"),
    "closed before it opened": (lambda asked, _: asked.update(opens="2090-01-01T00:00:00Z"), "schema.closes: is not after opens"),
    "a format that prints alike": (lambda asked, _: asked.update(format=True), "schema.format: expected 1"),
    "half a cap": (lambda asked, _: asked["features"].update(cap=32.5), "schema.features.cap: expected an integer"),
    "a class twice": (lambda asked, _: asked["label"].update(classes=["a", "b", "b"]), "schema.label.classes: expected two"),
    "a name twice": (lambda asked, _: asked["features"].update(names=["f0"] * 6), "schema.features: expected different names"),
    "writing from right to left": (lambda asked, _: asked.update(purpose="\u202eA test."), "schema.purpose: expected printable"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "named"), FORGED.values(), ids=FORGED)
def test_a_consistent_forgery_of_the_file_is_found(run, change, named):
    forge(run, change)
    found = problems(run)
    assert f"{FILE}: " in found
    assert named in found


def change(*names, row, value=None, other=5):
    """A row of some tensors becomes another one of theirs, or a value."""

    def changed(tensors):
        for name in names:
            tensors[name][row] = tensors[name][other] if value is None else value

    return lambda run: with_tensors(run, "releases", changed)


def withhold(tensors):
    """A report that is in the file, but was not learned from."""
    for name, empty in zip(PARTS, (-1, 0, -1, 0), strict=True):
        tensors[name][5] = empty


def feed(tensors):
    """A report that is in no file."""
    for name in PARTS:
        tensors[name][145] = tensors[name][5]
    tensors["users"][145] = 12345


PARTS = ("users", "answered", "label-reports", "feature-reports")


def unseal(run):
    data = bytearray((run / "release" / FILE).read_bytes())
    data[-1] ^= 1
    (run / "release" / FILE).write_bytes(data)
    seal(run / "release")


def patch(run, place, by):
    """Another byte in the file, which the certificate names."""
    data = bytearray((run / "release" / FILE).read_bytes())
    data[place] += by
    (run / "release" / FILE).write_bytes(data)
    rewrite(run, lambda certificate, _: certificate["collection"].update(sha256=hashlib.sha256(data).hexdigest()))


def remove_file(run):
    (run / "release" / FILE).unlink()
    seal(run / "release")


def tensors(changed):
    return lambda run: with_tensors(run, "releases", changed)


def said(changed):
    return lambda run: rewrite(run, changed)


def trained_on(number):
    def changed(certificate, spec):
        spec["public"]["num_train"] = certificate["public_facts"]["num_train"] = number

    return changed


UNIQUE = "users: the users with a row are not those with a report, each once"
FED = {
    "another label report": (change("label-reports", row=4, value=0), "label-reports: row 4 differs"),
    "a label where none was sent": (change("label-reports", row=145, value=1), "label-reports: row 145 differs"),
    "features where none were sent": (change("feature-reports", row=145, value=1), "feature-reports: row 145 differs"),
    "rows of features exchanged": (change("feature-reports", row=[2, 3], other=[3, 2]), "feature-reports: row "),
    "users exchanged": (change("users", row=[2, 3], other=[3, 2]), "differs from the report of its user"),
    "other parts": (change("answered", row=4, value=1), "answered: row 4 differs"),
    "a report withheld": (tensors(withhold), UNIQUE),
    "a report fed": (tensors(feed), UNIQUE),
    "a user twice": (change("users", row=2, other=3), "each once"),
    "another file": (unseal, "its SHA-256 is not collection.sha256 of certificate.json"),
    "a file that counts one more": (lambda run: patch(run, 8, 1), "does not hold a schema and as many reports as it says"),
    "no file": (remove_file, "is missing, but the certificate names it"),
    "a file that nothing names": (said(lambda certificate, _: certificate.pop("collection")), "is not in the certificate"),
    "another number of reports": (said(part("collection", reports=141)), "collection.reports: 140 differs from 141"),
    "a larger claim": (said(part("claim", epsilon=5.001)), "claim.epsilon: 5.001 is not the total of the schema, 5.0"),
    "another cap": (said(setting(cap=5)), "settings.cap: 5 differs from 6"),
    "another delta": (said(setting(delta=1e-9)), "settings.delta: 1e-09 differs from 1e-10"),
    "simulated devices": (said(everywhere("randomness", LOCAL["randomness"])), "certificate.json: randomness: "),
    "assumptions of a simulation": (
        said(everywhere("assumptions", LOCAL["assumptions"])), "certificate.json: assumptions[0]: "),
    "this run alone": (said(part("composition", covers=COVERS)), "certificate.json: composition.covers: "),
    "other roles": (said(trained_on(140)), "public_facts.num_train: 140 differs from 94"),
    "reports for one node alone": (
        said(lambda certificate, _: [one.update(visible_to="the node itself") for one in certificate["releases"]]),
        "releases[0].visible_to: expected 'anyone', got 'the node itself'"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "named"), FED.values(), ids=FED)
def test_whatever_else_was_learned_from_or_said_is_found(run, change, named):
    assert named in (change(run) or problems(run))


def test_a_run_of_simulated_devices_has_no_file(tmp_path, run):
    from sfumato.local import LabelOnly

    graph = GRAPH.with_split((0.5, 0.25, 0.25))
    method = LabelOnly(epsilon_y=1.0)
    plain = method.calibrate(None, method.unit, graph.public_facts(method.unit)).fit(graph).save(tmp_path / "plain")
    assert verify(plain).problems == ()
    shutil.copy(run / "release" / FILE, plain / "release" / FILE)
    seal(plain / "release")
    assert f"{FILE}: is not in the certificate" in problems(plain)


def schemas(epsilon):
    for mechanism in MECHANISMS:
        for each in {mechanism == "pgc", mechanism in ("pgc", "piecewise", "laplace")}:
            for count in (1, 2, 6, 71):
                asked = features(epsilon, mechanism, count, per_feature=each, delta=1e-4, cap=30)
                try:
                    yield schema(features=asked)
                except SchemaError:  # no delta covers the sampler
                    assert mechanism == "gaussian"
    for count in (2, 3, 7, 40):
        for mechanism in ("subset", "randomized-response"):
            yield schema(
                label={"classes": [f"c{one}" for one in range(count)], "epsilon": epsilon, "mechanism": mechanism}
            )
    yield schema(links=links(epsilon=epsilon))


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.0, 3.3, 8.0, 20.0, 43.0])
def test_every_true_schema_passes_and_the_nearest_wrong_one_does_not(epsilon):
    seen = 0
    for asked in schemas(epsilon):
        values = json.loads(asked.text)
        assert list(schema_faults(values, parts_of(values))) == []
        (part,) = asked.parts
        stated = values["randomizers"][part]
        for name in sorted({"hit", "scale", "steps", "degree_steps", "parts"} & stated["thresholds"].keys()):
            kept = stated["thresholds"][name]
            stated["thresholds"][name] = str(int(kept) + 1)
            assert list(schema_faults(values, parts_of(values))), (part, name)
            stated["thresholds"][name] = kept
        near = 1 - 1e-6 if values.get("features", {}).get("mechanism") == "gaussian" else 1 - 2e-16
        stated["epsilon"] *= near
        assert any(".epsilon: expected" in text for text in schema_faults(values, parts_of(values))), part
        seen += 1
    assert seen > 40


def test_less_noise_than_its_delta_asks_for_is_found():
    values = json.loads(schema(features=features(1.0, "gaussian", delta=1e-6)).text)
    stated = values["randomizers"]["features"]["thresholds"]
    for name, by in (("noise_multiplier", 0.999), ("stddev", 0.999), ("stddev", 1.001)):
        kept = stated[name]
        stated[name] *= by
        assert list(schema_faults(values, parts_of(values)))
        stated[name] = kept
    assert list(schema_faults(values, parts_of(values))) == []


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_both_readers_agree_on_every_report(mechanism):
    asked = schema(features=features(2.0, mechanism, per_feature=mechanism == "pgc", delta=1e-6), label=label())
    made = closed(asked, drawn(asked, GRAPH.x, GRAPH.y, USERS))
    found = read(b"".join(made.pieces()))
    assert found.reports == {report.user: report.answers for report in made.reports}
    assert found.schema["label"]["classes"] == CLASSES


ODD = {
    "many classes": lambda asked: asked["label"].update(classes=[str(one) for one in range(70_000)]),
    "no classes": lambda asked: asked["label"].update(classes=[]),
    "a class": lambda asked: asked["label"].update(classes=["a"]),
    "no features": lambda asked: asked["features"].update(names=[]),
    "nothing to spend": lambda asked: asked["features"].update(epsilon=0),
    "less than nothing to spend": lambda asked: asked["label"].update(epsilon=-1.0),
    "very much to spend": lambda asked: asked["features"].update(epsilon=1e308),
    "a text to spend": lambda asked: asked["features"].update(epsilon="2"),
    "very many links": lambda asked: asked.update(links={"users": 10**15, "roster": "", "epsilon": 1.0, "degree_share": 0.5},
                                                  randomizers=asked["randomizers"] | {"links": asked["randomizers"]["label"]}),
    "no thresholds": lambda asked: asked["randomizers"]["features"].update(thresholds=[]),
    "a list of parts": lambda asked: asked.update(features=[1, 2]),
    "laplace of nothing": lambda asked: asked["features"].update(mechanism="laplace", epsilon=1e-300),
    "reports of another width": lambda asked: asked["features"].update(names=["f0"]),
    "gaussian without noise": lambda asked: asked["features"].update(mechanism="gaussian"),
}  # fmt: skip


@pytest.mark.parametrize("change", ODD.values(), ids=ODD)
def test_odd_schemas_are_problems_and_no_errors(run, change):
    forge(run, lambda asked, _: change(asked))
    assert f"{FILE}: " in problems(run)


def test_no_bytes_stop_the_verifier(run):
    data = (run / "release" / FILE).read_bytes()
    numbers = np.random.default_rng(0)
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(numbers.integers(1, 4)):
            match numbers.integers(3):
                case 0:
                    changed[numbers.integers(len(changed))] = numbers.integers(256)
                case 1:
                    del changed[numbers.integers(len(changed)) :]
                case _:
                    changed.insert(numbers.integers(len(changed) + 1), numbers.integers(256))
            changed = changed or bytearray(b"S")
        if bytes(changed) == data:
            continue
        try:
            found = read(bytes(changed))
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
            continue
        assert found.reports != read(data).reports or found.schema != read(data).schema


def test_the_verdict_names_the_schema_and_what_is_taken_on_trust(run):
    said = describe(run, verify(run))
    asked, _ = pieces((run / "release" / FILE).read_bytes())
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert f"schema: SHA-256 {hashlib.sha256(text).hexdigest()}; compare it" in said
