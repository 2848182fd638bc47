"""The ranks of a job: finding this process's rank, and checking that ranks agree.

torch is asked only if the program has already imported it; it is never imported for this.
"""
