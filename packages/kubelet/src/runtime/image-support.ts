import type { ImageSupport } from '@oarlock/spi/runtime';
import type { PLEG } from './pleg.ts';

type ImageRuntime = Pick<PLEG, 'handler' | 'imageSupport'>;

/**
 * Returns whether images run on a node, and how or why not; undefined if no runtime reports it. One runtime that runs them is enough: the kubelet
 * selects it for pods with images.
 */
export function imageSupportOf(runtimes: readonly ImageRuntime[]): ImageSupport | undefined {
  const reports = runtimes.flatMap(({ handler, imageSupport }) => (imageSupport === undefined ? [] : [{ handler, ...imageSupport }]));
  const able = reports.filter(({ available }) => available);
  const named = able.length > 0 ? able : reports;
  if (named.length === 0) return undefined;
  return { available: able.length > 0, detail: named.map(({ handler, detail }) => `${handler}: ${detail}`).join('; ') };
}
