import { NetworkError } from '@oarlock/spi/network';
import { contains, parseAddress, parseRange, sizeOf, type Range } from './ip-range.ts';

export interface PoolConfig {
  readonly name?: string | undefined;
  readonly cidr: string;
  /** Length of a block's prefix. */
  readonly blockSize?: number | undefined;
  /** Whether what leaves the pools gets the node's address. */
  readonly nat?: boolean | undefined;
  /** Only pods that name the pool get addresses of it. */
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
const usualBlock = { 4: 26, 6: 122 } as const;
/** A block's addresses are numbered in its object. */
const largestBlock = 8;

/** @throws NetworkError `InvalidConfig` naming the pool */
export function poolsOf(configured: readonly PoolConfig[]): readonly Pool[] {
  const pools = configured.map(({ name, cidr, blockSize, nat = true, onRequest = false }): Pool => {
    const range = parseRange(cidr);
    const width = range.family === 4 ? 32 : 128;
    const blockBits = Math.max(range.bits, blockSize ?? usualBlock[range.family]);
    if (blockSize !== undefined && (blockSize > width - 2 || blockSize < width - largestBlock))
      throw new NetworkError('InvalidConfig', `pool ${cidr}: blockSize ${blockSize} is not from ${width - largestBlock} to ${width - 2}`);
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
/** The block of a pool that an address is in. */
export function blockContaining(pool: Pool, value: bigint): { readonly range: Range; readonly ordinal: number } {
  const size = sizeOf({ ...pool.range, bits: pool.blockBits });
  const range = blockAt(pool, (value - pool.range.first) / size);
  return { range, ordinal: Number(value - range.first) };
}
export function poolContaining(pools: readonly Pool[], address: string): Pool | undefined {
  const { family, value } = parseAddress(address);
  return pools.find(({ range }) => contains(range, family, value));
}

/** What a pod asks for, in the words of Calico: JSON lists of pools, by name or range, and of addresses. */
const annotations = { 4: 'cni.projectcalico.org/ipv4pools', 6: 'cni.projectcalico.org/ipv6pools' } as const;
export const addressesAnnotation = 'cni.projectcalico.org/ipAddrs';

function listIn(given: Readonly<Record<string, string>>, key: string): readonly string[] | undefined {
  const text = given[key];
  if (text === undefined) return undefined;
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch (cause) {
    throw new NetworkError('InvalidConfig', `annotation ${key}: not JSON: ${text.slice(0, 200)}`, { cause });
  }
  if (!Array.isArray(list) || list.length === 0 || list.length > 16 || list.some((each) => typeof each !== 'string'))
    throw new NetworkError('InvalidConfig', `annotation ${key}: not a list of 1 to 16 texts: ${text.slice(0, 200)}`);
  return list as readonly string[];
}

export type AddressRequest = { readonly pools: readonly Pool[] } | { readonly address: string; readonly pool: Pool };

/** One wish for each address that a pod is to have: one of each family that there are pools of, or the addresses it names. @throws NetworkError `InvalidConfig` */
export function addressRequests(pools: readonly Pool[], given: Readonly<Record<string, string>> = {}): readonly AddressRequest[] {
  const fixed = listIn(given, addressesAnnotation);
  if (fixed) {
    const wishes = fixed.map((address) => {
      const pool = poolContaining(pools, address);
      if (!pool) throw new NetworkError('InvalidConfig', `annotation ${addressesAnnotation}: ${address} is in no pool`);
      return { address, pool };
    });
    for (const family of [4, 6] as const)
      if (wishes.filter(({ pool }) => pool.range.family === family).length > 1)
        throw new NetworkError('InvalidConfig', `annotation ${addressesAnnotation}: more than one IPv${family} address`);
    return wishes;
  }
  return ([4, 6] as const).flatMap((family): AddressRequest[] => {
    const named = listIn(given, annotations[family]);
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
