import type { KubeObject } from '@oarlock/api/object';

/**
 * A store of the resource versions that this process has replaced by its own writes. If the cache still shows such a resource version, the cache is
 * stale, and a reconcile could undo or repeat a write. The controller then waits for the newer version, whose event triggers the next reconcile
 * (KEP-5647).
 */
export class ConsistencyStore {
  readonly #versions = new Map<string, Set<string>>();

  recordWrite(before: KubeObject, after: KubeObject): void {
    const { uid, resourceVersion } = before.metadata ?? {};
    if (uid === undefined || resourceVersion === undefined || resourceVersion === after.metadata?.resourceVersion) return;
    const known = this.#versions.get(uid);
    if (known === undefined) this.#versions.set(uid, new Set([resourceVersion]));
    else known.add(resourceVersion);
  }

  /**
   * Returns true if the cache does not show the latest write of this process. A resource version that this process did not replace is newer than
   * its writes.
   */
  isStale({ metadata }: KubeObject): boolean {
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
