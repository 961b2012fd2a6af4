"""Requests made from the server's own description find no fault and no undocumented answer."""

import hypothesis
import pytest
import schemathesis
import schemathesis.checks
from devices import BEARER, FakeDevice, app_of, label_schema
from schemathesis import GenerationMode

from sfumato.collect._store import Store

SCHEMA = label_schema()
CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    store = Store.create(str(tmp_path_factory.mktemp("store") / "reports.sqlite"), SCHEMA)
    store.enrol([FakeDevice("ada", SCHEMA).enrolment])
    store.add([FakeDevice("ada", SCHEMA).upload()])
    yield schemathesis.openapi.from_asgi("/openapi.json", app_of(store))
    store.dispose()


@pytest.mark.parametrize("headers", [{}, BEARER], ids=["anyone", "operator"])
def test_answers_are_as_described(described, headers):
    seen = set()
    for found in described.get_all_operations():
        seen |= outcomes(found.ok(), headers, GenerationMode.POSITIVE)
    assert len({(method, path) for method, path, _ in seen}) == 12
    assert {("POST", "/close", 200 if headers else 401), ("GET", "/schema", 200)} <= seen


def test_malformed_enrolments_are_answered_as_described(described):
    statuses = {status for _, _, status in outcomes(described["/users"]["POST"], {}, GenerationMode.NEGATIVE)}
    assert 422 in statuses


def outcomes(operation, headers, mode):
    """Call an operation with generated requests; return method, path and status of the answers."""
    seen = set()

    @hypothesis.settings(max_examples=12, derandomize=True, deadline=None, database=None)
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        seen.add((case.method, case.path, case.call_and_validate(headers=headers, checks=CHECKS).status_code))

    check()
    return seen
