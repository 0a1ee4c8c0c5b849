import type { Logger } from '@oarlock/primitives/logger';
import { NetworkError } from '@oarlock/spi/network';
import { contains, formatAddress, parseAddress } from './ip-range.ts';
import { releaseBlock, claimSize, addClaims, releaseClaims, transferBlock, withoutGoneNodes } from './block-claims.ts';
import type { BlockStore } from './block-store.ts';
import { freeBlocks } from './free-blocks.ts';
import { addressAt, claimsOf, nameOf, newBlock, rangeOf, withClaims, type IPBlock } from './ip-block.ts';
import { blockContaining, poolContaining, type Pool, type AddressRequest } from './pools.ts';

export interface BlockAllocatorOptions {
  readonly store: BlockStore;
  readonly node: string;
  readonly log: Logger;
  /** True if other nodes use the same pools, so that surplus claims are released. */
  readonly shared: boolean;
  /** Returns true if the node certainly does not exist any more. */
  isGone(node: string): boolean;
  /** Called after the blocks of this node changed. */
  changed?(): void;
}
const attempts = 10;

/**
 * Assigns addresses of blocks that this node has claimed, and records which endpoint holds which address. A claim is written with the
 * resourceVersion that was read, so that two nodes never claim the same address. Within its claims, the node assigns addresses without API calls.
 */
export class BlockAllocator {
  readonly #options: BlockAllocatorOptions;
  readonly #blocks = new Map<string, IPBlock>();
  /** Free addresses, keyed by pool. The address that has been free longest is first, so that an address is not reused immediately. */
  readonly #free = new Map<string, Set<string>>();
  readonly #used = new Map<string, string>();
  /** Addresses whose claim is being released. They are not assigned. */
  readonly #releasing = new Set<string>();
  #pools: readonly Pool[] = [];
  #tunnelBlocks: ReadonlySet<string> = new Set();
  #writing: Promise<unknown> = Promise.resolve();

  constructor(options: BlockAllocatorOptions) {
    this.#options = options;
  }

  get used(): number {
    return this.#used.size;
  }
  /** The CIDRs of the node's own blocks. In each address family, the block with the tunnel address is first. */
  get ranges(): readonly string[] {
    const own = [...this.#blocks.values()].filter(({ spec }) => spec.node === this.#options.node);
    const rank = (block: IPBlock) => (this.#tunnelBlocks.has(nameOf(block)) ? 0 : 1);
    return own.sort((a, b) => rank(a) - rank(b) || (nameOf(a) < nameOf(b) ? -1 : 1)).map(({ spec }) => spec.cidr);
  }
  /** The addresses that this node has claimed in blocks of other nodes. */
  get borrowed(): readonly string[] {
    const { node } = this.#options;
    return [...this.#blocks.values()]
      .filter(({ spec }) => spec.node !== node)
      .flatMap((block) => claimsOf(block, node).map((ordinal) => addressAt(rangeOf(block), ordinal)));
  }

  /**
   * Loads the node's blocks and applies new pools. Afterwards the node has a block of each pool that is not `onRequest`, unless the pool is
   * exhausted. `held` contains the endpoint keys of addresses in use. @throws NetworkError if the blocks cannot be read or written
   */
  async configure(pools: readonly Pool[], held: ReadonlyMap<string, string>): Promise<void> {
    await this.#serialize(async () => {
      this.#pools = pools;
      this.#blocks.clear();
      this.#free.clear();
      for (const [address, key] of held) this.#used.set(address, key);
      for (const block of await this.#options.store.list()) this.#storeBlock(block);
      for (const address of held.keys()) await this.#reclaim(address);
      for (const pool of pools) if (!pool.onRequest && !this.#ownIn(pool)) await this.#grow(pool).catch(ignoreExhausted);
      this.#tunnelBlocks = new Set(pools.flatMap((pool) => [...this.#blocks.values()].find(this.#isOwnIn(pool)) ?? []).map(nameOf));
    });
  }

  /**
   * Assigns an address to the endpoint `key`. @throws NetworkError `Exhausted` if no address is left, `TryAgain` if another node holds the requested
   * address
   */
  async allocate(request: AddressRequest, key: string): Promise<string> {
    if ('address' in request) return this.#serialize(() => this.#assignFixed(request.address, request.pool, key));
    for (const pool of request.pools) {
      for (;;) {
        const address = this.#pop(pool, key);
        if (address !== undefined) return address;
        const full = await this.#serialize(async () => {
          if ((this.#free.get(pool.name)?.size ?? 0) > 0) return false; // another request has claimed addresses meanwhile
          try {
            await this.#grow(pool);
            return false;
          } catch (error) {
            ignoreExhausted(error);
            return true;
          }
        });
        if (full) break;
      }
    }
    throw new NetworkError('Exhausted', `no address is left in ${request.pools.map(({ name }) => name).join(', ')}`);
  }

  release(address: string, key: string): void {
    if (this.#used.get(address) !== key) return;
    this.#used.delete(address);
    const found = this.#find(address);
    if (!found || !claimsOf(found.block, this.#options.node).includes(found.ordinal)) return;
    this.#freeIn(found.block).add(address);
    if (this.#options.shared && this.#surplus(found.block).size > 0) this.#releaseSurplus(nameOf(found.block));
  }

  /** Applies a newer version of a block that the informer received. */
  observe(block: IPBlock): void {
    const known = this.#blocks.get(nameOf(block));
    const version = (of: IPBlock | undefined) => BigInt(of?.metadata?.resourceVersion ?? 0);
    if (!known || version(block) <= version(known)) return;
    this.#storeBlock(block);
    if (this.#surplus(block).size > 0) this.#releaseSurplus(nameOf(block));
  }

  /** Resolves when no write of blocks is in progress. */
  async whenIdle(): Promise<void> {
    await this.#writing;
  }

  #serialize<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#writing.then(work, work);
    this.#writing = result.catch(() => undefined); // the caller already receives the rejection
    return result;
  }

  #isOwnIn = (pool: Pool) => (block: IPBlock) =>
    block.spec.node === this.#options.node && contains(pool.range, rangeOf(block).family, rangeOf(block).first);
  #ownIn(pool: Pool): boolean {
    return [...this.#blocks.values()].some(this.#isOwnIn(pool));
  }
  #find(address: string): { readonly block: IPBlock; readonly ordinal: number; readonly pool: Pool } | undefined {
    const pool = poolContaining(this.#pools, address);
    if (!pool) return undefined;
    const { range, ordinal } = blockContaining(pool, parseAddress(address).value);
    const block = this.#blocks.get(nameOf(newBlock(range, pool.name)));
    return block && { block, ordinal, pool };
  }
  #freeIn(block: IPBlock): Set<string> {
    const name = poolContaining(this.#pools, block.spec.cidr.split('/')[0] ?? '')?.name ?? '';
    let free = this.#free.get(name);
    if (!free) this.#free.set(name, (free = new Set()));
    return free;
  }
  #pop(pool: Pool, key: string): string | undefined {
    const free = this.#free.get(pool.name);
    for (const address of free ?? []) {
      free?.delete(address);
      this.#used.set(address, key);
      return address;
    }
    return undefined;
  }

  /** Replaces the cached block and updates the free addresses. */
  #storeBlock(block: IPBlock): void {
    const { node } = this.#options;
    const range = rangeOf(block);
    if (!poolContaining(this.#pools, formatAddress(range.family, range.first))) return;
    const before = this.#blocks.get(nameOf(block));
    const claims = new Set(claimsOf(block, node));
    const free = this.#freeIn(block);
    for (const ordinal of before ? claimsOf(before, node) : []) if (!claims.has(ordinal)) free.delete(addressAt(range, ordinal));
    for (const ordinal of claims) {
      const address = addressAt(range, ordinal);
      if (!this.#used.has(address) && !this.#releasing.has(address)) free.add(address);
    }
    if (claims.size > 0 || block.spec.node === node) this.#blocks.set(nameOf(block), block);
    else this.#blocks.delete(nameOf(block));
    if (before?.spec.node !== block.spec.node || (block.spec.node !== node && claims.size !== (before ? claimsOf(before, node).length : 0)))
      this.#options.changed?.();
  }

  /** Applies `change` to the newest version of the block and writes it; retries on conflicts. `change` returns undefined if nothing must change. */
  async #write(block: IPBlock, change: (block: IPBlock) => IPBlock | undefined): Promise<boolean> {
    let newest: IPBlock | undefined = block;
    for (let attempt = 0; attempt < attempts && newest; attempt++) {
      const next = change(newest);
      if (!next) return false;
      const stored = await this.#options.store.update(next);
      if (stored) {
        this.#storeBlock(stored);
        return true;
      }
      newest = await this.#options.store.get(nameOf(block));
      if (newest) this.#storeBlock(newest);
    }
    return false;
  }

  /**
   * Claims more addresses. Tries, in this order, the node's own blocks, a block without a node, a new block, a block of a deleted node, and a block of
   * another node. @throws NetworkError `Exhausted` if no address is left
   */
  async #grow(pool: Pool): Promise<void> {
    const { store, node, isGone } = this.#options;
    const more = (block: IPBlock) => addClaims(block, node, claimSize(block));
    for (const block of [...this.#blocks.values()].filter(this.#isOwnIn(pool))) if (await this.#write(block, more)) return;
    const all = (await store.list()).filter((block) => contains(pool.range, rangeOf(block).family, rangeOf(block).first));
    const adopted = (of: (block: IPBlock) => boolean) => async (): Promise<boolean> => {
      for (const block of all.filter(of)) {
        if (await this.#write(block, (newest) => (of(newest) ? more(transferBlock(newest, node, isGone)) : undefined))) return true;
      }
      return false;
    };
    const created = async (): Promise<boolean> => {
      for (const range of freeBlocks(pool, all, node)) {
        const empty = newBlock(range, pool.name, { node });
        const block = await store.create(more(empty) ?? empty);
        if (!block) continue; // another node created it first
        this.#storeBlock(block);
        return true;
      }
      return false;
    };
    const borrowed = async (): Promise<boolean> => {
      for (const block of all) if (await this.#write(block, (newest) => addClaims(newest, node, 1))) return true;
      return false;
    };
    const ways = [
      adopted(({ spec }) => spec.node === undefined),
      created,
      adopted(({ spec }) => spec.node !== undefined && isGone(spec.node)),
      borrowed,
    ];
    for (const way of ways) if (await way()) return;
    throw new NetworkError('Exhausted', `no address is left in ${pool.name}`);
  }

  async #assignFixed(address: string, pool: Pool, key: string): Promise<string> {
    const { value, family } = parseAddress(address);
    const text = formatAddress(family, value);
    const holder = this.#used.get(text);
    if (holder !== undefined && holder !== key) throw new NetworkError('Exhausted', `${text} is assigned to another pod of this node`);
    await this.#claim(text, pool);
    this.#free.get(pool.name)?.delete(text);
    this.#used.set(text, key);
    return text;
  }

  /** Claims one address. @throws NetworkError `TryAgain` while another node claims the address */
  async #claim(address: string, pool: Pool): Promise<void> {
    const { store, node, isGone } = this.#options;
    const { range, ordinal } = blockContaining(pool, parseAddress(address).value);
    const empty = newBlock(range, pool.name);
    const isClaimed = (block: IPBlock) => claimsOf(block, node).includes(ordinal);
    const known = this.#blocks.get(nameOf(empty));
    if (known && isClaimed(known)) return;
    const block =
      (await store.get(nameOf(empty))) ??
      (await store.create(withClaims(empty, { node, ordinals: [ordinal] }))) ??
      (await store.get(nameOf(empty)));
    let other: string | undefined;
    if (block)
      await this.#write(block, (newest) => {
        if (isClaimed(newest)) return undefined;
        other = Object.entries(newest.spec.claims ?? {}).find(([name, claims]) => claims.includes(ordinal) && !isGone(name))?.[0];
        if (other === undefined)
          return withClaims(withoutGoneNodes(newest, isGone), { node, ordinals: [...claimsOf(newest, node), ordinal] });
        const { wanted = {} } = newest.spec;
        return wanted[ordinal] === node ? undefined : { ...newest, spec: { ...newest.spec, wanted: { ...wanted, [ordinal]: node } } };
      });
    if (block && isClaimed(block)) this.#storeBlock(block);
    if (other !== undefined)
      throw new NetworkError('TryAgain', `${address} is claimed by node ${other}, which has been requested to release it`);
  }

  /** Claims an address that a pod of an earlier process uses. */
  async #reclaim(address: string): Promise<void> {
    const found = this.#find(address);
    if (found && claimsOf(found.block, this.#options.node).includes(found.ordinal)) return;
    const pool = poolContaining(this.#pools, address);
    if (!pool) return; // its pool was removed from the configuration
    await this.#claim(address, pool).catch((error: unknown) =>
      this.#options.log.error(
        { address, error: String(error) },
        'could not claim the address of a running pod; another node may assign it',
      ),
    );
  }

  /** Returns the ordinals of addresses that this node has claimed and does not need. */
  #surplus(block: IPBlock): ReadonlySet<number> {
    const { node } = this.#options;
    const range = rangeOf(block);
    const free = claimsOf(block, node).filter((ordinal) => !this.#used.has(addressAt(range, ordinal)));
    if (block.spec.node !== node) return new Set(free);
    const others = free.filter((ordinal) => block.spec.wanted?.[ordinal] !== undefined);
    const chunk = claimSize(block);
    if (others.length > 0 || free.length <= 2 * chunk) return new Set(this.#isSpare(block, free.length) ? free : others);
    return new Set(this.#isSpare(block, free.length) ? free : free.slice(chunk));
  }
  /** Returns true if no address of the block is in use and the node has enough free addresses in its other blocks. */
  #isSpare(block: IPBlock, free: number): boolean {
    if (this.#tunnelBlocks.has(nameOf(block)) || free < claimsOf(block, this.#options.node).length) return false;
    return this.#freeIn(block).size - free >= claimSize(block);
  }

  #forget(block: IPBlock): void {
    this.#blocks.delete(nameOf(block));
    this.#options.changed?.();
  }

  #releaseSurplus(name: string): void {
    const { node, store, log } = this.#options;
    const work = async () => {
      const block = this.#blocks.get(name);
      if (!block) return;
      const surplus = this.#surplus(block);
      if (surplus.size === 0) return;
      const whole = block.spec.node === node && this.#isSpare(block, surplus.size);
      const left = (of: IPBlock) => (whole ? releaseBlock(of, node) : releaseClaims(of, node, surplus));
      const addresses = [...surplus].map((ordinal) => addressAt(rangeOf(block), ordinal));
      for (const address of addresses) {
        this.#freeIn(block).delete(address);
        this.#releasing.add(address);
      }
      try {
        if (left(block)) await this.#write(block, left);
        else if (await store.delete(block)) this.#forget(block);
      } finally {
        for (const address of addresses) this.#releasing.delete(address);
        const newest = this.#blocks.get(name);
        if (newest) this.#storeBlock(newest);
      }
    };
    void this.#serialize(work).catch((error: unknown) =>
      log.warn({ block: name, error: String(error) }, 'surplus addresses could not be released yet'),
    );
  }
}

function ignoreExhausted(error: unknown): void {
  if (!(error instanceof NetworkError) || error.code !== 'Exhausted') throw error;
}
