"""Vector code that numba and LLVM do not find by themselves, as numba intrinsics.

Each is the compiled twin of a plain kernel of `stoker.ops` and gives the same bytes; it writes
LLVM's portable vector operations; where it names an instruction of one kind of processor, a
portable form stands beside it. Importing a module of this
package imports numba, so only `stoker.jit` does, through the twin's name. Kept apart from the
ops: what calls a twin is compiled anew when any file of the twin's folder changes.
"""
