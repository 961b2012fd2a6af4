"""The list of named data sets: what is there is seen by its files, which are not opened."""

from importlib import import_module

import pytest

from sfumato.datasets import _origins as origins
from sfumato.datasets._listing import CARDS, GENERATED, KNOWN, list_datasets, origin_table
from sfumato.errors import DataError


def test_list_shows_what_is_there_without_loading(tmp_path):
    (tmp_path / "facebook100").mkdir()
    (tmp_path / "npz").mkdir()
    for name in ("facebook100/Berkeley13.mat", "facebook100/Mine7.mat", "npz/extra.npz"):
        (tmp_path / name).write_bytes(b"")
    rows = list_datasets(tmp_path)
    assert [row.name for row in rows if row.present] == [
        "campus", "interests", "facebook100/Berkeley13", "facebook100/all", "facebook100/Mine7", "npz/extra",
    ]  # fmt: skip
    by_name = {row.name: row for row in rows}
    assert by_name["facebook100/Berkeley13"].num_nodes == 18_980
    assert by_name["npz/extra"].num_nodes is None
    with pytest.raises(DataError, match="Expected data_dir to be a folder"):
        list_datasets(tmp_path / "absent")


def test_every_data_set_has_a_card_and_every_card_a_reader_that_exists():
    folders = {row.name.partition("/")[0] for row in KNOWN if row.name not in GENERATED}
    assert folders == CARDS.keys()
    for reader in filter(None, (card.reader for card in CARDS.values())):
        module, _, name = reader.partition(":")
        assert callable(getattr(import_module(f"sfumato.datasets.{module}"), name))


def test_every_data_set_has_an_origin_and_every_checksum_a_data_set():
    told = {name: origins.told_of(name) for name in origins.NAMES}
    assert {name for name, one in told.items() if not one["address"]} == set(GENERATED)
    table = origin_table()
    assert all(key in origins.NAMES or key in CARDS for key in table["origin"])
    paths = [file["path"] for one in told.values() for file in one["files"]]
    assert all("{" not in path for path in paths)
    assert len(paths) == len(set(paths))
    assert all(len(digest) == 64 for digest in table["sha256"].values())
    assert table["sha256"].keys() <= {path.removesuffix(".gz") for path in paths}
    assert not any(marker in row.note for row in KNOWN for marker in ("http", ".csv", ".npz"))


@pytest.mark.data
@pytest.mark.parametrize(
    "name", ["planetoid/cora", "npz/cora_ml", "directed/polblogs", "lastfm_asia", "text/cora_cane"]
)
def test_the_files_at_hand_are_the_known_ones(data_dir, name):
    files = origins.told_of(name, data_dir)["files"]
    assert all(file["is_known"] for file in files if file["present"])
    assert any(file["present"] for file in files)
