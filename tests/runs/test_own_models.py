"""Runs with models of all kinds: whole numbers as inputs, `.logits`, adapters, the engine's line, progress, devices."""

import numpy as np
import pytest
import torch
from torch import nn

import sordino
from sordino import models
from sordino.errors import ModelError, RecipeError, SordinoError
from sordino.models.losses import cross_entropy
from sordino.train import LocalTraining, Trainer
from sordino.train.device import OnDevice, device_of
from sordino.train.engine import choose
from train.networks import Forked, Text, Transformer

RECIPE = sordino.Recipe.load().but(
    mechanism={"name": "dp_sgd", "clip_norm": 1.0}, budget={"epsilon": 8.0, "delta": 1e-3}, run={"rounds": 2}
)
pytestmark = pytest.mark.filterwarnings("ignore::sordino.errors.SordinoWarning")


def text(dtype=np.int64, highest=19):
    x = np.random.default_rng(0).integers(1, 20, (60, 7)).astype(dtype)
    x[0, 0] = highest
    return sordino.Federation.of(x, x[:, -1] % 4, clients=6, classes=4)


def played(model, federation, tmp_path, **options):
    recipe = RECIPE.but(public=federation.proposed())
    return sordino.run(recipe, model=model, federation=federation, out=tmp_path / "run", **options)


@pytest.mark.parametrize(
    "make", [lambda: Text(nn.GRU, batch_first=True), Transformer, lambda: sordino.lora(Transformer())]
)
def test_text_is_trained_on_as_whole_numbers(make, tmp_path, capsys):
    torch.manual_seed(0)
    model, federation = make(), text(np.int32)
    assert federation.train_x.dtype == torch.int64
    outcome = played(model, federation, tmp_path, progress=True)
    assert outcome.engine.startswith("gradients: all examples at once through the model's own forward pass, as ")
    assert outcome.engine in capsys.readouterr().err and outcome.to_json()["engine"] == outcome.engine
    assert outcome.predict(federation.test_x).shape == (len(federation.test_x),)
    assert len(outcome.weights) == sum(p.numel() for p in model.parameters() if p.requires_grad)


def test_numbers_beyond_the_embedding_are_one_sentence_before_anything_is_written(tmp_path):
    with pytest.raises(ModelError, match=r"whole numbers 1 … 20, but the model's embedding holds 0 … 19"):
        played(Text(nn.GRU, batch_first=True), text(highest=20), tmp_path)
    assert not (tmp_path / "run").exists()


def test_whole_numbers_are_features_where_nothing_looks_them_up(tmp_path):
    model = nn.Sequential(nn.Linear(7, 4))
    assert models.suited(model, torch.ones(2, 7, dtype=torch.int64)).dtype == torch.float32
    outcome = played(model, text(), tmp_path)
    assert "an nn.Sequential of known layers" in outcome.engine
    assert outcome.predict(torch.ones(2, 7, dtype=torch.int64)).shape == (2,)


def test_made_up_records_stay_within_every_embedding():
    model = nn.ModuleList([nn.Embedding(50, 2), nn.Embedding(9, 2)])
    made = models.made_up(model, (100,), torch.int64)
    assert made.dtype == torch.int64 and int(made.min()) >= 0 and int(made.max()) == 8
    assert not models.made_up(nn.Linear(2, 2), (100,), torch.int64).any()


def test_a_model_that_no_fast_engine_takes_is_trained_and_told_of(tmp_path):
    x = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
    federation = sordino.Federation.of(x, (x[:, 0] > 0).long(), clients=4)
    with pytest.warns(sordino.errors.SordinoWarning, match="one example after the other, which is slow"):
        played(Forked(), federation, tmp_path)


def test_outputs_are_a_tensor_or_have_logits():
    with pytest.raises(ModelError, match=r"returns tuple.*\.logits"):
        models.scores((torch.ones(1),))
    assert models.scores({"logits": torch.ones(1)}).shape == (1,)


def test_devices_by_name():
    assert device_of("cpu").type == "cpu"
    with pytest.raises(RecipeError, match=r"run\.device is 'tpu'"):
        device_of("tpu")
    if not torch.cuda.is_available():
        assert device_of("auto").type == "cpu"
        with pytest.raises(RecipeError, match="PyTorch finds none on this machine"):
            device_of("cuda")


def test_another_device_is_asked_for_every_sum():
    """The processor stands in for a device: what goes there and comes back is the same."""
    torch.manual_seed(0)
    model, x, y = nn.Sequential(nn.Linear(5, 4)), torch.randn(2, 3, 5), torch.randint(0, 4, (2, 3))
    here = choose(model, cross_entropy).gradients
    there, rows, mask = OnDevice(here, torch.device("cpu")), torch.randn(1, 24), torch.ones(2, 3)
    assert torch.equal(there.outputs(rows, x), here.outputs(rows, x))
    assert torch.equal(there.gradients(rows, x, y, mask), here.gradients(rows, x, y, mask))
    for name in ("clipped_clients", "clipped_examples"):
        for found, expected in zip(
            getattr(there, name)(rows, x, y, mask, 0.1), getattr(here, name)(rows, x, y, mask, 0.1), strict=True
        ):
            assert torch.equal(found, expected)


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_gradients_on_a_device_are_those_of_the_processor(kind):
    if not (torch.cuda.is_available() if kind == "cuda" else torch.backends.mps.is_available()):
        pytest.skip(f"this machine has no {kind} device")
    torch.manual_seed(0)
    federation = text()
    model = Text(nn.GRU, batch_first=True)
    data, record = federation.gather(np.arange(3)), models.made_up(model, (7,), torch.int64, 1)[0]
    row = nn.utils.parameters_to_vector(model.parameters()).detach()
    found = [
        Trainer(model, cross_entropy, LocalTraining(), record=record, device=device).example_sum(
            row, data, 0.1, None, sordino.random.streams.Streams(0), 1
        )[0]
        for device in ("cpu", kind)
    ]
    assert found[1].device.type == "cpu"
    torch.testing.assert_close(found[0], found[1], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": torch.compile(nn.Linear(64, 10))}, "model is compiled"),
        ({"model": nn.DataParallel(nn.Linear(64, 10))}, "give the network inside, model.module"),
        ({"model": nn.Linear(64, 10, device="meta")}, "weights without numbers"),
        ({"watcher": 3}, "watcher is 3: give a function"),
        ({"recipe": "mine.toml"}, "Recipe.load makes a Recipe of a file"),
        ({"recipe": {"run": {"rounds": 1}}}, "Recipe.from_dict makes a Recipe of it"),
        ({"federation": (1, 2)}, "Federation.of.x, y. makes a Federation"),
        ({"epsilon": 2}, "epsilon is not a setting .did you mean budget.epsilon"),
    ],
)
def test_what_is_no_model_recipe_or_federation_is_one_sentence(tmp_path, given, said):
    with pytest.raises(SordinoError, match=said):
        sordino.run(**given, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
