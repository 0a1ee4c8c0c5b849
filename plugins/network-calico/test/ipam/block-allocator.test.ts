import { nodes } from '@oarlock/api/resources';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BlockAllocator } from '../../src/ipam/block-allocator.ts';
import { formatAddress, parseAddress, parseRange } from '../../src/ipam/ip-range.ts';
import { peersOf } from '../../src/routing/block-peers.ts';
import { ApiBlocks } from '../../src/ipam/block-store.ts';
import { ipBlocks } from '../../src/ipam/ip-block.ts';
import { poolsOf, addressRequests, type PoolConfig } from '../../src/ipam/pools.ts';

describe('IP addresses', () => {
  it.each(['10.0.0.1', '255.255.255.255', '::', '::1', 'fd00::1:0:0:2', '2001:db8:1:2:3:4:5:6', 'fe80::ecee:eeff:feee:eeee', '1::'])(
    '%s is parsed and formatted',
    (text) => {
      const { family, value } = parseAddress(text);
      expect(formatAddress(family, value)).toBe(text);
    },
  );
  it('invalid addresses are rejected', () => {
    for (const text of ['', '10.0.0', '10.0.0.256', 'x', 'fe80::1%eth0']) expect(() => parseAddress(text)).toThrow(/not an IP address/);
    expect(() => parseRange('10.0.0.0/33')).toThrow(/invalid CIDR/);
  });
});

describe('address requests of a pod', () => {
  const pools = poolsOf([{ cidr: '10.1.0.0/24' }, { name: 'rare', cidr: '10.2.0.0/24', onRequest: true }, { cidr: 'fd00::/64' }]);
  const ask = (annotations: Record<string, unknown>) =>
    addressRequests(
      pools,
      Object.fromEntries(Object.entries(annotations).map(([key, value]) => [`cni.projectcalico.org/${key}`, JSON.stringify(value)])),
    );
  it('are one address per family, pools by name or CIDR, or fixed addresses', () => {
    expect(ask({})).toMatchObject([{ pools: [{ cidr: '10.1.0.0/24' }] }, { pools: [{ cidr: 'fd00::/64' }] }]);
    expect(ask({ ipv4pools: ['rare'] })).toMatchObject([{ pools: [{ cidr: '10.2.0.0/24' }] }, {}]);
    expect(ask({ ipv4pools: ['10.1.0.0/24'] })).toMatchObject([{ pools: [{ cidr: '10.1.0.0/24' }] }, {}]);
    expect(ask({ ipAddrs: ['10.2.0.9'] })).toMatchObject([{ address: '10.2.0.9', pool: { name: 'rare' } }]);
  });
  it('are rejected if the annotation is invalid', () => {
    expect(() => ask({ ipv4pools: ['none'] })).toThrow(/ipv4pools: there is no pool none/);
    expect(() => ask({ ipAddrs: ['10.9.0.1'] })).toThrow(/ipAddrs: 10.9.0.1 is in no pool/);
    expect(() => ask({ ipAddrs: ['10.1.0.1', '10.1.0.2'] })).toThrow(/more than one IPv4/);
    expect(() => ask({ ipAddrs: 'x' })).toThrow(/not a list/);
    expect(() => addressRequests(pools, { 'cni.projectcalico.org/ipAddrs': '[' })).toThrow(/not JSON/);
  });
  it('pools that overlap are rejected', () => {
    expect(() => poolsOf([{ cidr: '10.1.0.0/16' }, { cidr: '10.1.2.0/24' }])).toThrow(/overlap/);
    expect(() => poolsOf([{ cidr: '10.1.0.0/16', blockSize: 8 }])).toThrow(/blockSize 8/);
  });
});

describe('nodes that share pools', () => {
  let api: MemoryApi;
  const books: BlockAllocator[] = [];
  beforeEach(() => {
    api = memoryApi({ clock: new FakeClock() });
  });
  afterEach(async () => {
    for (const book of books.splice(0)) await book.whenIdle();
    await api.stop();
  });

  const open = async (node: string, pool: PoolConfig, held: readonly string[] = [], gone: readonly string[] = []) => {
    api.seed(nodes, { metadata: { name: node } });
    const book = new BlockAllocator({
      store: new ApiBlocks(api.client(), node),
      node,
      log: silentLogger,
      shared: true,
      isGone: (name) => gone.includes(name),
    });
    books.push(book);
    const pools = poolsOf([pool]);
    await book.configure(pools, new Map(held.map((address) => [address, `held-${address}`])));
    api.informers
      .forResource(ipBlocks)
      .addEventHandler({ onAdd: (block) => book.observe(block), onUpdate: (block) => book.observe(block) });
    let count = 0;
    return {
      book,
      take: (address?: string) =>
        book.allocate(address === undefined ? { pools } : { address, pool: pools[0] ?? expect.fail() }, `${node}-${count++}`),
      node,
    };
  };
  const blocks = () => api.objects(ipBlocks);

  it('claim blocks, then borrow addresses, until the pool is exhausted', async () => {
    const pool = { cidr: '10.1.0.0/28', blockSize: 30 };
    const all = await Promise.all(['a', 'b', 'c', 'd'].map((name) => open(name, pool)));
    expect(new Set(blocks().map(({ spec }) => spec.node))).toEqual(new Set(['a', 'b', 'c', 'd']));
    const [a] = all;
    if (!a) throw new Error('there is no a');
    // three in its own block; two of each other block, whose node claims one address at a time because the blocks are small
    const assigned = await Promise.all(Array.from({ length: 9 }, () => a.take()));
    expect(new Set(assigned).size).toBe(9);
    expect(a.book.borrowed.length).toBe(6);
    await expect(a.take()).rejects.toMatchObject({ code: 'Exhausted' });
    const others = peersOf(
      blocks(),
      ['a', 'b', 'c', 'd'].map((name) => ({
        metadata: { name },
        status: { addresses: [{ type: 'InternalIP', address: `192.0.2.${name.charCodeAt(0)}` }] },
      })),
      'b',
    );
    expect(others.filter(({ range }) => range.endsWith('/32')).length).toBe(6);
    expect(others.filter(({ range }) => range.endsWith('/30')).length).toBe(3);
  });

  it('never assign the same address twice under concurrency', async () => {
    const all = await Promise.all(['a', 'b', 'c'].map((name) => open(name, { cidr: '10.1.0.0/25' })));
    const assigned = await Promise.allSettled(Array.from({ length: 150 }, (_, at) => (all[at % 3] ?? expect.fail()).take()));
    const addresses = assigned.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    expect(new Set(addresses).size).toBe(addresses.length);
    // two blocks, whose first address is reserved for their nodes; addresses in reserve on other nodes are not available
    expect(addresses.length).toBeGreaterThan(126 - 2 * 16);
  });

  it('release borrowed addresses and unused blocks, and keep the first block', async () => {
    const pool = { cidr: '10.1.0.0/26', blockSize: 29 };
    const { book, take } = await open('a', pool);
    const assigned = await Promise.all(Array.from({ length: 30 }, () => take()));
    expect(blocks().length).toBeGreaterThan(4);
    for (const [at, address] of assigned.entries()) book.release(address, `a-${at}`);
    await book.whenIdle();
    await expect.poll(() => blocks().length).toBeLessThanOrEqual(2);
    expect(book.used).toBe(0);
    expect((await Promise.all(Array.from({ length: 30 }, () => take()))).length).toBe(30);
  });

  it('recover their addresses after a crash without a leak', async () => {
    const pool = { cidr: '10.1.0.0/28', blockSize: 28 };
    const before = await open('a', pool);
    const kept = await before.take();
    for (let n = 0; n < 5; n++) await before.take(); // these addresses have no endpoint record
    const after = await open('a', pool, [kept]);
    const rest: string[] = [];
    for (let n = 0; n < 14; n++) rest.push(await after.take());
    expect(new Set([kept, ...rest]).size).toBe(15);
    await expect(after.take()).rejects.toMatchObject({ code: 'Exhausted' });
  });

  it('assign a fixed address once, and request one that another node claims', async () => {
    const pool = { cidr: '10.1.0.0/26' };
    const a = await open('a', pool);
    const b = await open('b', pool);
    const mine = await a.take('10.1.0.40');
    expect(mine).toBe('10.1.0.40');
    await expect(a.take('10.1.0.40')).rejects.toMatchObject({ code: 'Exhausted' });
    // an address that node a has claimed and that no pod has
    const [block] = blocks();
    const reserve = block?.spec.claims?.['a']?.find((ordinal) => ordinal !== 40) ?? expect.fail();
    await expect(b.take(`10.1.0.${reserve}`)).rejects.toMatchObject({ code: 'TryAgain', message: expect.stringContaining('node a') });
    await expect.poll(() => b.take(`10.1.0.${reserve}`).catch(() => undefined)).toBe(`10.1.0.${reserve}`);
    expect(b.book.borrowed).toContain(`10.1.0.${reserve}`);
  });

  it('adopt the blocks of a deleted node when the pool is exhausted', async () => {
    const pool = { cidr: '10.1.0.0/28', blockSize: 29 };
    const a = await open('a', pool);
    for (let n = 0; n < 7; n++) await a.take();
    const b = await open('b', pool, [], ['a']);
    const assigned = await Promise.all(Array.from({ length: 14 }, () => b.take()));
    expect(new Set(assigned).size).toBe(14);
    expect(new Set(blocks().map(({ spec }) => spec.node))).toEqual(new Set(['b']));
  });

  it('assign IPv6 addresses', async () => {
    const { take, book } = await open('a', { cidr: 'fd00:10::/64' });
    expect(await take()).toMatch(/^fd00:10::/);
    expect(book.ranges[0]).toMatch(/\/122$/);
  });
});
