"""The child processes: the template that forks, workers, builders, replayers, and their channel.

They import `rows` and what it needs. The daemon imports only the records of their messages and
the way to start them. They must not know `state`, sessions or clients: they get work and report it.
"""
