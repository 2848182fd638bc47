"""The ranks of a job: which one this process is, and whether they agree.

torch is asked only if the program has already imported it; it is never imported for this.
"""
