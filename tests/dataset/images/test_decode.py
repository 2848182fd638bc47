"""The decoder contract against independent decoders: Pillow and OpenCV.

JPEG: OpenCV and Pillow carry libjpeg-turbo too, with the same defaults, so the bound is one gray
level and in practice none; PNG is exact.
"""

import io
import struct
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from stoker.dataset.images.codecs import ImageScratch, decode_picture, signature
from stoker.dataset.images.header_size import size_from_header
from stoker.dataset.images.inspection import Scratches, inspect_picture
from stoker.dataset.images.png import SIGNATURE
from stoker.dataset.limits import CodecError

GUARD = 173


def decode(data: bytes, kind: str = "image"):
    """Inspect, decode into guarded memory, and check that nothing around the image was written."""
    picture = inspect_picture(data, kind, Scratches())
    size = (picture.height, picture.width)
    total = size[0] * size[1] * (3 if kind == "image" else 1)
    memory = np.full(total + 128, GUARD, np.uint8)
    out = memory[64 : total + 64]
    pixels = decode_picture(picture.data, kind, size, picture.orientation, out, ImageScratch())
    assert np.shares_memory(pixels, out)
    assert pixels.flags.c_contiguous
    assert pixels.shape == ((*size, 3) if kind == "image" else size)
    assert (memory[:64] == GUARD).all()
    assert (memory[-64:] == GUARD).all()
    return pixels, picture


def distance(left: np.ndarray, right: np.ndarray) -> int:
    assert left.shape == right.shape
    return int(np.abs(left.astype(int) - right).max())


def by_pillow(data: bytes) -> np.ndarray:
    return np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))


def by_opencv(data: bytes) -> np.ndarray:
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_jpeg_as_pillow_and_opencv(photographs, to_jpeg, subsampling, progressive):
    for pixels in photographs.values():
        data = to_jpeg(pixels, subsampling=subsampling, progressive=progressive)
        ours, picture = decode(data)
        assert picture.data is data
        assert distance(ours, by_pillow(data)) <= 1
        assert distance(ours, by_opencv(data)) <= 1


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["jpeg", "png"])
def test_exif_orientation_as_pillow(photographs, to_jpeg, to_png, orientation, form):
    pixels = photographs["rocket"]
    if form == "jpeg":
        data = to_jpeg(pixels, orientation)
    else:
        exif = Image.Exif()
        exif[0x0112] = orientation
        data = to_png(pixels, exif=exif.tobytes())
    ours, picture = decode(data)
    assert picture.orientation == orientation
    turned = orientation >= 5
    assert (picture.height, picture.width) == pixels.shape[:2][:: -1 if turned else 1]
    assert distance(ours, by_pillow(data)) <= (1 if form == "jpeg" else 0)


def test_orientation_of_a_mask(to_png):
    mask = np.arange(12, dtype=np.uint8).reshape(3, 4)
    exif = Image.Exif()
    exif[0x0112] = 6
    ours, _ = decode(to_png(mask, exif=exif.tobytes()), "mask")
    assert np.array_equal(ours, np.rot90(mask, -1))


def test_gray_jpeg_gives_three_equal_channels(photographs, to_jpeg):
    data = to_jpeg(photographs["china"][:, :, 0])
    ours, _ = decode(data)
    assert distance(ours, by_pillow(data)) <= 1
    assert np.array_equal(ours[:, :, 0], ours[:, :, 2])


def test_cmyk_jpeg_is_stored_as_it_came(photographs):
    out = io.BytesIO()
    Image.fromarray(photographs["coffee"]).convert("CMYK").save(out, "JPEG", quality=95)
    ours, picture = decode(out.getvalue())
    assert picture.data == out.getvalue()
    assert distance(ours, by_pillow(out.getvalue())) <= 1


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "1", "RGBA", "LA"])
def test_png_images_exactly_as_pillow(photographs, mode):
    picture = Image.fromarray(photographs["flower"]).convert(mode)
    if mode in ("RGBA", "LA"):
        picture.putalpha(Image.fromarray(photographs["flower"][:, :, 1]))
    out = io.BytesIO()
    picture.save(out, "PNG")
    ours, found = decode(out.getvalue())
    assert found.data == out.getvalue()
    colors = picture.convert("LA").getchannel("L") if mode == "LA" else picture
    assert np.array_equal(ours, np.asarray(colors.convert("RGB")))
    assert bool(found.notes) == (mode in ("RGBA", "LA"))


def adam7(pixels: np.ndarray) -> bytes:
    """Write a gray PNG in seven passes, which Pillow reads but does not write."""
    height, width = pixels.shape
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2),
              (1, 0, 2, 1)]  # fmt: skip
    rows = [row for y, x, dy, dx in passes for row in pixels[y::dy, x::dx] if row.size]
    body = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    return png_chunks(struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 1), body)


def png_chunks(header: bytes, body: bytes) -> bytes:
    return SIGNATURE + b"".join(
        struct.pack(">I", len(part)) + name + part + struct.pack(">I", zlib.crc32(name + part))
        for name, part in ((b"IHDR", header), (b"IDAT", body), (b"IEND", b""))
    )


def test_interlaced_png(photographs):
    pixels = photographs["china"][:37, :29, 0]
    ours, _ = decode(adam7(pixels), "mask")
    assert np.array_equal(ours, pixels)


@pytest.mark.parametrize(
    ("depth", "color", "channels"), [(1, 0, 1), (4, 3, 1), (8, 2, 3), (8, 6, 4)]
)
def test_a_png_whose_rows_end_early_is_refused(depth, color, channels):
    """Its checksums are right; Pillow leaves the missing rows black."""
    row = b"\0" + bytes(-(-21 * depth * channels // 8))
    header = struct.pack(">IIBBBBB", 21, 9, depth, color, 0, 0, 0)
    kind = "image" if channels > 1 else "mask"
    for rows in range(10):
        data = png_chunks(header, zlib.compress(row * rows))
        if color == 3:
            palette = struct.pack(">I", 48) + b"PLTE" + bytes(48)
            palette += struct.pack(">I", zlib.crc32(palette[4:]))
            data = data[:33] + palette + data[33:]
        if rows == 9:
            inspect_picture(data, kind, Scratches())
            continue
        for reads in (
            lambda data=data: inspect_picture(data, kind, Scratches()),
            lambda data=data: size_from_header(len(data), kind, lambda count: data[:count]),
        ):
            with pytest.raises(
                CodecError, match=rf"end after {rows * len(row)} of {9 * len(row)} "
            ):
                reads()


def test_an_interlaced_png_whose_rows_end_early_is_refused(photographs):
    data = adam7(photographs["china"][:37, :29, 0])
    body = zlib.decompress(data[41:-16])
    inspect_picture(data, "mask", Scratches())
    with pytest.raises(CodecError, match=f"end after {len(body) - 30} of {len(body)} bytes"):
        inspect_picture(png_chunks(data[16:29], zlib.compress(body[:-30])), "mask", Scratches())


def test_png_with_palette_transparency_keeps_its_colors(photographs):
    picture = Image.fromarray(photographs["flower"]).convert("P")
    out = io.BytesIO()
    picture.save(out, "PNG", transparency=bytes(range(256)))
    ours, _ = decode(out.getvalue())
    assert np.array_equal(ours, np.asarray(picture.convert("RGB")))


def test_palette_masks_give_indices(photographs):
    indices = photographs["chelsea"][:, :, 0] // 50
    picture = Image.fromarray(indices)
    picture.putpalette([*range(255, 0, -1)] * 3)
    out = io.BytesIO()
    picture.save(out, "PNG")
    ours, _ = decode(out.getvalue(), "mask")
    assert np.array_equal(ours, indices)
    assert np.array_equal(ours, np.asarray(Image.open(io.BytesIO(out.getvalue()))))


def test_one_bit_masks_give_zero_and_one(photographs):
    bits = photographs["chelsea"][:, :, 0] > 128
    out = io.BytesIO()
    Image.fromarray(bits).save(out, "PNG")
    ours, _ = decode(out.getvalue(), "mask")
    assert np.array_equal(ours, bits.astype(np.uint8))


def test_deep_masks_that_fit_are_re_encoded(photographs):
    values = photographs["chelsea"][:, :, 0].astype(np.uint16)
    out = io.BytesIO()
    Image.fromarray(values).save(out, "PNG")
    ours, picture = decode(out.getvalue(), "mask")
    assert np.array_equal(ours, values)
    assert picture.notes == ("16-bit PNG re-encoded as PNG without loss",)


@pytest.mark.parametrize("form", ["BMP", "GIF", "TIFF", "WEBP", "PPM"])
def test_other_formats_are_re_encoded_without_loss(photographs, form):
    picture = Image.fromarray(photographs["astronaut"])
    out = io.BytesIO()
    picture.save(out, form, **({"lossless": True} if form == "WEBP" else {}))
    ours, found = decode(out.getvalue())
    reference = Image.open(io.BytesIO(out.getvalue())).convert("RGB")
    assert np.array_equal(ours, np.asarray(reference))
    assert signature(found.data) == "png"
    shown = {"WEBP": "WebP", "PPM": "PNM"}.get(form, form)
    assert found.notes == (f"{shown} re-encoded as PNG without loss",)


def test_gif_and_tiff_masks_keep_their_indices(photographs):
    indices = photographs["chelsea"][:, :, 0] // 50
    for form in ("GIF", "TIFF"):
        out = io.BytesIO()
        Image.fromarray(indices).save(out, form)
        ours, _ = decode(out.getvalue(), "mask")
        assert np.array_equal(ours, np.asarray(Image.open(io.BytesIO(out.getvalue()))))


def saved(pixels: np.ndarray, form: str, **options) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form, **options)
    return out.getvalue()


def sized_jpeg(sides: bytes) -> bytes:
    """A JPEG whose header claims other sides."""
    jpeg = bytearray(saved(np.zeros((8, 8, 3), np.uint8), "JPEG"))
    frame = jpeg.index(b"\xff\xc0")
    jpeg[frame + 5 : frame + 9] = sides
    return bytes(jpeg)


def many_scans(pixels: np.ndarray) -> bytes:
    data = saved(pixels, "JPEG", progressive=True)
    first = data.rindex(b"\xff\xda")
    return data[:first] + data[first:-2] * 500 + data[-2:]


def deep_png(pixels: np.ndarray) -> bytes:
    """A PNG of 16 bits per channel, of which Pillow would cut the lower 8."""
    data = cv2.imencode(".png", pixels.astype(np.uint16) * 257)[1].tobytes()
    assert Image.open(io.BytesIO(data)).mode == "RGB"
    return data


def wide_png() -> bytes:
    out = io.BytesIO()
    Image.new("1", (2**14, 2**13 + 1)).save(out, "PNG")
    return out.getvalue()


def frames(pixels: np.ndarray, form: str) -> bytes:
    extra = [Image.fromarray(255 - pixels)]
    return saved(pixels, form, save_all=True, append_images=extra)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda p: b"", "image", "it is empty"),
        (
            lambda p: b"hello, world",
            "image",
            "expected a JPEG, .* but it begins with 68 65 6c 6c 6f",
        ),
        (lambda p: saved(p, "JPEG")[:-500], "image", "it is damaged: .*remature end of JPEG"),
        (lambda p: saved(p, "JPEG")[:60], "image", "its header is damaged"),
        (lambda p: saved(p, "PNG")[:-500], "image", r"the file ends (early|inside chunk b'IDAT')"),
        (lambda p: saved(p, "PNG")[:-12], "image", "the file ends early: it is truncated"),
        (lambda p: saved(p, "BMP")[:-500], "image", "it is damaged: BMP"),
        (lambda p: frames(p, "GIF"), "image", "it is a GIF of 2 frames; store the frame you want"),
        (lambda p: frames(p, "PNG"), "image", "it is a PNG of 2 frames; store the frame you want"),
        (lambda p: frames(p, "WEBP"), "image", "it is a WebP of 2 frames; store the frame you"),
        (lambda p: frames(p, "TIFF"), "image", "it is a TIFF of 2 frames; store the frame you"),
        (lambda p: saved(p, "JPEG"), "mask", "it is a JPEG, which changes values"),
        (lambda p: saved(p, "PNG"), "mask", "it is RGB, but a mask has one channel"),
        (lambda p: saved(p, "BMP"), "mask", "it is a BMP of mode RGB, but a mask has one"),
        (
            lambda p: saved(p[:, :, 0].astype(np.uint16) * 9, "PNG"),
            "mask",
            r"its values reach from \d+ to 2295, but a mask's values must be 0 to 255",
        ),
        (
            lambda p: saved(p[:, :, 0].astype(np.uint16), "PNG"),
            "image",
            "it has 16 bits per channel, but the field has 8",
        ),
        (
            lambda p: saved(p[:, :, 0].astype(np.float32), "TIFF"),
            "image",
            "it is a TIFF of mode F, which does not fit 8 bits",
        ),
        (deep_png, "image", "16 bits per channel"),
        (lambda p: wide_png(), "image", "more than the limit of 134217728; scale it down"),
        (
            lambda p: sized_jpeg(b"\xfd\xe8\xfd\xe8"),
            "image",
            "65000x65000 pixels, more than the limit",
        ),
        (many_scans, "image", r"it has 5\d\d scans, more than the limit of 500"),
        (
            lambda p: png_chunks(struct.pack(">IIBBBBB", 4, 0, 8, 0, 0, 0, 0), zlib.compress(b"")),
            "image",
            "it has 0x4 pixels, so it is empty",
        ),
        (
            lambda p: png_chunks(b"", b"").replace(b"IHDR", b"tEXt"),
            "image",
            "expected a header as its first chunk",
        ),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_reason(photographs, make, kind, message):
    with pytest.raises(CodecError, match=message):
        inspect_picture(make(photographs["coffee"]), kind, Scratches())


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
@pytest.mark.parametrize("size", [(10, 10), (60, 40), (90, 90)])
def test_another_size_than_recorded_is_an_error(photographs, form, size):
    data, total = saved(photographs["coffee"][:40, :60], form), 3 * size[0] * size[1]
    out = np.full(10**6, GUARD, np.uint8)
    with pytest.raises(CodecError, match=f"expected {size[0]}x{size[1]} pixels, got 40x60"):
        decode_picture(data, "image", size, 1, out, ImageScratch())
    assert (out[total:] == GUARD).all()


def test_a_sound_jpeg_is_parsed_by_the_decoder_alone(photographs, monkeypatch):
    data, out = saved(photographs["coffee"][:40, :60], "JPEG"), np.empty(7200, np.uint8)
    headers: list[bytes] = []
    monkeypatch.setattr("simplejpeg.decode_jpeg_header", headers.append)
    decode_picture(data, "image", (40, 60), 1, out, ImageScratch())
    assert not headers


@pytest.mark.parametrize("form", ["PNG", "BMP", "JPEG"])
def test_limits_of_pillow_do_not_apply(photographs, monkeypatch, form):
    data = saved(photographs["coffee"], form)
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 10)
    decode(data)


def test_truncated_pictures_fail_even_if_pillow_is_told_to_forgive(photographs, monkeypatch):
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)
    data = saved(photographs["coffee"], "PNG")
    with pytest.raises(CodecError, match="truncated"):
        inspect_picture(data[: len(data) // 2], "image", Scratches())


@pytest.mark.parametrize("bits", [2, 4])
def test_gray_png_of_few_bits_is_scaled_as_by_pillow_and_opencv(bits):
    values = np.arange(2**bits, dtype=np.uint8).repeat(4).reshape(2**bits, 4)
    rows = np.zeros((2**bits, 4 * bits // 8), np.uint8)
    for column in range(4):
        rows[:, column * bits // 8] |= values[:, column] << (8 - bits - column * bits % 8)
    data = png_of(bits, rows, 4)
    for kind in ("image", "mask"):
        ours, _ = decode(data, kind)
        flat = ours[:, :, 0] if kind == "image" else ours
        assert np.array_equal(flat, values * (85 if bits == 2 else 17))
    assert np.array_equal(flat, np.asarray(Image.open(io.BytesIO(data))))
    assert np.array_equal(flat, by_opencv(data)[:, :, 0])


def png_of(bits: int, rows: np.ndarray, width: int) -> bytes:
    body = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    return png_chunks(struct.pack(">IIBBBBB", width, len(rows), bits, 0, 0, 0, 0), body)


def test_jpeg_without_color_transform(photographs, to_jpeg):
    data = to_jpeg(photographs["astronaut"], keep_rgb=True)
    ours, _ = decode(data)
    assert distance(ours, by_pillow(data)) <= 1
    assert distance(ours, by_opencv(data)) <= 1


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ((8, 8, 3, 0), "its header has an invalid color type 0 with 3 bits"),
        ((8, 8, 8, 5), "its header has an invalid color type 5 with 8 bits"),
    ],
)
def test_png_headers_that_cannot_be(header, message):
    data = png_chunks(struct.pack(">IIBB3x", *header), zlib.compress(b""))
    with pytest.raises(CodecError, match=message):
        inspect_picture(data, "image", Scratches())
