"""The command line: one module per command or group of commands.

`__main__` imports a module when its command is used, not before. Commands may import every room of
the server and the packages below. They must not import the client; nothing imports them.
"""
