"""What a release states agrees: versions and dates, Python versions, commands of workflows; no change is listed twice."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

from sfumato import __version__

ROOT = Path(__file__).parents[2]
CHANGES = (ROOT / "CHANGELOG.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def jobs(workflow: Path) -> dict[str, dict]:
    return yaml.safe_load(workflow.read_text())["jobs"]


def test_changelog_citation_and_package_state_one_version():
    version, date = re.search(r"^## (\d\S*) \((\S+)\)$", CHANGES, re.MULTILINE).groups()
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (version, date) == (cited["version"], str(cited["date-released"]))
    unreleased = re.search(r"^## Unreleased\n+###", CHANGES, re.MULTILINE)
    if unreleased:  # so that a run that was stopped is not resumed by code that may compute other bits
        assert Version(__version__).is_devrelease
        assert Version(__version__) > Version(version)
    else:
        assert version == __version__
    assert cited["license"] == PROJECT["license"]


def test_no_change_is_listed_twice():
    entries = re.split(r"\n(?=\* |#|\n)", CHANGES)
    changes = [entry for entry in entries if entry.startswith("* ")]
    assert len(changes) > 100
    assert [entry for entry in set(changes) if changes.count(entry) > 1] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_have_bounded_jobs_of_pinned_actions_and_known_targets(workflow):
    text = workflow.read_text()
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for name, job in jobs(workflow).items():
        assert {"runs-on", "steps", "timeout-minutes"} <= job.keys(), name
        assert set(job.get("needs", [])) <= jobs(workflow).keys(), name
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), step
            assert re.search(r"@[0-9a-f]{40}$", step.get("uses", "@" + 40 * "0")), f"{step}: pin the action by its hash"
    called = [
        word for line in re.findall(r"\bmake (.*)", text) for word in line.split() if re.fullmatch("[a-z-]+", word)
    ]
    assert set(called) <= set(targets)


def test_continuous_integration_has_the_python_versions_of_the_package():
    stated = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert jobs(ROOT / ".github" / "workflows" / "ci.yml")["test"]["strategy"]["matrix"]["python-version"] == stated
    assert PROJECT["requires-python"] == f">={stated[0]}"
