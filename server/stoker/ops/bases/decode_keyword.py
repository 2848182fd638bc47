"""The keyword `decode` of ops that resize a field: exactly, or at a fraction of its size.

With `decode="scaled"` a function applies another op, whose name ends in `_scaled`; see
`stoker.ops.bases.scaled_box`.
"""

from typing import Any, Final

from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import FunctionCall
from stoker.ops.contract.parameters import Word
from stoker.ops.contract.registry import lookup

DECODE: Final = Word(("exact", "scaled"))


def decoded(call: FunctionCall, decode: object, exact: type[Op]) -> Any:
    """Apply an op, or its form for images that are decoded at a fraction.

    Raises:
        ParameterError: `decode` is another word.
    """
    word = DECODE.check(exact.name, "decode", decode)
    return call(lookup(f"{exact.name}_scaled") if word == "scaled" else exact)
