"""Write the first chart of a run's report (floor, run and ceiling) as an SVG file, for the pages of examples.

python tools/price_picture.py RUN FILE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sfumato.report._drawing import Figure
from sfumato.report._run_figures import THIS_RUN, price_figure
from sfumato.report._run_scores import price_sections
from sfumato.scoring._scores import Summary


def picture(run: Path) -> str:
    """The text of the SVG file."""
    metrics = json.loads((run / "evaluation" / "metrics.json").read_text())
    method = json.loads((run / "release" / "certificate.json").read_text())["method"]
    if method != "pate":
        figure = next(part for part in price_sections(metrics, method)[0].parts if isinstance(part, Figure))
        return str(figure.alone())
    names = {
        "floor": "Floor: regression on the answered images",
        "student": THIS_RUN,
        "ceiling": "Ceiling: true labels",
    }
    return price_figure([(name, Summary.of([metrics[key]["accuracy"]])) for key, name in names.items()]).alone()


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(picture(Path(sys.argv[1])))
