import type { Container, Pod } from '@oarlock/api/types/core-v1';
import type { LimitedFeature } from '@oarlock/spi/runtime';
import type { PLEG } from './pleg.ts';

type LimitedRuntime = Pick<PLEG, 'handler' | 'limitations'>;

/** Returns what the runtimes of a node do not enforce, in one line each; undefined if no runtime reports it. */
export function unenforcedSettings(runtimes: readonly LimitedRuntime[]): readonly string[] | undefined {
  const reporting = runtimes.filter(({ limitations }) => limitations !== undefined);
  if (reporting.length === 0) return undefined;
  return reporting.flatMap(({ handler, limitations = [] }) => {
    const messages = limitations.filter(({ onRequest }) => onRequest !== true).map(({ message }) => message);
    return messages.length === 0 ? [] : [`${handler}: ${messages.join('; ')}`];
  });
}

/** Returns what a pod requests and its runtime does not enforce, for an event of the pod; empty if everything is enforced. */
export function unenforcedInPod(pod: Pod, { limitations = [] }: Pick<LimitedRuntime, 'limitations'>): readonly string[] {
  return limitations.filter(({ feature }) => requests[feature]?.(pod) === true).map(({ message }) => message);
}

const containersOf = ({ spec }: Pod): readonly Container[] => [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])];
const securityContexts = (pod: Pod) => [pod.spec?.securityContext, ...containersOf(pod).map(({ securityContext }) => securityContext)];
const isProfile = (profile: { readonly type: string } | undefined) => profile !== undefined && profile.type !== 'Unconfined';

/** Whether a pod requests a feature. A feature that is absent is on for every pod, and only the node reports it. */
const requests: Readonly<Partial<Record<LimitedFeature, (pod: Pod) => boolean>>> = {
  resources: (pod) => [pod.spec, ...containersOf(pod)].some((part) => Object.keys(part?.resources?.limits ?? {}).length > 0),
  'huge-pages': (pod) =>
    containersOf(pod).some(({ resources }) => Object.keys(resources?.limits ?? {}).some((name) => name.startsWith('hugepages-'))),
  seccomp: (pod) => securityContexts(pod).some((context) => isProfile(context?.seccompProfile)),
  apparmor: (pod) => securityContexts(pod).some((context) => isProfile(context?.appArmorProfile)),
  selinux: (pod) => securityContexts(pod).some((context) => context?.seLinuxOptions !== undefined),
  privileged: (pod) => containersOf(pod).some(({ securityContext }) => securityContext?.privileged === true),
  users: (pod) =>
    securityContexts(pod).some((context) => context?.runAsUser !== undefined || context?.runAsGroup !== undefined) ||
    pod.spec?.securityContext?.fsGroup !== undefined ||
    (pod.spec?.securityContext?.supplementalGroups ?? []).length > 0,
  namespaces: ({ spec }) => spec?.shareProcessNamespace === true,
  capabilities: (pod) =>
    containersOf(pod).some(({ securityContext }) => securityContext?.capabilities?.add?.some((name) => name === 'MKNOD' || name === 'ALL')),
};
