"""The five papers, as they are cited."""

from __future__ import annotations

from papers.experiment import Paper

BAEK = Paper(
    "baek",
    "baek",
    "Enhancing Differential Privacy for Federated Learning at Scale",
    "Baek, Kim, Nam, Park (2021)",
    "dropout_robust",
    "noise shared out over clients, repaired when some of them drop out",
    "ε to the digit; accuracies by the scale of pixels; the server's ε not as printed",
)
XUE = Paper(
    "xue",
    "xue",
    "Differentially Private Federated Learning with an Adaptive Noise Mechanism",
    "Xue et al. (2023)",
    "component_adaptive",
    "local noise by weight, scaled by a predicted step",
    "uploads as printed; no accuracy from the printed noise, which is thousands of times each weight",
)
A_DPFL = Paper(
    "adpfl",
    "a_dpfl",
    "Utility Optimization of Federated Learning with Differential Privacy",
    "Zhao et al. (2021)",
    "a_dpfl",
    "clients chosen by their labels, noise lowered when accuracy stops rising",
    "ahead of the same without optimisation; accuracies a third to a half of the printed ones, with a wide spread",
)
FED_CAD = Paper(
    "cad",
    "fed_cad",
    "Fed-CAD: Federated Learning with Correlation-aware Adaptive Local Differential Privacy",
    "Zhu et al. (2024)",
    "fed_cad",
    "local noise that reuses part of the last noise",
    "the theorems hold for a public Diff; the printed ε belong to ten times σ; at σ itself accuracies are at chance",
)
YUAN = Paper(
    "yuan",
    "yuan",
    "Amplitude-Varying Perturbation for Balancing Privacy and Utility in Federated Learning",
    "Yuan et al. (2023)",
    "geometric",
    "noise whose variance grows or shrinks from round to round",
    "trends over ε hold; Table II's σ follow from no M; losses by the learning rate; Theorem 1 falls short of its ε",
)
PAPERS = (BAEK, XUE, A_DPFL, FED_CAD, YUAN)
