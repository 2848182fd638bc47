"""Flags of commands that run a pipeline in their own process, as types of parameters."""

from typing import Annotated

import typer

BucketFlag = Annotated[str | None, typer.Option(help="WIDTHxHEIGHT of the bucket, or its length.")]
PythonPathFlag = Annotated[
    list[str] | None, typer.Option(help="Folder to import the pipeline from; repeatable.")
]
