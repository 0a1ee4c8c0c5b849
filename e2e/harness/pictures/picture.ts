import { inflateSync } from 'node:zlib';

/** A picture with 8-bit red, green and blue values, row by row. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly pixels: Uint8Array;
}

export const bytesPerPixel = 3;
const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** Decodes a PNG file as browsers write screenshots: 8-bit RGB or RGBA, not interlaced. @throws Error for another file */
export function decodePng(file: Buffer): Picture {
  if (!file.subarray(0, signature.length).equals(signature)) throw new Error('the file is no PNG');
  const parts: Buffer[] = [];
  let header: Buffer | undefined;
  for (let at = signature.length; at + 8 <= file.length; ) {
    const length = file.readUInt32BE(at);
    const type = file.toString('latin1', at + 4, at + 8);
    const data = file.subarray(at + 8, at + 8 + length);
    if (type === 'IHDR') header = data;
    if (type === 'IDAT') parts.push(data);
    at += 12 + length;
  }
  if (header === undefined) throw new Error('the PNG has no header');
  const [width, height, depth, color, interlaced] = [header.readUInt32BE(0), header.readUInt32BE(4), header[8], header[9], header[12]];
  if (depth !== 8 || (color !== 2 && color !== 6) || interlaced !== 0) throw new Error('the PNG is not 8-bit RGB or RGBA');
  return { width, height, pixels: unfilter(inflateSync(Buffer.concat(parts)), { width, height, channels: color === 2 ? 3 : 4 }) };
}

/** Returns the color values of filtered lines (PNG specification, section 9). */
function unfilter(
  raw: Buffer,
  { width, height, channels }: { readonly width: number; readonly height: number; readonly channels: number },
): Uint8Array {
  const stride = width * channels;
  const pixels = new Uint8Array(width * height * bytesPerPixel);
  let above = new Uint8Array(stride);
  for (let y = 0; y < height; y += 1) {
    const filter = raw[y * (stride + 1)];
    const line = new Uint8Array(raw.subarray(y * (stride + 1) + 1, (y + 1) * (stride + 1)));
    for (let x = 0; x < stride; x += 1) {
      const [a, b, c] = [x < channels ? 0 : (line[x - channels] ?? 0), above[x] ?? 0, x < channels ? 0 : (above[x - channels] ?? 0)];
      const predicted = filter === 1 ? a : filter === 2 ? b : filter === 3 ? (a + b) >> 1 : filter === 4 ? paeth(a, b, c) : 0;
      line[x] = (line[x] ?? 0) + predicted;
    }
    for (let x = 0; x < width; x += 1)
      for (let channel = 0; channel < bytesPerPixel; channel += 1)
        pixels[(y * width + x) * bytesPerPixel + channel] = line[x * channels + channel] ?? 0;
    above = line;
  }
  return pixels;
}

function paeth(a: number, b: number, c: number): number {
  const [toA, toB, toC] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)];
  return toA <= toB && toA <= toC ? a : toB <= toC ? b : c;
}
