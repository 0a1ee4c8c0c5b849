import { bytesPerPixel, type Picture } from './picture.ts';

/** The side of a region in pixels: about two lines of text. */
const regionSize = 40;
/** The difference of a color value from the background of a region from which a pixel belongs to content. */
const minContrast = 24;
/** The part of a region's pixels that are content, from which a region has content, and below which it is empty. */
const content = { some: 0.02, none: 0.004 };
/** The difference of a background's color value from which two regions differ in color. */
const minColorDifference = 10;
/**
 * What may differ. Names, numbers and ages differ in each run, lists have other lengths, and fonts differ by machine: text moves, but mostly where text was.
 */
const tolerance = { lost: 0.2, color: 0.15, contentLeast: 0.6 };

export interface PictureDifference {
  /** The part of the regions with content that are empty in the other picture. */
  readonly lost: number;
  /** The part of the regions with another background. */
  readonly color: number;
  /** The amount of content, compared with that of the expected picture. */
  readonly amount: number;
}

interface Region {
  readonly background: readonly number[];
  /** The part of the pixels that differ from the background. */
  readonly content: number;
}

/** Returns the most frequent color of a region, and the part of its pixels that differ from it. */
function regionOf({ width, height, pixels }: Picture, left: number, top: number): Region {
  const counts = new Map<number, number>();
  let all = 0;
  for (let y = top; y < Math.min(top + regionSize, height); y += 1)
    for (let x = left; x < Math.min(left + regionSize, width); x += 1) {
      const at = (y * width + x) * bytesPerPixel;
      const color = ((pixels[at] ?? 0) << 16) | ((pixels[at + 1] ?? 0) << 8) | (pixels[at + 2] ?? 0);
      counts.set(color, (counts.get(color) ?? 0) + 1);
      all += 1;
    }
  const [frequent = 0] = [...counts].reduce((most, each) => (each[1] > most[1] ? each : most), [0, 0]);
  const background = channelsOf(frequent);
  let different = 0;
  for (const [color, count] of counts)
    if (channelsOf(color).some((value, channel) => Math.abs(value - (background[channel] ?? 0)) > minContrast)) different += count;
  return { background, content: different / all };
}

const channelsOf = (color: number): readonly number[] => [color >> 16, (color >> 8) & 255, color & 255];

function regionsOf(picture: Picture): readonly Region[] {
  const regions: Region[] = [];
  for (let top = 0; top < picture.height; top += regionSize)
    for (let left = 0; left < picture.width; left += regionSize) regions.push(regionOf(picture, left, top));
  return regions;
}

/** Compares two pictures of one size by regions: where there is content, how much, and on which background. @throws Error if the sizes differ */
export function comparePictures(expected: Picture, actual: Picture): PictureDifference {
  if (expected.width !== actual.width || expected.height !== actual.height)
    throw new Error(`the sizes differ: ${expected.width} x ${expected.height} and ${actual.width} x ${actual.height}`);
  const [wanted, found] = [regionsOf(expected), regionsOf(actual)];
  const pairs = wanted.map((region, index) => [region, found[index] ?? region] as const);
  const filled = pairs.filter(([region]) => region.content >= content.some);
  const amountOf = (regions: readonly Region[]) => regions.reduce((sum, region) => sum + region.content, 0);
  return {
    lost: filled.length === 0 ? 0 : filled.filter(([, other]) => other.content < content.none).length / filled.length,
    color:
      pairs.filter(([a, b]) => a.background.some((value, channel) => Math.abs(value - (b.background[channel] ?? 0)) > minColorDifference))
        .length / pairs.length,
    amount: amountOf(found) / Math.max(amountOf(wanted), Number.EPSILON),
  };
}

const percent = (part: number): string => `${Math.round(100 * part)} %`;

/** Returns how a picture differs from the expected one beyond the tolerance; undefined if it does not. */
export function pictureFault(expected: Picture, actual: Picture): string | undefined {
  const { lost, color, amount } = comparePictures(expected, actual);
  if (lost > tolerance.lost) return `${percent(lost)} of the places with content are empty`;
  if (amount < tolerance.contentLeast) return `it has ${percent(amount)} of the content`;
  return color > tolerance.color ? `${percent(color)} of it has another color` : undefined;
}
