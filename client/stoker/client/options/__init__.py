"""Options of a Loader other than the stream: records of rare arguments, delivery, connection.

`records` are what a caller writes for rare arguments, `delivery_options` checks the arguments about
delivery. Options of a stream are declared and checked in `stoker.protocol.request`.
"""
