"""The daemon process: sockets, child processes, slabs, metrics; thin I/O around `state`.

No turn of its loop takes more than 5 ms. It must not import numba, torch or a room that computes
rows: these run in child processes.
"""
