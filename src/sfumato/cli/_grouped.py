"""The help of commands with many options: what is always needed first, the rest by what it decides."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

_GROUPS = {
    "Needed (a named data set, or two tables)": (
        *("dataset", "nodes", "edges", "label", "unit", "epsilon", "delta", "out"),
    ),
    "Data": (
        *(
            "data_dir",
            "schema",
            "assume_public",
            "directed",
            "drop",
            "edge_weight",
            "max_weight",
            "text",
            "text_features",
            "min_class_size",
        ),
        *("image_size", "collection"),
    ),
    "What a record is": ("arcs", "max_degree", "public_degrees", "subclasses", "partition", "public_rows"),
    "Method": ("task", "hops", "candidates", "rule", "trials", "network", "steps", "augment"),
    "Local methods, whose devices randomize": ("epsilon_x", "epsilon_y", "mechanism", "preset"),
    "Scores, which are outside the guarantee": ("split", "seeds", "controls"),
    "One budget for all runs on a data set": ("ledger", "total_epsilon", "total_delta", "composition"),
}
_REST = "How it runs"


class GroupedCommand(TyperCommand):
    """A command whose help shows its options in groups.

    >>> import typer
    >>> app = typer.Typer(rich_markup_mode=None)
    >>> @app.command(cls=GroupedCommand)
    ... def fit(out: str = typer.Option(""), verbose: bool = False): ...
    >>> shown = typer.main.get_command(app).get_help(typer.Context(typer.main.get_command(app)))
    >>> shown.index("--out") < shown.index("How it runs:") < shown.index("--verbose")
    True
    """

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then the options of each group in the order of the groups."""
        records = {param.name: (param, param.get_help_record(ctx)) for param in self.get_params(ctx)}
        shown = {name: (param, record) for name, (param, record) in records.items() if record is not None}
        arguments = [record for param, record in shown.values() if param.param_type_name == "argument"]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        left = {name: record for name, (param, record) in shown.items() if param.param_type_name == "option"}
        groups = {title: [left.pop(name) for name in names if name in left] for title, names in _GROUPS.items()}
        for title, rows in (*groups.items(), (_REST, list(left.values()))):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
