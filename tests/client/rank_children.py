"""Processes that a rank starts with `multiprocessing`, as the workers of a `DataLoader`."""

import multiprocessing

from stoker.client import Loader
from stoker.protocol.errors import StokerError


def opened(how, options, address):
    """Return the stream ids of two loaders, or what their errors say, each in its own process."""
    context = multiprocessing.get_context(how)
    pipes = [context.Pipe() for _ in range(2)]
    started = [
        context.Process(target=_open, args=(theirs, options | {"seed": 20 + number}, address))
        for number, (_, theirs) in enumerate(pipes)
    ]
    for process in started:
        process.start()
    said = [ours.recv() for ours, _ in pipes]
    for ours, _ in pipes:
        ours.send("close")
    for process in started:
        process.join()
    for pipe in pipes:
        for end in pipe:
            end.close()
    return said


def _open(pipe, options, address):
    loader = None
    try:
        loader = Loader(address, **options)
        pipe.send(loader.spec.stream_id)
    except StokerError as error:
        pipe.send(error.message)
    pipe.recv()
    if loader is not None:
        loader.close()
