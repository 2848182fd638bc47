"""Text about a plan for people: `explain`, which the command line prints.

The package's face and `server.commands` import it. It computes nothing that an engine uses, and
must not import `compiled` or numba.
"""
