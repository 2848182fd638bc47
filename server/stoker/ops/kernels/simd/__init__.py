"""Vector code that numba and LLVM do not generate by themselves, as numba intrinsics.

Each is the compiled twin of a plain kernel of `stoker.ops` and gives the same bytes. If it uses an
instruction of one kind of processor, there is a portable form too. Importing a module of this
package imports numba: only `stoker.jit` does, through the twin's name. It is a folder of its own,
as callers of a twin are compiled again when any file of the folder changes.
"""
