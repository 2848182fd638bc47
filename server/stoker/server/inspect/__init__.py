"""Reports of the command line about a dataset or a pipeline: previews, bucket reports, `bench`.

Only `commands` imports it, and it runs in the command's own process, never in the daemon. It must
not know the daemon or its state.
"""
