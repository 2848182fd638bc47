"""The contracts between hosts: addresses and frames, keys, shares of several daemons.

Daemon, client and `stoker.ray` import it. It opens no connection, and no record of `messages`
depends on it.
"""
