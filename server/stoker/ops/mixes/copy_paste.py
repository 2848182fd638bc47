"""Paste objects of another row of the group over each row: image, mask and boxes.

Objects are the numbers of one mask: instances, or classes. Each object of the other row is pasted
with a probability of its own, at the place where it is; scale, flip and crop the rows before, as
the source does. Source: G. Ghiasi et al., "Simple Copy-Paste is a Strong Data Augmentation Method
for Instance Segmentation", CVPR 2021.

Instances get new numbers in the row, above its own. Its own instances that are left with too few
pixels are removed, from mask and boxes; boxes of those that lost some are made smaller. With boxes
in the call only instances that have a box are pasted. Classes keep their numbers.

Draws: 0 whether it is applied, 1 which member of the group it pastes from, 2 words 0 and 1: the
record's `seed`, a Philox key. Object n is pasted if draw n mod 2**32 of the key (seed, 0, 0, 0),
uniform, is below `object_p`. The work is NumPy's, the same in every engine.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, cast

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.batch_op import (
    OFFSETS,
    BatchOp,
    Mixed,
    bounded,
    picture_size,
    planes,
    require_fixed,
)
from stoker.ops.bases.objects import (
    Hidden,
    blended,
    chosen_of,
    found_in,
    free_numbers,
    hidden_by,
    numbers_of,
    soft_edge,
    surrounding,
)
from stoker.ops.bases.tiled import FORMATS, as_form, with_corners
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import ClassNumbers, Number, Probability, Word
from stoker.ops.contract.registry import register_batch
from stoker.ops.contract.rules import FLOAT, VISIBLE, float_first, refuse
from stoker.ops.contract.states import State, StateError
from stoker.ops.kernels.means import Tools
from stoker.protocol.item_fields import ItemField
from stoker.protocol.ragged import pack_items, unpack_items
from stoker.rng.draws import bernoulli, integers, word

KINDS: Final = ("array", "boxes", "image", "mask")
OF_MASKS: Final = ("instance", "semantic")
"""What the numbers of the mask are, in the words of `stoker pack --masks`."""
INSTANCE: Final = "instance"
"""The field of a box with the number of its object in the mask."""
MEANS: Final = ("uint8", "float16", "float32")
MOST_IGNORED: Final = 32
IGNORED: Final = ClassNumbers(MOST_IGNORED)
PART: Final = Number(0.0, 1.0)
SOFTEST: Final = 32.0


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["applied"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["offset"] = integers(key, 1, OFFSETS)
    record["seed"][0] = word(key, 2, 0)
    record["seed"][1] = word(key, 2, 1)
    record["partner"] = -1


@register_batch
class CopyPaste(BatchOp):
    """Paste objects of another row."""

    masks: Annotated[str, Word(OF_MASKS), "numbers of the mask: of objects, or of classes"]
    object_p: Annotated[float, PART, "probability that an object is pasted"] = 0.5
    min_visible: Annotated[float, PART, "instances that show less are removed"] = 0.1
    ignore: Annotated[int | tuple[int, ...], IGNORED, "numbers that are not objects"] = 0
    sigma: Annotated[float, Number(0.0, SOFTEST), "softness of edges, in pixels"] = 0.0
    p: Probability = 1.0

    image_dtypes = ("uint8", FLOAT)
    needs_picture = True
    record = np.dtype(
        [("applied", "u1"), ("offset", "u2"), ("seed", "u8", (2,)), ("partner", "i8")]
    )
    draw = staticmethod(_draw)

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        """Return the kinds that the op has a rule for."""
        return KINDS

    @property
    def ignored(self) -> tuple[int, ...]:
        """The numbers that are not objects."""
        return cast(tuple[int, ...], self.ignore)

    @property
    def lowest(self) -> int | None:
        """The lowest number of an object; None if there is none."""
        return 1 if self.masks == INSTANCE else None

    def mixed(self, state: State) -> State:
        """Return the state of the result; the bound of boxes is doubled.

        Raises:
            StateError: there is no rule for the kind, dtype or shape, or boxes do not say which
                object of the mask they belong to.
        """
        if state.kind == "boxes":
            return bounded(self._boxes(state), 2)
        if state.items or state.kind in ("label", "scalar"):
            raise StateError(
                f"{self.name} has no rule for {state}: it cannot say what pasted objects change. "
                "Leave it out of this call, if it stays true for the image; labels of boxes stay "
                "with their boxes",
                op=self.name,
            )
        require_fixed(self.name, state)
        if state.kind not in KINDS or picture_size(state) is None:
            raise self.no_rule(state)
        classes = state.kind == "array" and len(state.shape) == 2 and state.dtype == "uint8"
        if self.sigma > 0 and state.kind != "mask" and (state.dtype not in MEANS or classes):
            raise refuse(
                self.name,
                f"an image, or an array of pixels of {', '.join(MEANS)} with channels, for a soft "
                "edge",
                state,
                float_first(
                    self.name,
                    state,
                    "If these are class numbers, keep the kind mask: convert them after this op",
                )
                + "; or give sigma=0",
            )
        return state

    def _boxes(self, state: State) -> State:
        """Return the state of boxes whose objects are known."""
        if self.masks != INSTANCE:
            raise StateError(
                f'{self.name}: expected no boxes with masks="semantic", got {state}: classes do '
                'not say which box a pixel belongs to. Give a mask of instances and masks="'
                'instance", or leave the boxes out and make them from the mask later',
                op=self.name,
            )
        if state.items[0].name not in FORMATS:
            state = self.declare_items(state)
        if _number_field(state) is None:
            raise StateError(
                f"{self.name}: expected boxes with an integer field {INSTANCE!r}, the number of "
                f"each box's object in the mask, got {state}: pack with --masks instance, which "
                "writes both, or add the field to your source",
                op=self.name,
            )
        return state

    def check_call(self, states: Sequence[State]) -> None:
        """Refuse a call without one mask, or with several values of boxes.

        Raises:
            StateError: names what came and what to change.
        """
        counts = {kind: sum(state.kind == kind for state in states) for kind in ("mask", "boxes")}
        if counts["mask"] != 1 or counts["boxes"] > 1:
            raise StateError(
                f"{self.name}: expected one mask, whose numbers are the objects, and at most one "
                f"value of boxes among its values that are outputs, got "
                f"{' and '.join(map(str, states))}. Call it with image, mask and boxes, and return "
                "the mask too",
                op=self.name,
            )

    def resolve(self, record: np.ndarray, size: tuple[int, int], ids: Sequence[int]) -> None:
        """Complete a record: the partner's id."""
        record["partner"] = ids[0]

    def mix_all(self, values: Sequence[Mixed], record: Any, tools: Tools) -> list[int]:
        """Paste into all values of the row's call."""
        seed = int(record["seed"][0]), int(record["seed"][1])
        (mask,) = (value for value in values if value.state.kind == "mask")
        boxes = next((value for value in values if value.state.items), None)
        own, other = mask.sources
        mine = numbers_of(own, self.ignored, 1) if self.masks == INSTANCE else []
        taken = self._taken(mine, other, boxes, seed)
        where, numbers = found_in(other, list(taken), list(taken.values()))
        np.copyto(mask.dst, own)
        left: dict[int, Hidden] = {}
        if self.masks == INSTANCE and taken:
            left = hidden_by(where, own, set(mine))
            gone = sorted(n for n, hidden in left.items() if not self._stays(hidden))
            mask.dst[found_in(own, gone, gone)[0]] = 0
        mask.dst[where] = numbers
        counts = []
        for value in values:
            if value is boxes:
                counts.append(self._paste_boxes(value, taken, left))
                continue
            counts.append(0)
            if value is not mask:
                _paste_pixels(value, where, self.sigma)
        return counts

    def _stays(self, hidden: Hidden) -> bool:
        return hidden.part > 0 and hidden.part >= self.min_visible

    def _taken(
        self, used: list[int], other: np.ndarray, boxes: Mixed | None, seed: tuple[int, int]
    ) -> dict[int, int]:
        """Return the objects of the other row that are pasted: number -> number in the result.

        Args:
            used: numbers of the row's own instances.
            other: the mask of the other row.
            boxes: the boxes of the call, if any.
            seed: see the module.
        """
        found = numbers_of(other, self.ignored, self.lowest)
        most = int(np.iinfo(other.dtype).max)
        if boxes is not None:
            field = _number_field(boxes.state)
            assert field is not None, "mixed() refuses boxes without it"
            mine, theirs = (
                unpack_items(boxes.state.items, items)[INSTANCE].tolist() for items in boxes.sources
            )
            found = [number for number in found if number in set(theirs)]
            most, used = min(most, int(np.iinfo(field.dtype).max)), [*used, *mine]
        chosen = chosen_of(found, seed, self.object_p)
        if self.masks != INSTANCE:
            return {number: number for number in chosen}
        return dict(zip(chosen, free_numbers(len(chosen), used, self.ignored, most), strict=False))

    def _paste_boxes(self, value: Mixed, taken: dict[int, int], left: dict[int, Hidden]) -> int:
        """Write the row's own boxes that stay, then those of pasted objects; return how many."""
        fields = value.state.items
        mine, theirs = value.sources
        rows = []
        for place, number in enumerate(unpack_items(fields, mine)[INSTANCE].tolist()):
            row = mine[place : place + 1]
            if number not in left:
                rows.append(row)
            elif self._stays(left[number]):
                rows.append(_shrunk(row, fields, left[number]))
        for place, number in enumerate(unpack_items(fields, theirs)[INSTANCE].tolist()):
            if number in taken:
                columns = unpack_items(fields, theirs[place : place + 1])
                columns[INSTANCE][:] = taken[number]
                rows.append(pack_items(fields, columns))
        if rows:
            np.concatenate(rows, out=value.dst[: len(rows)])
        return len(rows)


def _number_field(state: State) -> ItemField | None:
    """Return the field of boxes that names their object in the mask; None without one."""
    for field in state.items:
        if field.name == INSTANCE and field.width == 1 and np.dtype(field.dtype).kind in "iu":
            return field
    return None


def _shrunk(row: np.ndarray, fields: Sequence[ItemField], hidden: Hidden) -> np.ndarray:
    """Return a box, (1, words), cut to the part of its object that remains."""
    form = fields[0].name
    made = with_corners(row, form).copy()
    box, seen = made.view(np.float32)[0], np.array(hidden.box, np.float32)
    box[:2] = np.maximum(box[:2], seen[:2])
    box[2:4] = np.maximum(np.minimum(box[2:4], seen[2:]), box[:2])
    if form in FORMATS:
        as_form(made.view(np.float32)[:, :4], form)
    if ItemField(VISIBLE, "float32") in fields:
        columns = unpack_items(fields, made)
        columns[VISIBLE][0] = np.float32(float(columns[VISIBLE][0]) * hidden.part)
        made = pack_items(fields, columns)
    return made


def _paste_pixels(value: Mixed, where: np.ndarray, sigma: float) -> None:
    """Write an image or an array of pixels."""
    own, other, into = (planes(value.state, array) for array in (*value.sources, value.dst))
    np.copyto(into, own)
    if not where.any():
        return
    rows, columns = surrounding(where, sigma)
    part = where[rows, columns]
    own, other, into = (array[:, rows, columns] for array in (own, other, into))
    if sigma > 0:
        into[...] = blended(own, other, soft_edge(part, sigma))
    else:
        np.copyto(into, other, where=part[..., None])


copy_paste = function(CopyPaste)
