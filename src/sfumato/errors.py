"""The exceptions that Sfumato raises, one tree.

    SfumatoError
    ├── InputError               an argument is wrong (a ValueError; exit code 2)
    │   ├── DataError            a file, table or graph is wrong
    │   ├── SchemaError          the public schema is wrong, or the data contradicts it
    │   └── UnsupportedUnitError no proof for this method under this privacy unit
    ├── BudgetExceededError      a release would cost more than the plan or the data set's budget allows
    ├── LedgerError              the ledger is damaged, or disagrees with the plan
    └── MissingDependencyError   an optional package is not installed (a ModuleNotFoundError; exit code 2)

    SfumatoWarning               a promise that holds and yet says little (a UserWarning; nothing stops)

Messages name the argument, its value, what was expected and what to do. They may reach whoever reads a log, so they never
hold a value of a feature or label or the end of an edge, which some unit protects: they name file, row and column instead.
"""


class SfumatoError(Exception):
    """Anything that Sfumato raises on purpose."""


class SfumatoWarning(UserWarning):
    """Something public about a plan is implausible: it holds, and yet promises or learns little."""


class InputError(SfumatoError, ValueError):
    """An argument, option or file content that cannot be used as given."""


class DataError(InputError):
    """A file, table or graph that cannot be read or is inconsistent."""


class SchemaError(InputError):
    """A public schema that is malformed, or that a table does not fit."""


class UnsupportedUnitError(InputError):
    """A method has no proof of privacy under the requested unit."""


class BudgetExceededError(SfumatoError):
    """A release would spend more than was planned or is left."""


class LedgerError(SfumatoError):
    """The record of what was spent is damaged or disagrees with the plan."""


class MissingDependencyError(SfumatoError, ModuleNotFoundError):
    """An optional package is needed for this call."""
