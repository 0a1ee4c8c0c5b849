import { generateKeyPairSync } from 'node:crypto';
import { configMaps, pods } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { loopbackHandler } from '@oarlock/apiserver/pipeline/loopback-handler';
import { Pipeline } from '@oarlock/apiserver/pipeline/pipeline';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import type { ApiRequest, ApiResponse } from '@oarlock/spi/loopback';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import type { Operation } from './cost.ts';
import { configMap, pod, runningStatus } from './objects.ts';

const objects = 200;
const watchers = 100;
const identity = { name: 'bench', groups: ['system:masters'] };
const unavailable = () => Promise.reject(new Error('the bench has no certificates'));

function newPipeline(): Pipeline {
  const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return new Pipeline({
    storage: new MemoryStorage(),
    authz: [{ authorize: () => ({ decision: 'allow', reason: 'bench' }) }],
    admission: [],
    clock: systemClock,
    log: silentLogger,
    clusterFacts: {
      name: 'bench',
      domain: 'cluster.local',
      podCIDRs: ['10.244.0.0/16'],
      serviceCIDRs: ['10.96.0.0/16'],
      kubernetesServiceIP: '10.96.0.1',
      dnsServiceIP: '10.96.0.10',
      serverUrl: 'https://192.0.2.1:6443',
      nodePortRange: { from: 30000, to: 32767 },
      version: 'v1.36.0',
    },
    clusterKeys: {
      caBundle: '',
      issue: unavailable,
      sign: unavailable,
      serviceAccount: {
        issuer: 'bench',
        signingKey: keys.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
        verifyingKeys: [],
      },
    },
  });
}

type Send = (verb: ApiRequest['verb'], resource: ApiRequest['resource'], more: Partial<ApiRequest>) => Promise<ApiResponse>;

/** Starts `watchers` watches of a resource whose events are read and dropped. */
async function startWatches(send: Send, signal: AbortSignal): Promise<void> {
  for (let i = 0; i < watchers; i++) {
    const response = await send('watch', configMaps, { namespace: 'watched', query: {}, signal });
    if (response.kind !== 'watch') throw new Error('not a watch');
    const { events } = response;
    void (async () => {
      for await (const batch of events) if (batch.length === 0) return;
    })();
  }
}

function reads(send: Send): readonly Operation[] {
  return [
    { name: 'get a ConfigMap', calls: 500, run: (call) => send('get', configMaps, { name: `c-${call % objects}` }) },
    { name: 'get a Pod', calls: 500, run: (call) => send('get', pods, { name: `p-${call % objects}` }) },
    { name: `list ${objects} Pods`, calls: 50, run: () => send('list', pods, {}) },
  ];
}

function writes(send: Send): readonly Operation[] {
  const name = (call: number) => `c-${call % objects}`;
  const patch = (patchType: NonNullable<ApiRequest['patchType']>, call: number, body: unknown, query: ApiRequest['query'] = {}) =>
    send('patch', configMaps, { name: name(call), patchType, body, query });
  return [
    { name: 'create a ConfigMap', calls: 100, run: (call) => send('create', configMaps, { body: configMap(`new-${call}`) }) },
    { name: 'create a Pod', calls: 100, run: (call) => send('create', pods, { body: pod(`new-${call}`) }) },
    {
      name: 'update a ConfigMap',
      calls: 100,
      run: (call) => send('update', configMaps, { name: name(call), body: configMap(name(call), `u${call}`) }),
    },
    { name: 'merge patch of a ConfigMap', calls: 100, run: (call) => patch('merge', call, { data: { merge: `m${call}` } }) },
    {
      name: 'JSON patch of a ConfigMap',
      calls: 100,
      run: (call) => patch('json', call, [{ op: 'add', path: '/data/json', value: `j${call}` }]),
    },
    {
      name: 'apply a ConfigMap',
      calls: 100,
      run: (call) =>
        patch(
          'apply',
          call,
          { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: 'default', name: name(call) }, data: { apply: `a${call}` } },
          { fieldManager: 'bench', force: 'true' },
        ),
    },
    {
      name: 'strategic patch of a Pod status',
      calls: 100,
      run: (call) =>
        send('patch', pods, {
          subresource: 'status',
          name: `p-${call % objects}`,
          patchType: 'strategic',
          body: { status: runningStatus(call % (2 * objects) < objects) },
        }),
    },
    {
      name: 'update of a Pod status',
      calls: 100,
      run: async (call) => {
        const response = await send('get', pods, { name: `q-${call % objects}` });
        if (response.kind !== 'object') throw new Error('not an object');
        const current = response.object as Pod;
        return send('update', pods, {
          subresource: 'status',
          name: `q-${call % objects}`,
          body: { ...current, status: { ...current.status, ...runningStatus(call % (2 * objects) < objects) } },
        });
      },
    },
    {
      name: `create a ConfigMap for ${watchers} watches`,
      calls: 50,
      run: (call) =>
        send('create', configMaps, { namespace: 'watched', body: { ...configMap(`w-${call}`), metadata: { name: `w-${call}` } } }),
    },
  ];
}

/** Returns operations of the request pipeline over in-memory storage, and a function that stops it. */
export async function apiOperations(): Promise<{ readonly operations: readonly Operation[]; stop(): Promise<void> }> {
  const pipeline = newPipeline();
  await pipeline.start();
  const handler = loopbackHandler(pipeline, () => Promise.reject(new Error('no paths')));
  const send: Send = (verb, resource, more) =>
    handler.handle({ verb, resource, subresource: '', namespace: 'default', name: '', query: {}, identity, ...more });
  for (let i = 0; i < objects; i++) {
    await send('create', configMaps, { body: configMap(`c-${i}`) });
    await send('create', pods, { body: pod(`p-${i}`) });
    await send('create', pods, { body: pod(`q-${i}`) });
  }
  const watching = new AbortController();
  await startWatches(send, watching.signal);
  return {
    operations: [...reads(send), ...writes(send)],
    async stop() {
      watching.abort();
      await pipeline.stop();
    },
  };
}
