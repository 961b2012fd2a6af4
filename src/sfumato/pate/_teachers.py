"""A hash of a record's own id decides which teacher learns from it; teachers of any kind can be trained one by one.

**Formal guarantee.** Let two data sets differ in one record, added, removed, or replaced under its id, and let T be the
teacher of that id. Then every teacher but T is the same in law, and bit by bit if its random numbers are decided by its own
number; for each query at most one vote moves, so counts move by sqrt 2 in L2 and their maximum by 1.

*Proof.* :func:`assign` reads one id at a time, so the rows of a teacher other than T, which :func:`parts` orders by id,
are the same in both data sets. Such a teacher is a function of these rows, of public settings and of random numbers
drawn for it alone. Its prediction for a public query is the same, and T casts one vote on each query in both cases, for
a teacher without records votes as well.

What is fitted before the records are split (a scaling, a vocabulary, a choice of settings) must come from public data.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int, fail
from sfumato.bounded._engine import engine, training_threads
from sfumato.pate._votes import Votes, count_votes

if TYPE_CHECKING:
    from sfumato.nn._training import Steps

Ids = Sequence[str] | Sequence[int] | NDArray[np.generic]


def assign(ids: Ids, num_teachers: int, seed: int = 0) -> NDArray[np.int64]:
    """Send every record to one teacher by a hash of its id.

    **Formal guarantee.** The teacher of a record depends on its id and on public numbers alone: adding, removing or
    replacing another record moves nothing, so that neighboring data sets differ in the data of one teacher (of two, if
    the id changes as well).

    Args:
        ids: public ids, distinct; strings or integers.
        num_teachers: how many disjoint parts.
        seed: another seed, another partition. Public.

    Shapes: int64 [len(ids)], values 0 to num_teachers - 1.

    Raises:
        InputError: ids that repeat, or are neither strings nor integers.

    >>> assign(["ann", "bob", "eve"], 250).tolist()
    [89, 30, 37]
    """
    num_teachers = check_int(low=1, num_teachers=num_teachers)
    seed = check_int(seed=seed)
    listed = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    odd = next((value for value in listed if isinstance(value, bool) or not isinstance(value, str | Integral)), None)
    if odd is not None:
        raise fail("ids", odd, "to be strings or integers", "Give every record a public id.")
    names = Counter(map(str, listed))
    if len(names) < len(listed):
        repeated = names.most_common(1)[0][0]
        raise fail(
            "ids", repeated, "to differ from one another", "Two records of one person need a common id: merge them."
        )
    start = hashlib.sha256(f"teacher {seed} ".encode())
    teachers = np.empty(len(listed), np.int64)
    for i, value in enumerate(listed):
        digest = start.copy()
        digest.update(str(value).encode())
        teachers[i] = int.from_bytes(digest.digest()[:16], "big") % num_teachers
    return teachers


def parts(ids: Ids, num_teachers: int, seed: int = 0) -> list[NDArray[np.int64]]:
    """List the rows of each teacher, in the order of their ids: the order in which records are stored decides nothing.

    ``ids``, ``num_teachers`` and ``seed`` are those of :func:`assign`.

    >>> [part.tolist() for part in parts(["ann", "bob", "eve"], 2)]
    [[1], [0, 2]]
    """
    teachers = assign(ids, num_teachers, seed)
    names = np.array([str(value) for value in ids], dtype=np.str_)
    order = np.lexsort((names, teachers))
    return np.split(order, np.searchsorted(teachers[order], np.arange(1, num_teachers)))


class Teachers(ABC):
    """Trained teachers each predict a class for every query. Nothing here may leave but through an aggregator."""

    num_classes: int

    @abstractmethod
    def predict(self, queries: Any) -> NDArray[np.int64]:
        """Predict classes [teachers, queries] for public rows."""

    def votes(self, queries: Any) -> Votes:
        """Count votes [queries, classes] for public rows, ready for an aggregator."""
        return count_votes(self.predict(queries), self.num_classes)


class Model(Protocol):
    """A model offers what scikit-learn's classifiers offer: it learns from rows and classes, and predicts the classes of rows."""

    def fit(self, x: Any, y: Any, /) -> Any: ...
    def predict(self, x: Any, /) -> Any: ...


@dataclass(frozen=True, eq=False)
class SeparateTeachers(Teachers):
    models: tuple[Model, ...]
    num_classes: int

    def predict(self, queries: Any) -> NDArray[np.int64]:
        found = [np.asarray(model.predict(queries)) for model in self.models]
        for i, one in enumerate(found):
            if one.shape != found[0].shape or one.ndim != 1 or one.dtype.kind not in "iu":
                shown = f"{one.dtype}{list(one.shape)}"
                expected = "to be one integer for each query"
                raise fail(f"the prediction of teacher {i}", shown, expected, "Let predict return class numbers.")
        return np.stack(found).astype(np.int64)


def train_each(
    make_model: Callable[[int], Model],
    x: Any,
    y: NDArray[np.integer],
    ids: Ids,
    *,
    num_teachers: int,
    num_classes: int,
    seed: int = 0,
    progress: Steps | None = None,
) -> SeparateTeachers:
    """Train teachers of any kind, each on its own records.

    A teacher whose records name fewer than two classes is not trained (many models refuse them, and a run that stops tells of
    a record): it votes for the class it saw, or, without records, for a class that its number decides.

    **Formal guarantee.** One record moves one vote on each query (proof: above) if ``make_model`` returns a new model that
    reads no private data and draws random numbers from the teacher's number alone.

    Args:
        make_model: from the teacher's number to a new model with ``fit(x, y)`` and ``predict(x)``, such as a scikit-learn
            classifier or, around a torch module, :class:`sfumato.pate._ensemble.TorchTeacher`.
        x: private records, an array or a CSR matrix of one row each.
        y: their classes, integers 0 to num_classes - 1.
        ids: their public ids, see :func:`assign`.
        num_teachers: how many disjoint parts.
        num_classes: number of classes; public, not read off the labels.
        seed: decides the partition.
        progress: a function, called with (teachers trained, teachers).

    Raises:
        InputError: rows, classes and ids of different numbers, classes out of range, one model for two teachers.

    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> x = np.arange(40.0)[:, None]
    >>> trained = train_each(lambda i: KNeighborsClassifier(1), x, (x[:, 0] > 20).astype(int), range(40),
    ...                      num_teachers=5, num_classes=2)
    >>> trained.votes(np.array([[3.0], [37.0]])).tolist()
    [[5, 0], [0, 5]]
    """
    y = check_records(x, y, ids, num_classes)
    rows = parts(ids, num_teachers, seed)
    models = [_model(make_model, teacher, y[own], num_classes) for teacher, own in enumerate(rows)]
    if len(set(map(id, models))) < len(models):
        expected = "to return a new model for each teacher"
        raise fail("make_model", "a model twice", expected, "Construct the model inside it.")
    tasks = zip(models, rows, strict=True)
    for done, (teacher, model) in enumerate(engine().run(_fitted, (x, y), tasks, threads=training_threads()), 1):
        models[teacher] = model
        if progress is not None:
            progress(done, len(rows))
    return SeparateTeachers(tuple(models), num_classes)


def _model(make_model: Callable[[int], Model], teacher: int, seen: NDArray[np.int64], num_classes: int) -> Model:
    """A model to be fitted, or one that votes for the class that was seen or that the teacher's number decides."""
    classes = np.unique(seen)
    if len(classes) > 1:
        return make_model(teacher)
    return _Constant(int(classes[0]) if len(classes) else teacher % num_classes)


def _fitted(x: Any, y: NDArray[np.int64], model: Model, own: NDArray[np.int64]) -> Model:
    model.fit(x[own], y[own])
    return model


def check_records(x: Any, y: Any, ids: Ids, num_classes: int) -> NDArray[np.int64]:
    """Return the classes of the records, or say what does not fit."""
    num_classes = check_int("Classes are public: declare them.", low=2, num_classes=num_classes)
    y = np.asarray(y)
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise fail("y", f"{y.dtype}{list(y.shape)}", "to hold one integer a record", "Number the classes from 0.")
    for name, length in (("x", np.shape(x)[0] if np.shape(x) else 0), ("ids", len(ids))):
        if length != len(y):
            raise fail(f"the length of {name}", length, f"to be that of y, {len(y)}", "One row, class and id a record.")
    if y.size and not 0 <= y.min() <= y.max() < num_classes:
        raise fail("y", "another number", f"to lie in 0 to {num_classes - 1}", "Leave records without a class out.")
    return y.astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Constant:
    """Votes for one class, whatever the query."""

    label: int

    def fit(self, x: Any, y: Any) -> None:
        """Nothing to learn."""

    def predict(self, x: Any) -> NDArray[np.int64]:
        return np.full(np.shape(x)[0], self.label)
