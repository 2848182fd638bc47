"""Several daemons for one stream: each makes a part of the batches, and may come and go.

It builds on `connection`, which knows one daemon; `loader` imports it. Which daemon makes a batch
affects no byte.
"""
