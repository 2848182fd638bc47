"""What both sides of a connection between hosts must agree on.

Addresses and frames, keys and certificates. Daemon and client
import it; it opens no connection.
"""
