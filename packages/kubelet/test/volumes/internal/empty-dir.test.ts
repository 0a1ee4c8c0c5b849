import type { Pod } from '@oarlock/api/types/core-v1';
import { expect, it } from 'vitest';
import { memoryBytes } from '../../../src/volumes/internal/empty-dir.ts';

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
  ['its size limit', pod(undefined), '64Mi', 64 * mib],
  ["the sum of the containers' limits", pod('16Mi', '32Mi'), undefined, 48 * mib],
  ['the smaller of both', pod('16Mi', '32Mi'), '64Mi', 48 * mib],
  ['the smaller of both', pod('128Mi'), '64Mi', 64 * mib],
  ['the kernel default if a container has no limit', pod('16Mi', undefined), undefined, undefined],
  ['the kernel default without any limit', pod(undefined), '0', undefined],
] as const)('the size of a volume in memory is %s', (_what, of, sizeLimit, bytes) => {
  expect(memoryBytes(of, sizeLimit)).toBe(bytes);
});
