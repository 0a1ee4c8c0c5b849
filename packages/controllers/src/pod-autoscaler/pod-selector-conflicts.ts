import type { Selector } from '@oarlock/api/selectors/label-selector';
import type { Pod } from '@oarlock/api/types/core-v1';

interface AutoscalerSelector {
  readonly namespace: string;
  readonly name: string;
  readonly selector: Selector;
}

/** The pod selectors of all HorizontalPodAutoscalers, to detect conflicts: two autoscalers of the same pods would counteract each other. */
export class PodSelectorConflicts {
  readonly #byKey = new Map<string, AutoscalerSelector>();

  set(key: string, autoscaler: AutoscalerSelector): void {
    this.#byKey.set(key, autoscaler);
  }
  delete(key: string): void {
    this.#byKey.delete(key);
  }

  /** Returns the names of the autoscalers of a namespace that select any of these pods, in upstream's format. */
  autoscalersSelecting(namespace: string, pods: readonly Pod[]): readonly string[] {
    const found: string[] = [];
    for (const used of this.#byKey.values())
      if (used.namespace === namespace && pods.some(({ metadata }) => used.selector.matches(metadata?.labels)))
        found.push(`{${used.name} ${used.namespace}}`);
    return found.sort();
  }
}
