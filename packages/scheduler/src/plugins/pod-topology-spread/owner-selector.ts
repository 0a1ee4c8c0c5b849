import { LruMap } from '@oarlock/primitives/collections/lru-map';
import { replicaSets, replicationControllers, services, statefulSets } from '@oarlock/api/resources';
import { selectorFromLabelSelector, type Selector } from '@oarlock/api/selectors/label-selector';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Informers } from '@oarlock/spi/client';

const maxSelectors = 1000;

export interface OwnerSelector {
  whenSynced(signal: AbortSignal): Promise<void>;
  /**
   * Returns the combined selector of a pod's Services and controller, or undefined if the pod has none. Returns the same object for equal selectors.
   */
  selectorOf(pod: Pod): Selector | undefined;
}

export function ownerSelector(informers: Informers): OwnerSelector {
  const owners = {
    services: informers.forResource(services),
    ReplicationController: informers.forResource(replicationControllers),
    ReplicaSet: informers.forResource(replicaSets),
    StatefulSet: informers.forResource(statefulSets),
  };
  const ready = async (signal: AbortSignal) => {
    await Promise.all(Object.values(owners).map((informer) => informer.whenSynced(signal)));
  };
  // pods of one owner are usually scheduled one after the other
  const selectors = new LruMap<string, Selector>(maxSelectors);
  const selectorOf = ({ metadata }: Pod): Selector | undefined => {
    const labels = metadata?.labels;
    const namespace = metadata?.namespace ?? '';
    if (labels === undefined) return undefined;
    const matchLabels: Record<string, string> = {};
    for (const { spec } of owners.services.list(namespace)) {
      const requirements = Object.entries(spec?.selector ?? {});
      if (requirements.length > 0 && requirements.every(([key, value]) => labels[key] === value))
        Object.assign(matchLabels, spec?.selector);
    }
    let expressions: { readonly key: string; readonly operator: string; readonly values?: readonly string[] }[] = [];
    const owner = metadata?.ownerReferences?.find(({ controller }) => controller === true);
    const key = `${namespace}/${owner?.name ?? ''}`;
    if (owner?.kind === 'ReplicationController' && owner.apiVersion === 'v1')
      Object.assign(matchLabels, owners.ReplicationController.get(key)?.spec?.selector);
    else if (owner?.apiVersion === 'apps/v1' && (owner.kind === 'ReplicaSet' || owner.kind === 'StatefulSet')) {
      const selector = owners[owner.kind].get(key)?.spec?.selector;
      Object.assign(matchLabels, selector?.matchLabels);
      expressions = [...(selector?.matchExpressions ?? [])];
    }
    if (expressions.length === 0 && Object.keys(matchLabels).length === 0) return undefined;
    const text = JSON.stringify([namespace, matchLabels, expressions]);
    let selector = selectors.get(text);
    if (selector === undefined) selectors.set(text, (selector = selectorFromLabelSelector({ matchLabels, matchExpressions: expressions })));
    return selector;
  };
  return { whenSynced: ready, selectorOf };
}
