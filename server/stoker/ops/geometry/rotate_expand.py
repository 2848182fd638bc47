"""Rotate about the center by a random angle; the result is as large as the rotated image.

Draw 0 is the angle in degrees, uniform, counter-clockwise. The center stays the center. A side of
the result is the length of the rotated image along it, W |cos| + H |sin| and W |sin| + H |cos|,
less 2**-10, rounded up; at least 1. So quarter turns keep every pixel, and up to a thousandth of a
pixel at the corners may be outside. Pixels from outside are filled. Pillow's `expand` rounds both
ends of a side outward, and so gives up to one pixel more.

The size differs from row to row. It is bounded when the pipeline is built, by the range of the
angle and the bound of the image.
"""

from typing import Any, Final

from stoker.jit import kernel
from stoker.ops.bases.rotated import Rotated
from stoker.ops.bases.warped import affine_kernels
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import MAX_SIDE
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import State, StateError
from stoker.ops.kernels.affinity import (
    RADIANS,
    forward,
    inverse_steps,
)
from stoker.rng.maths import cos, floor, sin, sqrt

SLACK: Final = 2.0**-10
"""Pixels of a side that may be cut off."""


@kernel
def expanded(angle: float, height: int, width: int) -> Any:
    """Return height and width of an image rotated by an angle in degrees."""
    turn = angle * RADIANS
    along, across = abs(cos(turn)), abs(sin(turn))
    tall = -floor(SLACK - (height * along + width * across))
    wide = -floor(SLACK - (width * along + height * across))
    return max(tall, 1), max(wide, 1)


@kernel
def _decision(record: Any, before: Any, after: Any) -> Any:
    """Return the decision of `kernels.affinity`: the centers of both sizes are one point."""
    down, right = (after[0] - before[0]) * 0.5, (after[1] - before[1]) * 0.5
    return -float(record["angle"]), 0.0, 0.0, 1.0, right, down


@kernel
def _steps(record: Any, before: Any, after: Any) -> Any:
    return inverse_steps(_decision(record, before, after), before[0], before[1])


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> Any:
    return expanded(float(record["angle"]), height, width)


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    decision = _decision(record, (sizes[0], sizes[1]), (sizes[2], sizes[3]))
    return forward(decision, sizes[0], sizes[1])


def longest(along: int, across: int, angles: tuple[float, float]) -> int:
    """Return the maximum of a side of the result over a range of angles, in whole pixels.

    Args:
        along: the image's side in that direction, unrotated.
        across: its other side.
        angles: (low, high), in degrees.
    """
    low, high = angles
    most = 0.0
    for quarter in range(floor(low / 90.0), floor(high / 90.0) + 1):
        # Within a quarter the side is u cos + v sin, whose only extremum is a maximum.
        u, v = (along, across) if quarter % 2 == 0 else (across, along)
        ends = [
            (min(max(angle, 90.0 * quarter), 90.0 * quarter + 90.0) - 90.0 * quarter) * RADIANS
            for angle in (low, high)
        ]
        slopes = [v * cos(end) - u * sin(end) for end in ends]
        if slopes[0] > 0.0 > slopes[1]:
            most = max(most, sqrt(float(u * u + v * v)))
        most = max(most, *(u * cos(end) + v * sin(end) for end in ends))
    return max(-floor(SLACK / 2 - most), 1)


@register
class RotateExpand(Rotated):
    """Rotate about the center; the result is as large as the rotated image.

    The class behind `rotate(expand=True)`. Its size differs from row to row unless one angle is
    given: call `resize`, `letterbox` or a crop after it.
    """

    examples = (
        {"degrees": 180},
        {"degrees": (80, 100), "interpolation": "nearest", "fill": 9, "mask_fill": 7},
    )
    picture = {"degrees": (30, 30)}
    varied = {"degrees": (20, (90, 90))}
    kernels = affine_kernels(_steps)
    out_size = staticmethod(_out_size)
    forward = staticmethod(_forward)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of bounded sizes; of one size for one angle and images of one size."""
        states, scratch = super().declare(states)
        return tuple(self.grown(state) for state in states), scratch

    def grown(self, state: State) -> State:
        """Return the state of the result for a value.

        Raises:
            StateError: a side could exceed the greatest side.
        """
        low, high = self.angles
        height, width = state.bound[:2]
        if low == high and state.is_fixed:
            tall, wide = expanded(low, height, width)
            most, after = (tall, wide), (tall, wide)
        else:
            most = longest(height, width, (low, high)), longest(width, height, (low, high))
            after = None, None
        if max(most) > MAX_SIDE:
            raise StateError(
                f"{self.name}: {state}, rotated by {low:g} to {high:g} degrees, could have a side "
                f"of {max(most)} pixels of at most {MAX_SIDE}: resize it first",
                op=self.name,
            )
        return state.resized(*after, most)


rotate_expand = function(RotateExpand)
