"""Numbered tables, figures and claims of the papers that state nothing which could be run, and why."""

from __future__ import annotations

from dataclasses import dataclass

from papers.cited import A_DPFL, BAEK, FED_CAD, XUE, YUAN
from papers.experiment import Paper


@dataclass(frozen=True)
class NothingToRun:
    """A numbered item without an experiment."""

    paper: Paper
    place: str
    why: str


_KNOWN = "a known result, cited; the accountants here are tested against it (tests/account)"
NOTHING_TO_RUN = (
    NothingToRun(BAEK, "Table 1", "compares properties of other systems in words"),
    NothingToRun(BAEK, "Theorem 1", _KNOWN),
    NothingToRun(BAEK, "Definitions 1 to 3", "definitions"),
    NothingToRun(BAEK, "Algorithms 1 and 2", "`dropout_robust`, faithful, form `plain`: played in baek-fig1 to fig5"),
    NothingToRun(XUE, "Table I", "notation"),
    NothingToRun(XUE, "Table II", "the optimisers' predicted steps: `bound/predicted.py`, tests/bound"),
    NothingToRun(XUE, "Fig. 1", "a drawing of the scheme"),
    NothingToRun(XUE, "Lemmas 2 to 5", _KNOWN),
    NothingToRun(XUE, "Theorem 1", "Eq. (7) and (12) are computed in xue-fig3; its premise (a public Δ) fails"),
    NothingToRun(XUE, "Definitions 1 to 3", "definitions"),
    NothingToRun(
        XUE,
        "Eq. (1) to (13)",
        "(1) to (6): Algorithm 3 and its sensitivity; (7) to (13): computed in xue-fig3 and xue-lemmas",
    ),
    NothingToRun(XUE, "Algorithms 1 to 4", "FedAvg, and `component_adaptive`, faithful: played in every figure"),
    NothingToRun(A_DPFL, "Table 1", "settings of the experiments, which are those of the recipes"),
    NothingToRun(A_DPFL, "Fig. 1 to 3", "drawings of the system, and an example of label shares"),
    NothingToRun(A_DPFL, "Definitions 1 to 3", "definitions"),
    NothingToRun(
        A_DPFL,
        "Eq. (1) to (20)",
        "(1) to (9): definitions; (10), (12): scores; (11): an assumption; (13) to (20): Algorithms 1 to 4",
    ),
    NothingToRun(A_DPFL, "Algorithms 1 to 4", "`a_dpfl`, faithful: played in every figure"),
    NothingToRun(FED_CAD, "Definitions 1 to 6, Proposition 1", "definitions, and post-processing"),
    NothingToRun(FED_CAD, "Algorithms 1 and 2", "`fed_cad`, faithful: played in every figure"),
    NothingToRun(YUAN, "Table I", "notation"),
    NothingToRun(YUAN, "Definitions 1 to 3, Assumption 1", "definitions; constants of a loss in yuan-theorem3"),
    NothingToRun(YUAN, "Algorithm 1", "`geometric`, faithful: played in every figure"),
    NothingToRun(YUAN, "Remarks 1 to 3", "what Eq. (8) says of M, q and ϑ = 1, tested (tests/papers/test_numbers.py)"),
    NothingToRun(YUAN, "Fig. 1", "a drawing of the system"),
    NothingToRun(
        YUAN,
        "Eq. (1) to (43)",
        "(1) to (7): Algorithm 1; (8), (9), (16), (17), (26): Theorems 1 and 2; (10) to (14), (41): Theorem 3 and "
        "Corollary 2; the rest: steps of their proofs",
    ),
    NothingToRun(YUAN, "Lemma 1", "cited; ℋ is computed in yuan-theorems as part of the bound"),
    NothingToRun(YUAN, "Corollary 1", "Theorem 3 at m = M: yuan-theorem3"),
)
