import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Answer } from '../../harness/api.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { composition } from '../../harness/composition.ts';
import { Machine } from '../../harness/machine.ts';
import { root } from '../../harness/oarlock.ts';
import { until, untilValue } from '../../harness/until.ts';
import { cases, type Case } from './admission-cases.ts';
import { before } from './admission-objects.ts';
import { jsonService, type JsonService } from './sender.ts';

/** Plugins with their own tests over HTTPS: journeys/admission.test.ts covers webhooks and policies. */
const elsewhere = ['admission-webhooks', 'admission-validating-policy', 'admission-mutating-policy'];
/** Plugins that run last, after all mutations. */
const last = ['admission-resource-quota'];

/** All admission plugins in one chain, and for each a request over HTTPS that only this plugin rejects or changes. */
describe('admission plugins', () => {
  const machine = Machine.use();
  let cluster: Cluster;
  let images: JsonService;
  let installed: readonly string[];

  beforeAll(async () => {
    installed = (await readdir(join(root, 'plugins'))).filter((name) => name.startsWith('admission-'));
    images = await jsonService((review) => {
      const { containers } = (review as { spec: { containers: { image: string }[] } }).spec;
      const bad = containers.find(({ image }) => !image.startsWith('good/'));
      return { status: bad === undefined ? { allowed: true } : { allowed: false, reason: `${bad.image} is not good` } };
    });
    const configs: Readonly<Record<string, object>> = {
      'admission-image-policy-webhook': { url: `${images.url}/` },
      'admission-event-rate-limit': { limits: [{ type: 'Namespace', qps: 0.001, burst: 2 }] },
    };
    const pluginEntry = (use: string) => (configs[use] === undefined ? use : { use, config: configs[use] });
    const order = [...installed.filter((name) => !last.includes(name)), ...last];
    cluster = await machine.cluster({
      spec: {
        ...composition({ storage: 'memory', runtime: 'simulated', network: 'host' }),
        roles: ['apiserver', 'controllers'],
        settings: { apiserver: { runtimeConfig: { 'certificates.k8s.io/v1beta1': true } } },
        ...{ admission: order.map(pluginEntry) },
      },
    });
    for (const [path, object] of before) await cluster.api.renew(path, object);
    for (const namespace of ['default', 'limited', 'safe', 'west', 'tolerant'])
      await until('the namespace has its service account', async () => {
        const path = `/api/v1/namespaces/${namespace}/serviceaccounts/default`;
        return (await cluster.api.call('GET', path)).status === 200;
      });
  });
  afterAll(() => images.close());

  const send = ({ method = 'POST', path, body, as }: Case): Promise<Answer> => {
    const [user, ...groups] = as ?? [];
    return cluster.api.call(method, `${path}?dryRun=All`, {
      body,
      headers: {
        ...(method === 'PATCH' && { 'content-type': 'application/merge-patch+json' }),
        ...(user !== undefined && { 'impersonate-user': user, 'impersonate-group': groups.join(',') }),
      },
    });
  };

  it.each(cases)('$plugin', async (each) => {
    const { rejection, becomes } = each;
    // objects written before take effect a moment later: quotas, limits, annotations of namespaces
    const answer = await untilValue(
      `${each.plugin} is in force`,
      () => send(each),
      ({ status, body }) =>
        rejection === undefined ? status < 300 : status === rejection[0] && body.includes(JSON.stringify(rejection[1]).slice(1, -1)),
    );
    if (rejection !== undefined) return;
    expect(JSON.parse(answer.body)).toMatchObject(comparable(becomes) as object);
  });

  it('admission-event-rate-limit', async () => {
    const event = () =>
      cluster.api.call('POST', '/api/v1/namespaces/west/events', {
        body: {
          metadata: { generateName: 'e-' },
          involvedObject: { kind: 'Pod', namespace: 'west', name: 'p' },
          reason: 'Test',
          message: 'm',
          type: 'Normal',
        },
      });
    const rejection = await untilValue('the limit is reached', event, ({ status }) => status === 429);
    expect(rejection.body).toContain('limit reached on type Namespace for key west');
  });

  it('admission-pod-topology-labels', async () => {
    const labels = { 'topology.kubernetes.io/zone': 'a', 'kubernetes.io/os': 'linux' };
    await cluster.api.renew('/api/v1/nodes', { metadata: { name: 'labelled', ...{ labels } } });
    const path = '/api/v1/namespaces/default/pods';
    await cluster.api.renew(path, { metadata: { name: 'placed' }, ...{ spec: { containers: [{ name: 'c', image: 'good/app:1' }] } } });
    const target = { apiVersion: 'v1', kind: 'Node', name: 'labelled' };
    await cluster.api.json('POST', `${path}/placed/binding`, { body: { metadata: { name: 'placed' }, target } });
    const { metadata } = await cluster.api.get<{ metadata: { labels: object } }>(`${path}/placed`);
    expect(metadata.labels).toEqual({ 'topology.kubernetes.io/zone': 'a' });
  });

  it('admission-pod-resize-validator', async () => {
    await cluster.api.renew('/api/v1/nodes', { metadata: { name: 'small' }, ...{ status: { allocatable: { cpu: '1', memory: '1Gi' } } } });
    const path = '/api/v1/namespaces/default/pods';
    const requests = { cpu: '100m' };
    const spec = { nodeName: 'small', containers: [{ name: 'c', image: 'good/app:1', resources: { requests } }] };
    await cluster.api.renew(path, { metadata: { name: 'resized' }, ...{ spec } });
    const resize = (cpu: string) =>
      cluster.api.call('PATCH', `${path}/resized/resize`, {
        body: { spec: { containers: [{ name: 'c', resources: { requests: { cpu } } }] } },
        headers: { 'content-type': 'application/strategic-merge-patch+json' },
      });
    const rejection = await resize('2');
    expect(rejection.status).toBe(403);
    expect(JSON.parse(rejection.body)).toMatchObject({
      message: 'pods "resized" is forbidden: node didn\'t have enough allocatable resources: cpu, requested: 2000, allocatable: 1000',
      details: { causes: [{ reason: 'NodeCapacity' }] },
    });
    expect((await resize('1')).status).toBe(200);
  });

  it('admission-pod-resize-validator, features of nodes', async () => {
    await cluster.api.renew('/api/v1/nodes', {
      metadata: { name: 'earlier' },
      ...{ status: { allocatable: { cpu: '4', memory: '1Gi' } } },
    });
    const path = '/api/v1/namespaces/default/pods';
    const one = (name: string, cpu: string) => ({ name, image: 'good/app:1', resources: { requests: { cpu } } });
    const spec = { nodeName: 'earlier', initContainers: [one('i', '1')], containers: [one('c', '1')] };
    await cluster.api.renew(path, { metadata: { name: 'prepared' }, ...{ spec } });
    const resize = () =>
      cluster.api.call('PATCH', `${path}/prepared/resize`, {
        body: { spec: { initContainers: [{ name: 'i', resources: { requests: { cpu: '2' } } }] } },
        headers: { 'content-type': 'application/strategic-merge-patch+json' },
      });
    const rejection = await resize();
    expect(rejection.status).toBe(403);
    const feature = 'InPlacePodVerticalScalingInitContainers';
    expect(JSON.parse(rejection.body)).toMatchObject({
      message: `pods "prepared" is forbidden: pod update requires features ${feature} which are not available on node "earlier"`,
    });
    await cluster.api.call('PATCH', '/api/v1/nodes/earlier/status', {
      body: { status: { declaredFeatures: [feature] } },
      headers: { 'content-type': 'application/merge-patch+json' },
    });
    await vi.waitFor(async () => expect((await resize()).status).toBe(200));
  });

  it('cover all admission plugins', () => {
    const seen = new Set([
      ...cases.map(({ plugin }) => plugin),
      ...elsewhere,
      'admission-event-rate-limit',
      'admission-pod-topology-labels',
      'admission-pod-resize-validator',
    ]);
    expect(installed.filter((name) => !seen.has(name))).toEqual([]);
  });
});

/** Replaces lists by matchers that require at least these members, in any order. */
function comparable(value: unknown): unknown {
  if (Array.isArray(value))
    return expect.arrayContaining(
      value.map((each) => (typeof each === 'object' ? (expect.objectContaining(each as object) as unknown) : each)),
    );
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, comparable(each)]));
  return value;
}
