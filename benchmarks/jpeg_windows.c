/* Decodes a window of a JPEG as libjpeg-turbo offers it: rows above are skipped, columns beside it
 * are not transformed, and decoding ends with the window's last row. Used by jpeg_windows.py.
 */
#include <stdio.h>
#include <string.h>
#include <jpeglib.h>

/* Writes height rows of 3 * width bytes to out. `row` has room for a whole row of the image. */
void decode_window(const unsigned char *data, unsigned long size, unsigned left, unsigned top,
                   unsigned width, unsigned height, unsigned char *row, unsigned char *out)
{
    struct jpeg_decompress_struct decoder;
    struct jpeg_error_mgr errors;
    decoder.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&decoder);
    jpeg_mem_src(&decoder, data, size);
    jpeg_read_header(&decoder, TRUE);
    decoder.out_color_space = JCS_RGB;
    jpeg_start_decompress(&decoder);
    JDIMENSION first = left, columns = width; /* widened to whole MCUs */
    jpeg_crop_scanline(&decoder, &first, &columns);
    if (top)
        jpeg_skip_scanlines(&decoder, top);
    for (unsigned y = 0; y < height; y++) {
        jpeg_read_scanlines(&decoder, &row, 1);
        memcpy(out + 3ul * width * y, row + 3ul * (left - first), 3ul * width);
    }
    jpeg_abort_decompress(&decoder);
    jpeg_destroy_decompress(&decoder);
}
