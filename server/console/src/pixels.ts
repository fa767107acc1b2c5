// Raw pixels of frames, as a canvas takes them.

import { PixelFormat, type Frame } from "./gen/polyscan/v1/frame_pb";

// Where red, green and blue of a pixel are, and how many bytes it has.
const layouts: Partial<Record<PixelFormat, [number, number, number, number]>> = {
  [PixelFormat.GRAY8]: [0, 0, 0, 1],
  [PixelFormat.RGB8]: [0, 1, 2, 3],
  [PixelFormat.BGR8]: [2, 1, 0, 3],
  [PixelFormat.RGBA8]: [0, 1, 2, 4],
};

/** imageOf makes raw pixels such that a canvas can show them; of more than 8 bits those are the high ones. */
export function imageOf(frame: Frame | undefined): ImageData {
  const { width = 0, height = 0, pixelFormat = 0, stride = 0, significantBits = 0 } = frame?.layout ?? {};
  const data = frame?.source.case === "data" ? frame.source.value : new Uint8Array();
  const image = new ImageData(width, height);
  const out = new Uint32Array(image.data.buffer); // little endian, as all that browsers run on
  const wide = pixelFormat === PixelFormat.GRAY16LE;
  const [r, g, b, size] = wide ? [0, 0, 0, 2] : layouts[pixelFormat as PixelFormat]!;
  const alpha = pixelFormat === PixelFormat.RGBA8;
  const row = stride || width * size;
  const low = (significantBits || 16) - 8;
  for (let y = 0, k = 0; y < height; y++) {
    for (let i = y * row, end = i + width * size; i < end; i += size) {
      if (wide) out[k++] = (((data[i]! | (data[i + 1]! << 8)) >> low) * 0x10101) | 0xff000000;
      else out[k++] = data[i + r]! | (data[i + g]! << 8) | (data[i + b]! << 16) | ((alpha ? data[i + 3]! : 255) << 24);
    }
  }
  return image;
}

/** pngOf is the picture as a file. */
export async function pngOf(image: ImageData): Promise<Blob> {
  const c = new OffscreenCanvas(image.width, image.height);
  c.getContext("2d")!.putImageData(image, 0, 0);
  return c.convertToBlob();
}
