# ruff: noqa
# fmt: off
"""The script of FFCV's guide on custom transforms; only its import lines and its paths differ.

Run as `python guide_script.py FOLDER`: with the guide's serial form, then with its parallel one.
Instead of the time of a hundred epochs it prints shapes.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Optional, Tuple

import numpy as np
from guide_data import Pictures

from stoker.compat.ffcv.fields import IntField, RGBImageField
from stoker.compat.ffcv.fields.decoders import SimpleRGBImageDecoder
from stoker.compat.ffcv.loader import Loader, OrderOption
from stoker.compat.ffcv.pipeline.allocation_query import AllocationQuery
from stoker.compat.ffcv.pipeline.compiler import Compiler
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.compat.ffcv.transforms import ToTensor
from stoker.compat.ffcv.writer import DatasetWriter


class PickACorner(Operation):
    def generate_code(self) -> Callable:
        def pick_a_corner(images, dst):
            which_corner = np.random.randint(low=0, high=4, size=(images.shape[0]))
            for i in range(images.shape[0]):
                if which_corner[i] == 0:
                    dst[i] = images[i,:images.shape[1]//2, :images.shape[2]//2]
                else:
                    dst[i] = images[i,-images.shape[1]//2:,
                    -images.shape[2]//2:]

            return dst
        return pick_a_corner

    def declare_state_and_memory(self, previous_state: State) -> Tuple[State, Optional[AllocationQuery]]:
        h, w, c = previous_state.shape
        new_shape = (h // 2, w // 2, c)
        new_state = replace(previous_state, shape=new_shape)
        mem_allocation = AllocationQuery(new_shape, previous_state.dtype)
        return (new_state, mem_allocation)


class PickACornerParallel(PickACorner):
    def generate_code(self) -> Callable:
        parallel_range = Compiler.get_iterable()

        def pick_a_corner(images, dst):
            which_corner = np.random.randint(low=0, high=4, size=(images.shape[0]))
            for i in parallel_range(images.shape[0]):
                if which_corner[i] == 0:
                    dst[i] = images[i,:images.shape[1]//2, :images.shape[2]//2]
                else:
                    dst[i] = images[i,-images.shape[1]//2:,
                    -images.shape[2]//2:]

            return dst

        pick_a_corner.is_parallel = True
        return pick_a_corner


if __name__ == "__main__":
    path = f"{sys.argv[1]}/cifar.beton"
    ds = Pictures()
    writer = DatasetWriter(path, {'image': RGBImageField(),
                                  'label': IntField()})
    writer.from_indexed_dataset(ds)

    BATCH_SIZE = 16
    for chosen in (PickACorner, PickACornerParallel):
        image_pipelines = {
            'with': [SimpleRGBImageDecoder(), chosen(), ToTensor()],
            'without': [SimpleRGBImageDecoder(), ToTensor()]
        }

        for name, pipeline in image_pipelines.items():
            loader = Loader(path, batch_size=BATCH_SIZE,
                            num_workers=8, order=OrderOption.RANDOM,
                            drop_last=True, pipelines={'image': pipeline})

            # First epoch includes compilation time
            for ims, labs in loader: pass
            for _ in range(3):
                for ims, labs in loader: pass
            print(f'Method: {name} | Shape: {tuple(ims.shape)} | Labels: {tuple(labs.shape)}')
