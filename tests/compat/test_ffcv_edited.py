"""Operations are rewritten from their source, so an edit after the import must not be read."""

import importlib
import sys

import pytest

from stoker.compat.ffcv.rewriting import rewrite
from stoker.protocol.errors import BuildError

TEXT = """
def run(images, dst):
    dst[:] = {number}
    return dst
"""


def test_an_operation_whose_file_was_edited_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "edited_operation.py"
    file.write_text(TEXT.format(number=1))
    run = importlib.import_module("edited_operation").run
    try:
        rewrite(run, "Fill of field 'image'")
        file.write_text(TEXT.format(number=2))
        with pytest.raises(BuildError, match=r"Fill of field .image.: .*edited_operation\.py was"):
            rewrite(run, "Fill of field 'image'")
    finally:
        del sys.modules["edited_operation"]
