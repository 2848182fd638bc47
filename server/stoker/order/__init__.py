"""The order of samples: positions to sample ids, batches, ranks, places in a stream.

Everything here is arithmetic on (StreamSpec, epoch, position): O(1) in memory and time, nothing is
stored. Every room of the server may import it. It must not know datasets or pipelines. Specified in
docs/contracts/order.md.
"""
