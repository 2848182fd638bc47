"""Sources of samples that `stoker pack` understands, one module each; `kinds` names them.

A source is scanned in the packing process: names, sizes and times of its files, and annotations,
but no pictures. What comes out is a `Scan`: the fields of a sample and, in their final order, the
items, each with the place of every value. Values are read and judged later, by workers (`readers`).

A new kind is a module with a function `(path, request) -> Scan` and a line in `kinds.KINDS`. If its
values are whole files, ranges of bytes of files, or given, that is all; else it brings a reader and
its line in `opening.READERS`.
"""
