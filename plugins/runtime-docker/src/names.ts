import type { ContainerConfig, PodSandboxConfig, PodSandboxMetadata } from '@oarlock/spi/runtime';

// Docker has labels, and no annotations, pods or attempts. Names and labels say the rest, as those of cri-dockerd do.

const prefix = 'k8s';
const pause = 'POD';
const annotationPrefix = 'annotation.';

export const typeLabel = 'io.kubernetes.docker.type';
export const sandboxLabel = 'io.kubernetes.sandbox.id';
export const logPathLabel = 'io.kubernetes.container.logpath';
/** Whose log files are written: several nodes may share an engine. */
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

/** No part of a name has an underscore in it. */
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

function joined(labels: Labels, annotations: Labels, own: Labels): Labels {
  const noted = Object.entries(annotations).map(([key, value]) => [annotationPrefix + key, value] as const);
  return { ...labels, ...Object.fromEntries(noted), ...own };
}
export function sandboxLabels({ labels, annotations }: PodSandboxConfig, owner: string, now: number): Labels {
  return joined(labels, annotations, { [typeLabel]: 'podsandbox', [ownerLabel]: owner, [createdLabel]: String(now) });
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
  return joined(labels, annotations, {
    [typeLabel]: 'container',
    [sandboxLabel]: sandboxId,
    [logPathLabel]: `${logDirectory}/${logPath}`,
    [ownerLabel]: owner,
    [createdLabel]: String(now),
    [imageLabel]: image.image,
    [imageRefLabel]: image.imageRef,
  });
}

/** What the kubelet gave, told apart again. */
export function split(all: Labels): { readonly labels: Labels; readonly annotations: Labels } {
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
