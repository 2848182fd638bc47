"""Photos that EXIF turns, next to masks or boxes that may have been made before turning.

Such a pair is found only if the sides are exchanged and differ, because a photo that is upside down
has the size of its mask. So packing warns the owner.
"""

from collections.abc import Iterator

from msgspec import UNSET

from stoker.dataset.format.fields import Field
from stoker.dataset.format.manifest import Manifest


def turned_images(manifest: Manifest) -> Iterator[str]:
    """Yield a warning for each image field with turned images and with targets."""
    for field in manifest.schema.fields:
        turned = manifest.statistics.fields[field.name].turned if field.kind == "image" else 0
        targets = [one.name for one in manifest.schema.fields if _is_target(one, manifest, turned)]
        if turned and targets:
            yield (
                f"EXIF turns {turned} of the {manifest.rows} images of {field.name!r} upright, and "
                f"{', '.join(map(repr, targets))} must fit the upright images; if they were made "
                "on the pixels as stored, pack with --orientation keep"
            )


def _is_target(one: Field, manifest: Manifest, turned: int) -> bool:
    """Return whether a field has places in an image, and was not turned as often."""
    if one.items is not UNSET:
        return one.items.of is not None
    return one.kind == "mask" and manifest.statistics.fields[one.name].turned != turned
