"""Methods with so few steps, and so small networks, that a fit takes no time: what holds of them holds of longer ones."""

from dataclasses import fields

from sfumato.catalog import method_named
from sfumato.errors import InputError

SHORT = {"epochs": 2, "steps": 2, "max_epochs": 2, "width": 4}


def quick(name, **settings):
    """The method of this name; a width that is chosen by another setting stays as it is."""
    known = {field.name for field in fields(method_named(name))}
    try:
        return method_named(name, **{key: value for key, value in SHORT.items() if key in known}, **settings)
    except InputError:
        return method_named(name, **settings)
