import { configMaps, pods } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { ApiRequest } from '@oarlock/spi/loopback';
import type { Operation } from './cost.ts';
import { configMap, pod, runningStatus } from './objects.ts';
import { startPipeline, type Send } from './pipeline.ts';

const objects = 200;
const watchers = 100;
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
  const { send, stop } = await startPipeline();
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
      await stop();
    },
  };
}
