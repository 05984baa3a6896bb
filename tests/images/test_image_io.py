import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
import tifffile
from PIL import Image, PngImagePlugin
from skimage import data

from taskdict.images.io import ImageFileError, StoredImage, check_output, read_image, write_image

GREY = data.camera()[::8, ::8]
COLOUR = data.chelsea()[::8, ::8]


@pytest.mark.parametrize(
    "pixels",
    [GREY, COLOUR, GREY > 100, GREY.astype(np.uint16) * 257],
    ids=["grey", "colour", "one bit", "16 bits"],
)
@pytest.mark.parametrize("ending", [".png", ".tif"])
def test_pixels_stay(pixels, ending, tmp_path):
    path = tmp_path / f"a{ending}"
    write_image(path, StoredImage(pixels))
    found = read_image(path)
    assert found.pixels.dtype == pixels.dtype
    np.testing.assert_array_equal(found.pixels, pixels)
    assert found.alpha is None
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_metadata_stays(tmp_path):
    image = Image.fromarray(GREY)
    exif = image.getexif()
    exif[0x010F] = "a camera"
    profile = b"not a real profile"
    image.save(tmp_path / "a.png", dpi=(300, 300), exif=exif, icc_profile=profile)
    write_image(tmp_path / "b.png", read_image(tmp_path / "a.png"))
    with Image.open(tmp_path / "b.png") as found:
        assert found.info["icc_profile"] == profile
        assert found.info["dpi"] == pytest.approx((300, 300), rel=1e-3)
        assert found.getexif()[0x010F] == "a camera"


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_alpha_stays(mode, tmp_path):
    pixels = COLOUR if mode == "RGBA" else GREY
    alpha = np.arange(pixels[..., 0].size if mode == "RGBA" else pixels.size).reshape(pixels.shape[:2]) % 256
    Image.fromarray(np.dstack([pixels, alpha]).astype(np.uint8)).save(tmp_path / "a.png")
    found = read_image(tmp_path / "a.png")
    np.testing.assert_array_equal(found.pixels, pixels)
    np.testing.assert_array_equal(found.alpha, alpha)
    write_image(tmp_path / "b.png", found)
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "b.png")), np.dstack([pixels, alpha]))
    for ending in ("jpg", "ppm", "bmp", "gif"):
        with pytest.raises(ImageFileError, match=rf"b\.{ending}' cannot hold this image .* transparency"):
            write_image(tmp_path / f"b.{ending}", found)
    assert not list(tmp_path.glob(".*"))


def test_palettes(tmp_path):
    Image.fromarray(COLOUR).quantize(16).save(tmp_path / "colour.png")
    assert read_image(tmp_path / "colour.png").pixels.shape == COLOUR.shape
    grey = Image.fromarray(GREY).convert("P")
    grey.save(tmp_path / "grey.png")
    np.testing.assert_array_equal(read_image(tmp_path / "grey.png").pixels, GREY)


def test_nothing_is_replaced_unasked(tmp_path):
    path = tmp_path / "a.png"
    write_image(path, StoredImage(GREY))
    with pytest.raises(FileExistsError, match="is there already: give another name, or --force"):
        write_image(path, StoredImage(255 - GREY))
    np.testing.assert_array_equal(read_image(path).pixels, GREY)
    write_image(path, StoredImage(255 - GREY), force=True)
    np.testing.assert_array_equal(read_image(path).pixels, 255 - GREY)


def test_bad_outputs(tmp_path):
    with pytest.raises(ImageFileError, match="must end like an image file"):
        check_output(tmp_path / "a.xyz", force=False)
    with pytest.raises(ImageFileError, match="in a folder that exists"):
        check_output(tmp_path / "no" / "a.png", force=False)
    with pytest.raises(ImageFileError, match="in a folder that exists"):
        check_output(tmp_path, force=True)


def test_bad_inputs(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_image(tmp_path / "a.png")
    with pytest.raises(ImageFileError, match="is a folder"):
        read_image(tmp_path)
    (tmp_path / "a.png").write_text("no image")
    with pytest.raises(ImageFileError, match="is not an image of a known format"):
        read_image(tmp_path / "a.png")
    write_image(tmp_path / "b.png", StoredImage(GREY))
    whole = (tmp_path / "b.png").read_bytes()
    (tmp_path / "c.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ImageFileError, match="cannot be read"):
        read_image(tmp_path / "c.png")
    Image.fromarray(COLOUR).convert("CMYK").save(tmp_path / "d.tif")
    with pytest.raises(ImageFileError, match="pixels of the kind CMYK: convert it"):
        read_image(tmp_path / "d.tif")


def test_deep_colour_is_not_cut_silently(tmp_path):
    """Pillow itself would read all of these as 8 bits."""
    deep = np.random.default_rng(0).integers(0, 65536, (5, 6, 3)).astype(np.uint16)
    with (tmp_path / "a.png").open("wb") as file:
        file.write(PngImagePlugin._MAGIC)
        sizes = (6).to_bytes(4, "big") + (5).to_bytes(4, "big")
        PngImagePlugin.putchunk(file, b"IHDR", sizes + bytes([16, 2, 0, 0, 0]))
        rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in deep)
        PngImagePlugin.putchunk(file, b"IDAT", zlib.compress(rows))
        PngImagePlugin.putchunk(file, b"IEND", b"")
    (tmp_path / "a.ppm").write_bytes(b"P6\n# a comment\n6 5\n65535\n" + deep.astype(">u2").tobytes())
    Image.fromarray(GREY.astype(np.uint16) * 257).save(tmp_path / "b.png", transparency=500)
    tifffile.imwrite(tmp_path / "a.tif", deep, photometric="rgb")
    for name in ("a.png", "a.ppm", "b.png", "a.tif"):
        with pytest.raises(ImageFileError, match="16 bits per colour"):
            read_image(tmp_path / name)


def test_16_bits_in_any_order(tmp_path):
    deep = GREY.astype(np.uint16) * 257
    tifffile.imwrite(tmp_path / "a.tif", deep, byteorder=">")
    write_image(tmp_path / "a.pgm", StoredImage(deep))
    for name in ("a.tif", "a.pgm"):
        found = read_image(tmp_path / name).pixels
        assert found.dtype == np.uint16
        np.testing.assert_array_equal(found, deep)


@pytest.mark.parametrize(
    ("ending", "pixels"),
    [("webp", GREY.astype(np.uint16)), ("gif", GREY.astype(np.uint16)), ("gif", COLOUR), ("jpg", GREY > 9)],
)
def test_formats_that_would_lose_something(ending, pixels, tmp_path):
    with pytest.raises(ImageFileError, match=r"cannot hold this image \(.*\) without loss: \.png can"):
        check_output(tmp_path / f"a.{ending}", StoredImage(pixels), force=False)


@pytest.mark.parametrize(("ending", "pixels"), [("webp", COLOUR), ("bmp", GREY), ("ppm", COLOUR), ("gif", GREY)])
def test_other_formats(ending, pixels, tmp_path):
    write_image(tmp_path / f"a.{ending}", StoredImage(pixels))
    np.testing.assert_array_equal(read_image(tmp_path / f"a.{ending}").pixels, pixels)


def test_exif_of_a_tiff(tmp_path):
    image = Image.fromarray(GREY)
    exif = image.getexif()
    exif[0x010F] = "a camera"
    exif[0x8769] = {0x829A: 0.5}  # exposure
    image.save(tmp_path / "a.tif", exif=exif.tobytes())
    for ending in ("tif", "png", "jpg"):
        write_image(tmp_path / f"b.{ending}", read_image(tmp_path / "a.tif"))
        with Image.open(tmp_path / f"b.{ending}") as found:
            assert found.getexif()[0x010F] == "a camera"
            assert found.getexif().get_ifd(0x8769)[0x829A] == 0.5


def test_several_images_in_a_file(tmp_path):
    frames = [Image.fromarray(np.roll(GREY, k, axis=1)) for k in range(3)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(ImageFileError, match="has 3 images in one file"):
        read_image(tmp_path / "a.gif")


def test_a_link_stays_a_link(tmp_path):
    write_image(tmp_path / "a.png", StoredImage(GREY))
    (tmp_path / "b.png").symlink_to(tmp_path / "a.png")
    write_image(tmp_path / "b.png", StoredImage(255 - GREY), force=True)
    assert (tmp_path / "b.png").is_symlink()
    np.testing.assert_array_equal(read_image(tmp_path / "a.png").pixels, 255 - GREY)


def test_huge_images(tmp_path):
    side = (40_000).to_bytes(4, "big")
    with (tmp_path / "a.png").open("wb") as file:
        file.write(PngImagePlugin._MAGIC)
        PngImagePlugin.putchunk(file, b"IHDR", side + side + bytes([8, 0, 0, 0, 0]))
        PngImagePlugin.putchunk(file, b"IDAT", b"")
    with pytest.raises(ImageFileError, match="too large to be read"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize("dtype", ["i1", "i2", "u4", "i4", ">i4", "f2", "f4", "f8", "u8"])
def test_numbers_without_a_known_range_are_refused(dtype, tmp_path):
    """70000 was read as 4464, and −5 as 65531."""
    path, order = tmp_path / "a.tif", ">" if dtype[0] == ">" else "<"
    tifffile.imwrite(path, np.array([[7, 5], [127, 0]]).astype(dtype), byteorder=order)
    with pytest.raises(
        ImageFileError, match=r"a\.tif' (has (un)?\w+-?\w* numbers of \d+ bits, whose range|is not an image)"
    ):
        read_image(path)


@pytest.mark.parametrize("order", ["<", ">"])
def test_whole_numbers_without_a_sign_are_read(order, tmp_path):
    for dtype in (np.uint8, np.uint16):
        pixels = np.array([[0, 1], [100, np.iinfo(dtype).max]], dtype)
        tifffile.imwrite(tmp_path / "a.tif", pixels, byteorder=order)
        np.testing.assert_array_equal(read_image(tmp_path / "a.tif").pixels, pixels)


def test_white_as_zero(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.array([[0, 255]], np.uint8), photometric="miniswhite")
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif").pixels, [[255, 0]])
    tifffile.imwrite(tmp_path / "a.tif", np.array([[0, 65535]], np.uint16), photometric="miniswhite")
    with pytest.raises(ImageFileError, match=r"a\.tif' has 16 bits with white as zero"):
        read_image(tmp_path / "a.tif")


def test_other_kinds_of_pixels_are_refused(tmp_path):
    cmyk = Image.fromarray(COLOUR).convert("CMYK")
    cmyk.save(tmp_path / "cmyk.jpg")
    tifffile.imwrite(tmp_path / "nan.tif", np.full((3, 4), np.nan, np.float32))
    grey = Image.fromarray(GREY)
    grey.save(tmp_path / "two.tif", save_all=True, append_images=[grey])
    grey.save(tmp_path / "two.gif", save_all=True, append_images=[Image.fromarray(255 - GREY)])
    for name, words in (
        ("cmyk.jpg", "kind CMYK"),
        ("nan.tif", "floating"),
        ("two.tif", "2 images"),
        ("two.gif", "2 images"),
    ):
        with pytest.raises(ImageFileError, match=rf"{name}' has .*{words}"):
            read_image(tmp_path / name)


@pytest.mark.parametrize("largest", [1, 100, 255, 256, 1023, 65535])
def test_the_largest_value_of_a_pgm_is_white(largest, tmp_path):
    """Also behind a comment that is longer than anyone looks."""
    values = np.array([0, largest]).astype(">u2" if largest > 255 else "u1").tobytes()
    (tmp_path / "a.pgm").write_bytes(b"P5\n#" + b"c" * 5000 + b"\n2 1\n#\n%d\n" % largest + values)
    found = read_image(tmp_path / "a.pgm").pixels
    assert found.tolist() == [[0, 65535 if largest > 255 else 255]]
    if largest > 255:
        (tmp_path / "a.ppm").write_bytes(b"P6\n#" + b"c" * 5000 + b"\n1 1\n%d\n" % largest + 2 * values)
        with pytest.raises(ImageFileError, match=r"a\.ppm' has 16 bits per colour"):
            read_image(tmp_path / "a.ppm")


@pytest.mark.parametrize("mode", ["1", "L", "P"])
def test_transparent_colours(mode, tmp_path):
    image = Image.fromarray(np.array([[0, 255, 255], [255, 0, 0]], np.uint8)).convert(mode)
    image.save(tmp_path / "a.png", transparency=0)
    found = read_image(tmp_path / "a.png")
    assert found.alpha is not None
    np.testing.assert_array_equal(found.alpha, [[0, 255, 255], [255, 0, 0]])
    np.testing.assert_array_equal(found.pixels if found.pixels.ndim == 2 else found.pixels[:, :, 1], found.alpha)


def test_large_images_are_converted_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("taskdict.images.io._PIXELS_PER_CHUNK", 100)
    for pixels in (GREY, COLOUR, GREY.astype(np.uint16) * 257, GREY > 100):
        write_image(tmp_path / "a.png", StoredImage(pixels), force=True)
        np.testing.assert_array_equal(read_image(tmp_path / "a.png").pixels, pixels)


def memory_of_reading(path):
    """How much the memory of a new process grows when it reads an image, in megabytes, and what happens."""
    script = (
        "import resource, sys; from pathlib import Path; from taskdict.images.io import ImageFileError, read_image\n"
        "import PIL.PngImagePlugin, PIL.TiffImagePlugin\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: print(read_image(Path(sys.argv[1])).pixels.shape)\n"
        "except ImageFileError as error: print(error)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3)"
    )
    result = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    words, megabytes = result.stdout.rsplit("\n", 2)[:2]
    return words, float(megabytes)


@pytest.mark.parametrize("kind", ["png", "tif", "tiles", "webp", "pgm", "gif", "bmp"])
def test_bombs_are_refused_before_memory_is_taken(kind, tmp_path, monkeypatch):
    path = tmp_path / f"a.{kind}"
    wide = struct.pack(">II", 30_000, 30_000)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    if kind == "png":
        head = wide + bytes([8, 0, 0, 0, 0])
        chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 10**7)), (b"IEND", b"")]
        parts = [struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks]
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    elif kind == "pgm":
        path.write_bytes(b"P5 30000 30000 255\n" + bytes(1000))
    elif kind == "tiles":  # of a small image
        tifffile.imwrite(path, GREY, tile=(16, 16), compression="zlib")
        content = path.read_bytes()
        for tag in (322, 323):
            at = content.index(
                struct.pack("<HHI", tag, 3, 1)
                if struct.pack("<HHI", tag, 3, 1) in content
                else struct.pack("<HHI", tag, 4, 1)
            )
            content = content[: at + 2] + struct.pack("<HII", 4, 1, 20_000) + content[at + 12 :]
        path.write_bytes(content)
    else:
        size = {"webp": (6000, 6000), "tif": (12_000, 12_000), "gif": (12_000, 12_000), "bmp": (12_000, 12_000)}[kind]
        options = {"webp": {"lossless": True, "method": 0}, "tif": {"compression": "tiff_adobe_deflate"}}.get(kind, {})
        Image.new("1" if kind == "bmp" else "L", size).save(path, {"tif": "TIFF"}.get(kind, kind.upper()), **options)
    words, megabytes = memory_of_reading(path)
    assert "a." in words
    assert "too large to be read" in words
    assert megabytes < 60
    assert path.stat().st_size < 20e6


def test_programs_are_not_started(tmp_path):
    """Pillow would hand PostScript to an interpreter."""
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")
    with pytest.raises(ImageFileError, match=r"a\.png' is not an image of a known format"):
        read_image(tmp_path / "a.png")


def test_pipes_are_refused(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(ImageFileError, match="is a folder or a device"):
        read_image(tmp_path / "a.png")


def test_modes_links_and_traps(tmp_path):
    path = tmp_path / "a.png"
    write_image(path, StoredImage(GREY))
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    path.chmod(0o600)
    (tmp_path / "link.png").symlink_to(path)
    write_image(tmp_path / "link.png", StoredImage(255 - GREY), force=True)
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "link.png").is_symlink()
    np.testing.assert_array_equal(read_image(path).pixels, 255 - GREY)
    (tmp_path / "trap.png").symlink_to(tmp_path / "elsewhere.png")
    for force in (False, True):
        with pytest.raises(ImageFileError, match=r"trap\.png' is a link to a file that is not there"):
            write_image(tmp_path / "trap.png", StoredImage(GREY), force=force)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.png", "link.png", "trap.png"]
