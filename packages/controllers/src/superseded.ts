import type { KubeObject } from '@oarlock/api/object';

/**
 * The versions of objects that this process itself has replaced. A cache that still shows one is behind, and what a loop makes of it would undo or
 * repeat its own work: it waits for the newer version, which wakes it (KEP-5647).
 */
export class Superseded {
  readonly #versions = new Map<string, Set<string>>();

  wrote(before: KubeObject, after: KubeObject): void {
    const { uid, resourceVersion } = before.metadata ?? {};
    if (uid === undefined || resourceVersion === undefined || resourceVersion === after.metadata?.resourceVersion) return;
    const known = this.#versions.get(uid);
    if (known === undefined) this.#versions.set(uid, new Set([resourceVersion]));
    else known.add(resourceVersion);
  }

  /** Whether the cache has still to hear of what was written. A version that nobody here has replaced is newer than all that were. */
  isBehind({ metadata }: KubeObject): boolean {
    const known = this.#versions.get(metadata?.uid ?? '');
    if (known === undefined) return false;
    if (known.has(metadata?.resourceVersion ?? '')) return true;
    this.#versions.delete(metadata?.uid ?? '');
    return false;
  }

  forget(uid: string | undefined): void {
    this.#versions.delete(uid ?? '');
  }
}
