"""A daemon on another host: batches arrive over TCP in a ring of this process.

It builds on `client_session`; `connection` opens it, and `hosts` imports its keys. It does not know
`delivery`, `connection` or loaders.
"""
