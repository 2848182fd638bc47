"""Clients on other hosts: the TCP address, and the carriers that send batches to them.

Only the daemon imports it. It knows sockets and slabs, and nothing of streams.
"""
