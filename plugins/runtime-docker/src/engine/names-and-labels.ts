import type { ContainerConfig, PodSandboxConfig, PodSandboxMetadata } from '@oarlock/spi/runtime';

// The engine has labels, but no annotations, pods or attempts. As in cri-dockerd, names and labels encode them.

const prefix = 'k8s';
const pause = 'POD';
const annotationPrefix = 'annotation.';

export const typeLabel = 'io.kubernetes.docker.type';
export const sandboxLabel = 'io.kubernetes.sandbox.id';
export const logPathLabel = 'io.kubernetes.container.logpath';
/** The label with the node that writes the log files of a container, because several nodes may share an engine. */
export const ownerLabel = 'dev.oarlock.owner';
export const createdLabel = 'dev.oarlock.created';
const imageLabel = 'dev.oarlock.image';
const imageRefLabel = 'dev.oarlock.image-ref';
const internal = new Set([typeLabel, sandboxLabel, logPathLabel, ownerLabel, createdLabel, imageLabel, imageRefLabel]);

export type Labels = Readonly<Record<string, string>>;

const join = (...parts: readonly (string | number)[]) => [prefix, ...parts].join('_');

export function sandboxName({ name, namespace, uid, attempt }: PodSandboxMetadata): string {
  return join(pause, name, namespace, uid, attempt);
}
export function containerName({ metadata }: ContainerConfig, { metadata: pod }: PodSandboxConfig): string {
  return join(metadata.name, pod.name, pod.namespace, pod.uid, metadata.attempt);
}

/** Splits a container name into its parts. No part contains an underscore. */
function parts(dockerName: string): readonly string[] {
  return dockerName.replace(/^\//, '').split('_').slice(1);
}
export function sandboxMetadata(dockerName: string): PodSandboxMetadata {
  const [, name = '', namespace = '', uid = '', attempt = '0'] = parts(dockerName);
  return { name, namespace, uid, attempt: Number(attempt) };
}
export function containerMetadata(dockerName: string): { readonly name: string; readonly attempt: number } {
  const all = parts(dockerName);
  return { name: all[0] ?? '', attempt: Number(all[4] ?? 0) };
}

function mergeLabels(labels: Labels, annotations: Labels, own: Labels): Labels {
  const encoded = Object.entries(annotations).map(([key, value]) => [annotationPrefix + key, value] as const);
  // a label of a pod with the prefix would be read as an annotation, which the kubelet trusts
  const plain = Object.entries(labels).filter(([key]) => !key.startsWith(annotationPrefix));
  return { ...Object.fromEntries([...plain, ...encoded]), ...own };
}
export function sandboxLabels({ labels, annotations }: PodSandboxConfig, owner: string, now: number): Labels {
  return mergeLabels(labels, annotations, { [typeLabel]: 'podsandbox', [ownerLabel]: owner, [createdLabel]: String(now) });
}
export function containerLabels(
  { labels, annotations, logPath }: ContainerConfig,
  {
    sandboxId,
    logDirectory,
    owner,
    now,
    image,
  }: { sandboxId: string; logDirectory: string; owner: string; now: number; image: ImageNames },
): Labels {
  return mergeLabels(labels, annotations, {
    [typeLabel]: 'container',
    [sandboxLabel]: sandboxId,
    [logPathLabel]: `${logDirectory}/${logPath}`,
    [ownerLabel]: owner,
    [createdLabel]: String(now),
    [imageLabel]: image.image,
    [imageRefLabel]: image.imageRef,
  });
}

/** Splits the engine's labels into the CRI labels and annotations that the kubelet set. */
export function splitLabels(all: Labels): { readonly labels: Labels; readonly annotations: Labels } {
  const labels: Record<string, string> = {};
  const annotations: Record<string, string> = {};
  for (const [key, value] of Object.entries(all)) {
    if (internal.has(key)) continue;
    if (key.startsWith(annotationPrefix)) annotations[key.slice(annotationPrefix.length)] = value;
    else labels[key] = value;
  }
  return { labels, annotations };
}

export interface ImageNames {
  readonly image: string;
  readonly imageRef: string;
}
export const imageNames = (labels: Labels): ImageNames => ({ image: labels[imageLabel] ?? '', imageRef: labels[imageRefLabel] ?? '' });
