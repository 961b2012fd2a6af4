"""Check a released run without trusting the library that wrote it: :func:`verify`, and its verdict in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ._arrivals import batches, family_faults, unchecked
from ._claim import Bracket, change_faults, claim_faults, price_faults, price_words
from ._collection import collection_faults, presence_faults
from ._documents import one_line, parse
from ._folder import id_faults, read_chain, read_files, release_folder
from ._methods import rules_of
from ._openings import UNCHECKED
from ._plan import copied_faults, method_faults, unfit
from ._population import population_words
from ._releases import own_faults
from ._signature import fingerprint, read_key, read_signature
from ._tensors import read_tensors, unreal_faults
from ._units import UNITS, owns_arcs, unit_form_faults
from ._words import deployment_faults, deployment_words, sentence_faults


@dataclass(frozen=True)
class Verification:
    """The result of :func:`verify`; ``valid`` means that no problems were found.

    Args:
        valid: whether there are no problems.
        problems: each problem, as text that names file and field.
        epsilon_low: lower bound on the events' epsilon at ``claim_delta`` less the sampler's share.
        epsilon_high: upper bound on the same.
        claim_epsilon: the claimed epsilon; None without privacy.
        claim_delta: the claimed delta; None without privacy.
        unit: the privacy unit as JSON values.
        key: the public key (64 hexadecimal digits) whose signature is there and holds. It may be anyone's key, unless
            ``origin_checked``.
        origin_checked: whether ``key`` is the key that was given.
        builds_on: the runs that the weights come from, which the claim excludes.
        caveats: what is implausible about claim and public facts, derived anew.
        prices: of owned arcs, what the claim costs with arcs that others own, derived anew; empty where none is stated.
        extends: whether the claim is covered by that of the last run in ``builds_on``, after which the nodes arrived.
        arrivals: how many arrivals stand in the folder of the run; each was checked too.
        aside: what else stands in the folder of the run and was not checked, and arrivals without the signature of the run.
        collection: what the certificate says of the collection whose reports were read; None for other runs.
        deployment: the deployment record, of which nothing but its form and flavor was checked; None without one.
        population: name and totals of the population that the run says it is charged to; None without one.
        promised: with all arcs of a node, the promised bound on degrees, which nobody can check; None without one.
    """

    valid: bool
    problems: tuple[str, ...]
    epsilon_low: float | None = None
    epsilon_high: float | None = None
    claim_epsilon: float | None = None
    claim_delta: float | None = None
    unit: dict[str, Any] | None = None
    key: str | None = None
    origin_checked: bool = False
    builds_on: tuple[dict[str, Any], ...] = ()
    caveats: tuple[str, ...] = ()
    prices: tuple[dict[str, Any], ...] = ()
    extends: bool = False
    arrivals: int = 0
    aside: tuple[str, ...] = ()
    collection: dict[str, Any] | None = None
    deployment: dict[str, Any] | None = None
    population: dict[str, Any] | None = None
    promised: int | None = None

    @property
    def signed(self) -> bool:
        """Whether a signature is there and holds, whoever made it."""
        return self.key is not None


def verify(run: Path, public_key: Path | None = None) -> Verification:
    """Check the released part of a run folder: files, form, hash chain, words, sizes, epsilon, signature.

    In the folder of a run after which nodes arrived, their releases are checked too, and that they belong to the run. What else
    looks like a release there is named.

    **Formal guarantee.** The events of a valid run satisfy (1.001 * claim_epsilon, claim_delta)-DP under its unit, if
    the noise multipliers, the settings, the public facts (among them ``num_train``, the direction and the degree cap) and the
    cells of the unit are what the run used. Outputs show little of it: released sums of neighbors must be as large as the noise
    that was charged (``_noise.py``), weights show nothing. Runs in ``builds_on`` come on top.

    >>> verify(Path("no-such-run"))
    Traceback (most recent call last):
    sfumato.verify._folder.VerifyInputError: Expected a run folder or the file of a ledger, got 'no-such-run': no such file.
    """
    run = Path(run)
    result, found = _verify(run, public_key), batches(run)
    late = [(one, _verify(one, public_key)) for one in found]
    problems = [f"arrivals/{one_line(one.name)}: {text}" for one, other in late for text in other.problems]
    if result.valid:
        problems += family_faults(run, [one for one, other in late if other.valid])
    valid = result.valid and not problems
    aside = (*unchecked(run, found), *_unsigned(result, late))
    return replace(result, valid=valid, problems=(*result.problems, *problems), arrivals=len(found), aside=aside)


def _unsigned(result: Verification, late: list[tuple[Path, Verification]]) -> Iterator[str]:
    """Yield a sentence for each arrival that is not signed, or by another key, in the folder of a signed run."""
    for folder, other in late if result.signed else ():
        name = f"arrivals/{one_line(folder.name)}"
        if not other.signed:
            yield f"{name} bears no signature that holds: the signature of the run says nothing of it"
        elif other.key != result.key:
            yield f"{name} is signed by another key than the run, {other.key}"


def _verify(run: Path, public_key: Path | None) -> Verification:
    folder = release_folder(run)
    expected_key = None if public_key is None else read_key(Path(public_key))
    problems: list[str] = []
    contents = read_files(folder, problems)
    key = read_signature(contents, expected_key, problems)
    signer, checked = None if key is None else key.hex(), key is not None and key == expected_key
    certificate, spec = (parse(f"{name}.json", contents, name, problems) for name in ("certificate", "spec"))
    entries = read_chain(contents.get("ledger.jsonl"), problems)
    released, weights = (read_tensors(folder / f"{name}.safetensors", problems) for name in ("releases", "model"))
    if certificate is None:
        return Verification(False, tuple(problems), key=signer, origin_checked=checked)
    strange = list(unit_form_faults(certificate["unit"]))
    if strange:
        return Verification(False, (*problems, *strange), key=signer, origin_checked=checked)
    rules = rules_of(certificate["method"])
    bracket: Bracket = (None, None)
    caveats: tuple[str, ...] = ()
    try:
        problems.extend(sentence_faults(certificate, rules))
        problems.extend(deployment_faults(certificate))
        problems.extend(copied_faults(certificate, spec, entries))
        problems.extend(presence_faults(folder, certificate))
        problems.extend(id_faults(folder, spec or {}))
        strange = unfit(certificate, rules)
        problems.extend(strange)
        if rules is not None and not strange:
            problems.extend(method_faults(certificate, rules, spec, released, weights))
            problems.extend(own_faults(folder, certificate, rules, spec or {}))
            caveats = tuple(text for _, text in rules.doubts(certificate))
        found, bracket = claim_faults(certificate)
        problems.extend(found)
        if rules is not None and not strange:
            problems.extend(change_faults(certificate, rules))
            problems.extend(() if problems else price_faults(certificate))
        if rules is not None and released is not None and not problems:
            problems.extend(f"releases.safetensors: {text}" for text in rules.value_faults(certificate, released))
        if rules is not None and released is not None and not problems:
            problems.extend(collection_faults(folder, certificate, spec, released))
        if weights is not None and not problems:
            problems.extend(unreal_faults(weights))
    except RecursionError:
        problems.append("certificate.json: is nested too deep to be compared")
    stated = certificate["claim"]["epsilon"], certificate["claim"]["delta"], certificate["unit"]
    origins = tuple(certificate["composition"]["builds_on"])
    late = "arrival" in certificate
    priced = () if problems else tuple(certificate.get("prices", ()))
    return Verification(
        not problems, tuple(problems), *bracket, *stated, signer, checked, origins, caveats, priced, late,
        collection=certificate.get("collection"), deployment=certificate.get("deployment"),
        population=certificate.get("population"), promised=_promised(certificate),
    )  # fmt: skip


def _promised(certificate: dict[str, Any]) -> int | None:
    """The bound on degrees that the claim rests on, if there is one."""
    found = certificate["public_facts"].get("max_degree")
    return found if isinstance(found, int) and certificate["unit"].get("arcs") == "incident" else None


def describe(run: Path, result: Verification) -> str:
    """Describe a verdict in plain words, one line for each finding."""
    lines = [f"{'VALID' if result.valid else 'NOT VALID'}: {one_line(str(run))}"]
    if result.unit is not None:
        lines.append("unit: " + ", ".join(f"{key} {value}" for key, value in result.unit.items()))
    if result.unit == {"name": "none", "relation": "none"}:
        lines.append("claim: none; this run carries no privacy guarantee")
    elif result.epsilon_low is not None:
        lines.append(f"claim: epsilon {result.claim_epsilon:.9g}, delta {result.claim_delta:.9g}")
        if result.unit is not None and result.claim_epsilon is not None:
            lines.extend(UNITS[result.unit["name"]].verdict(result.claim_epsilon))
        lines.append(f"derived from the events: epsilon between {result.epsilon_low:.9g} and {result.epsilon_high:.9g}")
    if result.promised is not None:
        lines.append(
            f"promised: no node has more than {result.promised} arcs out or in; whether it has was not checked"
        )
    if result.prices:
        priced = "; ".join(map(price_words, result.prices))
        lines.append(f"with arcs that others own and that point at the node: {priced}")
    elif result.epsilon_low is not None and result.unit is not None and owns_arcs({"unit": result.unit}):
        lines.append("with arcs that others own and that point at the node: no epsilon is stated")
    others = result.builds_on[:-1] if result.extends else result.builds_on
    if result.extends:
        lines.extend(
            f"extends the run with ledger head {one['ledger_head']}, epsilon {one['epsilon']}, delta {one['delta']}, which was "
            "not checked here: an edge pays once, there or in one of its arrivals"
            for one in result.builds_on[-1:]
        )
    if result.collection is not None:
        lines.extend(_of_collection(result.collection))
    if result.population is not None:
        lines.append(population_words(result.population, (result.unit or {}).get("name", "edge")))
    if result.deployment is not None:
        lines.append(deployment_words(result.deployment))
    if result.arrivals:
        lines.append(_of_arrivals(result))
    lines.extend(f"beside it: {text}" for text in result.aside)
    lines.extend(
        f"not in this claim: weights come from the run with ledger head {one['ledger_head']}, epsilon {one['epsilon']}, "
        f"delta {one['delta']}, which was not checked here; if its data are the same people's, the costs add up"
        for one in others
    )
    lines.extend(f"caveat: {text}" for text in result.caveats)
    if result.key is None:
        lines.append("signature: none that holds; consistency was checked, origin was not")
    else:
        lines.append(f"signature: holds, by key {result.key}, fingerprint {fingerprint(result.key)}")
        if result.origin_checked:
            lines.append("origin: checked, this is the key that was given")
        elif not any(text.startswith("signature.json: public_key: ") for text in result.problems):
            lines.append(
                "origin: not checked, since anyone can sign with a key of their own; pass the publisher's as --public-key"
            )
    return "\n".join([*lines, *(f"problem: {problem}" for problem in result.problems)])


def _of_collection(one: dict[str, Any]) -> Iterator[str]:
    reports = f"{one['reports']} reports" + (f" of {one['asked']} users" if "asked" in one else "")
    yield (
        f"collection: {one_line(one['name'])}, {reports} from {one['opens']} to {one['closes']}, SHA-256 "
        f"{one['sha256']}; other collections from the same users add up"
    )
    if "servers" not in one:
        yield (
            f"schema: SHA-256 {one['schema']}; compare it with the one that devices were shown. That they drew by it, and that "
            "the model was learned from nothing else, is the word of the author"
        )
        return
    keys = " and ".join(server["sign"] for server in one["servers"])
    yield f"servers: both signed what they opened, with keys {keys}; compare them with those that each of them publishes"
    yield f"agreement: SHA-256 {one['agreement']}; compare it with the one that devices were shown"
    yield f"not checked: {UNCHECKED}"


def _of_arrivals(result: Verification) -> str:
    counted = (
        f"arrivals: {result.arrivals} later release{'s' * (result.arrivals > 1)} for nodes that arrived, checked here: "
    )
    if result.unit is None or "labels" not in UNITS[result.unit["name"]].public(result.unit):
        return counted + "each has a claim of its own, which adds up with that of the run"
    return counted + "an edge pays once, in the run or in one of them"
