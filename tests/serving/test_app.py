"""What a served run answers: released predictions, to whom the certificate shows them."""

import threading
import time
from dataclasses import replace
from functools import partial
from urllib.parse import quote

import numpy as np
import pytest
from fastapi.testclient import TestClient

from sfumato.errors import DataError, InputError
from sfumato.method.predictions import Predictions
from sfumato.serving._app import MOST_NODES, create_app
from sfumato.serving._served import Served, token_of
from sfumato.web._limits import Buckets

KEY = bytes(range(32))
OWN = "predictions that read the node's own features (joint DP)"


def served(anyone=("weights", "predictions for all nodes"), own=(), shift=0.0, third=3):
    table = np.array([[0.25, 0.75], [1.0, 0.0], [0.5 - shift, 0.5 + shift]])
    found = Predictions(
        ("ann", "bob", third), ("a", "b"), table, ("test", "train", ""), ("", "b", ""), np.array([False, True, False])
    )
    certificate = {
        "method": "gap",
        "protects": "one arc",
        "unit": {"name": "arc"},
        "claim": {"epsilon": 1.0, "delta": 1e-6},
        "who_may_see": {"anyone": list(anyone), "the node itself": list(own), "never": []},
    }
    return Served(certificate, found)


@pytest.fixture
def public():
    with TestClient(create_app(served)) as client:
        yield client


def test_figures_are_for_the_operator_and_probes_for_all():
    with TestClient(create_app(served, admin_token="t" * 32)) as client:
        assert client.get("/healthz").json() == {"alive": True}
        assert client.get("/readyz").json() == {"ready": True}
        client.get("/predictions/ann")
        assert client.get("/metrics").status_code == 401
        text = client.get("/metrics", headers=bearer("t" * 32)).text
    assert 'sfumato_requests_total{route="/predictions/{node:path}",status="200"} 1.0' in text
    assert "ann" not in text
    with TestClient(create_app(served)) as client:
        assert client.get("/metrics").status_code == 404


def test_wrong_tokens_of_an_address_are_limited_logged_and_counted(caplog, monkeypatch):
    """Time stands still, so that no slow machine fills the bucket again."""
    monkeypatch.setattr("sfumato.serving._app.Buckets", partial(Buckets, clock=lambda: 0.0))
    caplog.set_level("INFO", "sfumato.serving")
    app = create_app(for_own_nodes, KEY)
    with TestClient(app) as client:
        statuses = [client.get("/predictions/ann", headers=bearer("0" * 32)).status_code for _ in range(100)]
        right = client.get("/predictions/ann", headers=bearer(token_of(KEY, "ann")))
    assert statuses == [401] * 30 + [429] * 70
    assert right.status_code == 200
    assert {record.message for record in caplog.records} == {"refused 401", "refused 429"}
    assert len(caplog.records) < 90
    assert not any("ann" in str(record.facts) for record in caplog.records)
    assert b'status="429"} 70.0' in app.state.metrics.text()


def for_own_nodes(**options):
    return served(("weights",), (OWN,), **options)


@pytest.fixture
def private():
    with TestClient(create_app(for_own_nodes, KEY)) as client:
        yield client


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_a_node_is_told_its_class_and_where_it_comes_from(public):
    assert public.get("/predictions/ann").json() == {
        "node": "ann",
        "predicted": "b",
        "probabilities": {"a": 0.25, "b": 0.75},
        "source": "model",
    }
    assert public.get("/predictions/bob").json()["predicted"] == "b"
    assert public.get("/predictions/bob").json()["source"] == "known"
    assert public.get("/predictions/3").json()["node"] == "3"
    assert public.get("/predictions/eve").status_code == 404


def test_sets_and_choices_are_told_if_the_server_makes_them():
    def decided():
        made = served()
        found = replace(
            made.predictions, sets=np.array([[True, True], [False, True], [False, False]]), chosen=np.arange(3) == 1,
            notes=("Sets hold 90 %.",),
        )  # fmt: skip
        return replace(made, predictions=found)

    with TestClient(create_app(decided)) as client:
        answers = [client.get(f"/predictions/{node}").json() for node in ("ann", "bob", "3")]
        assert [one["set"] for one in answers] == [["a", "b"], ["b"], []]
        assert [one["chosen"] for one in answers] == [False, True, False]
        assert client.get("/run").json()["decided"] == ["Sets hold 90 %."]


def test_many_nodes_are_answered_in_order_or_not_at_all(public):
    answer = public.post("/predictions", json={"nodes": ["3", "ann", "3"]})
    assert [one["node"] for one in answer.json()["predictions"]] == ["3", "ann", "3"]
    refused = public.post("/predictions", json={"nodes": ["ann", "eve"]})
    assert (refused.status_code, "eve" in refused.json()["detail"]) == (404, True)


@pytest.mark.parametrize(
    "body", [{}, {"nodes": []}, {"nodes": "ann"}, {"nodes": [3]}, {"nodes": ["ann"] * (MOST_NODES + 1)}, [], None]
)
def test_malformed_requests_are_told_what_is_expected(public, body):
    answer = public.post("/predictions", json=body)
    assert (answer.status_code, "Expected a JSON object" in answer.json()["detail"]) == (422, True)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"nodes": ["ann"', "9" * 10_000, b'{"nodes": ["\xff"]}', b""])
def test_what_is_no_json_is_told_what_is_expected(public, content):
    answer = public.post("/predictions", content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, "Expected a JSON object" in answer.json()["detail"]) == (422, True)


def test_a_body_of_another_type_is_told_which_is_expected(public):
    answer = public.post("/predictions", content='{"nodes": ["ann"]}', headers={"content-type": "text/plain"})
    assert (answer.status_code, "application/json" in answer.json()["detail"]) == (422, True)


@pytest.mark.parametrize("node", ["10.1000/182", "a b?c#d%", "/", "é" * 600])
def test_any_id_has_an_address(node):
    with TestClient(create_app(lambda: for_own_nodes(third=node), KEY)) as client:
        answer = client.get(f"/predictions/{quote(node, safe='')}", headers=bearer(token_of(KEY, node)))
    assert (answer.status_code, answer.json()["node"]) == (200, node)


@pytest.mark.parametrize("path", ["/run/", "/docs/", "/predictions/"])
def test_no_request_is_sent_elsewhere(public, path):
    answer = public.get(path, follow_redirects=False)
    assert (answer.status_code, "location" in answer.headers) == (404, False)


def test_answers_are_of_the_types_that_are_described(public):
    described = public.get("/openapi.json").json()
    schemas = described["components"]["schemas"]
    one, many, run = (
        public.get("/predictions/ann").json(),
        public.post("/predictions", json={"nodes": ["ann"]}).json(),
        public.get("/run").json(),
    )
    calls = (("get", "/predictions/{node}", one), ("post", "/predictions", many), ("get", "/run", run))
    for method, path, answer in calls:
        responses = described["paths"][path][method]["responses"]
        name = responses["200"]["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
        form = schemas[name]
        assert set(form["required"]) <= set(answer) <= set(form["properties"])  # sets and choices only if asked for
        for status in set(responses) - {"200"}:
            name = responses[status]["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
            assert set(schemas[name]["properties"]) == {"detail"}
    page = public.get("/docs").text
    assert "Successful" not in page
    assert "Validation Error" not in page


def test_calls_are_described_on_a_page_that_loads_nothing(public):
    page = public.get("/docs").text
    assert "GET /predictions/{node}" in page
    assert not any(word in page for word in ("http://", "https://", "<script", "src="))
    assert set(public.get("/openapi.json").json()["paths"]) == {"/run", "/predictions", "/predictions/{node}"}


def test_facts_of_the_run_are_public(private):
    said = private.get("/run").json()
    assert (said["claim"]["epsilon"], said["nodes"], said["classes"]) == (1.0, 3, ["a", "b"])
    assert said["who_may_see"]["the node itself"] == [OWN]


@pytest.mark.parametrize("token", [None, "", "0" * 32, token_of(KEY, "bob"), token_of(bytes(32), "ann"), "ü"])
def test_a_prediction_is_for_its_own_node_alone(private, token):
    headers = {} if token is None else {b"Authorization": f"Bearer {token}".encode()}
    answer = private.get("/predictions/ann", headers=headers)
    assert answer.status_code == 401
    assert "probabilities" not in answer.text


def test_the_token_of_a_node_opens_its_prediction_and_no_other(private):
    answer = private.get("/predictions/ann", headers=bearer(token_of(KEY, "ann")))
    assert (answer.json()["predicted"], answer.headers["cache-control"]) == ("b", "no-store")
    assert private.get("/predictions/bob", headers=bearer(token_of(KEY, "ann"))).status_code == 401
    assert private.get("/predictions/eve", headers=bearer(token_of(KEY, "eve"))).status_code == 404


def test_many_at_once_are_refused_where_predictions_are_for_their_own_nodes(private):
    answer = private.post("/predictions", json={"nodes": ["ann"]}, headers=bearer(token_of(KEY, "ann")))
    assert (answer.status_code, "own node only" in answer.json()["detail"]) == (403, True)


def test_unknown_nodes_are_not_told_apart_without_a_token(private):
    told = {private.get(f"/predictions/{node}").text for node in ("ann", "eve")}
    assert len(told) == 1


def test_a_run_without_privacy_is_not_served():
    with pytest.raises(InputError, match="shows them to nobody"):
        served((), ())


def wait_until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def share(client):
    return client.get("/predictions/3").json()["probabilities"]["b"]


def test_a_new_run_takes_over_without_a_gap():
    ready, runs = threading.Event(), [served(), served(shift=0.25)]

    def load():
        if len(runs) < 2:
            ready.wait(10)
        return runs.pop(0)

    app = create_app(load)
    with TestClient(app) as client:
        client.portal.call(app.state.read_again)
        assert share(client) == 0.5
        ready.set()
        wait_until(lambda: share(client) == 0.75)


def test_a_signal_while_a_run_is_read_has_it_read_once_more():
    begun, ready, runs = threading.Event(), threading.Event(), [served(), served(shift=0.125), served(shift=0.25)]

    def load():
        if len(runs) == 2:
            begun.set()
            ready.wait(10)
        return runs.pop(0)

    app = create_app(load)
    with TestClient(app) as client:
        client.portal.call(app.state.read_again)
        assert begun.wait(10)
        client.portal.call(app.state.read_again)
        ready.set()
        wait_until(lambda: share(client) == 0.75)


def test_a_signal_before_the_first_request_is_kept():
    runs = [served(), served(shift=0.25)]
    app = create_app(lambda: runs.pop(0))
    app.state.read_again()
    with TestClient(app) as client:
        wait_until(lambda: share(client) == 0.75)


@pytest.mark.parametrize("broken", [DataError("gone"), OSError("gone"), KeyError("gone"), RecursionError("gone")])
def test_a_run_that_cannot_be_read_leaves_the_one_before(broken, caplog):
    runs = [served(), broken, served(shift=0.25)]

    def load():
        one = runs.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    app = create_app(load)
    with TestClient(app) as client:
        client.portal.call(app.state.read_again)
        wait_until(lambda: "still served" in caplog.text)
        assert "gone" in caplog.text
        assert share(client) == 0.5
        client.portal.call(app.state.read_again)
        wait_until(lambda: share(client) == 0.75)


@pytest.mark.parametrize(("before", "after", "key"), [(served, for_own_nodes, None), (for_own_nodes, served, KEY)])
def test_a_run_for_another_audience_does_not_take_over(before, after, key, caplog):
    runs = [before(), after()]
    app = create_app(lambda: runs.pop(0), key)
    with TestClient(app) as client:
        client.portal.call(app.state.read_again)
        wait_until(lambda: "still served" in caplog.text)
        assert client.get("/predictions/ann", headers=bearer(token_of(bytes(32), "ann"))).status_code == (
            200 if key is None else 401
        )
        assert client.get("/run").json()["who_may_see"] == before().certificate["who_may_see"]


@pytest.mark.parametrize(("load", "key"), [(for_own_nodes, None), (served, KEY)])
def test_tokens_are_for_runs_that_need_them(load, key):
    with pytest.raises(InputError, match="Start another server"):
        create_app(load, key)
