"""Code that several sources share: walking folders, patterns, lazy items, classes, file readers.

It contains nothing about a particular format.
"""
