"""Requests to a server as bytes, changed at random: bodies, heads, lengths, chunks, or any byte of them. It needs no pytest."""

import json
import random
from contextlib import suppress

ODD_VALUES = (None, True, -1, 1e308, 10**400, "", "\x00", "\ud800", "é", "x" * 5000, [], {}, [[]], {"": {}}, ["\ud800"])
ODD_BODIES = (
    b"",
    b"[" * 100_000,
    b'{"a":' * 20_000,
    b"[" + b"1," * 1500 + b"1]",
    b"1" * 5000,
    b"NaN",
    b'"\\ud800"',
    b"\xff\xfe[\x00",
    b'{"user":1,"user":2}',
    b'{"nodes":["a"]} ',
)
ODD_LENGTHS = (
    b"-1",
    b"0",
    b"7, 7",
    b"0x10",
    b"1e3",
    b"99999999",
    b"9" * 40,
    b"",
    b"\xc2\xb2",
    b"+5",
    b"5 5",
    b"8388609",
)
ODD_CHUNKS = (
    b"0\r\n\r\n",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"5\r\nhel",
    b"-1\r\n",
    b"f" * 17 + b"\r\n",
    b"1;x=y\r\na\r\n0\r\nX: y\r\n\r\n",
    b"zz\r\n",
)
ODD_PATHS = (
    b"*",
    b"//",
    b"/../x",
    b"/%",
    b"/%00",
    b"/%ff%fe",
    b"/?" + b"a=b&" * 500,
    b"http://x/schema",
    b"/\xff",
    b"/a b",
    b"x" * 20_000,
)
ODD_METHODS = (b"HEAD", b"OPTIONS", b"PUT", b"PRI", b"get", b"G\x00T", b"CONNECT", b"", b"X" * 300)
ODD_VERSIONS = (b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"HTTP/1.1 x", b"", b"HTTP/1.")
ODD_HEADERS = (
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: identity",
    b"Expect: 100-continue",
    b"Upgrade: websocket\r\nConnection: upgrade",
    b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
    b"Host: y",
    b"no colon",
    b" folded: y",
    b"X: \x00",
    b"X: \xff\xfe",
    b"X" * 300 + b": y",
    b"X: " + b"y" * 17_000,
    b"\r\n".join([b"X: y"] * 900),
    b"Authorization: Basic \xff",
    b"Authorization: Basic Og==",
    b"Authorization: Basic " + b"A" * 3001,
    b"Authorization: Bearer",
    b"Authorization: Bearer \xc3\xa9",
    b"X-Forwarded-For: " + b"1.2.3.4, " * 300,
    b"X-Forwarded-For: \xff, ::ffff:1.2.3.4, [::1]:99, x",
    b"Content-Type: application/json; charset=utf-16",
    b"Content-Type: multipart/form-data; boundary=",
    b"Content-Encoding: gzip",
    b"Accept-Encoding: gzip;q=x",
    b"Range: bytes=0-,-5",
)


class Mutator:
    """Changes requests, each (method, path, body, headers). A whole one has the right form, and its body or path is changed.

    A body that is a function gets what changes bytes, and signs them after that: it is past the first checks.
    """

    def __init__(self, requests, seed, whole=0.6):
        self.chance, self.requests, self.share = random.Random(seed), requests, whole

    def next(self):
        """The bytes of a request, and whether it is whole: then it is answered, and another may follow."""
        chance = self.chance
        method, path, body, headers = chance.choice(self.requests)
        whole = chance.random() < self.share
        if callable(body):
            body = body(self.bent)
        elif body and chance.random() < 0.9:
            body = self.changed(body)
        elif chance.random() < 0.5:
            path = b"/" + bytes(one for one in self.bent(path[1:]) if 33 <= one < 127)[:2000]
        site = b"X-Forwarded-For: 10.%d.%d.%d" % tuple(chance.randbytes(3))
        lines = [b"Host: x", site, *headers]
        if whole:
            return self._joined(method, path, b"HTTP/1.1", [*lines, b"Content-Length: %d" % len(body)], body), True
        return self._broken(method, path, lines, body), False

    def _joined(self, method, path, version, lines, body):
        return b"\r\n".join([b" ".join([method, path, version]), *lines, b"", b""]) + body

    def _broken(self, method, path, lines, body):
        chance, version = self.chance, b"HTTP/1.1"
        if chance.random() < 0.9:
            lines = [*lines, b"Content-Length: %d" % len(body)]
        for _ in range(chance.choice((1, 1, 2, 3))):
            match chance.randrange(9):
                case 0:
                    method = chance.choice(ODD_METHODS)
                case 1:
                    path = chance.choice(ODD_PATHS)
                case 2:
                    version = chance.choice(ODD_VERSIONS)
                case 3:
                    lines[-1] = b"Content-Length: " + chance.choice(
                        (*ODD_LENGTHS, b"%d" % (len(body) + chance.randint(-3, 3)))
                    )
                case 4:
                    lines.insert(chance.randrange(len(lines) + 1), chance.choice(ODD_HEADERS))
                case 5:
                    lines.append(chance.choice(lines))
                case 6:
                    lines[-1], body = b"Transfer-Encoding: chunked", self._chunks(body)
                case 7:
                    lines.pop(chance.randrange(len(lines)))
                    lines = lines or [b"X: y"]
                case _:
                    lines = [self.bent(one) if chance.random() < 0.3 else one for one in lines]
        said = self._joined(method, path, version, lines, body)
        match chance.randrange(6):
            case 0:
                return said[: chance.randrange(len(said) + 1)]
            case 1:
                return self.bent(said)
            case 2:
                return said + self.next()[0]
        return said

    def _chunks(self, body):
        if self.chance.random() < 0.5:
            return self.chance.choice(ODD_CHUNKS)
        size = self.chance.randint(1, 200)
        parts = [body[place : place + size] for place in range(0, len(body), size)]
        return self.bent(b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts[:500])) + b"0\r\n\r\n"

    def changed(self, body):
        chance = self.chance
        if chance.random() < 0.02:
            return chance.choice(ODD_BODIES)
        if body[:1] in (b"{", b"[") and chance.random() < 0.7:
            with suppress(json.JSONDecodeError):  # many lines of it
                return json.dumps(self.changed_json(json.loads(body))).encode()
        head = 38 * (chance.random() < 0.8)  # of a message: another schema is refused at once
        return body[:head] + self.bent(body[head:])

    def changed_json(self, value):
        chance = self.chance
        if chance.random() < 0.1:
            return chance.choice(ODD_VALUES)
        if isinstance(value, dict) and value:
            name = chance.choice([*value])
            changed = {**value, name: self.changed_json(value[name])}
            if chance.random() < 0.1:
                changed[chance.choice(("", "more", "\ud800"))] = changed.pop(name)
            return changed
        if isinstance(value, list) and value:
            place = chance.randrange(len(value))
            return [*value[:place], self.changed_json(value[place]), *value[place + chance.randrange(2) :]]
        if isinstance(value, str) and chance.random() < 0.7:
            return self.bent(value.encode()).decode(errors=chance.choice(("replace", "ignore", "surrogateescape")))
        return chance.choice(ODD_VALUES)

    def bent(self, said):
        """Bytes of which a few are changed, dropped, repeated or new."""
        chance, bent = self.chance, bytearray(said)
        for _ in range(chance.choice((1, 1, 2, 4))):
            place, size = chance.randrange(len(bent) + 1), chance.choice((1, 1, 2, 9, 64))
            match chance.randrange(6):
                case 0 if place < len(bent):
                    bent[place] ^= 1 << chance.randrange(8)
                case 1 if place < len(bent):
                    bent[place] = chance.choice((0, 10, 13, 32, 127, 128, 255, chance.randrange(256)))
                case 2:
                    del bent[place : place + size]
                case 3:
                    bent[place:place] = chance.randbytes(size)
                case 4:
                    bent[place:place] = bent[max(0, place - size) : place]
                case _:
                    del bent[place:]
        return bytes(bent)
