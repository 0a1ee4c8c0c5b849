import type { KubeObject, ObjectMeta } from '@oarlock/api/object';
import type { Deployment } from '@oarlock/api/types/apps-v1';
import type { ConfigMap, Container, Namespace, Pod, PodSpec } from '@oarlock/api/types/core-v1';

/** What tests say of an object; the rest is filled in with what a server takes. */
export interface ObjectOptions extends Pick<ObjectMeta, 'labels' | 'annotations'> {
  readonly name?: string;
  readonly namespace?: string;
}

function metadataOf({ name = 'web', namespace = 'default', labels, annotations }: ObjectOptions, namespaced = true): ObjectMeta {
  return { name, ...(namespaced && { namespace }), ...(labels && { labels }), ...(annotations && { annotations }) };
}

export interface PodOptions extends ObjectOptions {
  readonly image?: string;
  /** Instead of one container `web` with `image`. */
  readonly containers?: readonly Container[];
  /** The rest of its spec. */
  readonly spec?: Partial<PodSpec>;
}

const specOf = ({ image = 'nginx:1.27', containers = [{ name: 'web', image }], spec }: PodOptions): PodSpec => ({ containers, ...spec });

/** `pod({ image: 'nginx', labels: { owner: 'ada' } })`. */
export const pod = (said: PodOptions = {}): Pod => ({ apiVersion: 'v1', kind: 'Pod', metadata: metadataOf(said), spec: specOf(said) });

/** A Deployment whose pods are as `said`, too. */
export function deployment(said: PodOptions & { readonly replicas?: number } = {}): Deployment {
  const app = { app: said.name ?? 'web' };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: metadataOf(said),
    spec: { replicas: said.replicas ?? 1, selector: { matchLabels: app }, template: { metadata: { labels: app }, spec: specOf(said) } },
  };
}

export const configMap = (said: ObjectOptions & { readonly data?: Readonly<Record<string, string>> } = {}): ConfigMap => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: metadataOf(said),
  ...(said.data && { data: said.data }),
});

export const namespace = (said: Omit<ObjectOptions, 'namespace'> = {}): Namespace => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: metadataOf({ name: 'default', ...said }, false),
});

/** Any kind: `object('example.dev/v1', 'Widget', { name: 'a' }, { size: 3 })`. */
export const object = (apiVersion: string, kind: string, said: ObjectOptions = {}, spec?: Readonly<Record<string, unknown>>): KubeObject =>
  ({ apiVersion, kind, metadata: metadataOf(said), ...(spec && { spec }) }) as KubeObject;
