"""Sources of samples that `stoker pack` can read, one module each; `kinds` lists them.

A source is scanned in the packing process: names, sizes and times of its files, and annotations,
but no images. The result is a `Scan`: the fields of a sample and, in their final order, the items,
each with the place of every value. Workers read and check the values later (`readers`).

A new kind is a module with a function `(path, request) -> Scan` and a line in `kinds.KINDS`. If its
values are whole files, ranges of bytes of files, or given values, that is all; otherwise it needs a
reader and a line in `opening.READERS`.
"""
