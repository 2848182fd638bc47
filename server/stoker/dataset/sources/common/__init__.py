"""What several sources share: walking folders, patterns, lazy items, classes, readers of files.

It knows no single format.
"""
