"""Every package that a development environment installs is pinned, and all but torch are checked by their hashes."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "locks"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PIN = re.compile(r"([a-z0-9-]+)==(\S+)(?: ;.*)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)")


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    """Name and version of every entry; anything that is not an entry with hashes is an error."""
    lines = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    found = {match[1]: match[2] for match in PIN.finditer(lines)}
    assert not (rest := PIN.sub("", lines)), rest[:200]
    return found


def asked(extra: str) -> set[str]:
    """Names that an extra of the package asks for, itself and through other extras."""
    names = set()
    for one in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"][extra]]:
        name, extras = re.match(r"([\w-]+)(?:\[([\w,]+)\])?", one).groups()
        names |= set.union(*map(asked, extras.split(","))) if name == PROJECT["name"] else {plain(name)}
    return names


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {plain(name): version for name, version in (line.split("==") for line in lines if not line.startswith("#"))}


@pytest.mark.parametrize("extra", ["light", "all", "dev"])
def test_the_lock_holds_what_is_asked_for_at_its_pinned_version(extra):
    locked, versions = pins((LOCKS / f"{extra}.txt").read_text()), constraints()
    assert (asked(extra) - {"torch"}) | {"hatchling", "editables"} <= set(locked)
    assert {name: version for name, version in locked.items() if versions.get(name, version) != version} == {}
    if extra == "light":  # the same versions as in the larger locks
        assert locked.items() <= pins((LOCKS / "all.txt").read_text()).items()
    if extra == "dev":
        assert set(versions) - set(locked) == {"torch"}


@pytest.mark.parametrize(
    "entry",
    [
        "numpy==2.4.6\n",
        "numpy>=2 \\\n    --hash=sha256:" + "a" * 64 + "\n",
        "numpy==2.4.6 \\\n    --hash=sha256:abc\n",
        "--extra-index-url somewhere\n",
    ],
)
def test_an_entry_without_version_or_hash_is_found(entry):
    with pytest.raises(AssertionError):
        pins("mpmath==1.3.0 \\\n    --hash=sha256:" + "0" * 64 + "\n" + entry)
