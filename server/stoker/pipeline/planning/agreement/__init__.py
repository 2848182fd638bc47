"""Checks that the outputs of a pipeline fit each other: images, masks, boxes and keypoints.

Binding tells each module what it makes of a value, and asks at the end. It knows nothing of steps,
engines or memory.
"""
