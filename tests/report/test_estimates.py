"""The figure of estimates."""

from sfumato.collect._estimate import Answer, Answers
from sfumato.report import _collection as drawing
from sfumato.report._drawing import style


def test_no_words_of_a_figure_are_cut():
    """Long names leave little room for axes; titles and names of axes are as wide as the figure."""
    long = "an alumna or alumnus of any of the departments"
    wide = tuple(Answer(f"{long} {row}", "mean", 0.5, 0.4, 0.6, 0.0, 1.0 + row) for row in range(60))
    short = (Answer("2004", "share", 0.5, 0.4, 0.6, 0.0, 1.0),)
    counts = {"features": 1_000_000, "label": 1}
    with style():
        figure = drawing._drawn(Answers("c", "0" * 64, counts, {"features": wide, "label": short}, 9, None))
        figure.draw_without_rendering()
        boxes = [
            text.get_window_extent()
            for box in figure.subfigs
            for text in (box._suptitle, box._supxlabel, *box.axes[0].get_yticklabels())
        ]
    assert [text._suptitle.get_text() for text in figure.subfigs] == [
        "Features of 1,000,000 users, the 40 largest\n95 % intervals",
        "Class shares of 1 user\n95 % intervals",
    ]
    assert len(boxes) == 2 * 2 + 40 + 1
    assert all(0 <= box.x0 < box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height for box in boxes)
