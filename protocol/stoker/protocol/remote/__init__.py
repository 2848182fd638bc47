"""What both sides of a connection between hosts must agree on.

Daemon and client import it. It knows addresses and frames, and opens no connection.
"""
