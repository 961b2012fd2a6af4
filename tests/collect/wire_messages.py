"""A schema for every question that can be asked, answers to it, and mutations of messages. It needs no pytest."""

import random
from itertools import combinations, pairwise, product

from sfumato.collect import _wire as wire
from sfumato.collect._keys import ServerKey
from sfumato.collect._schema import Schema

SERVER = ServerKey(bytes(range(32)))
COMMON = {
    "collection": "reading-2026",
    "purpose": "Learn which kinds of books readers like.",
    "opens": "2026-12-01T00:00:00Z",
    "closes": "2027-01-01T00:00:00Z",
    "server_key": SERVER.public.hex(),
}
LETTERS = [*"abcdefghijklmnopqrstuvwxyz"]


def features(count, mechanism="multi-bit", epsilon=1.0, **settings):
    return {"features": {"names": LETTERS[:count], "epsilon": epsilon, "mechanism": mechanism, **settings}}


def label(count, mechanism="subset", epsilon=1.0):
    return {"label": {"classes": LETTERS[:count], "epsilon": epsilon, "mechanism": mechanism}}


ASKED = {
    "multi-bit": features(7, epsilon=4.0),
    "multi-bit as a bitmap": features(6, epsilon=8.0),
    "one-bit": features(11, "one-bit"),
    "laplace": features(2, "laplace"),
    "laplace a feature": features(2, "laplace", per_feature=True),
    "gaussian": features(2, "gaussian", delta=1e-6),
    "piecewise": features(7, "piecewise", epsilon=4.0),
    "piecewise a feature": features(3, "piecewise", per_feature=True),
    "pgc": features(3, "pgc", per_feature=True),
    "collision": features(9, "collision", epsilon=2.0, cap=3),
    "direction": features(4, "direction", cap=2),
    "subset": label(7),
    "randomized-response": label(5, "randomized-response"),
    "features and label": {**features(7, epsilon=4.0), **label(3)},
    "links": {"links": {"users": 6, "roster": "ab" * 32, "epsilon": 4.0}},
}


def schema_of(asked, **changed):
    return Schema.from_dict({**COMMON, **asked, **changed})


def all_schemas():
    return {name: schema_of(asked) for name, asked in ASKED.items()}


def any_answers(schema, chance, names=None):
    """Answers that the layouts allow, each as likely as any other."""
    return {
        name: tuple(one for layout in schema.parts[name].layouts for one in any_integers(layout, chance))
        for name in (names or schema.parts)
    }


def any_integers(layout, chance):
    drawn = sorted(chance.sample(range(layout.of), layout.count)) if layout.of else []
    return [*drawn, *(chance.randint(layout.low, layout.high) for _ in range(layout.count))]


def every_answer(layouts):
    """All answers to one part."""
    each = []
    for layout in layouts:
        drawn = combinations(range(layout.of), layout.count) if layout.of else [()]
        values = product(range(layout.low, layout.high + 1), repeat=layout.count)
        each.append([(*chosen, *said) for chosen, said in product(drawn, values)])
    return [sum(combined, ()) for combined in product(*each)]


def accepted(schema, message):
    """Whether a message is taken. Whatever it is, nothing but a refusal may happen, and what is taken must be canonical."""
    try:
        found = wire.decode(schema, message)
    except wire.WireError:
        return False
    assert wire.encode(schema, found.user, found.answers) == message, message.hex()
    assert found.user.strip() == found.user != "", message.hex()
    assert found.user.isprintable(), message.hex()
    for name, answer in found.answers.items():
        assert fits(schema.parts[name].layouts, answer), message.hex()
    return True


def fits(layouts, answer):
    """Whether an answer is what the layouts say, tested apart from the decoder's own checks."""
    rest = list(answer)
    for layout in layouts:
        drawn = [rest.pop(0) for _ in range(layout.count)] if layout.of else []
        values = [rest.pop(0) for _ in range(layout.count)]
        ascending = all(one < other for one, other in pairwise([-1, *drawn, layout.of or 0]))
        if not all(layout.low <= value <= layout.high for value in values) or (drawn and not ascending):
            return False
    return not rest


class Mutator:
    """Messages for a few schemas, changed at random: bits, bytes, lengths, fields, pieces of each other, or noise."""

    def __init__(self, seed):
        self.chance, self.schemas = random.Random(seed), list(all_schemas().values())

    def message(self, schema):
        user = "".join(self.chance.choices("abcd7-é漢", k=self.chance.randint(1, 6)))
        names = [name for name in schema.parts if self.chance.random() < 0.8] or [*schema.parts]
        return wire.encode(schema, user, any_answers(schema, self.chance, names))

    def next(self):
        """A schema and a mutated message."""
        chance, schema = self.chance, self.chance.choice(self.schemas)
        message = bytearray(self.message(schema))
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            self._change(schema, message)
        return schema, bytes(message)

    def _change(self, schema, message):
        chance, head = self.chance, 38
        place = chance.randrange(head - 1 if len(message) > head and chance.random() < 0.8 else 0, max(1, len(message)))
        match chance.randrange(12):
            case 0 if message:
                message[place] ^= 1 << chance.randrange(8)
            case 1 if message:
                message[place] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
            case 2:
                del message[place : place + chance.choice((1, 1, 2, 9))]
            case 3:
                message[place:place] = chance.randbytes(chance.choice((1, 1, 2, 9)))
            case 4:
                message += chance.randbytes(chance.choice((1, 8, 300)))
            case 5 if len(message) > head:
                message[head:] = chance.randbytes(len(message) - head)
            case 6 if len(message) > head and len(message) > head + 1 + message[head - 1]:
                start = head + message[head - 1]
                message[start] = chance.randrange(8)
                message[start + 1 :] = chance.randbytes(chance.choice((len(message) - start - 1, chance.randrange(9))))
            case 7 | 8 | 9 if len(message) > head and len(message) > head + 1 + message[head - 1]:
                start = head + message[head - 1] + 1
                message[start:] = chance.randbytes(len(message) - start)
            case 10:
                message[place:] = self.message(chance.choice(self.schemas))[place:]
            case _ if len(message) > head:
                message[head - 1] = chance.choice(
                    (0, 1, 64, 65, 255, max(0, message[head - 1] + chance.randint(-2, 2)) % 256)
                )
