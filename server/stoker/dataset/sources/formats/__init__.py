"""One source format (or a part of one) per file: folders, COCO, YOLO, tar, tables, arrays, ...

`kinds` and `opening` import them. Formats do not import each other, except those that read the same
files, and they must not know packing.
"""
