"""The list of named data sets: what is there is seen by its files, which are not opened."""

from importlib import import_module

import pytest

from sfumato.datasets._listing import CARDS, GENERATED, KNOWN, list_datasets
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
