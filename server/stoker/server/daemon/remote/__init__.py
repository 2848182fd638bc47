"""Clients on other hosts: the TCP address, and the carriers that send batches to them.

Only `daemon` and `stoker serve` import it. It knows sockets and slabs, and must not know streams.
"""
