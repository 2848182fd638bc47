"""Vector code that numba and LLVM do not generate by themselves, as numba intrinsics.

Each is the compiled twin of a plain kernel of `stoker.ops` and gives the same bytes. It uses
LLVM's portable vector operations; if it uses an instruction of one kind of processor, there is a
portable form too. Importing a module of this package imports numba, so only `stoker.jit` does,
through the twin's name. It is separate from the ops: callers of a twin are compiled again when any
file of the twin's folder changes.
"""
