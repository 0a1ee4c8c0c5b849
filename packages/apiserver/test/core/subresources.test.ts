import { createPublicKey } from 'node:crypto';
import { decodeProtectedHeader, jwtVerify } from 'jose';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import { configMap, pod, refusal, TestServer, testKeys } from './fixture.ts';

let server: TestServer;
beforeEach(async () => { server = await TestServer.start(); });
afterEach(() => server.stop());

const binding = (name: string, node: string, more: KubeObject['metadata'] = {}): KubeObject => ({ kind: 'Binding', apiVersion: 'v1', metadata: { name, ...more }, ...{ target: { kind: 'Node', name: node } } });
const bind = (name: string, node: string, more?: KubeObject['metadata']) => server.create('pods', binding(name, node, more), { subresource: 'binding', name });

describe('binding', () => {
  it('gives a pod its node, and says that it is scheduled', async () => {
    await server.create('pods', pod('a'));
    expect(await bind('a', 'n1', { annotations: { note: 'x' } })).toMatchObject({ kind: 'Status', status: 'Success' });
    expect(await server.get('pods', 'a')).toMatchObject({
      metadata: { annotations: { note: 'x' }, generation: 1 }, spec: { nodeName: 'n1' },
      status: { conditions: [{ type: 'PodScheduled', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' }] },
    });
  });

  it('happens once, to pods that wait for it', async () => {
    await server.create('pods', pod('a'));
    await bind('a', 'n1');
    expect((await refusal(bind('a', 'n2'))).status).toMatchObject({ code: 409, message: 'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"' });
    await server.create('pods', pod('gated', { schedulingGates: [{ name: 'example.com/wait' }] }));
    expect((await refusal(bind('gated', 'n1'))).message).toContain('pod gated has non-empty .spec.schedulingGates');
    await server.create('pods', pod('going', {}, { finalizers: ['example.com/hold'] }));
    await server.remove('pods', 'going');
    expect((await refusal(bind('going', 'n1'))).message).toContain('pod going is being deleted, cannot be assigned to a host');
    expect((await refusal(bind('nobody', 'n1'))).status).toMatchObject({ code: 404, message: 'pods "nobody" not found' });
  });

  it('is of the pod that was meant', async () => {
    const made = await server.create('pods', pod('a'));
    expect((await refusal(bind('a', 'n1', { uid: 'other' }))).code).toBe(409);
    expect((await refusal(server.create('pods', binding('b', 'n1'), { subresource: 'binding', name: 'a' }))).message).toBe('name in URL does not match name in Binding object');
    expect((await refusal(bind('a', ''))).message).toBe('target.name: Required value');
    expect((await refusal(server.create('pods', { ...binding('a', 'n1'), ...{ target: { kind: 'Pod', name: 'x' } } }, { subresource: 'binding', name: 'a' }))).message).toBe('target.kind: Unsupported value: "Pod": supported values: "<empty>", "Node"');
    await bind('a', 'n1', made.metadata?.uid === undefined ? {} : { uid: made.metadata.uid });
  });

  it('comes under the old name, too, and only pretends to in a dry run', async () => {
    await server.create('pods', pod('a'));
    await server.create('pods', binding('a', 'n1'), { subresource: 'binding', name: 'a', query: { dryRun: 'All' } });
    expect(await server.get('pods', 'a')).not.toHaveProperty('spec.nodeName');
    await server.create('bindings', binding('a', 'n1'));
    expect(await server.get('pods', 'a')).toMatchObject({ spec: { nodeName: 'n1' } });
  });
});

describe('scale', () => {
  const scale = (replicas: number, more: KubeObject['metadata'] = {}): KubeObject => ({ kind: 'Scale', apiVersion: 'autoscaling/v1', metadata: { name: 'd', ...more }, ...{ spec: { replicas } } });
  beforeEach(async () => {
    const spec = { replicas: 2, selector: { matchLabels: { app: 'd' } }, template: { metadata: { labels: { app: 'd' } }, spec: { containers: [{ name: 'main', image: 'i' }] } } };
    await server.create('deployments.apps', { kind: 'Deployment', apiVersion: 'apps/v1', metadata: { name: 'd' }, ...{ spec } });
  });

  it('shows and changes the replicas', async () => {
    const shown = await server.get('deployments.apps', 'd', { subresource: 'scale' });
    expect(shown).toMatchObject({ kind: 'Scale', apiVersion: 'autoscaling/v1', metadata: { name: 'd', resourceVersion: '1' }, spec: { replicas: 2 }, status: { replicas: 0, selector: 'app=d' } });
    expect(await server.update('deployments.apps', scale(5), { subresource: 'scale' })).toMatchObject({ metadata: { resourceVersion: '2' }, spec: { replicas: 5 } });
    expect(await server.patch('deployments.apps', 'd', { spec: { replicas: 3 } }, { subresource: 'scale' })).toMatchObject({ spec: { replicas: 3 } });
    expect(await server.patch('deployments.apps', 'd', [{ op: 'replace', path: '/spec/replicas', value: 4 }], { subresource: 'scale', patchType: 'json' })).toMatchObject({ spec: { replicas: 4 } });
    expect(await server.get('deployments.apps', 'd')).toMatchObject({ metadata: { generation: 4 }, spec: { replicas: 4, selector: { matchLabels: { app: 'd' } } } });
  });

  it('is refused when it is stale or senseless', async () => {
    expect((await refusal(server.update('deployments.apps', scale(5, { resourceVersion: '99' }), { subresource: 'scale' }))).reason).toBe('Conflict');
    expect((await refusal(server.update('deployments.apps', scale(-1), { subresource: 'scale' }))).message).toBe('Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0');
    expect((await refusal(server.update('deployments.apps', scale(1, { name: 'e' }), { subresource: 'scale', name: 'd' }))).message).toContain('does not match the name on the URL');
    expect((await refusal(server.get('deployments.apps', 'nobody', { subresource: 'scale' }))).reason).toBe('NotFound');
  });

  it('only pretends to in a dry run', async () => {
    expect(await server.update('deployments.apps', scale(9), { subresource: 'scale', query: { dryRun: 'All' } })).toMatchObject({ spec: { replicas: 9 } });
    expect(await server.get('deployments.apps', 'd')).toMatchObject({ spec: { replicas: 2 } });
  });
});

describe('eviction', () => {
  const evict = (name: string, deleteOptions: object = {}) => server.create('pods', { kind: 'Eviction', apiVersion: 'policy/v1', metadata: { name }, ...{ deleteOptions } }, { subresource: 'eviction', name });
  const running = async (name: string, ready = true) => {
    await server.create('pods', pod(name, { nodeName: 'n' }, { labels: { app: 'x' } }));
    await server.patch('pods', name, { status: { phase: 'Running', conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] } }, { subresource: 'status' });
  };
  const budget = async (status: object, spec: object = {}, name = 'b') => {
    await server.create('poddisruptionbudgets.policy', { kind: 'PodDisruptionBudget', apiVersion: 'policy/v1', metadata: { name }, ...{ spec: { minAvailable: 1, selector: { matchLabels: { app: 'x' } }, ...spec } } });
    await server.patch('poddisruptionbudgets.policy', name, { status: { observedGeneration: 1, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1, disruptionsAllowed: 0, ...status } }, { subresource: 'status' });
  };

  it('deletes a pod, and says why', async () => {
    await running('a');
    expect(await evict('a')).toMatchObject({ status: 'Success' });
    expect(await server.get('pods', 'a')).toMatchObject({ metadata: { deletionGracePeriodSeconds: 30 }, status: { conditions: [{ type: 'Ready' }, { type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI', message: 'Eviction API: evicting' }] } });
  });

  it('is refused where the budget allows none', async () => {
    await running('a');
    await budget({});
    expect((await refusal(evict('a'))).status).toMatchObject({
      code: 429, reason: 'TooManyRequests', message: "Cannot evict pod as it would violate the pod's disruption budget.",
      details: { causes: [{ reason: 'DisruptionBudget', message: 'The disruption budget b needs 1 healthy pods and has 1 currently' }] },
    });
    expect((await server.get('pods', 'a')).metadata).not.toHaveProperty('deletionTimestamp');
  });

  it('takes one from the budget', async () => {
    await running('a');
    await budget({ disruptionsAllowed: 1, currentHealthy: 2 });
    await evict('a');
    expect(await server.get('poddisruptionbudgets.policy', 'b')).toMatchObject({ status: { disruptionsAllowed: 0, disruptedPods: { a: '2026-01-01T00:00:00Z' } } });
    await running('c');
    expect((await refusal(evict('c'))).code).toBe(429);
  });

  it('waits for a budget that is not counted yet', async () => {
    await running('a');
    await budget({ observedGeneration: 0, disruptionsAllowed: 1 });
    expect((await refusal(evict('a'))).status.details).toMatchObject({ retryAfterSeconds: 10, causes: [{ message: 'The disruption budget b is still being processed by the server.' }] });
  });

  it('asks no budget for pods that count for nobody', async () => {
    await budget({ currentHealthy: 1, desiredHealthy: 1 });
    await server.create('pods', pod('pending', {}, { labels: { app: 'x' } }));
    await evict('pending');
    await running('unready', false);
    await evict('unready');
    expect((await server.list('pods')).items.map(({ object }) => object.metadata?.deletionTimestamp !== undefined)).toEqual([true]);
  });

  it('is refused under two budgets, and for another pod than the URL says', async () => {
    await running('a');
    await budget({});
    await budget({}, {}, 'c');
    expect((await refusal(evict('a'))).status).toMatchObject({ code: 500, message: 'This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.' });
    expect((await refusal(server.create('pods', { kind: 'Eviction', apiVersion: 'policy/v1', metadata: { name: 'b' } }, { subresource: 'eviction', name: 'a' }))).message).toBe('name in URL does not match name in Eviction object');
    expect((await refusal(evict('nobody'))).reason).toBe('NotFound');
  });

  it('only pretends to in a dry run', async () => {
    await running('a');
    await budget({ disruptionsAllowed: 1 });
    await evict('a', { dryRun: ['All'] });
    expect((await server.get('pods', 'a')).metadata).not.toHaveProperty('deletionTimestamp');
    expect(await server.get('poddisruptionbudgets.policy', 'b')).toMatchObject({ status: { disruptionsAllowed: 1 } });
  });
});

describe('token', () => {
  const ask = (spec: object, on = server) => on.create<KubeObject & { status: { token: string; expirationTimestamp: string } }>('serviceaccounts', { kind: 'TokenRequest', apiVersion: 'authentication.k8s.io/v1', ...{ spec } }, { subresource: 'token', name: 'sa' });
  const account = (on = server) => on.create('serviceaccounts', { kind: 'ServiceAccount', apiVersion: 'v1', metadata: { name: 'sa' } });
  const verify = (token: string, on = server) => jwtVerify(token, createPublicKey(on.keys.serviceAccount.verifyingKeys[0] ?? ''), { currentDate: new Date(on.clock.now()) });

  it.each(['ec', 'rsa'] as const)('is signed by the cluster\'s key (%s), with upstream\'s claims', async (type) => {
    const other = await TestServer.start({ keys: testKeys(type) });
    const { metadata } = await account(other);
    const made = await ask({ audiences: ['vault'], expirationSeconds: 600 }, other);
    expect(made).toMatchObject({ kind: 'TokenRequest', metadata: { name: 'sa', namespace: 'default' }, spec: { audiences: ['vault'], expirationSeconds: 600 }, status: { expirationTimestamp: '2026-01-01T00:10:00Z' } });
    const { payload } = await verify(made.status.token, other);
    const now = Date.UTC(2026, 0, 1) / 1000;
    expect(decodeProtectedHeader(made.status.token)).toEqual({ alg: type === 'ec' ? 'ES256' : 'RS256', kid: expect.any(String) as string });
    expect(payload).toEqual({
      aud: ['vault'], exp: now + 600, iat: now, nbf: now, iss: 'https://kubernetes.default.svc.cluster.local', jti: expect.any(String) as string, sub: 'system:serviceaccount:default:sa',
      'kubernetes.io': { namespace: 'default', serviceaccount: { name: 'sa', uid: metadata?.uid } },
    });
    await other.stop();
  });

  it('is bound to a pod that runs as the account, and outlives what was asked for', async () => {
    await account();
    await server.create('nodes', { kind: 'Node', apiVersion: 'v1', metadata: { name: 'n' } });
    const { metadata } = await server.create('pods', pod('p', { nodeName: 'n', serviceAccountName: 'sa' }));
    const made = await ask({ expirationSeconds: 3607, boundObjectRef: { kind: 'Pod', apiVersion: 'v1', name: 'p', uid: metadata?.uid } });
    const { payload } = await verify(made.status.token);
    const now = Date.UTC(2026, 0, 1) / 1000;
    expect(payload).toMatchObject({ exp: now + 365 * 24 * 3600, 'kubernetes.io': { pod: { name: 'p', uid: metadata?.uid }, node: { name: 'n' }, warnafter: now + 3607 } });
    expect(made.status.expirationTimestamp).toBe('2026-01-01T01:00:07Z');
    await server.create('pods', pod('q', { serviceAccountName: 'other' }));
    expect((await refusal(ask({ boundObjectRef: { kind: 'Pod', apiVersion: 'v1', name: 'q' } }))).message).toBe('cannot bind token for serviceaccount "sa" to pod running with different serviceaccount name.');
    expect((await refusal(ask({ boundObjectRef: { kind: 'Pod', apiVersion: 'v1', name: 'p', uid: 'x' } }))).message).toContain('the UID in the bound object reference (x) does not match the UID in record.');
    expect((await refusal(ask({ boundObjectRef: { kind: 'ConfigMap', apiVersion: 'v1', name: 'p' } }))).message).toBe('cannot bind token to object of type v1, Kind=ConfigMap');
  });

  it('lives ten minutes at least', async () => {
    await account();
    expect((await refusal(ask({ expirationSeconds: 10 }))).message).toBe('TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 10: may not specify a duration less than 10 minutes');
    expect((await refusal(server.create('serviceaccounts', { kind: 'TokenRequest', apiVersion: 'authentication.k8s.io/v1', ...{ spec: {} } }, { subresource: 'token', name: 'nobody' }))).message).toBe('serviceaccounts "nobody" not found');
  });
});

describe('what goes on at a kubelet', () => {
  const containers = [{ name: 'main', image: 'i' }, { name: 'side', image: 'i' }];
  const go = (subresource: string, body: object, name = 'p') => server.handle('get', 'pods', { namespace: 'default', name, subresource, body });
  beforeEach(async () => {
    await server.create('nodes', { kind: 'Node', apiVersion: 'v1', metadata: { name: 'n' }, ...{ status: { addresses: [{ type: 'Hostname', address: 'n.local' }, { type: 'InternalIP', address: '192.0.2.7' }], daemonEndpoints: { kubeletEndpoint: { Port: 10255 } } } } });
    await server.create('pods', pod('p', { nodeName: 'n', containers, initContainers: [{ name: 'init', image: 'i' }] }));
  });

  it('has the kubelet\'s paths', async () => {
    expect(await go('log', { container: 'side', follow: true, tailLines: 5, sinceSeconds: 3 })).toEqual({ kind: 'kubelet', nodeName: 'n', host: '192.0.2.7', port: 10255, path: '/containerLogs/default/p/side?follow=true&sinceSeconds=3&tailLines=5', upgrade: false });
    expect(await go('exec', { container: 'main', command: ['sh', '-c', 'echo a b'], stdin: true, stdout: true, tty: true })).toMatchObject({ path: '/exec/default/p/main?input=1&output=1&tty=1&command=sh&command=-c&command=echo+a+b', upgrade: true });
    expect(await go('attach', { container: 'init', stdout: true, stderr: true })).toMatchObject({ path: '/attach/default/p/init?output=1&error=1' });
    expect(await go('portforward', { ports: [80, 443] })).toMatchObject({ path: '/portForward/default/p?port=80%2C443', upgrade: true });
  });

  it('takes its options from the query, too', async () => {
    const response = await server.handle('get', 'pods', { namespace: 'default', name: 'p', subresource: 'log', query: { container: 'main', previous: 'true', tailLines: '7' } });
    expect(response).toMatchObject({ path: '/containerLogs/default/p/main?previous=true&tailLines=7' });
  });

  it('wants to know which container', async () => {
    const message = async (body: object, name?: string) => (await refusal(go('log', body, name))).message;
    expect(await message({})).toBe('a container name must be specified for pod p, choose one of: [init main side]');
    expect(await message({ container: 'nobody' })).toBe('container nobody is not valid for pod p');
    await server.create('pods', pod('alone', { nodeName: 'n' }));
    expect(await go('log', {}, 'alone')).toMatchObject({ path: '/containerLogs/default/alone/main' });
    await server.create('pods', pod('waiting'));
    expect((await refusal(go('exec', {}, 'waiting'))).status).toMatchObject({ code: 400, message: 'pod waiting does not have a host assigned' });
    await server.create('pods', pod('lost', { nodeName: 'nowhere' }));
    expect(await message({}, 'lost')).toBe('nodes "nowhere" not found');
    expect(await message({ container: 'main', tailLines: -1 })).toBe('PodLogOptions "" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0');
  });
});

it('serves no subresource that is not there', async () => {
  await server.create('configmaps', configMap('a'));
  expect((await refusal(server.get('configmaps', 'a', { subresource: 'status' }))).status).toMatchObject({ code: 404, message: 'the server could not find the requested resource' });
  await server.create('pods', pod('a'));
  expect((await refusal(server.remove('pods', 'a', { subresource: 'status' }))).status).toMatchObject({ code: 405, reason: 'MethodNotAllowed' });
  expect(await server.get('pods', 'a', { subresource: 'status' })).toEqual(await server.get('pods', 'a'));
  const { served } = { served: server.pipeline.served().find(({ resource, group }) => group === '' && resource === 'pods') };
  expect(served?.subresources.map(({ name }) => name)).toEqual(['attach', 'binding', 'ephemeralcontainers', 'eviction', 'exec', 'log', 'portforward', 'resize', 'status']);
});
