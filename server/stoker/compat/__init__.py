"""Compatibility: code written for other data loaders, ported by changing its import lines.

One folder per data loader. It may import every package of the server side, and nothing imports it:
it runs in the user's process. It must not know the daemon or the client.
"""
