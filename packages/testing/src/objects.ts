import type { KubeObject, ObjectMeta } from '@oarlock/api/object';
import type { Deployment } from '@oarlock/api/types/apps-v1';
import type { ConfigMap, Container, Namespace, Pod, PodSpec } from '@oarlock/api/types/core-v1';

/** The fields that a test sets; the other fields get values that a server accepts. */
export interface ObjectOptions extends Pick<ObjectMeta, 'labels' | 'annotations'> {
  readonly name?: string;
  readonly namespace?: string;
}

function metadataOf({ name = 'web', namespace = 'default', labels, annotations }: ObjectOptions, namespaced = true): ObjectMeta {
  return { name, ...(namespaced && { namespace }), ...(labels && { labels }), ...(annotations && { annotations }) };
}

export interface PodOptions extends ObjectOptions {
  readonly image?: string;
  /** Replaces the single container `web` with `image`. */
  readonly containers?: readonly Container[];
  /** Further fields of the spec. */
  readonly spec?: Partial<PodSpec>;
}

const specOf = ({ image = 'nginx:1.27', containers = [{ name: 'web', image }], spec }: PodOptions): PodSpec => ({ containers, ...spec });

/** Returns a pod: `pod({ image: 'nginx', labels: { owner: 'ada' } })`. */
export const pod = (options: PodOptions = {}): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: metadataOf(options),
  spec: specOf(options),
});

/** Returns a Deployment whose pod template has the same options. */
export function deployment(options: PodOptions & { readonly replicas?: number } = {}): Deployment {
  const app = { app: options.name ?? 'web' };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: metadataOf(options),
    spec: {
      replicas: options.replicas ?? 1,
      selector: { matchLabels: app },
      template: { metadata: { labels: app }, spec: specOf(options) },
    },
  };
}

export const configMap = (options: ObjectOptions & { readonly data?: Readonly<Record<string, string>> } = {}): ConfigMap => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: metadataOf(options),
  ...(options.data && { data: options.data }),
});

export const namespace = (options: Omit<ObjectOptions, 'namespace'> = {}): Namespace => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: metadataOf({ name: 'default', ...options }, false),
});

/** Returns an object of any kind: `object('example.dev/v1', 'Widget', { name: 'a' }, { size: 3 })`. */
export const object = (
  apiVersion: string,
  kind: string,
  options: ObjectOptions = {},
  spec?: Readonly<Record<string, unknown>>,
): KubeObject => ({ apiVersion, kind, metadata: metadataOf(options), ...(spec && { spec }) }) as KubeObject;
