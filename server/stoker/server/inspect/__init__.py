"""What the command line shows about a dataset or a pipeline: previews, bucket reports, `bench`.

It runs in the command's own process, never in the daemon.
"""
