"""All exceptions that Sfumato raises form one tree.

    SfumatoError
    ├── InputError               an argument is wrong (a ValueError; exit code 2)
    │   ├── DataError            a file, table or graph is wrong
    │   ├── MemoryLimitError     tables need more memory than they may take
    │   ├── SchemaError          the public schema is wrong, or the data contradicts it
    │   ├── NotFittedError       something is asked that only a fit gives (an AttributeError too)
    │   ├── UnsupportedUnitError no proof for this method under this privacy unit
    │   └── UnsupportedTargetError this method learns no targets of this kind
    ├── BudgetExceededError      a release would cost more than the plan or the data set's budget allows
    ├── LedgerError              the ledger is damaged, or disagrees with the plan
    ├── CollectionError          the server of a collection refuses, or does not answer
    ├── EngineError              the workers that compute were lost for good
    └── MissingDependencyError   an optional package is not installed (a ModuleNotFoundError; exit code 2)

    SfumatoWarning               a promise that holds and yet says little (a UserWarning; nothing stops)
    ├── DroppedWarning           columns or attributes that are not read
    ├── RepeatedFitWarning       fits of one graph that no ledger adds up
    └── TextWarning              a column with nearly one text a node

Messages name the argument, its value, what was expected and what to do. They may reach whoever reads a log, so they never
hold a value of a feature or label or the end of an edge, which some unit protects: they name file, row and column instead.
"""

from __future__ import annotations

import sys


class SfumatoError(Exception):
    """The base class of everything that Sfumato raises on purpose."""


class SfumatoWarning(UserWarning):
    """A plan is implausible in a way that public facts show: its promise holds, and yet promises or learns little."""


class DroppedWarning(SfumatoWarning):
    """A reader leaves out columns or attributes, such as the weights of edges."""


class TextWarning(SfumatoWarning):
    """A column of a table holds nearly one text a node, such as names, and each of them is read as a category."""


class RepeatedFitWarning(SfumatoWarning):
    """A graph is fitted once more, and no ledger adds up what all fits cost."""


class InputError(SfumatoError, ValueError):
    """An argument, an option or the content of a file cannot be used as given."""


class DataError(InputError):
    """A file, a table or a graph cannot be read, or contradicts itself."""


class MemoryLimitError(InputError):
    """Tables need more memory than they may take. An import keeps what is finished, and goes on with more."""


class SchemaError(InputError):
    """A public schema is malformed, or a table does not fit it."""


class NotFittedError(InputError, AttributeError):
    """A model is asked for what only a fit gives. Where scikit-learn is imported it is also that library's error of this name."""

    def __new__(cls, *args: object) -> NotFittedError:
        theirs = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", None)
        if theirs is None or issubclass(cls, theirs):
            return super().__new__(cls, *args)
        both = type(cls.__name__, (cls, theirs), {"__module__": cls.__module__, "__doc__": cls.__doc__})
        made: NotFittedError = ValueError.__new__(both, *args)
        return made

    def __reduce__(self) -> tuple[type[NotFittedError], tuple[object, ...]]:
        return NotFittedError, self.args  # other processes make their own class


class UnsupportedUnitError(InputError):
    """A method has no proof of privacy under the requested unit."""


class UnsupportedTargetError(InputError):
    """A method cannot learn several labels of a node, or a number, or not under the requested unit."""


class BudgetExceededError(SfumatoError):
    """A release would spend more than was planned, or more than is left."""


class LedgerError(SfumatoError):
    """The record of what was spent is damaged or disagrees with the plan."""


class CollectionError(SfumatoError):
    """The server of a collection refuses what it was sent, or cannot be reached."""


class EngineError(SfumatoError):
    """The machines or worker processes that compute a run were lost for good."""


class MissingDependencyError(SfumatoError, ModuleNotFoundError):
    """This call needs an optional package that is not installed, or that does not fit the others."""
