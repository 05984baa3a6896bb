import gzip
import hashlib
import sys

import numpy as np
import pytest
from PIL import Image

from helpers import data_folder
from taskdict.datasets import (
    DataError,
    Digits,
    load_bundled,
    load_classical,
    load_kodak,
    load_mnist,
    load_usps,
)
from taskdict.datasets import digits as digits_module
from taskdict.datasets import images as images_module
from taskdict.experiments.data.halftones import load_halftones


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TASKDICT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def nowhere(monkeypatch):
    monkeypatch.delenv("TASKDICT_DATA", raising=False)


def write_mnist(root, monkeypatch, compress=True):
    """A tiny MNIST, whose checksums are expected from here on."""
    rng = np.random.default_rng(0)
    made, sums = {}, {}
    for name in digits_module.MNIST_FILES:
        n = 5 if "train" in name else 3
        body = rng.integers(0, 255, (n, 28, 28)) if "images" in name else rng.integers(0, 10, n)
        content = bytes(16 if "images" in name else 8) + body.astype(np.uint8).tobytes()
        made[name], sums[name] = body, hashlib.sha256(content).hexdigest()
        path = root / "mnist" / (f"{name}.gz" if compress else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content) if compress else content)
    monkeypatch.setattr(digits_module, "MNIST_FILES", sums)
    return made


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("how", ["argument", "variable", "cache"])
def test_mnist_from_a_folder(tmp_path, monkeypatch, nowhere, how, compress):
    root = tmp_path / ("cache" if how == "cache" else "data")
    made = write_mnist(root, monkeypatch, compress)
    if how == "variable":
        monkeypatch.setenv("TASKDICT_DATA", str(root))
    digits = load_mnist(root if how == "argument" else None, download=False)
    arrays = (digits.images, digits.labels, digits.test_images, digits.test_labels)
    for array, body in zip(arrays, made.values(), strict=True):
        np.testing.assert_array_equal(array, body)
    assert digits.images.dtype == np.uint8
    assert digits.labels.dtype == np.int64


def test_a_wrong_file_is_noticed(tmp_path, monkeypatch, nowhere):
    write_mnist(tmp_path, monkeypatch)
    path = tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-1] + b"\7"))
    with pytest.raises(DataError, match=r"t10k-labels.*checksum is wrong"):
        load_mnist(tmp_path)
    whole = path.read_bytes()
    for content in (b"not compressed", whole[:-9], whole[:12] + bytes(20)):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"t10k-labels.*cannot be read"):
            load_mnist(tmp_path)


def write_usps(root, monkeypatch, as_text):
    rng = np.random.default_rng(0)
    made, sums = {}, {}
    folder = root / "usps"
    folder.mkdir(parents=True)
    for part, n in (("train", 6), ("test", 4)):
        labels, pixels = rng.integers(0, 10, n), rng.integers(-1000, 1001, (n, 256)).astype(np.int16)
        rows = np.column_stack([labels, pixels]).astype("<i2")
        sums[part] = hashlib.sha256(rows[np.lexsort(rows.T[::-1])].tobytes()).hexdigest()
        made[f"x_{part}"], made[f"y_{part}"] = pixels, labels
        lines = [
            " ".join([f"{label:.4f}", *(f"{x / 1000:.3f}" for x in row)])
            for label, row in zip(labels, pixels, strict=True)
        ]
        if as_text:
            (folder / f"zip.{part}.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    if not as_text:
        np.savez(folder / "usps.npz", **made)
    monkeypatch.setattr(digits_module, "USPS_FILES", sums)
    return made


@pytest.mark.parametrize("as_text", [True, False])
def test_usps_from_a_folder(tmp_path, monkeypatch, nowhere, as_text):
    made = write_usps(tmp_path, monkeypatch, as_text)
    digits = load_usps(tmp_path, download=False)
    np.testing.assert_array_equal(digits.images.reshape(6, 256), made["x_train"])
    np.testing.assert_array_equal(digits.test_images.reshape(4, 256), made["x_test"])
    np.testing.assert_array_equal(digits.labels, made["y_train"])
    np.testing.assert_array_equal(digits.test_labels, made["y_test"])


def test_wrong_usps_is_noticed(tmp_path, monkeypatch, nowhere):
    made = write_usps(tmp_path, monkeypatch, as_text=False)
    made["x_test"][0, 0] += 1
    np.savez(tmp_path / "usps" / "usps.npz", **made)
    with pytest.raises(DataError, match=r"usps\.npz.* is not USPS: its checksum is wrong"):
        load_usps(tmp_path)
    np.savez(tmp_path / "usps" / "usps.npz", x_train=made["x_train"])
    with pytest.raises(DataError, match="cannot be read as USPS"):
        load_usps(tmp_path)
    (tmp_path / "usps" / "usps.npz").write_bytes(b"PK\3\4 cut short")
    with pytest.raises(DataError, match="cannot be read as USPS"):
        load_usps(tmp_path)


@pytest.mark.parametrize("load", [load_mnist, load_usps])
def test_not_there(load, tmp_path, nowhere):
    with pytest.raises(DataError, match=rf"No .*gz in '{tmp_path}/here/\w+'\. .*TASKDICT_DATA or --data"):
        load(tmp_path / "here")
    with pytest.raises(DataError, match=r"No .*gz in '.*cache/\w+'\. "):
        load(download=False)


def test_without_pooch(monkeypatch, nowhere):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataError, match=r'pip install "taskdict\[experiments\]"'):
        load_mnist()


class Mirror:
    """Stands for pooch: serves files of a folder under the addresses that work."""

    def __init__(self, root, working):
        self.root, self.working, self.asked = root, working, []

    def retrieve(self, url, known_hash, fname, path):
        self.asked.append(url)
        if not url.startswith(self.working):
            raise ConnectionError(url)
        path.mkdir(parents=True, exist_ok=True)
        (path / fname).write_bytes((self.root / "mnist" / fname).read_bytes())


def test_download(tmp_path, monkeypatch, nowhere):
    write_mnist(tmp_path / "mirror", monkeypatch)
    mirror = Mirror(tmp_path / "mirror", digits_module.MNIST_ADDRESSES[1])
    monkeypatch.setitem(sys.modules, "pooch", mirror)
    digits = load_mnist()
    assert len(digits.images) == 5
    assert len(mirror.asked) == 8  # the first address fails, the second has the file
    assert load_mnist(download=False).sha256 == digits.sha256  # from the cache


def test_download_fails(tmp_path, monkeypatch, nowhere):
    monkeypatch.setitem(sys.modules, "pooch", Mirror(tmp_path, "nothing"))
    with pytest.raises(DataError, match=r"Downloading failed \(.*train-images.*ConnectionError"):
        load_mnist()


def test_bundled():
    digits = load_bundled()
    assert digits.images.shape == (1200, 8, 8)
    assert digits.test_images.shape == (597, 8, 8)


def test_the_digest_knows_numbers_and_order():
    images, labels = np.zeros((4, 2, 2), np.uint8), np.arange(4)
    images[0] = 1
    one = Digits("a", images, labels, images, labels)
    other = Digits("a", images[::-1].copy(), labels, images, labels)
    assert one.sha256 != other.sha256
    assert one.sha256 == Digits("b", images.copy(), labels.copy(), images, labels).sha256


def test_real_mnist():
    digits = load_mnist(data_folder("mnist").parent, download=False)
    assert digits.images.shape == (60_000, 28, 28)
    counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert list(np.bincount(digits.test_labels)) == counts


def test_real_usps():
    digits = load_usps(data_folder("usps").parent, download=False)
    assert digits.images.shape == (7291, 16, 16)
    assert list(np.bincount(digits.test_labels)) == [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]
    assert digits.images.min() == -1000


def write_kodak(root, monkeypatch, mode="L"):
    """Two small images, whose digests are expected from here on."""
    made = {}
    (root / "kodak").mkdir(parents=True)
    for k, name in enumerate(("kodim01", "kodim02")):
        colours = np.random.default_rng(k).integers(0, 256, (6, 8, 3), dtype=np.uint8)
        image = Image.fromarray(colours)
        made[name] = np.asarray(image.convert("L"))
        image.convert(mode).save(root / "kodak" / f"{name}.png")
    monkeypatch.setattr(
        images_module, "KODAK_DIGESTS", {name: images_module.image_digest(image) for name, image in made.items()}
    )
    return made


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_kodak_from_a_folder(tmp_path, monkeypatch, nowhere, mode):
    made = write_kodak(tmp_path, monkeypatch, mode)
    found = load_kodak(tmp_path)
    assert list(found.images) == ["kodim01", "kodim02"]
    for name, image in made.items():
        np.testing.assert_array_equal(found.images[name], image)
    before = found.sha256
    found.images["kodim01"] = 255 - found.images["kodim01"]
    assert found.sha256 != before


def test_wrong_images_are_noticed(tmp_path, monkeypatch, nowhere):
    write_kodak(tmp_path, monkeypatch)
    Image.fromarray(np.zeros((6, 8), np.uint8)).save(tmp_path / "kodak" / "kodim02.png")
    with pytest.raises(DataError, match="is not kodim02: its checksum is wrong"):
        load_kodak(tmp_path)
    (tmp_path / "kodak" / "kodim01.png").write_text("no image")
    with pytest.raises(DataError, match="cannot be read"):
        load_kodak(tmp_path)
    with pytest.raises(DataError, match=r"No house\.png in .* Put it there, or name a folder"):
        load_classical(tmp_path)


def test_real_images():
    assert len(load_kodak(data_folder("kodak").parent).images) == 24
    classical = load_classical(data_folder("classic12").parent)
    assert list(classical.images)[:5] == ["house", "peppers", "cameraman", "lena", "barbara"]
    moon = load_halftones(data_folder("halftones").parent).images["xphoon_moon"]
    assert set(np.unique(moon)) == {0, 255}
