"""Makes the pictures of this folder anew; needs Pillow. They are kept, so that runs need neither."""
import io
import struct
import zlib

from PIL import Image


def picture(mode="RGB", size=(30, 20)):
    image = Image.new("RGB", size)
    for y in range(size[1]):
        for x in range(size[0]):
            image.putpixel((x, y), (x * 8 % 256, y * 12 % 256, x * y % 256))
    return image.convert(mode)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, colour, raw):
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def bytes_of(image, kind, **how):
    out = io.BytesIO()
    image.save(out, kind, **how)
    return out.getvalue()


def put(name, data):
    with open(name, "wb") as file:
        file.write(data)


plain = bytes_of(picture(), "PNG")
photo = bytes_of(picture(), "JPEG", quality=60)
still = bytes_of(picture(), "WEBP", lossless=True)
large = bytes_of(picture(size=(200, 150)), "JPEG")
turned = Image.Exif()
turned[0x0112] = 6
damaged = bytearray(plain)
damaged[-40] ^= 0x10
row = b"\0" + bytes(n % 256 for n in range(30 * 6))
put("plain.png", plain)
put("small.png", bytes_of(picture("L", (9, 9)), "PNG"))
put("photo.jpg", photo)
put("photo-as.png", photo)
put("still.webp", still)
put("lossy.webp", bytes_of(picture(), "WEBP", quality=50))
put("print.jpg", bytes_of(picture("CMYK"), "JPEG"))
put("turned.jpg", bytes_of(picture(), "JPEG", exif=turned))
moving = {"save_all": True, "append_images": [picture("L").convert("RGB")], "duration": 100}
put("moving.webp", bytes_of(picture(), "WEBP", **moving))
put("drawing.png", bytes_of(picture("P"), "GIF"))
put("deep.png", png(30, 20, 16, 2, row * 20))
put("vast.png", png(70_000, 50_000, 8, 2, b"\0" * 16))
put("cut.png", plain[: len(plain) * 2 // 3])
put("damaged.png", bytes(damaged))
put("cut.jpg", large[: len(large) // 2])
put("cut.webp", still[:-20])
