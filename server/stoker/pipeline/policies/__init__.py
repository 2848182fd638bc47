"""Published augmentation policies (AutoAugment, RandAugment, ...), written as pipelines.

They are written like user pipelines: they import `authoring`, `tracing` and ops.
Nothing below imports them.
"""
