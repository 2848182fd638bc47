"""A daemon on another host: batches arrive over TCP in a ring of this process.

It builds on `session`; `connection` is the only one that imports it.
"""
