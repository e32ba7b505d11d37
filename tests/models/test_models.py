"""Models by name, losses against independent formulas, and the check that refuses what cannot be trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import hinge_loss, log_loss
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from sordino.errors import ModelError
from sordino.models import LOSSES, MODELS, build, check, loss

IMAGES = (1, 28, 28)


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shape", [IMAGES, (3, 32, 32)])
def test_every_model_can_be_trained_per_example(name: str, shape: tuple[int, ...]) -> None:
    model = build(name, shape, 7, seed=1)
    check(model, shape)
    assert model(torch.zeros(2, *shape)).shape == (2, 7)
    assert type(model) is nn.Sequential  # the batched engine trusts exact types


# Counted by hand from the layers that the papers (or our choices) name.
@pytest.mark.parametrize(
    ("name", "shape", "weights"),
    [
        ("linear", IMAGES, 7850),
        ("svm", (104,), 1050),
        ("mlp_yuan", IMAGES, 784 * 32 + 32 + 32 * 10 + 10),
        ("cnn_tfp", IMAGES, 26_010),
        ("cnn_tfp_dropout", IMAGES, 26_010),
        ("cnn_xue", IMAGES, 260 + 5020 + 16_050 + 510),
        ("cnn_fed_cad", IMAGES, 260 + 5020 + 16_050 + 510),
        ("cnn_xue_cifar", (3, 32, 32), 896 + 9248 + 18_496 + 36_928 + 40_970),
        ("cnn_a_dpfl", IMAGES, 832 + 25_632 + 512 * 1024 + 1024 + 10_250),
        ("cnn_yuan", (3, 32, 32), 62_006),
    ],
)
def test_models_have_the_weights_they_should(name: str, shape: tuple[int, ...], weights: int) -> None:
    assert count(build(name, shape, 10)) == weights


def test_tensorflow_privacys_cnn_layer_by_layer() -> None:
    kinds = [type(layer).__name__ for layer in build("cnn_tfp", IMAGES, 10)]
    block = ["Conv2d", "ReLU", "MaxPool2d"]
    assert kinds == [*block, *block, "Flatten", "Linear", "ReLU", "Linear"]


@pytest.mark.parametrize("activation", ["relu", "tanh", "linear"])
def test_mlp_computes_what_it_says(activation: str) -> None:
    model = build("mlp", (4,), 3, seed=2, hidden=(5, 6), activation=activation)
    x = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    nonlinear = {"relu": lambda a: np.maximum(a, 0), "tanh": np.tanh, "linear": lambda a: a}[activation]
    weights = [p.detach().numpy() for p in model.parameters()]
    out = x
    for i in range(3):
        out = out @ weights[2 * i].T + weights[2 * i + 1]
        out = nonlinear(out) if i < 2 else out
    assert model(torch.from_numpy(x)).detach().numpy() == pytest.approx(out, abs=1e-5)


def test_seed_alone_decides_the_weights() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (build("cnn_tfp", IMAGES, 10, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("name", ["linear", "svm"])
def test_convex_models_start_at_zero(name: str) -> None:
    assert all((p == 0).all() for p in build(name, (5,), 3).parameters())


def test_regression_has_one_output() -> None:
    model = build("linear", (5,), 0)
    assert model(torch.zeros(4, 5)).shape == (4, 1)
    assert loss("auto", model, 0) is LOSSES["mse"]


@pytest.mark.parametrize(
    ("name", "shape", "options", "sentence"),
    [
        ("resnet", IMAGES, {}, r"model\.name is 'resnet': use one of linear"),
        ("cnn_tfp", (784,), {}, "asks for images"),
        ("cnn_tfp", (1, 8, 8), {}, "too large for images"),
        ("mlp", IMAGES, {"hidden": (0,)}, r"model\.hidden is \(0,\)"),
        ("mlp", IMAGES, {"hidden": (10**9,)}, r"layers of widths .*1,000,000,000.* weights, and a network by name at"),
        ("linear", (10**8,), {}, "at most 100,000,000: make them narrower"),
        ("mlp", IMAGES, {"activation": "gelu"}, r"model\.activation is 'gelu'"),
    ],
)
def test_impossible_models_are_refused(
    name: str, shape: tuple[int, ...], options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ModelError, match=sentence):
        build(name, shape, 10, **options)  # type: ignore[arg-type]


scores = st.integers(2, 6).flatmap(
    lambda classes: st.lists(
        st.tuples(st.lists(st.floats(-50, 50), min_size=classes, max_size=classes), st.integers(0, classes - 1)),
        min_size=1,
        max_size=8,
    )
)


@given(rows=scores)
@settings(max_examples=80, deadline=None)
def test_losses_agree_with_scikit_learn(rows: list[tuple[list[float], int]]) -> None:
    outputs, y = np.array([row for row, _ in rows]), np.array([label for _, label in rows])
    classes = outputs.shape[1]
    x, targets = torch.tensor(outputs), torch.tensor(y)
    softmax = np.exp(outputs - outputs.max(1, keepdims=True))
    softmax /= softmax.sum(1, keepdims=True)
    entropy = LOSSES["cross_entropy"](x, targets).numpy()
    exact = np.log(np.exp(outputs - outputs.max(1, keepdims=True)).sum(1)) + outputs.max(1) - outputs[range(len(y)), y]
    assert entropy == pytest.approx(exact, abs=1e-8)
    if softmax[range(len(y)), y].min() > 1e-9:
        assert entropy.mean() == pytest.approx(log_loss(y, softmax, labels=range(classes)), rel=1e-6, abs=1e-9)
    hinge = LOSSES["hinge"](x, targets).numpy()
    if classes > 2:
        assert hinge.mean() == pytest.approx(hinge_loss(y, outputs, labels=range(classes)))
    else:
        assert hinge.mean() == pytest.approx(np.maximum(0, 1 - (2 * y - 1) * (outputs[:, 1] - outputs[:, 0])).mean())
    assert LOSSES["mse"](x, targets).numpy() == pytest.approx(((outputs - np.eye(classes)[y]) ** 2).mean(1))


def test_mse_takes_numbers() -> None:
    losses = LOSSES["mse"](torch.tensor([[1.0], [3.0]]), torch.tensor([0.0, 5.0]))
    assert losses.tolist() == [1.0, 4.0]
    vectors = LOSSES["mse"](torch.ones(2, 3), torch.zeros(2, 3))
    assert vectors.tolist() == [1.0, 1.0]


def test_auto_picks_the_models_loss() -> None:
    assert loss("auto", build("svm", (5,), 3), 3) is LOSSES["hinge"]
    assert loss("auto", build("mlp", (5,), 3), 3) is LOSSES["cross_entropy"]
    assert loss("auto", nn.Linear(5, 3), 3) is LOSSES["cross_entropy"]
    assert loss("hinge", build("mlp", (5,), 3), 3) is LOSSES["hinge"]
    for name, classes, sentence in (("huber", 3, "use auto or one of"), ("hinge", 0, "use mse")):
        with pytest.raises(ModelError, match=sentence):
            loss(name, nn.Linear(5, 3), classes)


class Whitened(nn.Module):
    """Mixes the examples of a batch, without being a layer that is known for it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x - x.mean(0))


class Noisy(Whitened):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x + torch.randn_like(x))


class Counting(Whitened):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.layer(x)


class Remembering(Whitened):
    """Centres by the mean of the first records that it meets, which is kept beside weights and buffers."""

    mean: float | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.mean = float(x.mean()) if self.mean is None else self.mean
        return self.layer(x - self.mean)


def headless(model: nn.Module) -> nn.Module:
    """Returns the model with a last layer of zeros, as many begin."""
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return model


class Pair(Whitened):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return self.layer(x), x


class Summing(Whitened):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).sum()


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (nn.Sequential(nn.Conv2d(1, 12, 3), nn.BatchNorm2d(12)), r"layer '1' is BatchNorm2d: .*nn\.GroupNorm\(4, 12\)"),
        (nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16)), r"BatchNorm1d: .*nn\.GroupNorm\(8, 16\)"),
        (nn.Sequential(nn.Linear(4, 2), nn.SyncBatchNorm(2)), r"SyncBatchNorm: .*nn\.GroupNorm\(2, 2\)"),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.LazyBatchNorm2d()), r"LazyBatchNorm2d: .*nn\.GroupNorm"),
        (
            nn.Sequential(nn.Conv2d(1, 2, 3), nn.InstanceNorm2d(2, track_running_stats=True)),
            "InstanceNorm2d: .*track_running_stats=False",
        ),
        (nn.Sequential(nn.Linear(4, 2), nn.AlphaDropout(0.5)), "layer '1' is AlphaDropout: .*remove it"),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.Dropout2d()), "Dropout2d"),
        (nn.Sequential(nn.Linear(4, 2), nn.RReLU()), "RReLU"),
        (nn.LSTM(3, 3, num_layers=2, dropout=0.1), r"layer '\(the model\)' is LSTM: .*dropout=0"),
        (nn.Sequential(nn.Flatten()), "no trainable weights"),
        (nn.Linear(4, 2).requires_grad_(False), "no trainable weights"),
        (nn.Linear(4, 2).double(), r"weight 'weight' is torch\.float64"),
        (nn.LazyLinear(2), "weight 'weight' has no shape yet"),
    ],
)
def test_layers_that_cannot_work_are_named_with_what_to_use(model: nn.Module, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        check(model)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (Whitened(), "depends on the others in its batch"),
        (headless(Whitened()), "depends on the others in its batch"),
        (Noisy(), "another answer each time"),
        (headless(Noisy()), "another answer each time"),
        (Remembering(), "records that it saw before"),
        (headless(Remembering()), "records that it saw before"),
        (Counting(), "buffer 'calls' changes"),
        (Pair(), "returns tuple"),
        (Summing(), r"3 records into an output of shape \(\)"),
        (nn.Linear(5, 2), r"does not accept records of shape \(4,\)"),
        (nn.Sequential(nn.Linear(4, 64), spectral_norm(nn.Linear(64, 64))), "buffer .* changes"),
    ],
)
def test_faults_of_unknown_layers_are_found_by_running_them(model: nn.Module, sentence: str) -> None:
    check(model)
    with pytest.raises(ModelError, match=sentence):
        check(model, (4,))


def test_weights_that_are_not_finite_are_refused() -> None:
    model = nn.Linear(4, 2)
    with torch.no_grad():
        model.bias[0] = float("nan")
    with pytest.raises(ModelError, match="weight 'bias' is not finite"):
        check(model)


def test_what_can_work_passes() -> None:
    tied = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    tied[2].weight = tied[0].weight
    frozen = nn.Sequential(nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 2))
    normed = nn.Sequential(nn.Linear(4, 4), nn.GroupNorm(2, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    for model in (tied, frozen, normed):
        check(model, (4,))
    check(nn.Sequential(nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4), nn.Flatten(), nn.Linear(144, 2)), (1, 8, 8))


def test_checking_leaves_no_trace() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)).eval()
    weights = [p.clone() for p in model.parameters()]
    before = torch.random.get_rng_state()
    check(model, (4,))
    assert torch.equal(torch.random.get_rng_state(), before) and not model.training
    assert all(torch.equal(a, b) for a, b in zip(weights, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("name", ["linear", "svm", "mlp", "cnn_tfp"])
def test_layers_without_bias_have_fewer_weights_and_the_same_start(name: str) -> None:
    plain, bare = build(name, IMAGES, 7, seed=1), build(name, IMAGES, 7, seed=1, bias=False)
    check(bare, IMAGES)
    assert not any("bias" in label for label, _ in bare.named_parameters())
    weights = {label: value for label, value in plain.named_parameters() if "bias" not in label}
    assert count(bare) == sum(value.numel() for value in weights.values()) < count(plain)
    assert all(torch.equal(weights[label], value) for label, value in bare.named_parameters())


class Remembers(nn.Module):
    """Takes the first record that it meets off all others, in a plain attribute that is no buffer."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.last, self.first = how, nn.Linear(4, 3), None
        self.words, self.kind = (nn.Embedding(50, 4), nn.Embedding(1, 4)) if how == "tokens" else (None, None)

    def forward(self, x: Tensor) -> Tensor:
        if self.words is not None:
            x = self.words(x) + self.kind(torch.zeros_like(x[:1, :1]))
            x = x.mean(1)
        x = torch.log(x) if self.how == "logarithm" else x
        if self.first is None and (self.how != "with gradients" or torch.is_grad_enabled()):
            self.first = x.detach()[0]
        return self.last(x if self.first is None else x - self.first)


@pytest.mark.parametrize(
    ("how", "kind"), [("tokens", torch.int64), ("logarithm", torch.float32), ("with gradients", torch.float32)]
)
def test_models_that_remember_records_are_found_whatever_records_they_take(how: str, kind: torch.dtype) -> None:
    """A table of one entry made all made-up records alike, a logarithm made every answer NaN, and NaN is like NaN."""
    with pytest.raises(ModelError, match="records that it saw before"):
        check(Remembers(how), (4,), kind)


class Slanted(nn.Module):
    """Adds a part and takes its value off again: answers stay what they were, and gradients tell of other records."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.last, self.other, self.kept = how, nn.Linear(4, 3), nn.Linear(4, 3), None

    def forward(self, x: Tensor) -> Tensor:
        before = x.mean(0) if self.how == "batch" or self.kept is None else self.kept
        if self.how == "latest" or (self.how == "first" and self.kept is None):
            self.kept = x.detach()[0].clone()
        part = self.other(before)
        return self.last(x) + part - part.detach()


@pytest.mark.parametrize(("how", "why"), [("first", "saw before"), ("latest", "saw before"), ("batch", "in its batch")])
def test_models_whose_gradients_tell_of_other_records_are_found(how: str, why: str) -> None:
    """Only answers were compared: what a model keeps and shows in gradients alone was in everybody's sums."""
    with pytest.raises(ModelError, match=f"gradient depends on .*{why}"):
        check(Slanted(how), (4,))


def test_a_model_that_cannot_be_copied_is_refused_in_a_sentence() -> None:
    with pytest.warns(FutureWarning):
        normed = torch.nn.utils.weight_norm(nn.Linear(4, 3))
    with pytest.raises(ModelError, match="parametrizations"):
        check(normed, (4,))
    check(weight_norm(nn.Linear(4, 3)), (4,))


def test_models_whose_answers_are_never_numbers_are_refused() -> None:
    class Root(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sqrt(-1 - super().forward(x).abs())

    with pytest.raises(ModelError, match="not a number"):
        check(Root(4, 3), (4,))
