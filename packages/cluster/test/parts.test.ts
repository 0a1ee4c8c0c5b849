import { defaultObjects } from '@oarlock/authz-rbac/default-objects';
import { builtin } from '@oarlock/controllers/builtin';
import type { Lifecycle, Plugin, PluginContext } from '@oarlock/kernel/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { noTracer, startSpan } from '@oarlock/kernel/tracing';
import { Client, Events } from '@oarlock/spi/client';
import { Controllers, type Controller } from '@oarlock/spi/controller';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Plan, Planned } from '../src/plan.ts';
import { accountOf } from '../src/controller-accounts.ts';
import { parseClusterFile } from '../src/cluster-file.ts';
import { plan } from '../src/plan.ts';
import { apiServer, asParts, type Part, type PartAccess } from '../src/parts.ts';

const file = (spec: object) =>
  parseClusterFile(
    JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', spec: { storage: 'storage-memory', ...spec } }),
    'cluster.yaml',
  );

/** A plan in which each plugin, when it is created, only says with whose client. */
async function askers(spec: object): Promise<ReadonlyMap<string, Part>> {
  const planned = await plan(file(spec), { nodeName: 'n1' });
  const seen = new Map<string, Part>();
  const parts = new Map<PartAccess['client'], Part>();
  const bare: Plan = {
    ...planned,
    plugins: planned.plugins.map(
      (each): Planned => ({
        ...each,
        plugin: {
          ...each.plugin,
          needs: { client: Client, events: Events },
          create({ client }: { client?: PartAccess['client'] }): Lifecycle {
            const part = client && parts.get(client);
            if (part !== undefined) seen.set(each.name, part);
            return {};
          },
        } as unknown as Plugin,
      }),
    ),
  };
  const given = asParts(bare, (part) => {
    const client = { part: part.identity.name } as unknown as PartAccess['client'];
    parts.set(client, part);
    return { client, events: {} as PartAccess['events'] };
  });
  for (const { plugin } of given.plugins) plugin.create({}, {} as PluginContext);
  return seen;
}

describe('who the parts of one process are', () => {
  it('everybody is who they are in Kubernetes, and nobody a master', async () => {
    const asked = await askers({ runtimes: ['runtime-simulated'], proxy: 'proxy-userspace', dns: 'dns-server' });
    const names = new Map(
      [...asked].map(([name, { identity, userAgent }]) => [name, `${identity.name} as ${userAgent.split('/')[0] ?? ''}`]),
    );
    expect(names.get('scheduler')).toBe('system:kube-scheduler as kube-scheduler');
    expect(names.get('controllers')).toBe('system:kube-controller-manager as kube-controller-manager');
    expect(names.get('controller-deployment')).toBe('system:serviceaccount:kube-system:deployment-controller as kube-controller-manager');
    expect(names.get('controller-service-account-token')).toBe('system:kube-controller-manager as kube-controller-manager');
    expect(names.get('kubelet')).toBe('system:node:n1 as kubelet');
    expect(names.get('runtime-simulated')).toBe('system:node:n1 as kubelet');
    expect(names.get('proxy-userspace')).toBe('system:kube-proxy as kube-proxy');
    expect(names.get('proxy')).toBe('system:oarlock:dns as oarlock-dns');
    expect(names.get('dns-server')).toBe('system:oarlock:dns as oarlock-dns');
    expect(asked.get('kubelet')?.identity.groups).toEqual(['system:nodes', 'system:authenticated']);
    for (const [name, { identity }] of asked) expect(identity.groups, name).not.toContain('system:masters');
    // what belongs to the API server keeps the client of the composition
    for (const name of ['authz-node', 'authz-rbac', 'admission-service-account', 'apiserver', 'storage-memory'])
      expect(asked.has(name), name).toBe(false);
    expect(apiServer.identity).toEqual({ name: 'system:apiserver', groups: ['system:masters', 'system:authenticated'] });
  });

  it('a kubelet that stands for many nodes is none of them', async () => {
    for (const count of [1, 3]) {
      const asked = await askers({ runtimes: ['runtime-simulated'], settings: { kubelet: { count } } });
      expect(asked.get('kubelet')?.identity).toEqual({ name: 'system:oarlock:simulated-nodes', groups: ['system:authenticated'] });
    }
  });

  it('without RBAC all are masters, under their names', async () => {
    const asked = await askers({ authz: ['authz-masters', 'authz-node'], runtimes: ['runtime-simulated'] });
    expect(asked.get('scheduler')?.identity).toEqual({ name: 'system:kube-scheduler', groups: ['system:masters', 'system:authenticated'] });
  });
});

it('every loop of ours has an account, and every account a role', () => {
  const bound = new Set(
    [...defaultObjects().clusterRoleBindings, ...defaultObjects().roleBindings].flatMap(({ subjects = [] }) =>
      subjects.filter(({ kind, namespace }) => kind === 'ServiceAccount' && namespace === 'kube-system').map(({ name }) => name),
    ),
  );
  const without = builtin.filter(({ id }) => accountOf(id) === undefined).map(({ id }) => id);
  // upstream runs the second one outside of its manager
  expect(new Set(without)).toEqual(new Set(['controller-service-account-token', 'controller-volume-data-source']));
  for (const { id } of builtin) expect(bound.has(accountOf(id) ?? 'kube-controller-manager'), id).toBe(true);
});

it('a controller reconciles with its own client, caused by the reconcile', async () => {
  const clients: unknown[] = [];
  const started: string[] = [];
  const plugin = Controllers.plugin({
    id: 'controller-job',
    config: z.strictObject({}),
    create: () => ({
      name: 'job',
      watches: [],
      workers: 3,
      start: async () => void started.push('start'),
      stop: async () => void started.push('stop'),
      reconcile: async (_, { client }) => void clients.push(client),
    }),
  });
  const planned = { ...(await plan(file({}), {})), plugins: [{ plugin, name: 'job', config: {}, path: '', segments: [] }] };
  const own = { causedBy: (cause: unknown) => ({ own: true, cause }) } as unknown as PartAccess['client'];
  const [given] = asParts(planned, () => ({ client: own, events: {} as PartAccess['events'] })).plugins;
  const host = new PluginHost().place({ plugin: given?.plugin as Plugin });
  const [controller] = host.get(Controllers) as readonly [Controller];
  await host.start();
  const span = startSpan(noTracer, 'reconcile', { cause: undefined });
  await controller.reconcile('a/b', { client: {} as never, log: {} as never, signal: new AbortController().signal, span, failures: 0 });
  await host.stop();
  expect(clients).toMatchObject([{ own: true }]);
  expect([controller.name, controller.workers, started]).toEqual(['job', 3, ['start', 'stop']]);
});
