import type { Pod } from '@oarlock/api/types/core-v1';
import { expect, it } from 'vitest';
import { memoryBytes } from '../src/volumes/empty-dir.ts';

const mib = 2 ** 20;
const pod = (...limits: readonly (string | undefined)[]): Pod => ({
  metadata: { name: 'p' },
  spec: {
    containers: limits.map((memory, at) => ({
      name: `c${at}`,
      image: 'x',
      ...(memory !== undefined && { resources: { limits: { memory } } }),
    })),
  },
});

it.each([
  ['what it asks for', pod(undefined), '64Mi', 64 * mib],
  ['what its containers may take together', pod('16Mi', '32Mi'), undefined, 48 * mib],
  ['the smaller of both', pod('16Mi', '32Mi'), '64Mi', 48 * mib],
  ['the smaller of both', pod('128Mi'), '64Mi', 64 * mib],
  ['what the kernel gives where a container may take all there is', pod('16Mi', undefined), undefined, undefined],
  ['what the kernel gives where nothing is asked for', pod(undefined), '0', undefined],
] as const)('a volume in memory is as large as %s', (_what, of, sizeLimit, bytes) => {
  expect(memoryBytes(of, sizeLimit)).toBe(bytes);
});
