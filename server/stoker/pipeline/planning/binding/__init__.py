"""Binding: a graph and the states of a dataset's fields become steps and the state of every value.

`graph_walk` walks the graph once and asks the others: `op_steps` for draws and applications of ops,
`expression_steps` for numbers and arrays, `joins` for the ends of branches, `output_steps` for what
is returned.
"""
