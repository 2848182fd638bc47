"""From a position in a stream to the bytes in a slot: the path of a row, end to end.

Workers, replays, previews and the reference stream run the same code. It imports order, dataset
and pipeline, and knows no socket, no process and no state of the daemon.
"""
