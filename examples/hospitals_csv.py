"""Four hospitals and a table: protect patients, not hospitals, and declare what may be known.

python examples/hospitals_csv.py
python examples/hospitals_csv.py patients.csv     # writes the table, and trains nothing
"""

from __future__ import annotations

import csv
import sys
import tempfile
from pathlib import Path

from sklearn.datasets import load_breast_cancer

import sordino

RANGES = {
    "radius": (0, 40), "texture": (0, 50), "perimeter": (0, 250), "area": (0, 3000), "smoothness": (0, 0.3),
    "compactness": (0, 0.5), "concavity": (0, 0.6), "points": (0, 0.3), "symmetry": (0, 0.4), "fractal": (0, 0.2),
}  # fmt: skip
"""What such a measurement can be, from what one knows of tumours and not from these patients."""


def write_table(file: Path) -> None:
    """Writes a table as hospitals have it: scikit-learn's tumours, 569 patients in four hospitals."""
    data = load_breast_cancer()
    with file.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["hospital", *RANGES, "label"])
        for place, (row, label) in enumerate(zip(data.data[:, :10], data.target, strict=True)):
            table.writerow([("north", "south", "east", "west")[place % 4], *row, label])


def main(folder: Path, rounds: int = 30) -> sordino.Outcome:
    """Trains across the hospitals with each patient protected, and returns what came of it."""
    write_table(folder / "patients.csv")
    hospitals = sordino.Federation.from_csv(
        folder / "patients.csv", client="hospital", ranges=RANGES, public=sordino.PublicCounts(4, 450, 2)
    )
    return sordino.run(
        federation=hospitals,
        mechanism={"name": "dp_sgd", "clip_norm": 1.0},
        budget={"epsilon": 2.0, "delta": 1e-4},
        run={"rounds": rounds},
        out=folder / "run",
    )


if __name__ == "__main__" and sys.argv[1:]:
    write_table(Path(sys.argv[1]))
elif __name__ == "__main__":
    with tempfile.TemporaryDirectory() as aside:
        outcome = main(Path(aside))
        print(outcome.scores.words() if outcome.scores else "no test records", outcome.certificate, sep="\n")
