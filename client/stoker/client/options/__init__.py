"""The arguments of a Loader, and the request that they become.

`records` are what a caller writes for rare arguments; `stream_options` checks all arguments and
makes the records that OPEN carries. It knows no session and no daemon.
"""
