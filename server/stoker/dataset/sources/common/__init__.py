"""Code that several sources share: walking folders, patterns, lazy items, classes, file readers.

`formats` and `packing` import it. It contains nothing about a particular format.
"""
