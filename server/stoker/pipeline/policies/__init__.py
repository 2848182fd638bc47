"""Published augmentation policies (AutoAugment, RandAugment, ...), written as pipelines.

They author as users do: they import `authoring`, `tracing` and ops. Nothing below imports them.
"""
