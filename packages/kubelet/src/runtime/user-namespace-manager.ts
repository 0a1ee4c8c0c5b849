import { mkdir, readdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Pod } from '@oarlock/api/types/core-v1';
import { readIfExists } from '@oarlock/primitives/os/atomic-file';
import type { IdMapping, IdMappings } from '@oarlock/spi/runtime';
import { safePart, type NodePaths } from '../config/node-paths.ts';
import { podUid } from '../pod-util/pods.ts';

/** The number of user ids per pod: 16 bits, as programs expect (KEP-127). */
const idsPerPod = 65_536;
/** The number of ranges of user ids. The node itself uses the first range; user ids end at 2^32. */
const ranges = 65_535;
/** The file in the pod's directory, with upstream's name and format. */
const fileName = 'userns';

const mapped = (range: number): IdMapping => ({ hostId: range * idsPerPod, containerId: 0, length: idsPerPod });

/**
 * Allocates a range of user ids to each pod with `hostUsers: false`. The pod's directory stores the range, so that the pod keeps the range
 * when the kubelet restarts.
 */
export class UserNamespaceManager {
  readonly #paths: NodePaths;
  /** Range numbers, keyed by the pod's uid, which is escaped as a path part. */
  readonly #ranges = new Map<string, number>();
  readonly #allocatedRanges = new Set<number>();
  #loaded: Promise<void> | undefined;

  constructor(paths: NodePaths) {
    this.#paths = paths;
  }

  /** Returns the id mappings of a pod with `hostUsers: false`, or undefined for any other pod. @throws Error if no range is free */
  async idMappings(pod: Pod): Promise<IdMappings | undefined> {
    if (pod.spec?.hostUsers !== false) return undefined;
    this.#loaded ??= this.#loadAllocations().catch((error: unknown) => {
      this.#loaded = undefined;
      throw error;
    });
    await this.#loaded;
    const part = safePart(podUid(pod));
    const range = this.#ranges.get(part) ?? this.#next();
    const mapping = [mapped(range)];
    if (!this.#ranges.has(part)) {
      this.#allocate(part, range);
      try {
        await this.#write(part, mapping);
      } catch (error) {
        this.#ranges.delete(part);
        this.#allocatedRanges.delete(range);
        throw error;
      }
    }
    return { uids: mapping, gids: mapping };
  }

  /** Releases the pod's range of user ids for other pods. Requires that no process of the pod runs any more. */
  release(uid: string): void {
    const part = safePart(uid);
    const range = this.#ranges.get(part);
    if (range === undefined) return;
    this.#ranges.delete(part);
    this.#allocatedRanges.delete(range);
  }

  #next(): number {
    for (let range = 1; range < ranges; range++) if (!this.#allocatedRanges.has(range)) return range;
    throw new Error(`could not find an empty slot to allocate a user namespace: all ${ranges - 1} are taken`);
  }

  #allocate(part: string, range: number): void {
    this.#ranges.set(part, range);
    this.#allocatedRanges.add(range);
  }

  async #write(part: string, mapping: readonly IdMapping[]): Promise<void> {
    const directory = join(this.#paths.pods, part);
    await mkdir(directory, { recursive: true, mode: 0o750 });
    const draft = join(directory, `.${fileName}`);
    await writeFile(draft, JSON.stringify({ uidMappings: mapping, gidMappings: mapping }), { mode: 0o600 });
    await rename(draft, join(directory, fileName));
  }

  async #loadAllocations(): Promise<void> {
    const entries = await readdir(this.#paths.pods, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    });
    for (const entry of entries) {
      if (!entry.isDirectory()) continue;
      const part = entry.name;
      const text = await readIfExists(join(this.#paths.pods, part, fileName));
      const range = text === undefined ? undefined : rangeIn(text);
      if (range !== undefined) this.#allocate(part, range);
    }
  }
}

/** Returns the number of the range in the file's text, or undefined if this kubelet did not write the file. The pod gets another range then. */
function rangeIn(text: string): number | undefined {
  try {
    const { uidMappings } = JSON.parse(text) as { readonly uidMappings?: readonly Partial<IdMapping>[] };
    const range = (uidMappings?.[0]?.hostId ?? 0) / idsPerPod;
    return Number.isInteger(range) && range > 0 && range < ranges ? range : undefined;
  } catch {
    return undefined;
  }
}
