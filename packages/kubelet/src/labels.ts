import { createHash } from 'node:crypto';
import type { Container, EphemeralContainer, Pod } from '@oarlock/api/types/core-v1';

/** The names under which kubelets keep what they know of a container in the runtime; other tools read them too. */
export const names = {
  podName: 'io.kubernetes.pod.name',
  podNamespace: 'io.kubernetes.pod.namespace',
  podUid: 'io.kubernetes.pod.uid',
  containerName: 'io.kubernetes.container.name',
  hash: 'io.kubernetes.container.hash',
  restartCount: 'io.kubernetes.container.restartCount',
  terminationMessagePath: 'io.kubernetes.container.terminationMessagePath',
  terminationMessagePolicy: 'io.kubernetes.container.terminationMessagePolicy',
  deletionGracePeriod: 'io.kubernetes.pod.deletionGracePeriod',
  terminationGracePeriod: 'io.kubernetes.pod.terminationGracePeriod',
  preStop: 'io.kubernetes.container.preStopHandler',
  /** Which kubelet a sandbox belongs to: several may share one runtime. */
  owner: 'oarlock.dev/kubelet',
  /** Addresses that the kubelet itself obtained for a sandbox, separated by commas. */
  podIPs: 'oarlock.dev/pod-ips',
} as const;

export type Strings = Readonly<Record<string, string>>;

/** Tells the sandboxes of one kubelet from those of others on the same runtime, and stays the same over restarts. */
export function ownerId(cluster: string, nodeName: string, rootDir: string): string {
  return createHash('sha256')
    .update(JSON.stringify([cluster, nodeName, rootDir]))
    .digest('hex')
    .slice(0, 32);
}

function identity(pod: Pod, owner: string): Record<string, string> {
  const { name = '', namespace = '', uid = '' } = pod.metadata ?? {};
  return { [names.podName]: name, [names.podNamespace]: namespace, [names.podUid]: uid, [names.owner]: owner };
}

export function sandboxLabels(pod: Pod, owner: string): Strings {
  return { ...pod.metadata?.labels, ...identity(pod, owner) };
}

export function containerLabels(pod: Pod, container: Container | EphemeralContainer, owner: string): Strings {
  return { ...identity(pod, owner), [names.containerName]: container.name };
}

export function containerAnnotations(pod: Pod, container: Container | EphemeralContainer, restartCount: number): Strings {
  const { deletionGracePeriodSeconds } = pod.metadata ?? {};
  const grace = pod.spec?.terminationGracePeriodSeconds;
  return {
    [names.hash]: containerHash(container),
    [names.restartCount]: String(restartCount),
    [names.terminationMessagePath]: container.terminationMessagePath ?? '/dev/termination-log',
    [names.terminationMessagePolicy]: container.terminationMessagePolicy ?? 'File',
    ...(deletionGracePeriodSeconds !== undefined && { [names.deletionGracePeriod]: String(deletionGracePeriodSeconds) }),
    ...(grace !== undefined && { [names.terminationGracePeriod]: String(grace) }),
    ...(container.lifecycle?.preStop && { [names.preStop]: JSON.stringify(container.lifecycle.preStop) }),
  };
}

/** Changes exactly when a running container has to be replaced: name and image are all that may change of it in place. FNV-1a, 32 bits, hex. */
export function containerHash({ name, image = '' }: Pick<Container, 'name' | 'image'>): string {
  let hash = 0x811c9dc5;
  const text = `${name}\0${image}`;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return (hash >>> 0).toString(16);
}

export function restartCountOf(annotations: Strings): number {
  const count = Number(annotations[names.restartCount] ?? 0);
  return Number.isSafeInteger(count) && count >= 0 ? count : 0;
}
