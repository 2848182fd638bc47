"""Sources of samples that `stoker pack` understands, one module each.

A source is scanned in the packing process: names, sizes and times of its files, no content. What
comes out is a `Scan`: the fields of a sample and, in their final order, the items, each with one
file per picture field. Files are read and judged later, by workers.
"""
