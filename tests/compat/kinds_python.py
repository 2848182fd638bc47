"""Operations that stay Python, or work on tensors, as public FFCV code has them."""

import random
from dataclasses import replace

import cv2
import numpy as np
import torch
from PIL import Image, ImageFilter
from scipy import ndimage

from stoker.compat.ffcv.pipeline.allocation_query import AllocationQuery
from stoker.compat.ffcv.pipeline.compiler import Compiler
from stoker.compat.ffcv.pipeline.operation import Operation


class OnNumpy(Operation):
    """Base: NumPy arrays that no machine code makes."""

    def declare_state_and_memory(self, previous_state):
        return (
            replace(previous_state, jit_mode=False),
            AllocationQuery(previous_state.shape, previous_state.dtype),
        )


class Blurred(OnNumpy):
    """OpenCV on each image."""

    def generate_code(self):
        def blur(images, dst):
            for i in range(images.shape[0]):
                dst[i] = cv2.GaussianBlur(images[i], (3, 3), 0)
            return dst

        blur.is_parallel = True
        return blur


class Gains(OnNumpy):
    """Hue, saturation and value by OpenCV, drawn in a loop, into the images themselves."""

    def __init__(self, *gains):
        super().__init__()
        self.gains = gains

    def generate_code(self):
        gains = self.gains

        def gain(images, dst):
            dst = images
            for i in range(images.shape[0]):
                r = np.random.uniform(-1, 1, 3) * np.array(gains) + 1
                h, s, v = cv2.split(cv2.cvtColor(images[i], cv2.COLOR_BGR2HSV))
                x = np.arange(0, 256, dtype=r.dtype)
                tables = [((x * r[0]) % 180), np.clip(x * r[1], 0, 255), np.clip(x * r[2], 0, 255)]
                parts = [cv2.LUT(p, t.astype(np.uint8)) for p, t in zip((h, s, v), tables)]  # noqa: B905
                cv2.cvtColor(cv2.merge(parts), cv2.COLOR_HSV2BGR, dst=dst[i])
            return dst

        return gain


class Pictures(OnNumpy):
    """Pillow by a method of the operation, which draws from `random`."""

    def filtered(self, image):
        radius = random.uniform(0.5, 2)
        return np.asarray(Image.fromarray(image).filter(ImageFilter.GaussianBlur(radius)))

    def generate_code(self):
        my_range = Compiler.get_iterator()

        def pictures(images, dst):
            for i in my_range(images.shape[0]):
                dst[i] = self.filtered(images[i])
            return dst

        return pictures


class Smaller(Operation):
    """A module of torch on each image; declares its shape as a list."""

    def __init__(self, scale=0.5):
        super().__init__()
        self.scale = scale

    def generate_code(self):
        scale = self.scale

        def smaller(images, dst):
            for i in range(images.shape[0]):
                picture = Image.fromarray(images[i])
                size = int(scale * picture.width), int(scale * picture.height)
                dst[i] = np.array(picture.resize(size))
            return dst

        return smaller

    def declare_state_and_memory(self, previous_state):
        h, w, c = previous_state.shape
        shape = [int(h * self.scale), int(w * self.scale), c]
        return (
            replace(previous_state, jit_mode=False, shape=shape),
            AllocationQuery(shape, previous_state.dtype),
        )


class Convolved(Operation):
    """SciPy in place, for some images, by draws of the function's own."""

    def generate_code(self):
        my_range = Compiler.get_iterator()
        weights = np.array([[0, 1, 0], [1, 4, 1], [0, 1, 0]]) / 8

        def convolve(images, _, indices):
            for i in my_range(images.shape[0]):
                if np.random.rand() < 0.5:
                    for c in range(images.shape[-1]):
                        images[i, ..., c] = ndimage.convolve(images[i, ..., c], weights)
            return images

        convolve.is_parallel = True
        convolve.with_indices = True
        return convolve

    def declare_state_and_memory(self, previous_state):
        return replace(previous_state, jit_mode=False), None


class GlobalTransform:
    """A transform as older Albumentations has it: it draws from `random` and `np.random`."""

    def __call__(self, image):
        level = random.randint(0, 50) + int(np.random.randint(0, 50))
        return {"image": np.clip(image.astype(np.int64) + level, 0, 255).astype(np.uint8)}


class OwnTransform:
    """A transform as newer Albumentations has it, with a generator of its own."""

    def __init__(self):
        self.generator = np.random.default_rng()

    def set_random_seed(self, seed):
        self.generator = np.random.default_rng(seed)

    def __call__(self, image):
        return {"image": image // 2 + np.uint8(self.generator.integers(0, 100))}


class Transformed(Operation):
    """Calls a transform with the image by its name."""

    def __init__(self, transform):
        super().__init__()
        self.transform = transform

    def generate_code(self):
        my_range = Compiler.get_iterator()

        def transform(inp, _):
            for i in my_range(inp.shape[0]):
                inp[i] = self.transform(image=inp[i])["image"]
            return inp

        return transform

    def declare_state_and_memory(self, previous_state):
        return replace(previous_state, jit_mode=False), None


class TransformedSeeded(Transformed):
    """Seeds Python's `random` with the last id before."""

    def generate_code(self):
        transform = self.transform

        def transformed(images, dst, indices):
            random.seed(indices[-1])
            level = np.uint8(random.randint(0, 9))
            for i in range(images.shape[0]):
                images[i] = transform(image=images[i] // 2)["image"] + level
            return images

        transformed.with_indices = True
        return transformed


class SeedsItself:
    """A transform that seeds `random` itself: always the same."""

    def __call__(self, image):
        random.seed(5)
        return {"image": image // 2 + np.uint8(random.randint(0, 100))}


class Half(Operation):
    """Copies tensors into memory of another dtype on their device."""

    def generate_code(self):
        def half(inp, dst):
            dst = dst[: inp.shape[0]]
            dst.copy_(inp, non_blocking=True)
            return dst

        return half

    def declare_state_and_memory(self, previous_state):
        assert not previous_state.jit_mode
        return replace(previous_state, dtype=torch.float16), AllocationQuery(
            previous_state.shape, dtype=torch.float16, device=previous_state.device
        )


class OneHot(Operation):
    """Class weights in memory that it does not clear itself."""

    def __init__(self, classes=10):
        super().__init__()
        self.classes = classes

    def generate_code(self):
        def one_hot(labels, dst):
            dst.scatter_(1, labels, 1.0)
            return dst

        return one_hot

    def declare_state_and_memory(self, previous_state):
        query = AllocationQuery((self.classes,), torch.float32, previous_state.device)
        return replace(previous_state, shape=(self.classes,), dtype=torch.float32), query


class Several(Operation):
    """Two memories on tensors, one of them an array."""

    def generate_code(self):
        def several(inp, dst):
            tensor, array = dst
            array[:] = inp.numpy()
            tensor.copy_(torch.from_numpy(array))
            return tensor.mul_(2)

        return several

    def declare_state_and_memory(self, previous_state):
        shape = previous_state.shape
        return replace(previous_state, dtype=torch.int32), (
            AllocationQuery(shape, torch.int32, torch.device("cpu")),
            AllocationQuery(shape, np.dtype("int16")),
        )


class OwnToTensor(Operation):
    """Arrays to tensors, with an axis moved."""

    def generate_code(self):
        def to_tensor(inp, dst):
            return torch.from_numpy(np.ascontiguousarray(np.moveaxis(inp, 3, 1)))

        return to_tensor

    def declare_state_and_memory(self, previous_state):
        h, w, c = previous_state.shape
        dtype = torch.from_numpy(np.empty((), dtype=previous_state.dtype)).dtype
        return replace(previous_state, jit_mode=False, dtype=dtype, shape=(c, h, w)), None


class RandomLabels(Operation):
    """Tensors of random labels in place of arrays."""

    def generate_code(self):
        def labels(inp, dst):
            return torch.randint(0, 1000, inp.shape)

        return labels

    def declare_state_and_memory(self, previous_state):
        dtype = torch.from_numpy(np.empty((), dtype=previous_state.dtype)).dtype
        return replace(previous_state, jit_mode=False, dtype=dtype), None


class BackToArrays(Operation):
    """Tensors to arrays again, on which machine code may go on."""

    def generate_code(self):
        def back(inp, _):
            return np.ascontiguousarray(inp.numpy())

        return back

    def declare_state_and_memory(self, previous_state):
        dtype = torch.empty(0, dtype=previous_state.dtype).numpy().dtype
        return replace(previous_state, jit_mode=False, dtype=dtype), None


class Table(Operation):
    """A table of levels, of machine code or of torch, by the device of the state."""

    def __init__(self):
        super().__init__()
        self.table = np.arange(256, dtype=np.float32) / 255

    def generate_code(self):
        table, my_range = self.table, Compiler.get_iterator()

        def looked_up(images, dst, indices):
            flat = dst.reshape(dst.shape[0], -1)
            for i in my_range(len(indices)):
                image = images[i].reshape(flat.shape[1])
                for p in range(flat.shape[1]):
                    flat[i, p] = table[image[p]]
            return dst

        looked_up.is_parallel = True
        looked_up.with_indices = True
        return looked_up

    def declare_state_and_memory(self, previous_state):
        if previous_state.device != torch.device("cpu"):
            raise ValueError("no such device here")
        state = replace(previous_state, jit_mode=True, dtype=self.table.dtype)
        return state, AllocationQuery(
            shape=previous_state.shape, dtype=self.table.dtype, device=previous_state.device
        )


class Moved(Operation):
    """Declares a device; reads the type of the one before."""

    def __init__(self, device):
        super().__init__()
        self.device = device

    def generate_code(self):
        def move(inp, dst):
            return inp.to(self.device)

        return move

    def declare_state_and_memory(self, previous_state):
        assert previous_state.device.type == "cpu"
        return replace(previous_state, device=self.device), None


class Halved(OnNumpy):
    """Floats, although its state says bytes."""

    def generate_code(self):
        def halve(images, dst):
            return images / 2

        return halve


class Views(Operation):
    """A list of tensors: the image, and the image upside down, of other sides."""

    def generate_code(self):
        def views(images, dst):
            return [images, images.flip(1)[:, ::2]]

        return views

    def declare_state_and_memory(self, previous_state):
        return previous_state, AllocationQuery(previous_state.shape, previous_state.dtype)
