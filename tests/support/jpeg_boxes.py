"""Boxes of gridded files by Stoker's own decoder, in memory that shows writes outside of it."""

import bisect
import dataclasses

import numpy as np
import simplejpeg

from stoker.dataset.images.jpeg.decoding import BoxDecoder, window
from stoker.ops._testing.painted import PaintedMemory


def encoded(pixels, quality, sampling):
    pixels = np.ascontiguousarray(pixels)
    if sampling == "gray":
        return simplejpeg.encode_jpeg(pixels[..., 1:2].copy(), quality, colorspace="GRAY")
    return simplejpeg.encode_jpeg(pixels, quality, colorsubsampling=sampling)


def decoded(decoder, made, size, box, most=None):
    """Decode a box into painted memory; None if the decoder does not cover the file."""
    out = np.full((*size, 3), 77, np.uint8)
    target = out.reshape(-1), 3 * (box[0] * size[1] + box[1]), 3 * size[1]
    views = memoryview(made.data), memoryview(made.grid.to_bytes())
    most = size[0] * size[1] if most is None else most
    return out if decoder.decode(*views, size, box, most, target) else None


def boxes_of(size, count, rng):
    """Yield the whole image, and random boxes of it."""
    yield (0, 0, *size)
    for _ in range(count):
        h, w = (int(rng.integers(1, side + 1)) for side in size)
        yield int(rng.integers(0, size[0] - h + 1)), int(rng.integers(0, size[1] - w + 1)), h, w


def differing_boxes(decoder, made, whole, count, seed):
    """Return the boxes that differ from the pixels of `whole`, or write outside of themselves."""
    wrong = []
    for box in boxes_of(whole.shape[:2], count, np.random.default_rng(seed)):
        expected = np.full_like(whole, 77)
        part = (slice(box[0], box[0] + box[2]), slice(box[1], box[1] + box[3]))
        expected[part] = whole[part]
        got = decoded(decoder, made, whole.shape[:2], box)
        if got is None or not np.array_equal(got, expected):
            wrong.append(box)
    return wrong


def damaged(made, rng, begin=None):
    """Change one to three bytes of a file, from `begin` on; return it and the changed intervals."""
    offsets, broken = made.grid.offsets.tolist(), bytearray(made.data)
    begin, changed = offsets[0] if begin is None else begin, set()
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(begin, len(broken)))
        broken[place] = int(rng.integers(0, 256)) if rng.integers(2) else broken[place] ^ 1
        if broken[place] != made.data[place] and place >= offsets[0]:
            changed.add(bisect.bisect_right(offsets, place))
    return dataclasses.replace(made, data=bytes(broken)), len(changed)


class GuardedDecoder(BoxDecoder):
    """A decoder whose memory has exactly the size that it asks for, between painted margins."""

    def __init__(self):
        super().__init__()
        self.painted, self._sizes = [], []

    def _grow(self):
        sizes = self._numbers[window.FOLLOWING : window.JOBS + 1].tolist()
        if sizes == self._sizes:
            return
        self._sizes = sizes
        self._memory = tuple(array[..., :0] for array in self._memory)
        self._room = [0] * len(self._memory)
        super()._grow()
        guarded = []
        for array, columns in zip(self._memory, sizes, strict=True):
            if array.dtype == np.int16:  # aligned to a slot: its end may be anywhere
                guarded.append(array)
                continue
            shape = (*array.shape[:-1], columns)
            size = int(np.prod(shape)) * array.itemsize
            memory = PaintedMemory.painted(str(len(guarded)), size, 0xA5)
            self.painted.append(memory)
            guarded.append(memory.inner.view(array.dtype).reshape(shape))
        self._memory = tuple(guarded)

    def faults(self):
        """Return the writes outside of all memory that it has had since the last call."""
        found = [memory.fault() for memory in self.painted]
        self.painted = self.painted[-5:]
        return [fault for fault in found if fault]
