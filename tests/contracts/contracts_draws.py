"""Records what a fit really draws: noise with its scale, coins with their probability, and the charge that each belongs to.

Nothing of the library knows of it. Every name in a module that stands for a sampler, a mechanism or :func:`derive_key` is
replaced. Keys tell what belongs together: a draw is owned by the charged release from whose key its own key was derived.
"""

import inspect
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from sfumato import catalog
from sfumato.bounded import _appr_release as appr_release
from sfumato.bounded import _counting as counting
from sfumato.bounded import _gradients as gradients
from sfumato.bounded import _grouping as grouping
from sfumato.bounded import _history as history
from sfumato.bounded import _linked_sums as linked
from sfumato.bounded import _pairs as pairs
from sfumato.bounded import _promise as promise
from sfumato.bounded import _statistics as statistics
from sfumato.bounded import _topology as topology
from sfumato.bounded import aggregation
from sfumato.central import _appr
from sfumato.central import _dpgnn as dpgnn
from sfumato.method.contract import Session
from sfumato.noise import _discrete as discrete
from sfumato.noise import _geometric as geometric
from sfumato.noise import _laplace as laplace
from sfumato.noise import coins, gaussian, keys
from sfumato.pate import _aggregation as votes
from sfumato.privacy import _selection as selection
from sfumato.randomizers._links import NeighborLists
from sfumato.randomizers._randomizer import Randomizer

SAMPLERS = (
    gaussian.rounded_gaussian,
    laplace.rounded_laplace,
    geometric.keyed_discrete_laplace,
    discrete.discrete_laplace,
    discrete.discrete_gaussian,
    geometric.discrete_laplace,
    geometric.successes,
    geometric.geometric_from,
    coins.coins,
    selection.draw_trials,
    appr_release.draw_picks,
)
MECHANISMS = (
    aggregation.noisy_neighborhood_sum,
    counting.noisy_counts,
    history.noisy_day,
    grouping.noisy_group_sums,
    linked.noisy_linked_sums,
    promise.noisy,
    statistics.noisy_totals,
    pairs.noisy_pair_sums,
    gradients.noisy_steps,
    appr_release.gaussian_rows,
    appr_release.exponential_rows,
    topology.randomized_pairs,
    topology.noisy_edge_count,
    topology.largest_pairs,
)
LOOKED_AT = (_appr.loss_weights, _appr.largest_entries, dpgnn.read_arcs, dpgnn.subgraph_rows)
"""No draws, but what bounds how many terms of a step one record reaches; arguments and results are kept."""


@dataclass
class Draw:
    """One call of a sampler: its name, its arguments by name, and what it returned."""

    law: str
    args: dict[str, Any]
    result: Any

    @property
    def key(self):
        """The key that it draws from; None if it draws from a source of coins without one."""
        if "key" in self.args:
            return self.args["key"]
        return getattr(self.args.get("source"), "recorded_key", None)


@dataclass
class Frame:
    """One call of a mechanism, from the module that it was called in, with all that was drawn in it."""

    kind: str
    where: str
    args: dict[str, Any]
    draws: list[Draw] = field(default_factory=list)
    sums: list[Any] = field(default_factory=list)
    looked: list[Draw] = field(default_factory=list)
    result: Any = None

    @property
    def key(self):
        """The key that it was given."""
        return Draw(self.kind, self.args, None).key

    def of(self, *laws):
        """What was drawn by some samplers."""
        return [draw for draw in self.draws if draw.law in laws]


class Recorder:
    """Replaces samplers and mechanisms by ones that note what they are asked for; ``patch`` is pytest's monkeypatch."""

    def __init__(self, patch):
        for home in (*catalog._METHODS, *catalog._OF_PAIRS, *catalog._CHOOSERS, *catalog._OF_GRAPHS):
            import_module(f"sfumato.{home.partition(':')[0]}")
        self.patch, self.local, self.lock = patch, threading.local(), threading.Lock()
        self.cleared()
        names = _names()
        for original in SAMPLERS:
            self._replace(names, original, self._sampler)
        for original in MECHANISMS:
            self._replace(names, original, self._mechanism)
        for original in LOOKED_AT:
            self._replace(names, original, self._looker)
        self._replace(names, keys.derive_key, self._deriver)
        for one in {*below(Randomizer), NeighborLists, *below(votes.LNMax), *below(votes.GNMax),
                    *below(votes.ConfidentGNMax)}:  # fmt: skip
            for name in ("encode", "aggregate"):
                if name in vars(one) and not getattr(vars(one)[name], "__isabstractmethod__", False):
                    patch.setattr(one, name, self._mechanism(vars(one)[name], one.__module__))
        self._patch_classes(patch)

    def cleared(self):
        """Forget everything that was noted."""
        self.parents, self.charged, self.sessions, self.frames, self.looked = {}, {}, [], [], []
        self.streams = set()
        return self

    def owner(self, key):
        """The session and name of the charged release whose key this one was derived from, and the session's own key if none."""
        own = {session.key: (session, None) for session in self.sessions}
        while key is not None and key not in self.charged and key not in own:
            key = self.parents.get(key)
        return self.charged.get(key) or own.get(key, (None, None))

    def derived(self, key, ancestor):
        """Whether a key was derived from another, or is it."""
        while key is not None and key != ancestor:
            key = self.parents.get(key)
        return key is not None

    def _patch_classes(self, patch):
        charge, made = Session.charge, Session.__init__
        of_words, read = coins.SecretWords.__init__, coins.SecretWords.words

        def charged(session, name):
            key = charge(session, name)
            self.charged[key] = session, name
            return key

        def init(session, *args, **kwargs):
            made(session, *args, **kwargs)
            self.sessions.append(session)

        def of_key(source, key=None):
            of_words(source, key)
            source.recorded_key, source.recorded_words = key, []
            self.streams.add(key)

        def words(source, shape):
            source.recorded_words.append(read(source, shape))
            return source.recorded_words[-1]

        patch.setattr(Session, "charge", charged)
        patch.setattr(Session, "__init__", init)
        streamed = keys.Stream.__init__

        def stream(self_, key):
            streamed(self_, key)
            self.streams.add(key)

        patch.setattr(keys.Stream, "__init__", stream)
        patch.setattr(coins.SecretWords, "__init__", of_key)
        patch.setattr(coins.SecretWords, "words", words)

    def _replace(self, names, original, make):
        for module, name in names[id(original)]:
            self.patch.setattr(module, name, make(original, module.__name__))

    def _deriver(self, original, _):
        def derive(key, *parts):
            found = original(key, *parts)
            self.parents.setdefault(found, key)
            return found

        return derive

    def _sampler(self, original, where):
        signature = _signature(original)

        def sample(*args, **kwargs):
            if getattr(self.local, "sampling", False):  # a part of another sampler
                return original(*args, **kwargs)
            self.local.sampling = True
            try:
                result = original(*args, **kwargs)
            finally:
                self.local.sampling = False
            frame = self._stack[-1] if self._stack else None
            if frame is None:
                frame = Frame("bare", where, {})
                with self.lock:
                    self.frames.append(frame)
            frame.draws.append(Draw(original.__qualname__, _bound(signature, args, kwargs), result))
            return result

        return sample

    def _mechanism(self, original, where):
        signature = _signature(original)

        def release(*args, **kwargs):
            if self._stack:  # a part of another mechanism
                return original(*args, **kwargs)
            frame = Frame(original.__qualname__, where, _bound(signature, args, kwargs))
            if original is gradients.noisy_steps:
                frame.args["clipped_sum"] = _measured(frame.args["clipped_sum"], frame)
                args, kwargs = (), frame.args
            with self.lock:
                self.frames.append(frame)
            with self._within(frame):
                frame.result = original(*args, **kwargs)
            return frame.result

        return release

    def _looker(self, original, _):
        signature = _signature(original)

        def look(*args, **kwargs):
            result = original(*args, **kwargs)
            kept = self._stack[-1].looked if self._stack else self.looked
            kept.append(Draw(original.__qualname__, _bound(signature, args, kwargs), result))
            return result

        return look

    @property
    def _stack(self):
        if not hasattr(self.local, "stack"):
            self.local.stack = []
        return self.local.stack

    @contextmanager
    def _within(self, frame):
        self._stack.append(frame)
        try:
            yield
        finally:
            self._stack.pop()


def _measured(clipped_sum, frame):
    """Note how long what single drawn examples add is, in whole steps; the sum of all is handed on."""

    def measured(drawn, step):
        total = clipped_sum(drawn, step)
        for one in drawn[:4]:
            frame.sums.append(float(np.linalg.norm(clipped_sum(np.array([one]), step).astype(np.float64))))
        return total

    return measured


def _names():
    """Where each object of the library is named, by its identity."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("sfumato."):
            for attribute, value in list(vars(module).items()):
                found.setdefault(id(value), []).append((module, attribute))
    return found


def _signature(original):
    return inspect.signature(getattr(original, "py_func", original))


def _bound(signature, args, kwargs):
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def below(kind):
    """A class and all of the library's below it; other tests may have made some of their own."""
    own = {kind} if kind.__module__.startswith("sfumato.") else set()
    return own.union(*map(below, kind.__subclasses__()))
