import { configMaps, secrets } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { failure } from '@oarlock/api/status';
import { allow, deny, type AdmissionPlugin, type AdmissionRequest } from '@oarlock/spi/admission';
import { expect, it } from 'vitest';
import { silentLogger } from '@oarlock/primitives/logger';
import { observeAdmission, observeController, type PluginCall } from '../../src/dev/observe-plugins.ts';

const plugin: AdmissionPlugin = {
  matches: [],
  mutate: ({ object, warn }) => {
    warn('marker');
    return { ...object, data: { marker: 'marker' } } as never;
  },
  validate: ({ operation }) => {
    if (operation === 'DELETE') throw new Error('marker');
    return operation === 'UPDATE' ? deny('marker') : allow;
  },
};

async function callsFor(resource: Resource): Promise<readonly PluginCall[]> {
  const calls: PluginCall[] = [];
  const observed = observeAdmission(plugin, 'p', (_, call) => calls.push(call));
  const request = (operation: AdmissionRequest['operation']) =>
    ({
      ...{ operation, resource, subresource: '', namespace: 'default', name: 'a', object: { data: { marker: 'old marker' } } },
      ...{ old: undefined, options: {}, identity: { name: 'ada', groups: [] }, dryRun: false, warn: () => {}, annotate: () => {} },
    }) as AdmissionRequest;
  await observed.mutate?.(request('CREATE'));
  await observed.validate?.(request('UPDATE'));
  expect(() => observed.validate?.(request('DELETE'))).toThrow('marker');
  return calls;
}

it('the calls of a plugin are reported with changes, warnings and messages', async () => {
  expect(await callsFor(configMaps)).toMatchObject([
    { phase: 'mutate', changes: [{ path: ['data', 'marker'], before: 'old marker', after: 'marker' }], warnings: ['marker'] },
    { phase: 'validate', rejected: 'marker' },
    { phase: 'validate', failed: 'marker' },
  ]);
});

it('the content of Secrets is not reported', async () => {
  const calls = await callsFor(secrets);
  expect(JSON.stringify(calls)).not.toContain('marker');
  expect(calls).toMatchObject([
    { changes: [{ path: ['data'], before: '(hidden)', after: '(hidden)' }], warnings: ['(hidden)'] },
    { rejected: '(hidden)' },
    { failed: '(hidden)' },
  ]);
});

it('reports failed reconciles of a controller, except conflicts and those of a stop', async () => {
  const failures: unknown[] = [];
  const error = new Error('marker');
  const reconcileWith = (thrown: unknown, aborted = false) => {
    const controller = { name: 'c', watches: [], reconcile: () => Promise.reject(thrown) };
    const signal = aborted ? AbortSignal.abort() : new AbortController().signal;
    return observeController(controller, (key, reason) => failures.push([key, reason])).reconcile('default/a', { signal } as never);
  };
  await expect(reconcileWith(error)).rejects.toBe(error);
  await expect(reconcileWith(error, true)).rejects.toBe(error);
  await expect(reconcileWith(failure('Conflict', 'the object was changed'))).rejects.toThrow('changed');
  expect(failures).toEqual([['default/a', error]]);
});

it('gives reconciles a log of the caller', async () => {
  const logs: unknown[] = [];
  const controller = { name: 'c', watches: [], reconcile: async (_key: string, { log }: { readonly log: unknown }) => void logs.push(log) };
  const printed = { ...silentLogger };
  await observeController(
    controller,
    () => {},
    () => printed,
  ).reconcile('a', { log: silentLogger } as never);
  expect(logs).toEqual([printed]);
});
