import { createHash } from 'node:crypto';
import type { Container, EphemeralContainer, Pod } from '@oarlock/api/types/core-v1';

/** The labels and annotations in which kubelets store data of a container or sandbox in the runtime. Other tools read some of them. */
export const runtimeLabels = {
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
  /** The id of the kubelet that a sandbox belongs to, because several kubelets may share a runtime. */
  owner: 'oarlock.dev/kubelet',
  /** The comma-separated addresses that the kubelet obtained for a sandbox. */
  podIPs: 'oarlock.dev/pod-ips',
} as const;

export type Strings = Readonly<Record<string, string>>;

/** Returns the owner id of a node: unique among the kubelets that share a runtime, and stable across restarts. */
export function kubeletOwnerId(cluster: string, nodeName: string, rootDir: string): string {
  return createHash('sha256')
    .update(JSON.stringify([cluster, nodeName, rootDir]))
    .digest('hex')
    .slice(0, 32);
}

function identity(pod: Pod, owner: string): Record<string, string> {
  const { name = '', namespace = '', uid = '' } = pod.metadata ?? {};
  return {
    [runtimeLabels.podName]: name,
    [runtimeLabels.podNamespace]: namespace,
    [runtimeLabels.podUid]: uid,
    [runtimeLabels.owner]: owner,
  };
}

export function sandboxLabels(pod: Pod, owner: string): Strings {
  return { ...pod.metadata?.labels, ...identity(pod, owner) };
}

export function containerLabels(pod: Pod, container: Container | EphemeralContainer, owner: string): Strings {
  return { ...identity(pod, owner), [runtimeLabels.containerName]: container.name };
}

export function containerAnnotations(pod: Pod, container: Container | EphemeralContainer, restartCount: number): Strings {
  const { deletionGracePeriodSeconds } = pod.metadata ?? {};
  const grace = pod.spec?.terminationGracePeriodSeconds;
  return {
    [runtimeLabels.hash]: containerHash(container),
    [runtimeLabels.restartCount]: String(restartCount),
    [runtimeLabels.terminationMessagePath]: container.terminationMessagePath ?? '/dev/termination-log',
    [runtimeLabels.terminationMessagePolicy]: container.terminationMessagePolicy ?? 'File',
    ...(deletionGracePeriodSeconds !== undefined && { [runtimeLabels.deletionGracePeriod]: String(deletionGracePeriodSeconds) }),
    ...(grace !== undefined && { [runtimeLabels.terminationGracePeriod]: String(grace) }),
    ...(container.lifecycle?.preStop && { [runtimeLabels.preStop]: JSON.stringify(container.lifecycle.preStop) }),
  };
}

/** Returns the hash of the container's name and image. A changed hash requires a new container. FNV-1a, 32 bits, hexadecimal. */
export function containerHash({ name, image = '' }: Pick<Container, 'name' | 'image'>): string {
  let hash = 0x811c9dc5;
  const text = `${name}\0${image}`;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return (hash >>> 0).toString(16);
}

export function restartCountOf(annotations: Strings): number {
  const count = Number(annotations[runtimeLabels.restartCount] ?? 0);
  return Number.isSafeInteger(count) && count >= 0 ? count : 0;
}
