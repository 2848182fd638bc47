"""The policies that AutoAugment learned: 25 pairs of transforms for each of three datasets.

Source: Cubuk and others, "AutoAugment: Learning Augmentation Strategies from Data" (CVPR 2019,
arXiv:1805.09501), tables 7 to 9 of the appendix, in torchvision's order. A line is a pair; a
transform is written as name, probability, level of 10 magnitudes (`-` for transforms without one).
"""

from __future__ import annotations

from typing import Final

BINS: Final = 10
"""Levels of magnitude, 0 to 9."""

Part = tuple[str, float, int]
Pair = tuple[Part, Part]

_IMAGENET: Final = """
posterize 0.4 8, rotate 0.6 9
solarize 0.6 5, autocontrast 0.6 -
equalize 0.8 -, equalize 0.6 -
posterize 0.6 7, posterize 0.6 6
equalize 0.4 -, solarize 0.2 4
equalize 0.4 -, rotate 0.8 8
solarize 0.6 3, equalize 0.6 -
posterize 0.8 5, equalize 1.0 -
rotate 0.2 3, solarize 0.6 8
equalize 0.6 -, posterize 0.4 6
rotate 0.8 8, color 0.4 0
rotate 0.4 9, equalize 0.6 -
equalize 0.0 -, equalize 0.8 -
invert 0.6 -, equalize 1.0 -
color 0.6 4, contrast 1.0 8
rotate 0.8 8, color 1.0 2
color 0.8 8, solarize 0.8 7
sharpness 0.4 7, invert 0.6 -
shear_x 0.6 5, equalize 1.0 -
color 0.4 0, equalize 0.6 -
equalize 0.4 -, solarize 0.2 4
solarize 0.6 5, autocontrast 0.6 -
invert 0.6 -, equalize 1.0 -
color 0.6 4, contrast 1.0 8
equalize 0.8 -, equalize 0.6 -
"""

_CIFAR10: Final = """
invert 0.1 -, contrast 0.2 6
rotate 0.7 2, translate_x 0.3 9
sharpness 0.8 1, sharpness 0.9 3
shear_y 0.5 8, translate_y 0.7 9
autocontrast 0.5 -, equalize 0.9 -
shear_y 0.2 7, posterize 0.3 7
color 0.4 3, brightness 0.6 7
sharpness 0.3 9, brightness 0.7 9
equalize 0.6 -, equalize 0.5 -
contrast 0.6 7, sharpness 0.6 5
color 0.7 7, translate_x 0.5 8
equalize 0.3 -, autocontrast 0.4 -
translate_y 0.4 3, sharpness 0.2 6
brightness 0.9 6, color 0.2 8
solarize 0.5 2, invert 0.0 -
equalize 0.2 -, autocontrast 0.6 -
equalize 0.2 -, equalize 0.6 -
color 0.9 9, equalize 0.6 -
autocontrast 0.8 -, solarize 0.2 8
brightness 0.1 3, color 0.7 0
solarize 0.4 5, autocontrast 0.9 -
translate_y 0.9 9, translate_y 0.7 9
autocontrast 0.9 -, solarize 0.8 3
equalize 0.8 -, invert 0.1 -
translate_y 0.7 9, autocontrast 0.9 -
"""

_SVHN: Final = """
shear_x 0.9 4, invert 0.2 -
shear_y 0.9 8, invert 0.7 -
equalize 0.6 -, solarize 0.6 6
invert 0.9 -, equalize 0.6 -
equalize 0.6 -, rotate 0.9 3
shear_x 0.9 4, autocontrast 0.8 -
shear_y 0.9 8, invert 0.4 -
shear_y 0.9 5, solarize 0.2 6
invert 0.9 -, autocontrast 0.8 -
equalize 0.6 -, rotate 0.9 3
shear_x 0.9 4, solarize 0.3 3
shear_y 0.8 8, invert 0.7 -
equalize 0.9 -, translate_y 0.6 6
invert 0.9 -, equalize 0.6 -
contrast 0.3 3, rotate 0.8 4
invert 0.8 -, translate_y 0.0 2
shear_y 0.7 6, solarize 0.4 8
invert 0.6 -, rotate 0.8 4
shear_y 0.3 7, translate_x 0.9 3
shear_x 0.1 6, invert 0.6 -
solarize 0.7 2, translate_y 0.6 7
shear_y 0.8 4, invert 0.8 -
shear_x 0.7 9, translate_y 0.8 3
shear_y 0.8 5, autocontrast 0.7 -
shear_x 0.7 2, invert 0.1 -
"""


def _part(text: str) -> Part:
    name, p, level = text.split()
    return name, float(p), 0 if level == "-" else int(level)


def _pairs(table: str) -> tuple[Pair, ...]:
    made = []
    for line in table.strip().splitlines():
        first, second = line.split(", ")
        made.append((_part(first), _part(second)))
    return tuple(made)


POLICIES: Final = {
    "imagenet": _pairs(_IMAGENET),
    "cifar10": _pairs(_CIFAR10),
    "svhn": _pairs(_SVHN),
}
