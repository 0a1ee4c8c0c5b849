import { objectKey } from '@oarlock/api/object';
import type { Pod, Service } from '@oarlock/api/types/core-v1';
import type { Informer } from '@oarlock/spi/client';
import { podsByLabelIndex, labelKey, podLabelKeys } from '../../indexes/pods-by-label.ts';

type Labels = Readonly<Record<string, string>>;
const bySelector = 'namespace-selector-label';
/** Returns the index key of a Service: one label of its selector. The lookup compares the complete selector afterwards. */
const selectorLabel = (service: Service) => {
  const [first] = Object.entries(service.spec?.selector ?? {});
  return first === undefined ? [] : [labelKey(service.metadata?.namespace, first[0], first[1])];
};
const matches = (selector: Labels, labels: Labels | undefined) => Object.entries(selector).every(([key, value]) => labels?.[key] === value);

/** An index of Services by one selector label, which finds the Services that select a pod and the pods of a Service. */
export class ServiceSelectorIndex {
  readonly #services: Informer<Service>;
  readonly #pods: Informer<Pod>;

  constructor(services: Informer<Service>, pods: Informer<Pod>) {
    this.#services = services;
    this.#pods = pods;
    services.addIndexer(bySelector, selectorLabel);
    pods.addIndexer(podsByLabelIndex, podLabelKeys);
  }

  /** Returns the keys of the Services that select the pod or the previous version of the pod. */
  servicesOf(pod: Pod, old: Pod | undefined): Iterable<string> {
    const keys = new Set<string>();
    for (const version of old === undefined || old.metadata?.labels === pod.metadata?.labels ? [pod] : [pod, old]) {
      for (const [key, value] of Object.entries(version.metadata?.labels ?? {})) {
        for (const service of this.#services.byIndex(bySelector, labelKey(version.metadata?.namespace, key, value))) {
          if (matches(service.spec?.selector ?? {}, version.metadata?.labels)) keys.add(objectKey(service));
        }
      }
    }
    return keys;
  }

  podsOf(service: Service): readonly Pod[] {
    const selector = service.spec?.selector ?? {};
    const [first] = Object.entries(selector);
    if (first === undefined) return [];
    return this.#pods
      .byIndex(podsByLabelIndex, labelKey(service.metadata?.namespace, first[0], first[1]))
      .filter((pod) => matches(selector, pod.metadata?.labels));
  }
}
