"""What a served run answers: released predictions, to whom the certificate shows them."""

import threading
import time

import numpy as np
import pytest
from fastapi.testclient import TestClient

from sfumato.errors import DataError, InputError
from sfumato.evaluation.predictions import Predictions
from sfumato.serving.app import MOST_NODES, create_app
from sfumato.serving.served import Served, token_of

KEY = bytes(range(32))
OWN = "predictions that read the node's own features (joint DP)"


def served(anyone=("weights", "predictions for all nodes"), own=(), shift=0.0):
    table = np.array([[0.25, 0.75], [1.0, 0.0], [0.5 - shift, 0.5 + shift]])
    found = Predictions(
        ("ann", "bob", 3), ("a", "b"), table, ("test", "train", ""), ("", "b", ""), np.array([False, True, False])
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
    with TestClient(create_app(served, KEY)) as client:
        yield client


@pytest.fixture
def private():
    with TestClient(create_app(lambda: served(("weights",), (OWN,)), KEY)) as client:
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
    assert private.get("/predictions/ann", headers=bearer(token_of(KEY, "ann"))).json()["predicted"] == "b"
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


def test_a_new_run_takes_over_without_a_gap_and_a_broken_one_does_not():
    runs = [served(), served(shift=0.25), DataError("gone")]
    ready = threading.Event()

    def load():
        one = runs.pop(0)
        if len(runs) < 2:
            ready.wait(10)
        if isinstance(one, Exception):
            raise one
        return one

    app = create_app(load, KEY)
    with TestClient(app) as client:
        again = next(route.endpoint.__self__ for route in app.routes if route.path == "/run").read_again
        client.portal.call(again)
        assert client.get("/predictions/3").json()["probabilities"]["b"] == 0.5
        ready.set()
        deadline = time.monotonic() + 10
        while client.get("/predictions/3").json()["probabilities"]["b"] == 0.5:
            assert time.monotonic() < deadline
        client.portal.call(again)
        while runs:
            time.sleep(0.01)
        assert client.get("/predictions/3").json()["probabilities"]["b"] == 0.75
