"""The restricted unpickler: published array files load, anything else is refused by name before it runs."""

import io
import os
import pickle
import re
import zipfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from sfumato import _pickles as pickles
from sfumato._pickles import load_pickle, read_npz
from sfumato.errors import DataError

PROTOCOLS = (2, 3, 4)


def load(content):
    return load_pickle(io.BytesIO(content), "file.graph")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(["ab", "c"]),
        np.array([True, False]),
        np.zeros((0, 3), dtype=np.float32),
        np.array(2.5),
    ],
)
def test_arrays_survive(array, protocol):
    loaded = load(pickle.dumps(array, protocol=protocol))
    assert loaded.shape == array.shape
    assert loaded.dtype == array.dtype
    assert loaded.flags.writeable
    np.testing.assert_array_equal(loaded, array)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_containers_sparse_matrices_and_scalars_survive(protocol):
    matrix = scipy.sparse.csr_matrix(np.array([[0, 1.5], [2, 0], [0, 0]]))
    graph = defaultdict(list, {0: [1, 2], 1: [0]})
    value = {"matrix": matrix, "graph": graph, "scalar": np.float64(0.5), "mixed": np.array([None, "x"], dtype=object)}
    loaded = load(pickle.dumps(value, protocol=protocol))
    np.testing.assert_array_equal(loaded["matrix"].toarray(), matrix.toarray())
    assert loaded["graph"] == {0: [1, 2], 1: [0]}
    assert loaded["scalar"] == 0.5
    assert loaded["mixed"].tolist() == [None, "x"]


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments):
        self.reduced = function, arguments

    def __reduce__(self):
        return self.reduced


@pytest.mark.parametrize("protocol", [0, *PROTOCOLS])
def test_a_malicious_pickle_runs_nothing(tmp_path, protocol):
    target = tmp_path / "owned"
    content = pickle.dumps({"safe": 1, "evil": [Call(os.system, f"touch {target}")]}, protocol=protocol)
    with pytest.raises(DataError, match=r"system' *, which is not array data, and nothing was run"):
        load(content)
    assert not target.exists()
    pickle.loads(content)
    assert target.exists(), "the pickle above would not have shown an attack"


@pytest.mark.parametrize(
    "name",
    [
        "os.system", "posix.system", "builtins.eval", "__builtin__.eval", "builtins.getattr", "builtins.open",
        "subprocess.Popen", "numpy.load", "numpy.fromfile", "numpy.core.multiarray.fromfile", "scipy.io.loadmat",
        "scipy.sparse.csr.os", "collections.namedtuple", "importlib.import_module", "sfumato._pickles.os",
    ],
)  # fmt: skip
def test_globals_outside_the_list_are_named(name):
    module, _, attribute = name.rpartition(".")
    content = f"c{module}\n{attribute}\n(S'x'\ntR.".encode()
    with pytest.raises(DataError) as caught:
        load(content)
    message = str(caught.value)
    assert f"'{name}'" in message
    assert "file.graph" in message
    assert "\n" not in message


def test_a_dotted_name_cannot_reach_through_an_allowed_module():
    content = b"\x80\x04\x8c\x05numpy\x8c\x0fndarray.tofile.\x93."
    with pytest.raises(DataError):
        load(content)


def test_stand_ins_cannot_be_overwritten_by_a_pickle():
    before = dict(vars(pickles._Array))
    # numpy.ndarray itself, then BUILD with (None, {"resolve": 1}): sets attributes on the class
    with pytest.raises(DataError):
        load(b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nN}X\x07\x00\x00\x00resolveK\x01s\x86b.")
    with pytest.raises(DataError):
        load(b"\x80\x02cnumpy\nndarray\nN}X\x07\x00\x00\x00resolveK\x01s\x86b.")
    assert dict(vars(pickles._Array)) == before
    assert not hasattr(pickles._Reconstruct, "resolve")


def test_sparse_indices_out_of_range_are_refused():
    matrix = scipy.sparse.csr_matrix(np.eye(3))
    matrix.indices = np.array([0, 1, 10**6], dtype=np.int32)
    with pytest.raises(DataError, match=r"Could not read file\.graph"):
        load(pickle.dumps(matrix, protocol=2))


def test_array_content_shorter_than_its_shape_is_refused():
    content = pickle.dumps(np.zeros(4, dtype=np.uint8), protocol=2).replace(b"K\x04\x85", b"K\x09\x85")
    with pytest.raises(DataError, match="reshape"):
        load(content)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_truncation_is_a_data_error(protocol):
    content = pickle.dumps({"x": scipy.sparse.csr_matrix(np.eye(2)), "y": [np.int64(1)]}, protocol=protocol)
    for length in range(len(content)):
        with pytest.raises(DataError) as caught:
            load(content[:length])
        assert "\n" not in str(caught.value)


def test_npz_reads_plain_and_pickled_members(tmp_path):
    path = tmp_path / "graph.npz"
    matrix = scipy.sparse.csr_matrix(np.array([[0, 1.0], [1, 0]], dtype=np.float32))
    np.savez(path, adj_matrix=np.array(matrix, dtype=object), labels=np.array([1, 0]), names=np.array(["a", None]))
    members = read_npz(path, "adj_matrix", "labels", "names", "absent")
    assert set(members) == {"adj_matrix", "labels", "names"}
    np.testing.assert_array_equal(members["adj_matrix"].toarray(), matrix.toarray())
    assert members["labels"].tolist() == [1, 0]
    assert members["names"].tolist() == ["a", None]


def test_a_malicious_npz_member_runs_nothing_and_is_named(tmp_path):
    path, target = tmp_path / "graph.npz", tmp_path / "owned"
    np.savez(path, adj_matrix=np.array(Call(os.system, f"touch {target}"), dtype=object))
    with pytest.raises(DataError, match=r"graph\.npz \(adj_matrix\.npy\): its pickle asks for '(posix|nt)\.system'"):
        read_npz(path, "adj_matrix")
    assert not target.exists()


def test_damaged_and_missing_npz_files(tmp_path):
    path = tmp_path / "graph.npz"
    np.savez(path, labels=np.arange(1000))
    content = path.read_bytes()
    for broken in (b"", b"not a zip", content[: len(content) // 2], content.replace(b"\x93NUMPY", b"\x93NUMPX")):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=r"Could not read .*graph\.npz") as caught:
            read_npz(path, "labels")
        assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match=r"Expected a file at .*absent\.npz"):
        read_npz(tmp_path / "absent.npz", "labels")


def test_a_wrong_array_header_is_a_data_error(tmp_path):
    path = tmp_path / "graph.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("labels.npy", b"\x93NUMPY\x01\x00\x05\x00hello")
    with pytest.raises(DataError, match=r"labels\.npy"):
        read_npz(path, "labels")


def test_numpy_is_never_asked_to_unpickle():
    for path in Path(pickles.__file__).parent.glob("*.py"):
        source = path.read_text()
        assert "allow_pickle=True" not in source
        assert not re.search(r"\bpickle\.loads?\b", source), path.name
