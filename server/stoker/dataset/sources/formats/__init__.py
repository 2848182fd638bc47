"""One source format (or a part of one) per file: folders, COCO, YOLO, tar, tables, arrays, ...

Formats do not import each other, except those that read the same files.
"""
