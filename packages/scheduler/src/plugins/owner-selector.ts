import { LruMap } from '@oarlock/client/lru-map';
import { replicaSets, replicationControllers, services, statefulSets } from '@oarlock/api/resources';
import { selectorFromObject, type Selector } from '@oarlock/api/label-selector';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Informers } from '@oarlock/spi/client';

const keptSelectors = 1000;

export interface OwnerSelector {
  ready(signal: AbortSignal): Promise<void>;
  /** By what the services and the controller of a pod select it and its like: undefined when there are none. The same one for all of a namespace that are alike. */
  selectorOf(pod: Pod): Selector | undefined;
}

export function ownerSelector(informers: Informers): OwnerSelector {
  const known = {
    services: informers.of(services),
    ReplicationController: informers.of(replicationControllers),
    ReplicaSet: informers.of(replicaSets),
    StatefulSet: informers.of(statefulSets),
  };
  const ready = async (signal: AbortSignal) => {
    await Promise.all(Object.values(known).map((informer) => informer.whenSynced(signal)));
  };
  // the pods of one owner come one after the other
  const selectors = new LruMap<string, Selector>(keptSelectors);
  const selectorOf = ({ metadata }: Pod): Selector | undefined => {
    const labels = metadata?.labels;
    const namespace = metadata?.namespace ?? '';
    if (labels === undefined) return undefined;
    const matchLabels: Record<string, string> = {};
    for (const { spec } of known.services.list(namespace)) {
      const wanted = Object.entries(spec?.selector ?? {});
      if (wanted.length > 0 && wanted.every(([key, value]) => labels[key] === value)) Object.assign(matchLabels, spec?.selector);
    }
    let expressions: { readonly key: string; readonly operator: string; readonly values?: readonly string[] }[] = [];
    const owner = metadata?.ownerReferences?.find(({ controller }) => controller === true);
    const key = `${namespace}/${owner?.name ?? ''}`;
    if (owner?.kind === 'ReplicationController' && owner.apiVersion === 'v1')
      Object.assign(matchLabels, known.ReplicationController.get(key)?.spec?.selector);
    else if (owner?.apiVersion === 'apps/v1' && (owner.kind === 'ReplicaSet' || owner.kind === 'StatefulSet')) {
      const selector = known[owner.kind].get(key)?.spec?.selector;
      Object.assign(matchLabels, selector?.matchLabels);
      expressions = [...(selector?.matchExpressions ?? [])];
    }
    if (expressions.length === 0 && Object.keys(matchLabels).length === 0) return undefined;
    const text = JSON.stringify([namespace, matchLabels, expressions]);
    let selector = selectors.get(text);
    if (selector === undefined) selectors.set(text, (selector = selectorFromObject({ matchLabels, matchExpressions: expressions })));
    return selector;
  };
  return { ready, selectorOf };
}
