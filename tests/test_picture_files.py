import zlib

import numpy as np
import pytest
import tifffile
from PIL import Image, PngImagePlugin
from skimage import data as pictures

from taskdict.images.files import Picture, PictureError, check_output, read_picture, write_picture

GREY = pictures.camera()[::8, ::8]
COLOUR = pictures.chelsea()[::8, ::8]


@pytest.mark.parametrize(
    "pixels",
    [GREY, COLOUR, GREY > 100, GREY.astype(np.uint16) * 257],
    ids=["grey", "colour", "one bit", "16 bits"],
)
@pytest.mark.parametrize("ending", [".png", ".tif"])
def test_pixels_stay(pixels, ending, tmp_path):
    path = tmp_path / f"a{ending}"
    write_picture(path, Picture(pixels))
    found = read_picture(path)
    assert found.pixels.dtype == pixels.dtype
    np.testing.assert_array_equal(found.pixels, pixels)
    assert found.alpha is None
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_what_a_file_says_stays(tmp_path):
    image = Image.fromarray(GREY)
    exif = image.getexif()
    exif[0x010F] = "a camera"
    profile = b"not a real profile"
    image.save(tmp_path / "a.png", dpi=(300, 300), exif=exif, icc_profile=profile)
    write_picture(tmp_path / "b.png", read_picture(tmp_path / "a.png"))
    with Image.open(tmp_path / "b.png") as found:
        assert found.info["icc_profile"] == profile
        assert found.info["dpi"] == pytest.approx((300, 300), rel=1e-3)
        assert found.getexif()[0x010F] == "a camera"


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_alpha_stays(mode, tmp_path):
    pixels = COLOUR if mode == "RGBA" else GREY
    alpha = np.arange(pixels[..., 0].size if mode == "RGBA" else pixels.size).reshape(pixels.shape[:2]) % 256
    Image.fromarray(np.dstack([pixels, alpha]).astype(np.uint8)).save(tmp_path / "a.png")
    found = read_picture(tmp_path / "a.png")
    np.testing.assert_array_equal(found.pixels, pixels)
    np.testing.assert_array_equal(found.alpha, alpha)
    write_picture(tmp_path / "b.png", found)
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "b.png")), np.dstack([pixels, alpha]))
    for ending in ("jpg", "ppm", "bmp", "gif"):
        with pytest.raises(PictureError, match=rf"b\.{ending}' cannot hold this picture .* transparency"):
            write_picture(tmp_path / f"b.{ending}", found)
    assert not list(tmp_path.glob(".*"))


def test_palettes(tmp_path):
    Image.fromarray(COLOUR).quantize(16).save(tmp_path / "colour.png")
    assert read_picture(tmp_path / "colour.png").pixels.shape == COLOUR.shape
    grey = Image.fromarray(GREY).convert("P")
    grey.save(tmp_path / "grey.png")
    np.testing.assert_array_equal(read_picture(tmp_path / "grey.png").pixels, GREY)


def test_nothing_is_replaced_unasked(tmp_path):
    path = tmp_path / "a.png"
    write_picture(path, Picture(GREY))
    with pytest.raises(FileExistsError, match="is there already: give another name, or --force"):
        write_picture(path, Picture(255 - GREY))
    np.testing.assert_array_equal(read_picture(path).pixels, GREY)
    write_picture(path, Picture(255 - GREY), force=True)
    np.testing.assert_array_equal(read_picture(path).pixels, 255 - GREY)


def test_bad_outputs(tmp_path):
    with pytest.raises(PictureError, match="must end like a picture file"):
        check_output(tmp_path / "a.xyz", force=False)
    with pytest.raises(PictureError, match="in a folder that exists"):
        check_output(tmp_path / "no" / "a.png", force=False)
    with pytest.raises(PictureError, match="in a folder that exists"):
        check_output(tmp_path, force=True)


def test_bad_inputs(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_picture(tmp_path / "a.png")
    with pytest.raises(PictureError, match="is a folder"):
        read_picture(tmp_path)
    (tmp_path / "a.png").write_text("no picture")
    with pytest.raises(PictureError, match="is not a picture of a known kind"):
        read_picture(tmp_path / "a.png")
    write_picture(tmp_path / "b.png", Picture(GREY))
    whole = (tmp_path / "b.png").read_bytes()
    (tmp_path / "c.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PictureError, match="cannot be read"):
        read_picture(tmp_path / "c.png")
    Image.fromarray(COLOUR).convert("CMYK").save(tmp_path / "d.tif")
    with pytest.raises(PictureError, match="pixels of the kind CMYK: convert it"):
        read_picture(tmp_path / "d.tif")


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
        with pytest.raises(PictureError, match="16 bits per colour"):
            read_picture(tmp_path / name)


def test_16_bits_in_any_order(tmp_path):
    deep = GREY.astype(np.uint16) * 257
    tifffile.imwrite(tmp_path / "a.tif", deep, byteorder=">")
    write_picture(tmp_path / "a.pgm", Picture(deep))
    for name in ("a.tif", "a.pgm"):
        found = read_picture(tmp_path / name).pixels
        assert found.dtype == np.uint16
        np.testing.assert_array_equal(found, deep)


@pytest.mark.parametrize(
    ("ending", "pixels"),
    [("webp", GREY.astype(np.uint16)), ("gif", GREY.astype(np.uint16)), ("gif", COLOUR), ("jpg", GREY > 9)],
)
def test_formats_that_would_lose_something(ending, pixels, tmp_path):
    with pytest.raises(PictureError, match=r"cannot hold this picture \(.*\) without loss: \.png can"):
        check_output(tmp_path / f"a.{ending}", Picture(pixels), force=False)


@pytest.mark.parametrize(("ending", "pixels"), [("webp", COLOUR), ("bmp", GREY), ("ppm", COLOUR), ("gif", GREY)])
def test_other_formats(ending, pixels, tmp_path):
    write_picture(tmp_path / f"a.{ending}", Picture(pixels))
    np.testing.assert_array_equal(read_picture(tmp_path / f"a.{ending}").pixels, pixels)


def test_exif_of_a_tiff(tmp_path):
    image = Image.fromarray(GREY)
    exif = image.getexif()
    exif[0x010F] = "a camera"
    exif[0x8769] = {0x829A: 0.5}  # exposure
    image.save(tmp_path / "a.tif", exif=exif.tobytes())
    for ending in ("tif", "png", "jpg"):
        write_picture(tmp_path / f"b.{ending}", read_picture(tmp_path / "a.tif"))
        with Image.open(tmp_path / f"b.{ending}") as found:
            assert found.getexif()[0x010F] == "a camera"
            assert found.getexif().get_ifd(0x8769)[0x829A] == 0.5


def test_several_pictures_in_a_file(tmp_path):
    frames = [Image.fromarray(np.roll(GREY, k, axis=1)) for k in range(3)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(PictureError, match="has 3 pictures in one file"):
        read_picture(tmp_path / "a.gif")


def test_a_link_stays_a_link(tmp_path):
    write_picture(tmp_path / "a.png", Picture(GREY))
    (tmp_path / "b.png").symlink_to(tmp_path / "a.png")
    write_picture(tmp_path / "b.png", Picture(255 - GREY), force=True)
    assert (tmp_path / "b.png").is_symlink()
    np.testing.assert_array_equal(read_picture(tmp_path / "a.png").pixels, 255 - GREY)


def test_huge_pictures(tmp_path):
    side = (40_000).to_bytes(4, "big")
    with (tmp_path / "a.png").open("wb") as file:
        file.write(PngImagePlugin._MAGIC)
        PngImagePlugin.putchunk(file, b"IHDR", side + side + bytes([8, 0, 0, 0, 0]))
        PngImagePlugin.putchunk(file, b"IDAT", b"")
    with pytest.raises(PictureError, match="too large to be read"):
        read_picture(tmp_path / "a.png")
