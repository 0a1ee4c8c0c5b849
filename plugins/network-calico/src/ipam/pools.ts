import { NetworkError } from '@oarlock/spi/network';
import { contains, parseAddress, parseRange, sizeOf, type Range } from './ip-range.ts';

export interface PoolConfig {
  readonly name?: string | undefined;
  readonly cidr: string;
  /** The prefix length of the pool's blocks. */
  readonly blockSize?: number | undefined;
  /** True if packets that leave the pools are masqueraded with the node's address. */
  readonly nat?: boolean | undefined;
  /** True if only pods that name the pool in an annotation get its addresses. */
  readonly onRequest?: boolean | undefined;
}
export interface Pool {
  readonly name: string;
  readonly cidr: string;
  readonly range: Range;
  readonly blockBits: number;
  readonly nat: boolean;
  readonly onRequest: boolean;
}
const defaultBlockSize = { 4: 26, 6: 122 } as const;
/** The number of host bits of the largest block, which is limited because the claims of a block list each address. */
const maxBlockHostBits = 8;

/** Validates the configured pools. @throws NetworkError `InvalidConfig` with the name of the invalid pool */
export function poolsOf(configured: readonly PoolConfig[]): readonly Pool[] {
  const pools = configured.map(({ name, cidr, blockSize, nat = true, onRequest = false }): Pool => {
    const range = parseRange(cidr);
    const width = range.family === 4 ? 32 : 128;
    const blockBits = Math.max(range.bits, blockSize ?? defaultBlockSize[range.family]);
    if (blockSize !== undefined && (blockSize > width - 2 || blockSize < width - maxBlockHostBits))
      throw new NetworkError(
        'InvalidConfig',
        `pool ${cidr}: blockSize ${blockSize} is not from ${width - maxBlockHostBits} to ${width - 2}`,
      );
    return { name: name ?? cidr, cidr, range, blockBits, nat, onRequest };
  });
  for (const [at, { name, range }] of pools.entries())
    for (const other of pools.slice(0, at)) {
      if (other.name === name) throw new NetworkError('InvalidConfig', `two pools are named ${name}`);
      if (contains(other.range, range.family, range.first) || contains(range, other.range.family, other.range.first))
        throw new NetworkError('InvalidConfig', `the pools ${other.name} and ${name} overlap`);
    }
  return pools;
}

export const blocksIn = ({ range, blockBits }: Pool): bigint => 1n << BigInt(blockBits - range.bits);
export function blockAt({ range, blockBits }: Pool, index: bigint): Range {
  const { family, first } = range;
  return { family, bits: blockBits, first: first + index * sizeOf({ family, first, bits: blockBits }) };
}
/** Returns the block of the pool that contains the address. */
export function blockContaining(pool: Pool, value: bigint): { readonly range: Range; readonly ordinal: number } {
  const size = sizeOf({ ...pool.range, bits: pool.blockBits });
  const range = blockAt(pool, (value - pool.range.first) / size);
  return { range, ordinal: Number(value - range.first) };
}
export function poolContaining(pools: readonly Pool[], address: string): Pool | undefined {
  const { family, value } = parseAddress(address);
  return pools.find(({ range }) => contains(range, family, value));
}

/** Calico's annotations of pods: JSON lists of pools (by name or CIDR) and of addresses. */
const annotations = { 4: 'cni.projectcalico.org/ipv4pools', 6: 'cni.projectcalico.org/ipv6pools' } as const;
export const addressesAnnotation = 'cni.projectcalico.org/ipAddrs';

function listIn(podAnnotations: Readonly<Record<string, string>>, key: string): readonly string[] | undefined {
  const text = podAnnotations[key];
  if (text === undefined) return undefined;
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch (cause) {
    throw new NetworkError('InvalidConfig', `annotation ${key}: not JSON: ${text.slice(0, 200)}`, { cause });
  }
  if (!Array.isArray(list) || list.length === 0 || list.length > 16 || list.some((each) => typeof each !== 'string'))
    throw new NetworkError('InvalidConfig', `annotation ${key}: not a list of 1 to 16 strings: ${text.slice(0, 200)}`);
  return list as readonly string[];
}

export type AddressRequest = { readonly pools: readonly Pool[] } | { readonly address: string; readonly pool: Pool };

/**
 * Returns one request per address of the pod: the fixed addresses of the pod's annotation, or one address of each family that has pools.
 * @throws NetworkError `InvalidConfig` if an annotation is invalid
 */
export function addressRequests(pools: readonly Pool[], podAnnotations: Readonly<Record<string, string>> = {}): readonly AddressRequest[] {
  const fixed = listIn(podAnnotations, addressesAnnotation);
  if (fixed) {
    const requests = fixed.map((address) => {
      const pool = poolContaining(pools, address);
      if (!pool) throw new NetworkError('InvalidConfig', `annotation ${addressesAnnotation}: ${address} is in no pool`);
      return { address, pool };
    });
    for (const family of [4, 6] as const)
      if (requests.filter(({ pool }) => pool.range.family === family).length > 1)
        throw new NetworkError('InvalidConfig', `annotation ${addressesAnnotation}: more than one IPv${family} address`);
    return requests;
  }
  return ([4, 6] as const).flatMap((family): AddressRequest[] => {
    const named = listIn(podAnnotations, annotations[family]);
    const all = pools.filter(({ range }) => range.family === family);
    const chosen = named
      ? named.map((text) => {
          const pool = all.find(({ name, cidr }) => name === text || cidr === text);
          if (!pool) throw new NetworkError('InvalidConfig', `annotation ${annotations[family]}: there is no pool ${text}`);
          return pool;
        })
      : all.filter(({ onRequest }) => !onRequest);
    return chosen.length === 0 ? [] : [{ pools: chosen }];
  });
}
