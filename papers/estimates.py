"""What the full form of an experiment takes, with all its seeds, on two cores that do nothing else.

Estimated from processor seconds: a round was measured for every network (`SECONDS`), and a full form has so many runs
of so many rounds. Where it has several data sets, all of them count.
"""

from __future__ import annotations

SECONDS = {
    "cnn_tfp, 60,000 images": 3.9,
    "cnn_xue, 60,000 images": 5.6,
    "cnn_a_dpfl, 6,000 images": 5.9,
    "cnn_fed_cad, 6,000 images": 0.5,
    "cnn_yuan, 30,000 images": 2.0,
    "mlp_yuan, 30,000 images": 0.1,
    "svm, 16,000 records": 0.03,
}
"""Processor seconds of a round on one core, by network and by how many records pass through it."""
TAKES = {
    "baek-fig1": "50 minutes",
    "baek-fig1-readings": "1.7 hours",
    "baek-fig2": "1.7 hours",
    "baek-fig3": "55 minutes",
    "baek-fig4": "1.2 hours",
    "baek-fig4-readings": "1.2 hours",
    "baek-fig5": "55 minutes",
    "baek-algorithm3": "30 minutes",
    "xue-fig2": "1 hour",
    "xue-fig3": "6 hours",
    "xue-fig3-readings": "35 minutes",
    "xue-fig4a": "25 minutes",
    "xue-fig4b": "1.6 hours",
    "xue-fig4c": "40 hours",
    "xue-fig4d": "50 minutes",
    "xue-fig5a": "30 minutes",
    "xue-fig5b": "45 minutes",
    "xue-fig5c": "30 minutes",
    "xue-fig5d": "15 minutes",
    "xue-learning": "1.5 hours",
    "xue-theorems": "3 minutes",
    "adpfl-fig4": "1.1 hours",
    "adpfl-fig4-median": "35 minutes",
    "adpfl-table2": "35 minutes",
    "adpfl-table2-readings": "5 hours",
    "adpfl-fig5": "15 minutes",
    "adpfl-fig6": "1.5 hours",
    "cad-fig1": "15 minutes",
    "cad-fig3-readings": "5 minutes",
    "cad-fig4": "8 minutes",
    "cad-fig5": "35 minutes",
    "cad-fig6": "12 minutes",
    "cad-fig6-readings": "2 minutes",
    "yuan-fig7-readings": "25 minutes",
    "yuan-fig8": "40 minutes",
    "yuan-fig8-readings": "5 hours",
    "yuan-fig10": "35 minutes",
    "yuan-table3-overfitting": "45 minutes",
}
"""By id; what is not named takes minutes, and was run in full with all its seeds."""
