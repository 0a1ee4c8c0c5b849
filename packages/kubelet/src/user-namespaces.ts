import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { IdMapping, IdMappings } from '@oarlock/spi/runtime';
import { safePart, type NodePaths } from './node-paths.ts';
import { podUid } from './pods.ts';

/** Ids of one pod: all that 16 bits can name, as programs expect them (KEP-127). */
const idsPerPod = 65_536;
/** The first range is the node's own. Ids end at 2^32. */
const ranges = 65_535;
/** Beside the pod's volumes, under the name and in the form that upstream's kubelet gives it. */
const fileName = 'userns';

const mapped = (range: number): IdMapping => ({ hostId: range * idsPerPod, containerId: 0, length: idsPerPod });

/**
 * Gives each pod that does not run as the node's users ids of its own, which no other pod on the node has. They are kept in the pod's
 * directory: a pod has the same after a restart of the kubelet.
 */
export class UserNamespaces {
  readonly #paths: NodePaths;
  /** By the pod's uid, as a part of a path. */
  readonly #ranges = new Map<string, number>();
  readonly #taken = new Set<number>();
  #known: Promise<void> | undefined;

  constructor(paths: NodePaths) {
    this.#paths = paths;
  }

  /** The ids of a pod with `hostUsers: false`; undefined for others. @throws Error when there are no more */
  async of(pod: Pod): Promise<IdMappings | undefined> {
    if (pod.spec?.hostUsers !== false) return undefined;
    await (this.#known ??= this.#recall());
    const part = safePart(podUid(pod));
    const range = this.#ranges.get(part) ?? this.#next();
    const mapping = [mapped(range)];
    if (!this.#ranges.has(part)) {
      this.#take(part, range);
      try {
        await this.#write(part, mapping);
      } catch (error) {
        this.#ranges.delete(part);
        this.#taken.delete(range);
        throw error;
      }
    }
    return { uids: mapping, gids: mapping };
  }

  /** The pod is gone, with all its processes. */
  release(uid: string): void {
    const part = safePart(uid);
    const range = this.#ranges.get(part);
    if (range === undefined) return;
    this.#ranges.delete(part);
    this.#taken.delete(range);
  }

  #next(): number {
    for (let range = 1; range < ranges; range++) if (!this.#taken.has(range)) return range;
    throw new Error(`could not find an empty slot to allocate a user namespace: all ${ranges - 1} are taken`);
  }

  #take(part: string, range: number): void {
    this.#ranges.set(part, range);
    this.#taken.add(range);
  }

  async #write(part: string, mapping: readonly IdMapping[]): Promise<void> {
    const directory = join(this.#paths.pods, part);
    await mkdir(directory, { recursive: true, mode: 0o750 });
    const draft = join(directory, `.${fileName}`);
    await writeFile(draft, JSON.stringify({ uidMappings: mapping, gidMappings: mapping }), { mode: 0o600 });
    await rename(draft, join(directory, fileName));
  }

  async #recall(): Promise<void> {
    const parts = await readdir(this.#paths.pods).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    });
    for (const part of parts) {
      const text = await readFile(join(this.#paths.pods, part, fileName), 'utf8').catch(() => undefined);
      const range = text === undefined ? undefined : rangeIn(text);
      if (range !== undefined) this.#take(part, range);
    }
  }
}

/** Undefined for what we did not write: the pod then gets another one. */
function rangeIn(text: string): number | undefined {
  try {
    const { uidMappings } = JSON.parse(text) as { readonly uidMappings?: readonly Partial<IdMapping>[] };
    const range = (uidMappings?.[0]?.hostId ?? 0) / idsPerPod;
    return Number.isInteger(range) && range > 0 && range < ranges ? range : undefined;
  } catch {
    return undefined;
  }
}
