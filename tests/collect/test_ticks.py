"""What a device writes and sends after it worked with values comes at fixed moments, however long the work took."""

import pytest
from collect_fake import LABEL, schema_of

from sfumato.collect import _client as client
from sfumato.collect import _drawing as drawing
from sfumato.collect import _ticks as ticks
from sfumato.collect._client import Device
from sfumato.collect._ticks import Ticks

SCHEMA = schema_of(label=LABEL)


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless somebody sleeps or works; it is a list of one number."""
    now = [1000.0]
    monkeypatch.setattr(ticks, "SECONDS", 0.05)
    monkeypatch.setattr(ticks.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(ticks.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


@pytest.mark.parametrize(
    ("work", "moment"), [(0.0, 0.05), (0.001, 0.05), (0.049, 0.05), (0.051, 0.1), (0.3, 0.4), (3.0, 3.2)]
)
def test_moments(clock, work, moment):
    waiting = Ticks()
    clock[0] += work
    waiting.wait()
    assert clock[0] == pytest.approx(1000.0 + moment)
    waiting.wait()
    assert clock[0] == pytest.approx(1000.0 + 2 * moment), "the next one, not the same"


@pytest.mark.parametrize("checking", [0.0, 0.01])
def test_when_a_report_is_written_tells_nothing_of_its_values(tmp_path, clock, monkeypatch, checking):
    """Slower work on some values, as by a miss of a hash or a longer list, is seen in no moment of a line of the ledger."""
    moments, real, write = [], drawing.draw, client.append_entry
    work = {"crime": 0.001, "poetry": 0.03}
    said = iter(work)

    def draw(*given):
        clock[0] += work[label]
        return real(*given)

    def values_of(*given):
        clock[0] += checking * (label == "poetry")
        return known(*given)

    known = drawing.values_of
    monkeypatch.setattr(drawing, "draw", draw)
    monkeypatch.setattr(drawing, "values_of", values_of)
    monkeypatch.setattr(client, "append_entry", lambda *given: moments.append(clock[0] - start) or write(*given))
    for label in said:
        device = Device.create(tmp_path / label, "ada", 10.0)
        start = clock[0]
        device.report(SCHEMA, {"label": label})
    assert moments[:2] == pytest.approx(moments[2:])
    assert moments[:2] == pytest.approx([0.05, 0.1])
