"""What a forger without a key does: change every file alike, chain the ledger and seal the manifest again."""

import hashlib
import json

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from safetensors.numpy import load_file, save_file

from sfumato.record.ledger import canonical_json
from sfumato.verify import describe, verify

SIGNER, STRANGER = (Ed25519PrivateKey.from_private_bytes(bytes([k]) * 32) for k in (1, 2))


def public(key):
    """The 32 bytes of the public key."""
    return key.public_key().public_bytes_raw()


def write_json(path, value):
    path.write_text(canonical_json(value) + "\n")


def sign(release, key=SIGNER):
    """Sign what is there now."""
    put_signature(release, public(key), key.sign((release / "manifest.json").read_bytes()))


def put_signature(release, key, signature):
    """Any key beside any signature, as bytes."""
    value = {"algorithm": "ed25519", "public_key": key.hex(), "signature": signature.hex()}
    write_json(release / "signature.json", value)


def rewrite(run, change):
    """Change certificate, ledger plan and spec alike, then chain and seal again as a forger would."""
    release = run / "release"
    certificate, spec = (json.loads((release / name).read_text()) for name in ("certificate.json", "spec.json"))
    change(certificate, spec)
    plan = {key: certificate[key] for key in ("method", "unit", "releases", "claim")}
    plan["delta_sampler"] = certificate["accounting"]["delta_sampler"]
    if "arrival" in certificate:
        plan["arrival"] = certificate["arrival"]
    bodies = [{"kind": "plan", "plan": plan}, *({"kind": "release", "release": r} for r in certificate["releases"])]
    lines, previous = [], "0" * 64
    for index, body in enumerate(bodies):
        entry = {"index": index, "previous": previous, **body}
        previous = entry["hash"] = hashlib.sha256(canonical_json(entry).encode()).hexdigest()
        lines.append(canonical_json(entry) + "\n")
    certificate["ledger_head"] = previous
    (release / "ledger.jsonl").write_text("".join(lines))
    write_json(release / "certificate.json", certificate)
    write_json(release / "spec.json", spec)
    seal(release)


def seal(release):
    names = sorted(path.name for path in release.iterdir() if path.name not in ("manifest.json", "signature.json"))
    files = {name: hashlib.sha256((release / name).read_bytes()).hexdigest() for name in names}
    write_json(release / "manifest.json", {"format": 1, "files": files})


def problems(run):
    """What the verifier finds, in one text; it can describe whatever it refuses."""
    result = verify(run)
    assert not result.valid
    assert describe(run, result)
    return " | ".join(result.problems)


def assert_named(run, start):
    """One of the problems starts so."""
    found = verify(run).problems
    assert any(text.startswith(start) for text in found), found


def everywhere(field, value):
    """The field in the certificate, and in the spec if it has it."""

    def change(certificate, spec):
        certificate[field] = value
        if field in spec:
            spec[field] = value

    return change


def setting(**values):
    """Settings, alike in certificate and spec."""

    def change(certificate, spec):
        certificate["settings"].update(values)
        spec["settings"] = certificate["settings"]

    return change


def release(index, **values):
    """Fields of one release."""
    return lambda certificate, _: certificate["releases"][index].update(values)


def event(index, **values):
    """Fields of the event of one release."""
    return lambda certificate, _: certificate["releases"][index]["event"].update(values)


def unpriced(certificate):
    """Leave out what arcs of others cost."""
    del certificate["prices"]
    for release in certificate["releases"]:
        del release["arc_change"]


def facts(**values):
    """Public facts, alike in certificate and spec."""

    def change(certificate, spec):
        certificate["public_facts"].update(values)
        spec["public"].update(values)

    return change


def no_fact(name):
    """A public fact that is left out of both."""
    return lambda certificate, spec: [certificate["public_facts"].pop(name), spec["public"].pop(name)]


def assumed(*names):
    """What is assumed to be public, alike in certificate and spec."""

    def change(certificate, spec):
        certificate["assumed_public"] = spec["public"]["assumed"] = list(names)

    return change


def part(field, **values):
    """Parts of a field of the certificate, and of the spec if it has it."""

    def change(certificate, spec):
        certificate[field].update(values)
        if field in spec:
            spec[field] = certificate[field]

    return change


def both(*changes):
    """One change after the other."""
    return lambda certificate, spec: [change(certificate, spec) for change in changes] and None


def without(words):
    """The certificate without the caveats that hold some words."""
    return lambda certificate, _: certificate.update(
        caveats=[one for one in certificate["caveats"] if words not in one]
    )


def shown(text):
    """One thing more that anyone may see."""
    return lambda certificate, _: certificate["who_may_see"]["anyone"].append(text)


def no_release(index=None):
    """One release left out, or all of them."""
    return lambda certificate, _: (
        certificate["releases"].pop(index) if index is not None else certificate["releases"].clear()
    )


def with_tensors(run, name, change):
    """What the verifier says of a run whose tensors of this file were changed, and whose manifest was sealed again."""
    path = run / "release" / f"{name}.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    seal(run / "release")
    return problems(run)
