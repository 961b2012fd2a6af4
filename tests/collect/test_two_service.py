"""Two servers by HTTP: devices enrol and report, only the other server fetches files, and both open the same counts."""

import json
import shutil
from threading import Thread

import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient
from two_made import CLASSES, Pair

from sfumato.collect._connection import Connection, RefusedError
from sfumato.collect._keys import DeviceKeys
from sfumato.collect.two._exchange import BLOCKS, SIGNATURE, asks_for, fetch, open_together
from sfumato.collect.two._files import Agreed
from sfumato.collect.two._sending import check_servers, enrol, key_of, send
from sfumato.collect.two._service import create_app
from sfumato.collect.two._simulate import Devices
from sfumato.errors import CollectionError, DataError, InputError


@pytest.fixture
def pair(tmp_path):
    return Pair(tmp_path, users=12, size=4)


@pytest.fixture
def clients(pair):
    with TestClient(create_app(pair.servers[0])) as first, TestClient(create_app(pair.servers[1])) as second:
        yield first, second


@pytest.fixture
def connections(clients):
    def connected(client):
        def handle(request):
            answer = client.request(
                request.method, str(request.url.raw_path.decode()), content=request.content, headers=request.headers
            )
            return httpx.Response(
                answer.status_code,
                content=answer.content,
                headers={k: v for k, v in answer.headers.items() if k.startswith("sfumato") or k == "content-type"},
            )

        return Connection("https://example.org", transport=httpx.MockTransport(handle), wait=lambda _: None)

    return [connected(client) for client in clients]


def codes(pair, user):
    return [server.code(user) for server in pair.servers]


def test_devices_report_and_both_open_the_same(pair, connections):
    assert [key_of(one, number) for number, one in enumerate(connections)] == [
        party.sign for party in pair.agreement.parties
    ]
    for number, user in enumerate(pair.users):
        enrol(connections, user, pair.devices[user], codes(pair, user))
        assert send(connections, pair.drawn(user, CLASSES[number % 3])) is False
    user = pair.users[0]
    enrol(connections, user, pair.devices[user], codes(pair, user))
    found = []
    waits = []

    def opening(number):
        found.append(open_together(pair.servers[number], connections[1 - number], wait=waits.append))

    threads = [Thread(target=opening, args=(number,)) for number in (0, 1)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert found[0] == found[1]
    assert found[0].join().counted.tolist() == [4, 4, 4]
    assert open_together(pair.servers[0], connections[1]) == found[0]


def test_swapped_addresses_are_noticed(connections):
    with pytest.raises(CollectionError, match="Swap"):
        key_of(connections[0], 1)


def test_a_code_never_goes_to_the_other_server(pair, connections, tmp_path):
    user, seen = pair.users[0], []
    listening = [Connection("https://example.org", transport=httpx.MockTransport(lambda one: seen.append(one)))] * 2
    for given in (
        codes(pair, user)[::-1],
        [codes(pair, user)[0]] * 2,
        ["", ""],
        [one[2:] for one in codes(pair, user)],
    ):
        with pytest.raises(InputError, match="in its place"):
            enrol(listening, user, pair.devices[user], given)
    with Devices(tmp_path / "devices.sqlite", Agreed(pair.agreement, pair.partition, pair.signatures)) as devices:
        devices.draw({user: 0})
        with pytest.raises(InputError, match="in its place"):
            devices.enrol(listening, [{user: one} for one in codes(pair, user)[::-1]])
    assert seen == []


def test_strangers_and_other_messages_are_refused(pair, clients, connections):
    user, keys = pair.users[0], pair.devices[pair.users[0]]
    with pytest.raises(RefusedError) as caught:
        enrol(connections, user, keys, codes(pair, pair.users[1]))
    assert "first server" in caught.value.__notes__[0]
    with pytest.raises(RefusedError):
        send(connections, pair.drawn(user, "red"))
    enrol(connections, user, keys, codes(pair, user))
    with pytest.raises(RefusedError):
        enrol(connections, user, DeviceKeys.new(), codes(pair, user))
    first, second = pair.drawn(user, "red")
    for body in (b"", first[:-1], first + b"\0", second, b"SFRS" * 20, first[:200]):
        assert clients[0].post("/reports", content=body).status_code in (400, 403)
    for body in (b"", b"[]", b"7", b'{"user": 1}', b'{"user":"u1","sign_key":"xy","code":""}', b"[[[]]]"):
        assert clients[0].post("/users", content=body).status_code == 422
    assert clients[0].post("/reports", content=bytes(5 << 20)).status_code == 413
    assert clients[0].get("/nothing").status_code == 404
    assert send(connections, (first, second)) is False
    assert send(connections, (first, second)) is True
    with pytest.raises(RefusedError, match="second one"):
        send(connections, pair.drawn(user, "blue"))


def test_many_reports_come_at_once_each_with_its_answer(pair, clients):
    pair.enrol()
    messages = [pair.drawn(user, "red")[0] for user in pair.users[:3]]
    spoiled = messages[1][:-1] + bytes([messages[1][-1] ^ 1])
    answers = clients[0].post("/reports", content=messages[0] + spoiled + messages[2]).json()
    assert [one["status"] for one in answers] == [201, 403, 201]
    assert clients[0].post("/reports", content=b"".join(messages)).json()[1]["status"] == 201


def test_only_the_other_server_fetches_files_and_nobody_makes_a_step(pair, clients):
    pair.servers[0].close()
    right = pair.servers[1].operator.signature(asks_for(pair.agreement.digest)).hex()
    own = pair.servers[0].operator.signature(asks_for(pair.agreement.digest)).hex()
    elsewhere = pair.servers[1].operator.signature(asks_for(bytes(32))).hex()
    assert clients[0].get("/steps/list", headers={SIGNATURE: right}).content == pair.servers[0].made("list")
    for wrong in (own, elsewhere, right[:-2], right.upper(), "", "é"):
        assert clients[0].get("/steps/list", headers={SIGNATURE: wrong.encode()}).status_code == 401
    assert clients[0].get("/steps/proofs", headers={SIGNATURE: right}).status_code == 409
    assert clients[0].get("/steps/secrets", headers={SIGNATURE: right}).status_code == 404
    for method in ("POST", "PUT", "DELETE"):
        assert clients[0].request(method, "/steps/proofs", headers={SIGNATURE: right}).status_code == 405
    assert pair.servers[0].made("proofs") is None


def test_a_file_of_many_blocks_is_read_once(pair, clients, connections, monkeypatch):
    """Else a file of n blocks would be read n times, while nobody else is answered."""
    monkeypatch.setattr("sfumato.collect.two._service.BLOCK", 100)
    signature = pair.servers[1].operator.signature(asks_for(pair.agreement.digest)).hex()
    read, real = [], pair.servers[0].made
    monkeypatch.setattr(type(pair.servers[0]), "made", lambda _, step: read.append(step) or real(step))
    assert clients[0].get("/steps/list", headers={SIGNATURE: signature}).status_code == 409
    made = pair.servers[0].close()
    pair.stored(np.arange(12) % 3)
    assert fetch(connections[0], "/steps/list", {SIGNATURE: signature}) == made
    assert read == ["list"] * 2
    with pytest.raises(RefusedError):
        fetch(connections[0], "/steps/proofs", {SIGNATURE: signature})
    assert fetch(connections[0], "/steps/list", {SIGNATURE: signature}) == made


def test_one_that_aborted_tells_the_other(pair, connections):
    pair.servers[0].abort()
    with pytest.raises(RefusedError, match="aborted"):
        open_together(pair.servers[1], connections[0], wait=lambda _: None)


@pytest.mark.parametrize("steps", range(4))
def test_one_that_aborted_tells_the_other_from_a_copy_too(pair, tmp_path, connections, steps):
    """Else the other would wait for ever for a file that nobody makes."""
    pair.exchange(("list", "proofs", "accepted", "opening")[steps - 1]) if 0 < steps < 4 else None
    path = pair.servers[0].book._path
    shutil.copy(path, tmp_path / "copy")
    pair.servers[0].abort()
    shutil.copy(tmp_path / "copy", path)
    with pytest.raises(RefusedError, match="aborted"):
        open_together(pair.servers[1], connections[0], wait=never)
    with pytest.raises(DataError, match="aborted"):
        open_together(pair.servers[0], connections[1], wait=never)


def never(_):
    raise AssertionError("it waits for what does not come")


def test_a_book_is_not_closed_before_the_other_server_answers(pair, tmp_path, connections):
    """At a wrong address the collection would be closed for good, and nothing opened."""
    (tmp_path / "others").mkdir()
    elsewhere = Connection("https://example.org", transport=httpx.MockTransport(lambda _: httpx.Response(404)))
    keys = {"server": 1, "sign": pair.agreement.parties[0].sign, "seal": ""}
    stranger = Connection(
        "https://example.org", transport=httpx.MockTransport(lambda _: httpx.Response(200, json=keys))
    )
    for peer in (elsewhere, connections[0], stranger):
        with pytest.raises(CollectionError):
            open_together(pair.servers[0], peer, wait=never)
    assert pair.servers[0].made("list") is None


def test_servers_are_known_before_they_get_codes(pair, connections):
    assert check_servers(connections, pair.agreement) == tuple(party.sign for party in pair.agreement.parties)
    keys = {"server": 1, "sign": DeviceKeys.new().sign_key.hex()}
    other = Connection("https://example.org", transport=httpx.MockTransport(lambda _: httpx.Response(200, json=keys)))
    for pair_of in ((connections[0], other), connections[::-1]):
        with pytest.raises(CollectionError):
            check_servers(pair_of, pair.agreement)


def test_the_other_server_cannot_fill_the_memory(pair, connections):
    """A file has as many blocks as its users and cells need, and no more."""
    asked = []

    def handle(request):
        asked.append(request.url.path)
        if request.url.path == "/keys":
            return httpx.Response(200, json={"server": 1, "sign": pair.agreement.parties[1].sign})
        return httpx.Response(200, content=bytes(1 << 20), headers={BLOCKS: "3"})

    with (
        Connection("https://example.org", transport=httpx.MockTransport(handle)) as peer,
        pytest.raises(CollectionError),
    ):
        open_together(pair.servers[0], peer, wait=never)
    assert asked == ["/keys", "/steps/list"]


@pytest.mark.parametrize("classes", [2, 3, 1000])
def test_files_of_honest_servers_fit_into_their_blocks(tmp_path, classes, monkeypatch):
    """The longest ids, and all reports accepted."""
    from sfumato.collect.two import _exchange

    names = tuple(f"c{number}" for number in range(classes))
    made = Pair(tmp_path, users=30, size=1, classes=names)
    made.stored(np.arange(30) % classes)
    monkeypatch.setattr(_exchange, "BLOCK", 64)
    most = 64 * (_exchange._most_blocks(made.servers[0]) - 2)
    for step in ("list", "proofs", "accepted", "opening"):
        longest = max(len(one) for one in made.exchange(step)) + 30 * 2 * 64
        assert longest <= most


def test_files_come_in_blocks(pair, clients, connections, monkeypatch):
    monkeypatch.setattr("sfumato.collect.two._service._OF_STRANGERS", 100)
    text = fetch(connections[0], "/agreement")
    assert Agreed.from_json(text.decode()) == Agreed(pair.agreement, pair.partition, pair.signatures)
    assert int(clients[0].get("/agreement").headers[BLOCKS]) == -(-len(text) // 100)
    for block in ("-1", "1.5", "9999999", "99999", "x"):
        assert clients[0].get(f"/agreement?block={block}").status_code == 404


@pytest.mark.parametrize("said", ["0", "x", "", "9999", "99999999"])
def test_servers_that_say_odd_numbers_of_blocks_are_refused(said):
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=b"a", headers={BLOCKS: said}))
    with Connection("https://example.org", transport=transport) as connection, pytest.raises(CollectionError):
        fetch(connection, "/agreement")


def test_simulated_devices_go_on_with_the_same_bytes(tmp_path, pair, connections):
    agreed = Agreed(pair.agreement, pair.partition, pair.signatures)
    answers = {user: number % 3 for number, user in enumerate(pair.users)}
    known = [{user: server.code(user) for user in pair.users} for server in pair.servers]
    gone = httpx.MockTransport(lambda request: httpx.Response(503))
    away = Connection("https://example.org", transport=gone, wait=lambda _: None)
    with Devices(tmp_path / "devices.sqlite", agreed) as devices:
        devices.draw(answers)
        devices.enrol(connections, known)
        with pytest.raises(CollectionError):
            devices.send((connections[0], away))
    before = messages_of(pair)
    with Devices(tmp_path / "devices.sqlite", agreed) as devices:
        devices.draw({**answers, pair.users[0]: 2})
        devices.enrol(connections, known)
        assert devices.send(connections).to_dict() == {
            "users": 12,
            "accepted": 12,
            "stored": 12,
            "repeated": 0,
            "refused": 0,
        }
        with pytest.raises(InputError, match="asked"):
            devices.draw({"stranger": 1})
    assert messages_of(pair)[: len(before)] == before
    files = pair.exchange()
    assert len(set(files)) == 2
    assert [counted["counted"] for counted in map(first_line, files)] == [[4, 4, 4]] * 2
    (tmp_path / "other").mkdir()
    other = Pair(tmp_path / "other", users=12, size=3)
    with pytest.raises(InputError, match="this agreement"):
        Devices(tmp_path / "devices.sqlite", Agreed(other.agreement, other.partition, other.signatures))


def first_line(data):
    return json.loads(data.splitlines()[0])


def messages_of(pair):
    with pair.servers[0].book.reading() as connection:
        return connection.execute("SELECT user, message FROM reports ORDER BY user").fetchall()
