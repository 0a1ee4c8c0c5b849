import { createHash } from 'node:crypto';

/** `sha256:` and 64 hexadecimal digits. Other algorithms are not supported. */
export type Digest = string;

const pattern = /^sha256:[a-f0-9]{64}$/;
export const isDigest = (value: unknown): value is Digest => typeof value === 'string' && pattern.test(value);
export const hexOf = (digest: Digest): string => digest.slice('sha256:'.length);
export const digestOf = (bytes: Uint8Array | string): Digest => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

/** Returns the chain id of each layer (image-spec, config.md, "Layer ChainID"). */
export function chainIdsOf(diffIds: readonly Digest[]): readonly Digest[] {
  const chain: Digest[] = [];
  for (const diffId of diffIds) {
    const parent = chain.at(-1);
    chain.push(parent === undefined ? diffId : digestOf(`${parent} ${diffId}`));
  }
  return chain;
}
