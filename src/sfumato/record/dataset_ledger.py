r"""The ledger of a data set: every run that reads it reserves its whole claim here before its first release.

A header fixes the unit, the data set, the totals and the rule by which claims add up; then one entry a run, in the
hash-chained form of :mod:`sfumato.record.ledger`. Entries are never removed: a killed run stays charged.

**Formal guarantee.** However later runs choose their methods, budgets and number after seeing earlier results, all runs
together are (total epsilon, total delta)-DP under the ledger's unit, if all of them reserve here: rule ``basic`` is
:class:`~sfumato.privacy.filters.BasicFilter`, rule ``gdp`` (plans of Gaussian releases only) is
:class:`~sfumato.privacy.filters.GaussianFilter`. The rule is fixed in the header: the better of two filters, chosen
afterwards, is none. A number counts as the decimal that ledger and certificate print; sums are exact.

**Damage.** ``FILE.head`` names the last whole entry, so that a file that lost entries (a cut, an old copy) is told from
one whose last line was being written by a process that died, which is dropped: that run had read nothing yet.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sfumato._validate import check_choice, check_real
from sfumato.errors import BudgetExceededError, InputError, LedgerError
from sfumato.privacy.filters import BasicFilter, Charge, GaussianFilter, gaussian_mu, show
from sfumato.record.ledger import Chain, Release, append_line, canonical_json, chained, sync_folder

RULES = ("basic", "gdp")
_WAIT_SECONDS = 60.0
_HEADER = {"format", "unit", "dataset", "total_epsilon", "total_delta", "composition"}


def new_run() -> str:
    """A random name for a run.

    >>> len(new_run())
    32
    """
    return os.urandom(16).hex()


@dataclass(frozen=True)
class Claim:
    """What one run asks for: its claim, and what the rule ``gdp`` needs (``mu`` is None unless all events are Gaussian).

    Args:
        run: its random name; the same run is charged once.
        method: such as ``gap``.
        epsilon: claimed, >= 0.
        delta: claimed, in [0, 1).
        mu: Gaussian parameter of all its events together, rounded up.
        draws: noise draws that one record can touch.
        plan: hash of the plan entry in the run's own ledger.

    >>> from sfumato.privacy.events import GaussianEvent
    >>> release = Release("aggregate/1", GaussianEvent(2.0, count=4), (4, 16), 32)
    >>> Claim.of("run", "gap", 4.0, 1e-7, [release], "0" * 64).mu
    1.0
    """

    run: str
    method: str
    epsilon: float
    delta: float
    mu: float | None
    draws: int
    plan: str

    def __post_init__(self) -> None:
        _ = self.charge  # checks the values

    @classmethod
    def of(cls, run: str, method: str, epsilon: float, delta: float, releases: Sequence[Release], plan: str) -> Claim:
        """The claim of a plan with these releases."""
        mu = gaussian_mu([release.event for release in releases])
        return cls(run, method, epsilon, delta, mu, sum(release.draws for release in releases), plan)

    @property
    def charge(self) -> Charge:
        """What a filter counts."""
        return Charge(self.epsilon, self.delta, self.mu, self.draws)


@dataclass(frozen=True)
class Account:
    """The sound content of a ledger file: header and claims, and what is wrong with the rest (None: nothing).

    >>> Account({"composition": "basic", "total_epsilon": 1.0, "total_delta": 1e-6}, ()).left()
    {'epsilon': 1.0, 'delta': 1e-06}
    """

    header: dict[str, Any]
    claims: tuple[Claim, ...]
    problem: str | None = None

    def filter(self) -> BasicFilter | GaussianFilter:
        """The header's rule, with all claims counted."""
        rule = BasicFilter if self.header["composition"] == "basic" else GaussianFilter
        charges = [claim.charge for claim in self.claims]
        return rule(self.header["total_epsilon"], self.header["total_delta"], charges)

    def left(self) -> dict[str, float]:
        """What another claim may cost at most, rounded down."""
        return self.filter().remaining

    def total(self) -> dict[str, float]:
        """The most that all claims may cost together, rounded down."""
        return replace(self, claims=()).left()

    def spent(self) -> dict[str, Fraction]:
        """What all claims cost together."""
        rule = self.filter()
        prices = [rule.price(claim.charge) for claim in self.claims]
        return {name: sum((price[name] for price in prices), Fraction(0)) for name in rule.remaining}

    def check(self, claim: Claim, path: Path) -> None:
        """Refuse a claim that costs more than what is left, naming the shortfall exactly."""
        if self.header["composition"] == "gdp" and claim.mu is None:
            raise InputError(
                f"Expected a plan of Gaussian releases only, as the ledger's rule gdp composes them, got {claim.method!r} "
                "with others. Give this data set a ledger with --composition basic from its first run on."
            )
        try:
            self.filter().charge(claim.charge)
        except BudgetExceededError as error:
            spent = ", ".join(f"{name} {show(amount)}" for name, amount in self.spent().items())
            raise BudgetExceededError(f"Ledger {path}, with {spent} spent: {error}") from error


@dataclass(frozen=True)
class DatasetLedger:
    """The ledger file of a data set. Options may be left out once the file exists; given, they must agree with it.

    Args:
        path: the file, made by the first run; its folder must exist.
        total_epsilon: the most that all runs together may cost.
        total_delta: the same for delta; default ten times the first run's.
        composition: how claims add up, ``basic`` (default) or ``gdp``.

    Raises:
        InputError: a value is outside its range.

    >>> DatasetLedger(Path("ledger.jsonl"), total_epsilon=4.0).composition
    """

    path: Path
    total_epsilon: float | None = None
    total_delta: float | None = None
    composition: str | None = None

    def __post_init__(self) -> None:
        if self.total_epsilon is not None:
            object.__setattr__(
                self, "total_epsilon", check_real(low=0, open_low=True, total_epsilon=self.total_epsilon)
            )
        if self.total_delta is not None:
            check_real(low=0, high=1, open_low=True, open_high=True, total_delta=self.total_delta)
        if self.composition is not None:
            check_choice(RULES, composition=self.composition)
        if not self.path.parent.is_dir():
            raise InputError(
                f"Expected the folder of the ledger to exist, got {str(self.path.parent)!r}. Make it, or check the path."
            )
        if self.total_epsilon is None and not _begun(self.path):
            raise InputError(
                f"Expected a ledger at {str(self.path)!r}, got none. To start one, say what all runs on this data set "
                "together may spend: --total-epsilon E (total_epsilon)."
            )

    def reserve(self, claim: Claim, *, unit: Mapping[str, Any], dataset: Mapping[str, Any]) -> None:
        """Charge a run's whole claim, on disk before this returns, under an exclusive lock; a run is charged once.

        Args:
            claim: what the run asks for.
            unit: its privacy unit, as JSON values.
            dataset: what identifies the data set: ``name`` and ``ids_digest``.

        Raises:
            BudgetExceededError: less is left; the message names the shortfall. Nothing was written.
            InputError: the ledger is another data set's, has another unit, or contradicts an option.
            LedgerError: the file is damaged, or another process keeps it locked.
        """
        with _locked(self.path):
            exists = _begun(self.path)
            account = read_account(self.path) if exists else self._opened(claim, unit, dataset)
            if account.problem:
                raise LedgerError(
                    f"The ledger {self.path} is damaged: {account.problem}. Nothing was released or charged."
                )
            self._agree(account.header, unit, dataset)
            known = next((old for old in account.claims if old.run == claim.run), None)
            if known == claim:
                return
            if known is not None:
                raise LedgerError(f"Run {claim.run} is in the ledger {self.path} with another claim. Start a new run.")
            account.check(claim, self.path)
            if not exists:
                _append(self.path, {"kind": "header", "header": account.header})
            _append(self.path, {"kind": "run", "claim": asdict(claim)})

    def _opened(self, claim: Claim, unit: Mapping[str, Any], dataset: Mapping[str, Any]) -> Account:
        """The account that a new file starts with."""
        delta = self.total_delta
        if delta is None:
            delta = float(min(10 * Fraction(repr(claim.delta)), Fraction(1, 2)))
            pure = unit.get("name") in ("local", "link")  # a whole ledger of delta 0
            check_real("The run claims no delta: pass --total-delta.", low=0, open_low=not pure, total_delta=delta)
        header = {
            "format": 1,
            "unit": dict(unit),
            "dataset": dict(dataset),
            "total_epsilon": self.total_epsilon,
            "total_delta": delta,
            "composition": self.composition or "basic",
        }
        return Account(header, ())

    def _agree(self, header: dict[str, Any], unit: Mapping[str, Any], dataset: Mapping[str, Any]) -> None:
        for name in ("total_epsilon", "total_delta", "composition"):
            given = getattr(self, name)
            if given is not None and given != header[name]:
                raise InputError(
                    f"Expected --{name.replace('_', '-')} {header[name]}, which the ledger {self.path} was made with, got "
                    f"{given}. Leave the option out: the totals were fixed with the first run."
                )
        if header["unit"] != dict(unit):
            raise InputError(
                f"Expected the unit of the ledger {self.path}, {canonical_json(header['unit'])}, got "
                f"{canonical_json(dict(unit))}: claims about different units do not add up. Use the same unit, or keep a "
                "ledger for each; what one protects the other may still spend."
            )
        if header["dataset"] != dict(dataset):
            raise InputError(
                f"Expected the data set of the ledger {self.path}, {header['dataset'].get('name')!r}, got "
                f"{dataset.get('name')!r} or other node ids. Use that data set's own ledger; for records in both, the two "
                "ledgers' epsilons add up."
            )


def read_account(path: Path) -> Account:
    """Read a ledger file without changing it, checking its chain, its fields and its ``.head``.

    Raises:
        InputError: there is no file, or it does not begin like the ledger of a data set.

    >>> read_account(Path("/nonexistent/ledger.jsonl"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    sfumato.errors.InputError: Expected '/nonexistent/ledger.jsonl' to be the ledger of a data set, ...
    """
    head, chain = _read_head(path), _read_chain(path)
    header: Any = chain.entries[0].get("header") if chain.entries else None
    if not _is_header(header):
        raise InputError(
            f"Expected {str(path)!r} to be the ledger of a data set, as --ledger makes it, but its first line is no "
            "header. Check the path."
        )
    problem = chain.problem or _head_problem(path, chain, head)
    claims: list[Claim] = []
    for number, entry in enumerate(chain.entries[1:], start=2):
        try:
            claims.append(Claim(**entry["claim"]))
        except (KeyError, TypeError, InputError):
            problem = f"line {number} is not the claim of a run"
            break
    return Account(header, tuple(claims), problem)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        with FileLock(path.with_name(path.name + ".lock"), timeout=_WAIT_SECONDS):
            yield
    except Timeout as error:
        raise LedgerError(
            f"The ledger {path} stayed locked by another process for {_WAIT_SECONDS:g} s. Nothing was released or charged. "
            "Let the other run start, and try again."
        ) from error


def _append(path: Path, body: dict[str, Any]) -> None:
    """Append one entry, then note it as the last; the caller holds the lock and has read the account as sound."""
    chain = _read_chain(path) if path.exists() else Chain()
    if chain.torn:
        with path.open("r+b") as file:
            file.truncate(chain.size)
            os.fsync(file.fileno())
    entry = chained(chain.entries, body)
    append_line(path, canonical_json(entry), new=not path.exists())
    head = _head_path(path)
    partial = head.with_name(head.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(canonical_json({"entries": entry["index"] + 1, "hash": entry["hash"]}) + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(head)
    sync_folder(path.parent)


def _is_header(header: Any) -> bool:
    if not isinstance(header, dict) or set(header) != _HEADER or header["composition"] not in RULES:
        return False
    numbers = all(isinstance(header[name], float) for name in ("total_epsilon", "total_delta"))
    return numbers and header["total_epsilon"] > 0 and header["total_delta"] >= 0


def _begun(path: Path) -> bool:
    """Whether there is a ledger; not if a process died while it wrote the first line of one."""
    if _head_path(path).exists() or not path.exists():
        return _head_path(path).exists()
    content = path.read_bytes()
    return bool(content) and (b"\n" in content or not content.startswith(b'{"hash":"'))


def _head_path(path: Path) -> Path:
    return path.with_name(path.name + ".head")


def _read_chain(path: Path) -> Chain:
    return Chain.parse(path.read_bytes()) if path.exists() else Chain()


def _read_head(path: Path) -> tuple[int, str] | None:
    """Number of entries and last hash as last noted; None if nothing was noted yet."""
    head = _head_path(path)
    if not head.exists():
        return None
    try:
        values = json.loads(head.read_bytes())
        return int(values["entries"]), str(values["hash"])
    except (ValueError, KeyError, TypeError):
        return -1, ""


def _head_problem(path: Path, chain: Chain, head: tuple[int, str] | None) -> str | None:
    """Why the entries are not those that were noted; more than noted is sound, since each counts."""
    name = _head_path(path).name
    if head is None:
        return None if len(chain.entries) <= 1 else f"{name}, which names its last line, is missing; restore it"
    entries, last = head
    if entries < 1:
        return f"{name} is damaged; restore it"
    if len(chain.entries) < entries:
        return f"line {len(chain.entries) + 1} is missing: {name} counts {entries} lines; restore the whole file"
    if chain.entries[entries - 1]["hash"] != last:
        return f"line {entries} is not the one that {name} names; restore both files"
    return None
