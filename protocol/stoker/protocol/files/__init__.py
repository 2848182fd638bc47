"""Files that people write and name in an argument or a setting.

Daemon, client and commands read them here, so that each takes the same files. It imports nothing.
"""
