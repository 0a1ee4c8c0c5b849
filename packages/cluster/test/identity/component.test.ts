import { defaultObjects } from '@oarlock/authz-rbac/default-objects';
import { builtin } from '@oarlock/controllers/builtin';
import type { Lifecycle, Plugin, PluginContext } from '@oarlock/kernel/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { noTracer, startSpan } from '@oarlock/kernel/tracing';
import { Client, Events } from '@oarlock/spi/client';
import { Controllers, type Controller } from '@oarlock/spi/controller';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Plan, PlannedPlugin } from '../../src/composition/plan.ts';
import { serviceAccountOf } from '../../src/cluster-file/controller-accounts.ts';
import { parseClusterFile } from '../../src/cluster-file/cluster-file.ts';
import { createPlan } from '../../src/composition/create-plan.ts';
import { apiServer, withComponentIdentities, type Component, type ComponentAccess } from '../../src/identity/component.ts';

const file = (spec: object) =>
  parseClusterFile(
    JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', spec: { storage: 'storage-memory', ...spec } }),
    'cluster.yaml',
  );

/** A plan whose plugins report the component of the client that they were created with. */
async function askers(spec: object): Promise<ReadonlyMap<string, Component>> {
  const planned = await createPlan(file(spec), { nodeName: 'n1' });
  const seen = new Map<string, Component>();
  const asked: Promise<void>[] = [];
  const bare: Plan = {
    ...planned,
    plugins: planned.plugins.map(
      (each): PlannedPlugin => ({
        ...each,
        plugin: {
          ...each.plugin,
          needs: { client: Client, events: Events },
          create({ client }: { client?: ComponentAccess['client'] }): Lifecycle {
            const askAs = client as Partial<ComponentAccess['client']> | undefined;
            if (askAs?.raw !== undefined) asked.push(askAs.raw('GET', '/').then((part) => void seen.set(each.name, part as Component)));
            return {};
          },
        } as unknown as Plugin,
      }),
    ),
  };
  const composition = withComponentIdentities(bare, (part) => {
    const client = { raw: async () => part } as unknown as ComponentAccess['client'];
    return { client, events: {} as ComponentAccess['events'] };
  });
  for (const { plugin } of composition.plugins) plugin.create({}, {} as PluginContext);
  await Promise.all(asked);
  return seen;
}

describe('withComponentIdentities', () => {
  it('gives each component the user that it has in Kubernetes, outside system:masters', async () => {
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
    // plugins of the API server keep the client of the composition
    for (const name of ['authz-node', 'authz-rbac', 'admission-service-account', 'apiserver', 'storage-memory'])
      expect(asked.has(name), name).toBe(false);
    expect(apiServer.identity).toEqual({ name: 'system:apiserver', groups: ['system:masters', 'system:authenticated'] });
  });

  it('gives a kubelet of simulated nodes a user of its own', async () => {
    for (const count of [1, 3]) {
      const asked = await askers({ runtimes: ['runtime-simulated'], settings: { kubelet: { count } } });
      expect(asked.get('kubelet')?.identity).toEqual({ name: 'system:oarlock:simulated-nodes', groups: ['system:authenticated'] });
    }
  });

  it('gives a configured built-in controller its own service account, and a controller of another package one of its name', async () => {
    const configured = [{ use: 'controller-node-lifecycle', config: { gracePeriodSeconds: 10 } }, { use: 'controller-metrics-server' }];
    const asked = await askers({ controllers: configured, runtimes: ['runtime-simulated'] });
    const groups = ['system:serviceaccounts', 'system:serviceaccounts:kube-system', 'system:authenticated'];
    expect(asked.get('controller-node-lifecycle')?.identity).toEqual({ name: 'system:serviceaccount:kube-system:node-controller', groups });
    expect(asked.get('controller-metrics-server')?.identity).toEqual({
      name: 'system:serviceaccount:kube-system:controller-metrics-server',
      groups,
    });
  });

  it('adds all components to system:masters if no authorizer has the bootstrap policy', async () => {
    const asked = await askers({ authz: ['authz-masters', 'authz-node'], runtimes: ['runtime-simulated'] });
    expect(asked.get('scheduler')?.identity).toEqual({ name: 'system:kube-scheduler', groups: ['system:masters', 'system:authenticated'] });
  });
});

it('every built-in controller has a service account, and every account a role', () => {
  const bound = new Set(
    [...defaultObjects().clusterRoleBindings, ...defaultObjects().roleBindings].flatMap(({ subjects = [] }) =>
      subjects.filter(({ kind, namespace }) => kind === 'ServiceAccount' && namespace === 'kube-system').map(({ name }) => name),
    ),
  );
  const without = builtin.filter(({ id }) => serviceAccountOf(id) === undefined).map(({ id }) => id);
  // upstream runs the second one outside kube-controller-manager
  expect(new Set(without)).toEqual(new Set(['controller-service-account-token', 'controller-volume-data-source']));
  for (const { id } of builtin) expect(bound.has(serviceAccountOf(id) ?? 'kube-controller-manager'), id).toBe(true);
});

it('a controller reconciles with its own client, in the span of the reconciliation', async () => {
  const clients: unknown[] = [];
  const started: string[] = [];
  const plugin = Controllers.plugin({
    id: 'controller-job',
    config: z.strictObject({}),
    create: () => ({
      name: 'job',
      watches: [],
      concurrentReconciles: 3,
      start: async () => void started.push('start'),
      stop: async () => void started.push('stop'),
      reconcile: async (_, { client }) => void clients.push(client),
    }),
  });
  const planned = { ...(await createPlan(file({}), {})), plugins: [{ plugin, name: 'job', config: {}, path: '', segments: [] }] };
  const own = { withSpanContext: (cause: unknown) => ({ own: true, cause }) } as unknown as ComponentAccess['client'];
  const [entry] = withComponentIdentities(planned, () => ({ client: own, events: {} as ComponentAccess['events'] })).plugins;
  const host = new PluginHost().add({ plugin: entry?.plugin as Plugin });
  const [controller] = host.get(Controllers) as readonly [Controller];
  await host.start();
  const span = startSpan(noTracer, 'reconcile', { spanContext: undefined });
  await controller.reconcile('a/b', { client: {} as never, log: {} as never, signal: new AbortController().signal, span, failures: 0 });
  await host.stop();
  expect(clients).toMatchObject([{ own: true }]);
  expect([controller.name, controller.concurrentReconciles, started]).toEqual(['job', 3, ['start', 'stop']]);
});
