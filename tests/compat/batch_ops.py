"""Operations that read other rows of the batch and do not say so, as FFCV's own mixup does not."""

import random
from dataclasses import replace

import numpy as np
import torch
from ffcv_ops import Same

from stoker.compat.ffcv.pipeline import AllocationQuery, Compiler, Operation

FLOAT = np.dtype("float32")


class Blend(Same):
    """Each image with the row before it, by one share for the batch or one for each row."""

    def __init__(self, alpha, one_share):
        self.alpha, self.one_share = alpha, one_share

    def generate_code(self):
        alpha, one, loop = self.alpha, self.one_share, Compiler.get_iterator()

        def blend(images, dst, indices):
            np.random.seed(indices[-1])
            count = images.shape[0]
            share = np.random.beta(alpha, alpha) if one else np.random.beta(alpha, alpha, count)
            for row in loop(count):
                part = share if one else share[row]
                dst[row] = part * images[row] + (1 - part) * images[row - 1]
            return dst

        blend.is_parallel = blend.with_indices = True
        return blend


class BlendLabels(Blend):
    """The label of the row, that of the row before it, and the share."""

    def generate_code(self):
        alpha, one, loop = self.alpha, self.one_share, Compiler.get_iterator()

        def blend(labels, found, indices):
            count = labels.shape[0]
            np.random.seed(indices[-1])
            share = np.random.beta(alpha, alpha) if one else np.random.beta(alpha, alpha, count)
            for row in loop(count):
                found[row, 0] = labels[row][0]
                found[row, 1] = labels[row - 1][0]
                found[row, 2] = share if one else share[row]
            return found

        blend.is_parallel = blend.with_indices = True
        return blend

    def declare_state_and_memory(self, previous_state):
        return replace(previous_state, shape=(3,), dtype=np.float32), AllocationQuery((3,), FLOAT)


class Spread(Operation):
    """Weights of classes, on tensors; it changes what it gets."""

    def __init__(self, classes):
        self.classes = classes

    def generate_code(self):
        def spread(mixed, dst):
            dst.zero_()
            rows = torch.arange(mixed.shape[0])
            dst[rows, mixed[:, 0].long()] = mixed[:, 2]
            mixed[:, 2] *= -1
            mixed[:, 2] += 1
            dst[rows, mixed[:, 1].long()] += mixed[:, 2]
            return dst

        return spread

    def declare_state_and_memory(self, previous_state):
        assert not previous_state.jit_mode
        query = AllocationQuery(
            (self.classes,), dtype=previous_state.dtype, device=previous_state.device
        )
        return replace(previous_state, shape=(self.classes,)), query


class Pasted(Same):
    """A rectangle of another image, which a permutation chooses; single numbers."""

    def generate_code(self):
        def paste(images, dst):
            count, h, w, _ = images.shape
            other = np.random.permutation(count)
            top, left = np.random.randint(0, h // 2), np.random.randint(0, w // 2)
            for row in range(count):
                dst[row] = images[row]
                dst[row, top : top + h // 2, left : left + w // 2] = images[
                    other[row], top : top + h // 2, left : left + w // 2
                ]
            return dst

        return paste


class Seldom(Same):
    """The next image instead of the own one, one time in twenty."""

    def __init__(self, p=0.05):
        self.p = p

    def generate_code(self):
        p = self.p

        def seldom(images, dst):
            count = images.shape[0]
            for row in range(count):
                near = (row + 1) % count
                if np.random.rand() < p:
                    dst[row] = images[near]
                else:
                    dst[row] = images[row]
            return dst

        return seldom


class Swapped(Same):
    """Both halves of the batch, which must be even."""

    def generate_code(self):
        def swap(images, dst):
            half = images.shape[0] // 2
            dst[:half] = images[half:]
            dst[half:] = images[:half]
            return dst

        return swap


class Carried(Same):
    """The largest level of the row before it: no index shows that."""

    def generate_code(self):
        def carry(images, dst):
            level = 0
            for row in range(images.shape[0]):
                dst[row] = images[row]
                dst[row, 0, 0, 0] = level + np.random.randint(0, 1)
                level = images[row, 0, 0, 1]
            return dst

        return carry


class Turned(Same):
    """The batch in reverse; stays Python."""

    def generate_code(self):
        def turn(images, dst):
            return images[::-1]

        return turn

    def declare_state_and_memory(self, previous_state):
        return replace(previous_state, jit_mode=False), None


class Reordered(Same):
    """The batch in an order that is made of draws; `how` names them."""

    def __init__(self, how):
        self.how = how

    def generate_code(self):
        def by_array(images, dst):
            keep = np.random.beta(1.0, 1.0) > 2
            order = np.random.rand(len(images)).argsort()
            dst[:] = images if keep else images[order]
            return dst

        def by_array_in_a_loop(images, dst):
            count = images.shape[0]
            flip = np.random.rand() < 0
            order = np.argsort(np.random.normal(size=count))
            for row in range(count):
                dst[row] = images[order[row], ::-1] if flip else images[order[row]]
            return dst

        def by_key(images, dst):
            order = sorted(range(len(images)), key=lambda row: random.random())
            dst[:] = images[np.array(order)]
            return dst

        def by_torch(images, dst):
            keep = float(torch.rand(1)) > 2
            order = torch.randperm(len(images)).numpy()
            dst[:] = images if keep else images[order]
            return dst

        return locals()[self.how]

    def declare_state_and_memory(self, previous_state):
        machine = self.how == "by_array_in_a_loop"
        state = replace(previous_state, jit_mode=machine)
        return state, AllocationQuery(state.shape, state.dtype)


class Noisy(Reordered):
    """Draws of its own for each row: arrays, single numbers as often as the image says, torch's."""

    def generate_code(self):
        def by_array(images, dst):
            shift = np.random.randint(0, 9, size=(len(images), 4))
            dst[:] = images + shift[:, :1, None, None].astype(np.uint8)
            return dst

        def by_values(images, dst):
            given = images[:]
            for row in range(len(given)):
                dst[row] = given[row]
                for _ in range(int(given[row].sum() % 3)):
                    dst[row] += np.uint8(random.randint(0, 3))
            return dst

        def by_rejection(images, dst):
            for row in range(len(images)):
                level = np.random.rand()
                while level < 0.5:
                    level = np.random.rand()
                dst[row] = images[row] + np.uint8(8 * level)
            return dst

        def by_torch(images, dst):
            shift = torch.randint(0, 9, (len(images), 1, 1, 1)).numpy()
            dst[:] = images + shift.astype(np.uint8)
            return dst

        return locals()[self.how]


class Never(Same):
    """Reads the row before it under a condition that is never met."""

    def generate_code(self):
        def never(images, dst):
            for row in range(images.shape[0]):
                dst[row] = images[row]
                if np.random.rand() > 2:
                    dst[row] = images[row - 1]
            return dst

        return never


class NeverDenied(Never):
    is_batch_op = False


class NeverDeclared(Never):
    is_batch_op = True


class Centered(Same):
    """The mean of each image, which NumPy rounds otherwise in a batch, and a number of its own."""

    def generate_code(self):
        def center(images, dst):
            levels = images.astype(np.float32) / np.float32(7)
            return levels - np.mean(levels) * np.float32(np.random.randint(0, 1))

        return center

    def declare_state_and_memory(self, previous_state):
        return replace(previous_state, jit_mode=False, dtype=FLOAT), None


class OwnRows(Same):
    """Rows in flat loops, by other names, and under the index that is written."""

    def generate_code(self):
        def own(images, dst):
            given, (count, h, _, _) = images, images.shape
            for place in range(count * h):
                row, y = place // h, place % h
                dst[row, y] = given[row, y] + np.uint8(np.random.randint(3))
            for row in range(len(images)):
                same = row
                dst[row, 0] = images[same, 0]
            return dst

        return own


class Leveled(Same):
    """Rows without their means, which a loop of its own computes, and a number for each."""

    def generate_code(self):
        def level(images, dst):
            count = images.shape[0]
            means = np.zeros(count)
            for k in range(count):
                means[k] = images[k].mean()
            for row in range(count):
                noise = np.random.randint(0, 5)
                dst[row] = ((images[row] - means[row]) / 2 + 128 + noise).astype(np.uint8)
            return dst

        return level
