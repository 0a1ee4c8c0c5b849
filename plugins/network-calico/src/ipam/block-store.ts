import { nodes } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Client } from '@oarlock/spi/client';
import { NetworkError } from '@oarlock/spi/network';
import { blocksAnnotation, ipBlocks, nameOf, type IPBlock } from './ip-block.ts';

const isNotFound = (error: unknown) => isStatus(error, 'NotFound');
/** Returns true if another client changed or created the object first. */
const isConflict = (error: unknown) => isStatus(error, 'Conflict') || isStatus(error, 'AlreadyExists');

/** Stores blocks. A write contains the resourceVersion that was read; it returns undefined if another client wrote first. */
export interface BlockStore {
  /** Returns all blocks. @throws NetworkError `TryAgain` if the API server does not answer */
  list(): Promise<readonly IPBlock[]>;
  get(name: string): Promise<IPBlock | undefined>;
  create(block: IPBlock): Promise<IPBlock | undefined>;
  update(block: IPBlock): Promise<IPBlock | undefined>;
  delete(block: IPBlock): Promise<boolean>;
}

/** A store that keeps the blocks of a single node in memory, because no other node uses the range. */
export class LocalBlocks implements BlockStore {
  readonly #blocks = new Map<string, IPBlock>();
  async list(): Promise<readonly IPBlock[]> {
    return [...this.#blocks.values()];
  }
  async get(name: string): Promise<IPBlock | undefined> {
    return this.#blocks.get(name);
  }
  async create(block: IPBlock): Promise<IPBlock | undefined> {
    return this.#blocks.has(nameOf(block)) ? undefined : this.update(block);
  }
  async update(block: IPBlock): Promise<IPBlock | undefined> {
    this.#blocks.set(nameOf(block), block);
    return block;
  }
  async delete(block: IPBlock): Promise<boolean> {
    return this.#blocks.delete(nameOf(block));
  }
}

/** A store that keeps blocks in the API, because all nodes share the pools. */
export class ApiBlocks implements BlockStore {
  readonly #client: Client;
  readonly #nodeName: string;
  constructor(client: Client, nodeName: string) {
    this.#client = client;
    this.#nodeName = nodeName;
  }

  async list(): Promise<readonly IPBlock[]> {
    try {
      return (await this.#client.list(ipBlocks)).items;
    } catch (error) {
      if (!isNotFound(error)) throw error;
      // controllers create the CRD when a node has this annotation
      await this.#client.patch(nodes, { name: this.#nodeName }, 'merge', { metadata: { annotations: { [blocksAnnotation]: 'true' } } });
      throw new NetworkError('TryAgain', 'the API server does not serve ipblocks.network.oarlock.dev yet', { cause: error });
    }
  }
  get(name: string): Promise<IPBlock | undefined> {
    return unless(isNotFound, () => this.#client.get(ipBlocks, { name }));
  }
  create(block: IPBlock): Promise<IPBlock | undefined> {
    return unless(isConflict, () => this.#client.create(ipBlocks, block));
  }
  update(block: IPBlock): Promise<IPBlock | undefined> {
    return unless(
      (error) => isConflict(error) || isNotFound(error),
      () => this.#client.update(ipBlocks, block),
    );
  }
  async delete(block: IPBlock): Promise<boolean> {
    const { resourceVersion } = block.metadata ?? {};
    const done = await unless(
      (error) => isConflict(error) || isNotFound(error),
      async () => {
        await this.#client.delete(
          ipBlocks,
          { name: nameOf(block) },
          resourceVersion === undefined ? {} : { preconditions: { resourceVersion } },
        );
        return true;
      },
    );
    return done === true;
  }
}

async function unless<T>(expected: (error: unknown) => boolean, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (expected(error)) return undefined;
    throw error;
  }
}
