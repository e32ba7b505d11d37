"""Features: equal to an independent oracle, a function of one record alone, and kept on disk for the user alone."""

from __future__ import annotations

import math
import stat
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.fft import dctn, idctn
from torch import Tensor

from sordino.data import federate
from sordino.data.features import (
    FeatureSettings,
    GroupNorm,
    RandomFourier,
    RandomPatches,
    Root,
    Scattering,
    UnitRows,
    WhitenedPatches,
    cache_folder,
)
from sordino.data.features.cache import kept
from sordino.data.features.patches import _patterns, foreseen
from sordino.data.features.views import Opponent
from sordino.errors import DataError, StorageError
from sordino.random.streams import Streams
from sordino.recipe import Recipe
from sordino.runs.setup import load

EVERY = [
    FeatureSettings("scattering"),
    FeatureSettings("scattering", "none", scales=1, angles=4),
    FeatureSettings("scattering", "group", groups=9),
    FeatureSettings("random", count=20, norm="none"),
    FeatureSettings("random", count=20),
    FeatureSettings("patches", count=20),
    FeatureSettings("patches", count=20, mirror=True),
    FeatureSettings("scattering", mirror=True),
]


def images(count: int, shape: tuple[int, int, int] = (1, 16, 16), seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((count, *shape), np.float32))


def slow_scattering(image: np.ndarray, scales: int, angles: int) -> np.ndarray:
    """The definition, written in space: periodic sums over every pair of points, in double precision."""
    margin = 2**scales
    x = np.pad(image.astype(np.float64), margin, mode="reflect")
    rows, columns = x.shape

    def bell(j: int, angle: float, slant: float, pitch: float) -> np.ndarray:
        sigma, total = 0.8 * 2**j, np.zeros((rows, columns), complex)
        for p in range(-3, 4):
            for q in range(-3, 4):
                u, v = np.meshgrid(np.arange(rows) + p * rows, np.arange(columns) + q * columns, indexing="ij")
                along = u * math.cos(angle) + v * math.sin(angle)
                across = -u * math.sin(angle) + v * math.cos(angle)
                size = np.exp(-(along**2) / (2 * sigma**2) - (slant * across) ** 2 / (2 * sigma**2))
                total += size * np.exp(1j * pitch * along)
        return total * slant / (2 * math.pi * sigma**2)

    def wavelet(j: int, k: int) -> np.ndarray:
        angle, slant = (angles - angles // 2 - 1 - k) * math.pi / angles, 4 / angles
        wave = bell(j, angle, slant, 0.75 * math.pi / 2**j)
        flat = bell(j, angle, slant, 0.0)
        return wave - wave.sum() / flat.sum() * flat

    def convolved(u: np.ndarray, kernel: np.ndarray, kernel_step: int) -> np.ndarray:
        kernel = kernel[::kernel_step, ::kernel_step] * kernel_step**2
        return np.array(
            [
                [
                    sum(
                        (u[a, :] * kernel[(i - a) % len(u), (j - np.arange(u.shape[1])) % u.shape[1]]).sum()
                        for a in range(len(u))
                    )
                    for j in range(u.shape[1])
                ]
                for i in range(len(u))
            ]
        )

    blur = bell(scales - 1, 0.0, 1.0, 0.0).real

    def averaged(u: np.ndarray, grid: int) -> np.ndarray:
        step = 2 ** (scales - grid)
        return convolved(u, blur, 2**grid)[::step, ::step][1:-1, 1:-1].real

    out, second = [averaged(x, 0)], []
    for j in range(scales):
        for k in range(angles):
            u = np.abs(convolved(x, wavelet(j, k), 1))[:: 2**j, :: 2**j]
            out.append(averaged(u, j))
            for jj in range(j + 1, scales):
                for kk in range(angles):
                    step = 2 ** (jj - j)
                    second.append(averaged(np.abs(convolved(u, wavelet(jj, kk), 2**j))[::step, ::step], jj))
    return np.stack(out + second)


def test_scattering_is_its_definition_in_space() -> None:
    image = images(1, (1, 12, 8), seed=3)
    ours = Scattering(2, 3)(image)[0].numpy()
    assert ours.shape == (1 + 6 + 9, 3, 2)
    np.testing.assert_allclose(ours, slow_scattering(image[0, 0].numpy(), 2, 3), atol=2e-6)


def test_scattering_is_that_of_kymatio_but_for_its_cut_low_pass() -> None:
    # kymatio 0.3.0, Scattering2D(2, (16, 16)) in numpy, of the image cos(row/2)·sin(column/3)/2 + 1/2:
    # channels 0 (average), 3 and 12 (first order), 20 and 77 (second order) at [1, 2].
    rows, columns = np.mgrid[:16, :16]
    image = torch.from_numpy((np.cos(rows / 2) * np.sin(columns / 3) / 2 + 0.5).astype(np.float32))
    ours = Scattering()(image[None, None])[0, [0, 3, 12, 20, 77], 1, 2].numpy()
    np.testing.assert_allclose(ours, KYMATIO, rtol=5e-3)


KYMATIO = [0.440082, 0.0253574, 0.0344883, 0.00144324, 0.00209208]


@pytest.mark.parametrize(
    ("record", "shape"), [((1, 28, 28), (81, 7, 7)), ((3, 32, 32), (243, 8, 8)), ((1, 8, 8), (81, 2, 2))]
)
def test_scattering_has_the_stated_shape(record: tuple[int, int, int], shape: tuple[int, int, int]) -> None:
    assert Scattering().shape(record) == shape == tuple(Scattering()(images(2, record)).shape[1:])


def test_scattering_moves_little_with_the_image_and_sees_directions() -> None:
    rows, _ = np.mgrid[:32, :32]
    stripes = torch.from_numpy(np.cos(0.75 * np.pi * rows).astype(np.float32))[None, None]
    upright = Scattering()(stripes)[0, 1:9].mean((1, 2))
    lying = Scattering()(stripes.transpose(2, 3).contiguous())[0, 1:9].mean((1, 2))
    assert int(upright.argmax()) == 3 and int(lying.argmax()) == 7  # the angles 0 and −π/2
    assert upright.max() > 5 * upright.median()


@pytest.mark.parametrize("record", [(28, 28), (1, 30, 28), (1, 4, 4), (784,)])
def test_records_that_are_no_such_images_are_refused_by_name(record: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"data\.features is 'scattering'"):
        Scattering()(torch.zeros(2, *record))


@pytest.mark.parametrize("settings", EVERY, ids=repr)
def test_features_of_a_record_depend_on_that_record_alone(settings: FeatureSettings) -> None:
    x = images(40)
    everybody = settings(x)
    alone = torch.cat([settings(x[k : k + 1]) for k in range(len(x))])
    torch.testing.assert_close(alone, everybody, atol=2e-6, rtol=1e-4)
    changed = x.clone()
    changed[7] = 1 - changed[7]
    again = settings(changed)
    others = [k for k in range(len(x)) if k != 7]
    assert torch.equal(again[others], everybody[others]) and not torch.equal(again[7], everybody[7])


@pytest.mark.parametrize("settings", EVERY, ids=repr)
def test_features_are_pure_and_finite_on_strange_images(settings: FeatureSettings) -> None:
    for x in (torch.zeros(2, 1, 16, 16), torch.ones(2, 1, 16, 16), 1e6 * images(2)):
        before = x.clone()
        first = settings(x)
        assert torch.equal(settings(x), first) and torch.equal(x, before)
        assert first.isfinite().all() and first.dtype == torch.float32
    assert len(settings(torch.empty(0, 1, 16, 16))) == 0


@pytest.mark.parametrize("norm", ["unit", "group", "root"])
def test_rows_have_norm_one(norm: str) -> None:
    rows = FeatureSettings("scattering", norm)(images(5)).flatten(1)  # type: ignore[arg-type]
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(5))
    assert UnitRows()(torch.zeros(1, 3)).norm() == 0


def test_group_norm_is_that_of_torch() -> None:
    x = images(4, (6, 3, 5))
    torch.testing.assert_close(GroupNorm(3)(x), torch.nn.functional.group_norm(x, 3))
    torch.testing.assert_close(GroupNorm()(x), torch.nn.functional.group_norm(x, 6))
    torch.testing.assert_close(
        GroupNorm()(images(2, (81, 2, 2))), torch.nn.functional.group_norm(images(2, (81, 2, 2)), 27)
    )
    with pytest.raises(DataError, match=r"data\.feature_groups is 4"):
        GroupNorm(4)(x)


def test_root_keeps_the_sign() -> None:
    assert Root()(torch.tensor([-4.0, 0.0, 9.0])).tolist() == [-2.0, 0.0, 3.0]


def test_opponent_colours_keep_lengths_and_grey_has_no_contrast() -> None:
    x = images(4, (3, 8, 8))
    seen = Opponent()(x)
    torch.testing.assert_close(seen.flatten(1).norm(dim=1), x.flatten(1).norm(dim=1))
    grey = Opponent()(torch.full((1, 3, 2, 2), 0.5))
    assert grey[:, 1:].abs().max() < 1e-6 and grey[0, 0, 0, 0] == pytest.approx(0.5 * math.sqrt(3))
    red = Opponent()(torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1)).flatten()
    torch.testing.assert_close(red, torch.tensor([1 / 3, 1 / 2, 1 / 6]).sqrt())
    with pytest.raises(DataError, match=r"data\.feature_colours"):
        FeatureSettings("scattering", colours="opponent")(images(2))
    with pytest.raises(DataError, match=r"data\.feature_colours"):
        FeatureSettings("scattering", colours="blue")  # type: ignore[arg-type]


def test_an_image_and_its_mirror_image_have_the_same_mirrored_features() -> None:
    x, settings = images(3, (3, 16, 16)), FeatureSettings("scattering", colours="opponent", mirror=True)
    torch.testing.assert_close(settings(x), settings(x.flip(-1)))
    torch.testing.assert_close(settings(x).flatten(1).norm(dim=1), torch.ones(3))
    assert not torch.allclose(settings(x), FeatureSettings("scattering", colours="opponent")(x), atol=1e-3)
    with pytest.raises(DataError, match=r"data\.feature_mirror"):
        FeatureSettings("random", mirror=True)(torch.rand(2, 7))


def test_random_fourier_features_tend_to_the_gaussian_kernel() -> None:
    x = images(6, (1, 3, 3)).flatten(1)
    features = RandomFourier(40_000, width=1.5, seed=1)(x)
    expected = torch.exp(-(torch.cdist(x, x) ** 2) / (2 * 1.5**2))
    torch.testing.assert_close(features @ features.T, expected, atol=0.02, rtol=0)
    torch.testing.assert_close(features.norm(dim=1), torch.ones(6))


def test_random_features_are_keyed_by_their_seed() -> None:
    x = images(3)
    assert torch.equal(RandomPatches(8, seed=4)(x), RandomPatches(8, seed=4)(x))
    assert not torch.equal(RandomPatches(8, seed=4)(x), RandomPatches(8, seed=5)(x))
    assert not torch.equal(RandomFourier(8, seed=4)(x), RandomFourier(8, seed=5)(x))


def test_random_patches_are_their_definition_patch_by_patch() -> None:
    part = RandomPatches(count=3, size=4, cells=2, threshold=0.1, contrast=0.02, seed=2)
    x = images(1, (2, 9, 9))
    drawn = Streams(2).generator("random features patterns").standard_normal((3, 2, 4, 4), "float32")
    drawn = drawn.astype(np.float64)
    total, seen = np.zeros((6, 2, 2)), np.zeros((2, 2))
    for i in range(6):
        for j in range(6):
            patch = x[0, :, i : i + 4, j : j + 4].numpy().astype(np.float64)
            patch = (patch - patch.mean()) / np.sqrt(patch.var() + 0.02)
            h = (drawn * patch).sum((1, 2, 3)) / np.sqrt(32)
            total[:, i // 3, j // 3] += np.maximum(np.concatenate([h, -h]) - 0.1, 0)
            seen[i // 3, j // 3] += 1
    np.testing.assert_allclose(part(x)[0].numpy(), total / seen, atol=1e-5)
    assert part.shape((2, 9, 9)) == (6, 2, 2)


@pytest.mark.parametrize("record", [(1, 7, 8), (64,)])
def test_patches_of_too_small_images_are_refused(record: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="at least 8 pixels"):
        RandomPatches()(torch.zeros(1, *record))


def test_whitened_patches_are_their_definition_patch_by_patch() -> None:
    part = WhitenedPatches(5, size=4, cells=2, threshold=0.3, contrast=0.05, floor=0.2, chroma=0.3, seed=2)
    x = images(1, (3, 6, 6))
    drawn = Streams(2).generator("whitened patterns").standard_normal((5, 3, 4, 4))
    law = np.array([[1 / max(math.hypot(i, j), 0.5) for j in range(4)] for i in range(4)])
    spread = np.stack([law, 0.3 * law, 0.3 * law])
    spread[0, 0, 0] = np.inf  # the mean of brightness is lost
    weighted = drawn / np.sqrt(spread**2 + 0.2**2)
    spread[0, 0, 0] = 0.0
    size = np.sqrt(48 * ((spread**2 / (spread**2 + 0.2**2)).sum() / (spread**2).sum()))
    patterns = idctn(weighted / size, axes=(2, 3), norm="ortho")
    padded = np.pad(x[0].numpy().astype(np.float64), ((0, 0), (2, 1), (2, 1)), mode="reflect")
    total = np.zeros((10, 2, 2))
    for i in range(6):
        for j in range(6):
            h = (patterns * padded[:, i : i + 4, j : j + 4]).sum((1, 2, 3))
            h /= np.sqrt((h**2).mean() + 0.05**2)
            total[:, i // 3, j // 3] += np.maximum(np.concatenate([h, -h]) - 0.3, 0) / 9
    np.testing.assert_allclose(part(x)[0].numpy(), total, atol=1e-5)
    assert part.shape((3, 6, 6)) == (10, 2, 2)


def test_whitened_patterns_see_all_frequencies_alike_where_plain_ones_see_the_lowest() -> None:
    """Patches drawn from the law: what each frequency adds to responses is the same, and all of it has variance 1."""
    spread = foreseen(6, 3, 0.15)
    coefficients = dctn(_patterns(0, 4000, 3, 6, 1e-9, 0.15).double().numpy(), axes=(2, 3), norm="ortho")
    shares = (coefficients * spread).var(0) / np.square(spread).sum() * spread.size
    assert shares[0, 0, 0] == 0
    np.testing.assert_allclose(shares[spread > 0], 1 / (spread.size - 1), rtol=0.15)
    plain = np.square(spread) / np.square(spread).sum()
    assert plain.max() > 20 * np.median(plain)


@pytest.mark.parametrize("record", [(2, 8, 8), (1, 5, 8), (64,)])
def test_whitened_patches_of_other_records_are_refused(record: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"data\.features is 'patches'"):
        WhitenedPatches()(torch.zeros(1, *record))
    assert not WhitenedPatches(4)(torch.full((1, 1, 8, 8), 0.7)).any()


def test_a_cache_gives_back_the_same_and_computes_once(tmp_path: Path) -> None:
    x, calls = images(5000), []

    def compute(records: Tensor) -> Tensor:
        calls.append(len(records))
        return records.flatten(1)[:, :3] + 1

    folder = tmp_path / "new"
    first = kept("a", x, compute, folder)
    assert torch.equal(kept("a", x, compute, folder), first) and calls == [5000]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (file,) = folder.iterdir()  # nothing is left aside
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    kept("b", x, compute, folder)  # another setting
    kept("a", 1 - x, compute, folder)  # other records
    kept("a", x.view(2500, 2, 16, 16), compute, folder)  # the same bytes in another shape
    assert calls == [5000, 5000, 5000, 2500]


@pytest.mark.parametrize("mode", [0o755, 0o711, 0o770])
def test_a_folder_that_others_can_look_into_is_refused(mode: int, tmp_path: Path) -> None:
    """The names are digests of private records: they stood in whatever folder there was, for everybody to compare."""
    tmp_path.chmod(mode)
    with pytest.raises(StorageError, match="chmod 700"):
        kept("a", images(5000), lambda records: records, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_damaged_file_is_computed_anew(tmp_path: Path) -> None:
    x = images(5000)
    first = kept("a", x, lambda records: records * 2, tmp_path)
    (file,) = tmp_path.iterdir()
    for text in (b"", file.read_bytes()[:-5]):
        file.write_bytes(text)
        assert torch.equal(kept("a", x, lambda records: records * 2, tmp_path), first)


def test_one_clients_records_are_never_kept(tmp_path: Path) -> None:
    FeatureSettings("scattering")(images(1, (1, 28, 28)), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_failure_while_writing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sordino.data.features.cache.np.save", broken)
    with pytest.raises(KeyboardInterrupt):
        kept("a", images(5000), lambda records: records, tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_cache_lies_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SORDINO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/sordino/features")
    monkeypatch.setenv("SORDINO_CACHE", "/y")
    assert cache_folder() == Path("/y") and cache_folder("/z") == Path("/z")


def test_a_recipe_gets_its_features(tmp_path: Path) -> None:
    settings = [
        "data.features=scattering",
        "data.feature_scales=1",
        "data.feature_norm=group",
        f"data.cache={tmp_path}",
    ]
    federation = load(Recipe.load(None, settings))
    assert federation.input_shape == (9, 4, 4)
    plain = load(Recipe.load(None, ["data.normalise=none"]))
    expected = FeatureSettings("scattering", "group", scales=1)(plain.train_x)
    assert torch.equal(federation.train_x, expected) and len(federation.test_x) == 360
    assert load(Recipe.load(None, ["data.features=random", "data.feature_count=5", "data.feature_seed=3"]))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(DataError, match=r"data\.features is 'wavelets'"):
        federate("digits", features="wavelets")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"data\.feature_norm is 'both'"):
        federate("digits", features="scattering", feature_norm="both")
