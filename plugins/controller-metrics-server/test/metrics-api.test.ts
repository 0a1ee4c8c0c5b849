import type { Node, Pod } from '@oarlock/api/types/core-v1';
import type { KubeObject } from '@oarlock/api/object';
import type { Lister } from '@oarlock/spi/client';
import { MetricsApi } from '../src/metrics-api.ts';
import { describe, expect, it } from 'vitest';

const lister = <T extends KubeObject>(objects: readonly T[]): Lister<T> => ({
  get: (key) =>
    objects.find(({ metadata }) => (metadata?.namespace === undefined ? metadata?.name : `${metadata.namespace}/${metadata.name}`) === key),
  list: (namespace) => objects.filter(({ metadata }) => namespace === undefined || metadata?.namespace === namespace),
  byIndex: () => [],
  size: objects.length,
});
const pod = (namespace: string, name: string, labels: Record<string, string> = {}, phase = 'Running'): Pod => ({
  metadata: { namespace, name, labels },
  status: { phase },
});
const usage = { cores: 0.25, memoryBytes: 10 * 1024 * 1024 + 5, at: 60_000, windowMs: 15_000 };

const api = new MetricsApi({
  nodes: lister<Node>([{ metadata: { name: 'a' } }, { metadata: { name: 'b' } }]),
  pods: lister([pod('n', 'p', { app: 'x' }), pod('n', 'q'), pod('m', 'p'), pod('m', 'done', {}, 'Succeeded')]),
  usages: {
    ofNode: ({ metadata }) => (metadata?.name === 'a' ? usage : undefined),
    ofPod: ({ metadata }) =>
      metadata?.name === 'q'
        ? undefined
        : new Map([
            ['c', usage],
            ['d', { ...usage, cores: 0, at: 59_000 }],
          ]),
  },
  now: () => 61_000,
});
const get = (path: string) => api.handle('GET', new URL(path, 'https://metrics'));
const names = (path: string) =>
  (get(path) as { items: KubeObject[] }).items.map(({ metadata }) => `${metadata?.namespace ?? ''}/${metadata?.name}`);
const root = '/apis/metrics.k8s.io/v1beta1';

describe('metrics.k8s.io', () => {
  it('has discovery documents', () => {
    expect(get('/apis')).toMatchObject({ kind: 'APIGroupList' });
    expect(get('/apis/metrics.k8s.io')).toMatchObject({ kind: 'APIGroup', name: 'metrics.k8s.io' });
    expect(get(root)).toMatchObject({ kind: 'APIResourceList', resources: [{ name: 'nodes' }, { name: 'pods' }] });
  });

  it('returns the usage of measured nodes and pods', () => {
    expect(get(`${root}/nodes`)).toEqual({
      kind: 'NodeMetricsList',
      apiVersion: 'metrics.k8s.io/v1beta1',
      metadata: {},
      items: [
        {
          kind: 'NodeMetrics',
          apiVersion: 'metrics.k8s.io/v1beta1',
          metadata: { name: 'a', creationTimestamp: '1970-01-01T00:01:01Z' },
          timestamp: '1970-01-01T00:01:00Z',
          window: '15s',
          usage: { cpu: '250000000n', memory: '10240Ki' },
        },
      ],
    });
    expect(get(`${root}/namespaces/n/pods/p`)).toMatchObject({
      kind: 'PodMetrics',
      timestamp: '1970-01-01T00:00:59Z',
      containers: [
        { name: 'c', usage: { cpu: '250000000n', memory: '10240Ki' } },
        { name: 'd', usage: { cpu: '0' } },
      ],
    });
    expect(names(`${root}/pods`)).toEqual(['n/p', 'm/p']);
    expect(names(`${root}/namespaces/n/pods?labelSelector=app%3Dx`)).toEqual(['n/p']);
    expect(names(`${root}/pods?labelSelector=app!%3Dx`)).toEqual(['m/p']);
    expect(names(`${root}/pods?fieldSelector=metadata.namespace%3Dm`)).toEqual(['m/p']);
  });

  it.each([
    [`${root}/nodes/b`, 404],
    [`${root}/nodes/a/b`, 404],
    [`${root}/namespaces/n/pods/q`, 404],
    [`${root}/namespaces/m/pods/done`, 404],
    [`${root}/things`, 404],
    ['/metrics', 404],
    [`${root}/pods?labelSelector=%3D%3D`, 400],
    [`${root}/nodes/%zz`, 400],
  ])('rejects %s with %i', (path, code) => {
    expect(() => get(path)).toThrow(expect.objectContaining({ status: expect.objectContaining({ code }) }));
  });

  it('is read-only', () => {
    expect(() => api.handle('DELETE', new URL(`${root}/nodes`, 'https://metrics'))).toThrow(expect.objectContaining({ code: 405 }));
  });
});
