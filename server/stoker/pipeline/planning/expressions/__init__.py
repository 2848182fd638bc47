"""Expressions of a graph bound to states: numbers, elements of arrays, and arithmetic on arrays.

It imports the other modules of `planning` except `binding`, which imports it. It computes nothing:
the steps are executed by the engines, by the rules of `graph.arrays` and `graph.expressions`.
"""
