"""Works on paper in four groups by technique and artist: a substitute for Bruegel's drawings and their imitations."""

from __future__ import annotations

import hashlib
import io

import numpy as np

from taskdict._common.pillow import pillow
from taskdict.datasets.fetch import DataError, Folder, find_file
from taskdict.datasets.images import ImageSet

ART_DIGESTS = {  # of the files
    "a_pen_012_ass_at_school": "a38bac02b5925342",
    "a_pen_026_spes": "c9fd00ae4da7aff2",
    "a_pen_035_gula": "02cb51cafd01c3c7",
    "a_pen_041_alchemist": "6c6b6c517f093b12",
    "a_pen_063_ira": "6e76f0ae68639a2b",
    "a_pen_067_last_judgment": "698695336937a140",
    "a_pen_073_painter_and_connoisseur": "72b4bea6ac6183da",
    "a_pen_097_temptation_st_anthony": "b923c304fe26d2e0",
    "a_pen_099_avaritia": "62fdd8738d41a67c",
    "b_engraved_021_gula": "4498672c2c0b40c9",
    "b_engraved_059_ass_at_school": "81b3b725fae68c70",
    "b_engraved_065_spes": "ebd564485adb90e2",
    "b_engraved_090_avaritia": "de693c28cec695f5",
    "b_engraved_102_temptation_st_anthony": "ec1923dc92a31c18",
    "b_engraved_120_alchemist": "2355c33ed63e01b4",
    "c_large_landscapes_056_insidiosus_auceps": "ef652f3a981aca04",
    "c_large_landscapes_057_euntes_in_emaus": "9388e78d6582e76c",
    "c_large_landscapes_074_pagus_nemorosus": "9e572de6f141baf4",
    "c_large_landscapes_082_magdalena_poenitens": "1e9868454af3dca5",
    "c_large_landscapes_088_solicitudo_rustica": "d5be6e79cc2c8777",
    "c_large_landscapes_129_milites_requiescentes": "1ba9100ebabfcbcf",
    "c_large_landscapes_134_alpine": "c5819bcb66ef9538",
    "d_small_landscapes_003": "cc06a7a9523f7178",
    "d_small_landscapes_029": "828f67edf067f03e",
    "d_small_landscapes_031": "4b449e04bb05475b",
    "d_small_landscapes_033": "3dcbaecc763fbf5e",
    "d_small_landscapes_036": "fee1dabc3054999b",
    "d_small_landscapes_060": "41a1fff33c15e577",
    "d_small_landscapes_130": "badc98d26c8c3760",
}


def load_art(data: Folder = None) -> ImageSet:
    """Return 29 works on paper in colour, 800 × 800 pixels; the first letter of a name is its group.

    "a": pen drawings by Pieter Bruegel; "b": engravings by other hands after such drawings; "c": etchings after
    Bruegel; "d": etchings that were once attributed to Bruegel. The groups were assigned by eye and from the titles:
    they are probable, not certain. No source to download them with known terms of use is known.

    Parameters
    ----------
    data : path or None, default=None
        A folder that contains ``art/a_pen_012_ass_at_school.jpg`` and so on. None searches the folder that
        ``TASKDICT_DATA`` names.

    Returns
    -------
    ImageSet

    Raises
    ------
    DataError
        If the data are not found, or the content of a file is wrong.
    """
    images = {}
    for name, known in ART_DIGESTS.items():
        path = find_file("art", (f"{name}.jpg",), (), data, download=False)
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest()[:16] != known:
            raise DataError(f"{str(path)!r} is not {name}: its checksum is wrong. Fetch it again.")
        with pillow().open(io.BytesIO(content)) as image:
            images[name] = np.asarray(image.convert("RGB"))
    return ImageSet("art", images)
