"""What `stoker bench` measures: stages of a row, rates over workers, a DataLoader beside them.

`stages` runs in the command's process; everything that needs processes of its own (`rates`) is
started as one. Nothing here is on a data path.
"""
