import type { Selector } from '@oarlock/api/label-selector';
import type { Pod } from '@oarlock/api/types/core-v1';

interface Used {
  readonly namespace: string;
  readonly name: string;
  readonly selector: Selector;
}

/** Which pods autoscalers look at: two that look at the same ones would pull them about. */
export class SelectorsInUse {
  readonly #byKey = new Map<string, Used>();

  set(key: string, used: Used): void {
    this.#byKey.set(key, used);
  }
  delete(key: string): void {
    this.#byKey.delete(key);
  }

  /** The autoscalers of a namespace that look at any of these pods of it, in upstream's writing. */
  of(namespace: string, pods: readonly Pod[]): readonly string[] {
    const found: string[] = [];
    for (const used of this.#byKey.values())
      if (used.namespace === namespace && pods.some(({ metadata }) => used.selector.matches(metadata?.labels)))
        found.push(`{${used.name} ${used.namespace}}`);
    return found.sort();
  }
}
