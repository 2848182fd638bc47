"""One source format (or a part of one) per file: folders, COCO, YOLO, tars, tables, arrays, ...

Formats do not know each other, except those that read the same files.
"""
