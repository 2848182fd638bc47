"""What `stoker bench` measures: stages of a row, rates over workers, a DataLoader for comparison.

`stages` runs in the command's process; everything that needs processes of its own (`rates`) is
started as one. Only `commands` imports it, nothing here is on a data path, and it must not import
the client: a child process of its own runs one.
"""
