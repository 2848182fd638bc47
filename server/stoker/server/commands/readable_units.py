"""Numbers and sizes as people read them."""


def number_of(number: int, what: str) -> str:
    """Return "1 file" or "3 files"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def size_text(size_bytes: float) -> str:
    """Return bytes in a unit that people read."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "bytes" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"
