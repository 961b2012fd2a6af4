"""Tables that are larger than memory become a stored graph, stage by stage; an import that was stopped goes on.

Every finished stage is recorded in ``STORE.partial/import.json``, and the store itself appears at the end, whole. Nodes keep
the order of their table, which is public: an order by degree would show private arcs in the public numbers of nodes.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from sfumato._files import PARTIAL, finish_folder, sync_file, write_json
from sfumato._validate import fail
from sfumato.errors import DataError, InputError, MemoryLimitError, SfumatoError
from sfumato.graph._dropped import check_drop
from sfumato.graph._graph import Graph
from sfumato.graph._schema import Schema
from sfumato.graph._storage import ArrayFile, write_array, write_facts
from sfumato.graph._unique import tell_texts
from sfumato.tables._arrow import counted
from sfumato.tables._build import Nodes, Reading, direction, feature_blocks, read_facts
from sfumato.tables._columns import check_order, edge_names
from sfumato.tables._described import edge_columns, node_columns
from sfumato.tables._ends import Places, edge_batches
from sfumato.tables._id_column import named_by_ends
from sfumato.tables._packed_files import PackedFiles, SparseFiles
from sfumato.tables._runs import Packing, arc_keys, merge_runs, sort_keys
from sfumato.tables._tables import FileTable, existing, is_parquet, numbering

Report = Callable[[str, int, int], None]
_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_LEAST = 5 * 10**8
_BYTES_A_KEY = 48
_KEYS, _ROWS, _MERGED = 1 << 28, 1 << 22, 1 << 23


def import_tables(
    nodes: str | Path,
    edges: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    memory_limit: str = "2GB",
    report: Report | None = None,
    **how: Any,
) -> Path:
    """Write tables as a stored graph, which :meth:`sfumato.graph.Graph.load` opens, without holding the edges in memory.

    ``nodes`` is a node file and ``edges`` one edge file or several, each CSV or Parquet, whose ends are called as in the first;
    ``out`` is the new folder of the graph.
    ``how`` says what the columns mean, as for :func:`~sfumato.tables._io.read_csv`; texts and weights of edges cannot be
    imported. The arrays are those of the readers, bit for bit. Ids of nodes are public, so they come from a table of their own
    and never from the edges.

    ``memory_limit`` is how much memory sorting may take, such as ``2GB``; about 100 bytes a node come on top. If the import is
    stopped, the same call goes on after the last finished stage. ``report`` is told the stage, and how much of it is done.

    Raises:
        DataError: a table cannot be read, an edge has an end that is no node, or ``out`` exists.
        SchemaError: a table does not fit the schema.
        InputError: an argument is wrong, or a stopped import into ``out`` had other tables or options.
        MemoryLimitError: DuckDB needs more memory than half of the limit. The same call with more goes on.
    """
    reading = Reading(**{"name": Path(out).name, **how})
    if reading.text:
        raise InputError(
            "Expected no text with an import, got a column of texts. Write their features as columns first."
        )
    if reading.weight is not None:
        raise InputError(
            f"Expected no weights of edges with an import, got {reading.recency or reading.weight[0]!r}: they are not sorted on "
            "disk. Read the tables with read_csv or read_parquet, which hold them in memory, and write the store with Graph.save."
        )
    if reading.owner is not None:
        raise InputError(
            f"Expected no owners of edges with an import, got the column {reading.owner[0]!r}: how many edges of a person stay "
            "is not decided on disk. Read the tables with read_csv or read_parquet, which hold them in memory, and write the "
            "store with Graph.save."
        )
    if reading.account is not None:
        raise InputError(
            f"Expected no owners of nodes with an import, got the column {reading.account[0]!r}: which nodes of a person stay is "
            "not decided on disk. Read the tables with read_csv or read_parquet, which hold them in memory, and write the store "
            "with Graph.save."
        )
    if reading.types is not None:
        raise InputError(
            f"Expected no types of edges with an import, got the column {reading.types[0]!r}: they are not sorted on disk. Read "
            "the tables with read_csv or read_parquet, which hold them in memory, and write the store with Graph.save."
        )
    if reading.split_by_time is not None:
        raise InputError(
            "Expected no `split_by_time` with an import: a store holds no later edges. Read the tables with read_csv or "
            "read_parquet."
        )
    limit = memory_bytes(memory_limit)
    files = [existing(path).resolve() for path in (nodes, *([edges] if isinstance(edges, str | Path) else edges))]
    if len(files) < 2:
        raise InputError("Expected at least one file of edges, got none. Name one; it may have no rows.")
    out = Path(out).resolve()
    work = out.with_name(out.name + PARTIAL)
    if out.exists() and not (work / "import.json").exists():
        raise DataError(f"Expected {out} not to exist yet. Choose another folder or remove it first.")
    if work.exists() and any(work.iterdir()) and not any((work / name).exists() for name in ("lock", "import.json")):
        raise DataError(
            f"Expected {work} to be the work of a stopped import, got another folder. Move it, or remove it."
        )
    work.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(work / "lock", timeout=0):
            _Import(files[0], files[1:], out, work, reading, limit, report or (lambda *_: None)).run()
    except Timeout:
        raise InputError(f"Expected one import into {out} at a time, got a second. Wait for the first.") from None
    shutil.rmtree(work, ignore_errors=True)
    return out


def memory_bytes(text: str) -> int:
    """Return a size such as ``2GB`` or ``500MiB`` as a number of bytes, at least 500 MB."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B)\s*", text, re.IGNORECASE)
    size = int(float(found[1]) * _UNITS[found[2].upper()]) if found else 0
    if size < _LEAST:
        raise fail("memory_limit", text, "to be a size from 500MB on, such as 2GB")
    return size


class _Import:
    """One import: its stages, and the record of those that are finished."""

    def __init__(
        self, nodes: Path, edges: list[Path], out: Path, work: Path, how: Reading, limit: int, report: Report
    ) -> None:
        self.nodes, self.edges, self.out, self.work = nodes, edges, out, work
        self.how, self.limit, self.report = how, limit, report
        self.graph, self.record = work / "graph", work / "import.json"
        config = {"memory_limit": f"{limit // 2}B", "temp_directory": str(work / "spill")}
        self.config: dict[str, Any] = config
        asked = {**asdict(how), "schema": repr(Schema.read(how.schema)), "report": None, "told": None}
        self.asked = json.loads(json.dumps({"files": self._files(), "options": asked}))
        self.done: dict[str, Any] = {}
        self._most = min(_KEYS, limit // _BYTES_A_KEY)

    def _files(self) -> list[list[Any]]:
        return [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in (self.nodes, *self.edges)]

    def run(self) -> None:
        if self.record.exists():
            kept = json.loads(self.record.read_text())
            if kept["asked"] != self.asked:
                raise InputError(
                    f"Expected the tables and options of the import that was stopped, got others or changed files. Repeat that "
                    f"command, or remove {self.work} to start anew."
                )
            self.done = kept["done"]
        if self.out.exists():  # only the clearing up was left
            return
        self.graph.mkdir(exist_ok=True)
        try:
            self._stages()
        except MemoryLimitError:
            raise
        except SfumatoError:
            shutil.rmtree(self.work, ignore_errors=True)
            raise

    def _stages(self) -> None:
        table = self._table()
        links = [FileTable(path, config=self.config).column_names for path in self.edges]
        ends = [name for names in links for name in names]
        check_order(table.column_names, links[0], self.how, (str(self.nodes), str(self.edges[0])))
        self.how = named_by_ends(self.how, table.column_names, links[0], str(self.edges[0]))
        check_drop(self.how.left_out, table.column_names, ends, (str(self.nodes), str(self.edges[0])))
        found = read_facts(table, self.how, str(self.nodes), numbering(self.nodes))
        if self.how.told is not None:
            self._tell(table, found)
        if "features" not in self.done:
            self._finish("features", self._features(table, found))
        if "sorted" not in self.done:
            self._sort(Places(found.ids))
        if "arcs" not in self.done:
            self._finish("arcs", self._merge(len(found.ids)))
        self._complete(found)
        tell_texts(found.fields["assumed_public"], str(self.nodes), 4)

    def _tell(self, table: FileTable, found: Nodes) -> None:
        assert self.how.told is not None
        self.how.told(str(self.nodes), node_columns(table, self.how, str(self.nodes), found))
        for path in self.edges:
            names = FileTable(path, self.config).column_names
            self.how.told(str(path), edge_columns(names, self._how_edges(path), str(path), found.ids))

    def _how_edges(self, path: Path) -> Reading:
        """How a file of edges is read: its ends are called as in the first file."""
        first = self.edges[0]
        if path == first:
            return self.how
        source, target = edge_names(FileTable(first, self.config).column_names, self.how, str(first))
        return replace(self.how, source=source, target=target)

    def _finish(self, stage: str, facts: Any) -> None:
        for path in self.graph.iterdir():
            sync_file(path)
        self.done[stage] = facts
        write_json(self.record, {"asked": self.asked, "done": self.done})

    def _table(self) -> FileTable:
        """Return the node table as Parquet, whose columns can be read one by one."""
        if is_parquet(self.nodes):
            return FileTable(self.nodes, self.config)
        path, cells = self.work / "nodes.parquet", FileTable(self.nodes, self.config)
        if "table" not in self.done:
            self.report("read nodes", 0, 1)
            cells.write_parquet(path)
            sync_file(path)
            self._finish("table", {})
        return FileTable(path, self.config, cells.column_names)

    def _features(self, table: FileTable, found: Nodes) -> dict[str, Any]:
        layout, outside, done = found.layout, Counter[str](), 0
        if not layout.names:
            return {"outside": {}, "arrays": {}, "widths": None}
        files = (SparseFiles if layout.sparse else PackedFiles)(self.graph, layout.widths)
        for block, beyond in feature_blocks(table, found, packed=True):
            outside.update(beyond)
            files.append(block)
            done += block.shape[0]
            self.report("write features", done, len(found.ids))
        return {"outside": counted(outside), **files.close()}

    def _sort(self, places: Places) -> None:
        """Sort the arcs in runs, each a file. The record says which row of which file comes next."""
        directed = direction(self.how)
        state = self.done.get("runs", {"runs": 0, "file": 0, "row": 0, "rows": 0, "kept": 0})
        most = self._most
        keys, stop = np.empty(most, dtype=np.int64), 0
        ahead, num_nodes = dict(state), len(places.ids)
        for number, source, target in self._ends(places, ahead["file"], ahead["row"]):
            new = arc_keys(
                source, target, num_nodes, directed=directed, self_loops=self.how.self_loops, first=ahead["rows"]
            )
            if stop + len(new) > most:
                self._write_run(keys[:stop], num_nodes, ahead)
                keys, stop = np.empty(most, dtype=np.int64), 0
            if number != ahead["file"]:
                ahead |= {"file": number, "row": 0}
            keys[stop : stop + len(new)] = new
            stop += len(new)
            ahead["row"] += len(source)
            ahead["rows"] += len(source)
            ahead["kept"] += len(new) // (1 if directed else 2)
        self._write_run(keys[:stop], num_nodes, ahead)
        self._finish("sorted", {})

    def _ends(self, places: Places, first: int, skip: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        rows = min(_ROWS, self._most // 8)
        for at, path in enumerate(self.edges[first:], start=first):
            table = FileTable(path, self.config)
            named, number = (str(self.nodes), str(path)), table.number
            done, how = skip if at == first else 0, self._how_edges(path)
            for source, target, _, _ in edge_batches(table, places, how, named, number, rows, done):
                yield at, source, target
                done += len(source)
                self.report(f"sort {path.name}", done, table.num_rows or done + 1)

    def _write_run(self, keys: np.ndarray, num_nodes: int, state: dict[str, Any]) -> None:
        path = self.work / f"run-{state['runs']}"
        sort_keys(keys, num_nodes).tofile(path)
        sync_file(path)
        state["runs"] += 1
        self._finish("runs", dict(state))

    def _merge(self, num_nodes: int) -> dict[str, Any]:
        state, directed = self.done["runs"], direction(self.how)
        runs = [self.work / f"run-{number}" for number in range(state["runs"])]
        packing, file = Packing(num_nodes, directed=directed), ArrayFile(self.graph / "indices.npy", np.int32)
        total, done = sum(run.stat().st_size // 8 for run in runs), 0
        for keys in merge_runs(runs, min(self._most, _MERGED)):
            file.append(packing.targets(keys))
            done += len(keys)
            self.report("merge arcs", done, total)
        arrays = {"indices": file.close(), "indptr": write_array(self.graph, "indptr", packing.indptr())}
        return {"merged": packing.merged(state["rows"], state["rows"] - state["kept"]), "arrays": arrays}

    def _complete(self, found: Nodes) -> None:
        if self._files() != self.asked["files"]:
            raise DataError(
                "Expected the tables to stay as they are during an import, but one was changed. Import again."
            )
        features, arcs = self.done["features"], self.done["arcs"]
        indptr, indices = (np.load(self.graph / f"{name}.npy", mmap_mode="r") for name in ("indptr", "indices"))
        outside = {**found.fields["outside"], **features["outside"]}
        names = found.fields["feature_names"]
        graph = Graph.from_sorted(
            indptr, indices, directed=direction(self.how),
            **{**found.fields, "feature_names": (), "outside": outside, "merged": arcs["merged"]},
        )  # fmt: skip
        arrays = {**features["arrays"], **arcs["arrays"]}
        for name in ("y", "node_ids", "roles", "degree_bounds"):
            if getattr(graph, name) is not None:
                arrays[name] = write_array(self.graph, name, getattr(graph, name))
        if graph.targets is not None:
            arrays["targets"] = write_array(self.graph, "targets", graph.targets.values)
        facts = {**graph.stored_facts(), "feature_names": names, "num_features": len(names)}
        facts["widths"] = features.get("widths")
        write_facts(self.graph, facts, arrays)
        finish_folder(self.graph, self.out)
