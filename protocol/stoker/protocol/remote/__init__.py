"""What both sides of a connection between hosts must agree on.

Addresses and frames, keys and certificates, and the shares of several daemons. Daemon and client
import it; it opens no connection.
"""
