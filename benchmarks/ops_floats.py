"""The ops on images of float32, against the same functions of other libraries on the same floats.

These are the cases of levels for which both the op and a peer support floats. Pillow supports
floats of one channel only, so it takes part in resizes alone, channel by channel.
"""

from dataclasses import replace

import ops_color_floats as floats
from ops_cases import Case, filtered, levels, moves, resizes
from ops_geometry import Maker
from ops_subject import Peers, Subject

PEERS = {
    "brightness": floats.brightness,
    "contrast": floats.contrast,
    "saturation": floats.saturation,
    "hue": floats.hue,
    "color_jitter": floats.color_jitter,
    "grayscale": floats.grayscale,
    "invert": floats.invert,
    "solarize": floats.solarize,
    "gamma": floats.gamma,
    "autocontrast": floats.autocontrast,
    "sharpness": floats.sharpness,
    "gaussian_noise": floats.gaussian_noise,
    "rgb_to_hsv": floats.to_hsv,
    "hsv_to_rgb": floats.from_hsv,
    "rgb_to_ycbcr": floats.to_ycbcr,
}
"""Peers that treat floats and levels differently."""
WITHOUT = (
    "equalize",
    "clahe",
    "posterize",
    "jpeg_compression",
    "cast",
    "letterbox",
    "ycbcr_to_rgb",
)
"""Ops that do not support floats, or whose peers do not."""


def float_cases() -> list[Case]:
    """Return the cases of float32."""
    found = [_of_floats(case, without_pillow(case.peers)) for case in (*moves(), *filtered())]
    found += [_of_floats(case, case.peers) for case in resizes()]
    for case in levels():
        dtype, _, layout = case.note.partition(" ")
        plain = case.op == "normalize"
        peers = floats.normalize(dtype == "float16", layout == "CHW") if plain else case.peers
        found.append(_of_floats(case, without_pillow(peers)))
    return [case for case in found if case.op not in WITHOUT]


def _of_floats(case: Case, peers: Maker) -> Case:
    note = f"floats, {case.note}" if case.note else "floats"
    return replace(case, peers=PEERS.get(case.op, peers), note=note, dtype="float32")


def without_pillow(maker: Maker) -> Maker:
    """Return a maker for the other contenders."""

    def make(s: Subject) -> Peers:
        return {name: call for name, call in maker(s).items() if not name.startswith("Pillow")}

    return make
