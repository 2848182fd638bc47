"""Sources of samples that `stoker pack` can read, one module each; `kinds` lists them.

A source is scanned in the packing process: names, sizes and annotations, but no images. The result
is a `SourceScan`: fields, and items in their final order. Workers read the values later. A new kind
is a function `(path, request) -> SourceScan` and a line in `kinds.KINDS`; values of a new form need
a reader in `open_reader.READERS`. `packing` and the command line import it; it must not know
packing.
"""
