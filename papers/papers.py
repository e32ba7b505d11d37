"""The five papers, and in a few words what became of their numbers here."""

from __future__ import annotations

from papers.experiment import Paper

BAEK = Paper(
    "baek",
    "Enhancing Differential Privacy for Federated Learning at Scale",
    "Baek, Kim, Nam, Park (2021)",
    "Table 2 is ours to the printed digits (one last digit apart) with Rényi accounting and the classic conversion; a "
    "tight accountant finds less for the same noise. The ε of Fig. 1 and 4 follow with other Rényi orders (1.1 … 30 "
    "in steps of 0.1, digits cut off); two of Fig. 2 contradict Table 2. After the printed 100 rounds on MNIST "
    "accuracies are above the printed ones with little noise and below them with much; fewer users, lost users (but "
    "for 10 % at z = 1, uncalibrated) and a greater C at the same z cost accuracy, as said, and calibration for lost "
    "users costs more of it than is said. By writer, on other data than the paper's, accuracies with noise end far "
    "below the printed ones; without it the printed step size diverges if nothing is clipped, and comes close to what "
    "is printed if updates are.",
)
XUE = Paper(
    "xue",
    "Differentially Private Federated Learning with an Adaptive Noise Mechanism",
    "Xue et al. (2023)",
    "How far δ is spent follows from Eq. (12), and truncation keeps the shape of the parameters where no noise is "
    "added, as said. None of the mechanism's own accuracies can be had: noise of √d·σ0·Δ is a thousand times each "
    "weight and more (over the batch: tens to hundreds of times), averaging the clients takes away too little of it, "
    "and one round leaves a model at chance. GeoDP, which it is compared with, is ahead of it here and not behind.",
)
A_DPFL = Paper(
    "adpfl",
    "Utility Optimization of Federated Learning with Differential Privacy",
    "Zhao et al. (2021)",
    "After the printed 50 rounds accuracies are a third to a half of the printed ones. A-DPFL comes first among the "
    "private ones, as said, and on MNIST hardly so; CL-FL is behind DPFL, against what is said. How many take part, "
    "how long each trains, α and the shares of labels are not stated, and decide how fast it learns.",
)
FED_CAD = Paper(
    "cad",
    "Fed-CAD: Federated Learning with Correlation-aware Adaptive Local Differential Privacy",
    "Zhu et al. (2024)",
    "The printed ε do not follow from the printed σ by any accounting that holds (2.72 stands beside 244); the "
    "nearest we found treats a tenth of the uploads as amplified by the batch's rate in an approximation for large σ. "
    "At σ = 0.3 and above the noise of ten messages is 14 times the longest update and more, and the network ends "
    "near chance; at σ = 0.1 all end alike on MNIST, as said, and on Fashion-MNIST Fed-CAD ends behind. With 30 or 50 "
    "participants something is learnt, and there Fed-CAD is ahead of Fed-LDP at first and ends behind it: each "
    "message has less noise, and their sum, which is the model's, has more.",
)
YUAN = Paper(
    "yuan",
    "Amplitude-Varying Perturbation for Balancing Privacy and Utility in Federated Learning",
    "Yuan et al. (2023)",
    "What is said of ε holds for the network on MNIST and mostly for the SVM: less loss and later optima as it grows. "
    "Table II's σ are 0.003749·√ϑ and follow from Eq. (8) for no M. The learning rate is not stated, and with ours "
    "the loss is far below the printed one and its least over M lies at 20 (ϑ = 1.1) to 40, not at 17. Convolutional "
    "networks of LeNet's sizes learn nothing: C = 5 bounds the norm of their weights, which begin at 8.9. Membership "
    "inference guesses, with noise and without it: a linear network remembers next to nothing.",
)
