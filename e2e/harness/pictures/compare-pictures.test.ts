import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { deflateSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { root } from '../oarlock.ts';
import { comparePictures, pictureFault } from './compare-pictures.ts';
import { bytesPerPixel, decodePng, type Picture } from './picture.ts';
import { viewContent } from './view-content.ts';

const names = Object.keys(viewContent);
const stored = async (name: string) => decodePng(await readFile(join(root, 'docs', 'images', `${name}.png`)));

interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}
/** The area of a view, without the header and the navigation. */
const main: Box = { left: 192, top: 48, right: 1280, bottom: 800 };

const rowOf = ({ pixels, width }: Picture, y: number, left: number, right: number): Uint8Array =>
  pixels.subarray((y * width + left) * bytesPerPixel, (y * width + right) * bytesPerPixel);

/** Returns the picture with one color in a box; by default that of its lower right corner, which is the background of a view. */
function empty(
  picture: Picture,
  { left, top, right, bottom }: Box,
  color: ArrayLike<number> = rowOf(picture, main.bottom - 3, main.right - 3, main.right - 2),
): Picture {
  const pixels = picture.pixels.slice();
  const line = new Uint8Array((right - left) * bytesPerPixel);
  for (let at = 0; at < line.length; at += bytesPerPixel) line.set(color, at);
  for (let y = top; y < bottom; y += 1) pixels.set(line, (y * picture.width + left) * bytesPerPixel);
  return { ...picture, pixels };
}

/** Returns the picture with the content of its view moved by some pixels, as other fonts and lengths of names move it. */
function moved(picture: Picture, by: number): Picture {
  const pixels = picture.pixels.slice();
  for (let y = main.top + by; y < main.bottom; y += 1)
    pixels.set(rowOf(picture, y - by, main.left, main.right - by), (y * picture.width + main.left + by) * bytesPerPixel);
  return { ...picture, pixels };
}
const inverted = (picture: Picture): Picture => ({ ...picture, pixels: picture.pixels.map((value) => 255 - value) });

const lostContent = /of the places with content are empty|of the content/;

describe('a picture', () => {
  it.each(['console-overview', 'console-workload', 'console-trace'])(
    'equals itself, and tolerates text at other places: %s',
    async (name) => {
      const picture = await stored(name);
      expect(comparePictures(picture, picture)).toEqual({ lost: 0, color: 0, amount: 1 });
      for (const by of [2, 7]) expect([by, pictureFault(picture, moved(picture, by))]).toEqual([by, undefined]);
    },
  );

  it.each(names)('differs from an empty view: %s', async (name) => {
    const picture = await stored(name);
    expect(pictureFault(picture, empty(picture, main))).toMatch(lostContent);
  });

  it('differs from an empty page, and from the other theme', async () => {
    const picture = await stored('console-overview');
    const all = { left: 0, top: 0, right: picture.width, bottom: picture.height };
    expect(pictureFault(picture, empty(picture, all, [255, 255, 255]))).toMatch(lostContent);
    expect(pictureFault(picture, inverted(picture))).toMatch(/another color/);
    expect(pictureFault(picture, await stored('console-overview-dark'))).toMatch(/another color/);
    expect(() => comparePictures(picture, { ...picture, width: 1 })).toThrow('the sizes differ');
  });
});

describe('a missing panel', () => {
  it.each([
    ['the upper half of the overview', 'console-overview', { ...main, bottom: 400 }],
    ['the lower half of the overview', 'console-overview', { ...main, top: 400 }],
    ['the columns of the object', 'console-workload', { ...main, top: 140 }],
    ['the graph of connections', 'console-why-traffic', { ...main, top: 300 }],
    ['the rows of the table', 'console-table', { ...main, top: 200 }],
  ])('is a difference: %s', async (_, name, box) => {
    const picture = await stored(name);
    expect(pictureFault(picture, empty(picture, box))).toMatch(lostContent);
  });
});

describe('a PNG file', () => {
  const chunk = (type: string, data: Buffer) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(data.length);
    return Buffer.concat([length, Buffer.from(type, 'latin1'), data, Buffer.alloc(4)]);
  };
  const png = (color: number, lines: readonly (readonly number[])[], width: number) => {
    const header = Buffer.alloc(13);
    header.writeUInt32BE(width, 0);
    header.writeUInt32BE(lines.length, 4);
    header.set([8, color, 0, 0, 0], 8);
    const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
    return Buffer.concat([
      signature,
      chunk('IHDR', header),
      chunk('IDAT', deflateSync(Buffer.from(lines.flat()))),
      chunk('IEND', Buffer.alloc(0)),
    ]);
  };

  it('is decoded with each filter, with and without transparency', () => {
    const lines = [
      [0, 10, 20, 30, 40, 50, 60],
      [1, 10, 20, 30, 5, 5, 5],
      [2, 1, 1, 1, 1, 1, 1],
      [3, 1, 1, 1, 1, 1, 1],
      [4, 1, 1, 1, 1, 1, 1],
    ];
    expect([...decodePng(png(2, lines, 2)).pixels]).toEqual([
      ...[10, 20, 30, 40, 50, 60],
      ...[10, 20, 30, 15, 25, 35],
      ...[11, 21, 31, 16, 26, 36],
      ...[6, 11, 16, 12, 19, 27],
      ...[7, 12, 17, 13, 20, 28],
    ]);
    expect([...decodePng(png(6, [[0, 1, 2, 3, 255]], 1)).pixels]).toEqual([1, 2, 3]);
  });

  it('is rejected in other formats', () => {
    expect(() => decodePng(Buffer.from('GIF89a'))).toThrow('no PNG');
    expect(() => decodePng(png(3, [[0, 1]], 1))).toThrow('not 8-bit RGB');
  });
});
