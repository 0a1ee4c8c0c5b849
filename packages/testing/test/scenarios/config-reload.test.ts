import { configMaps, namespaces, pods } from '@oarlock/api/resources';
import { clusterSchema, type ClusterDocument } from '@oarlock/cluster/cluster-file/cluster-schema';
import { frontOf } from '@oarlock/cluster/hosting/front';
import { withDedicatedInformers } from '@oarlock/cluster/identity/dedicated-informers';
import { run, type RunningCluster } from '@oarlock/cluster/run';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Plugin, PluginContext } from '@oarlock/kernel/plugin';
import { Client, Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { Authn, abstained } from '@oarlock/spi/authn';
import { Authz, noOpinion } from '@oarlock/spi/authz';
import { Scheduling, success, unschedulable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { isStatus } from '@oarlock/api/status';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { pod } from '@oarlock/testing/objects';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { z } from 'zod';

let dataDir: string;
let running: RunningCluster | undefined;
function started(): RunningCluster {
  if (running === undefined) throw new Error('no cluster was started');
  return running;
}
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'oarlock-reload-'));
});
afterEach(async () => {
  await running?.stop();
  running = undefined;
  await rm(dataDir, { recursive: true });
});

/** Starts a cluster as `oarlock dev` does: the plugins are behind replaceable wrappers. */
async function start(
  section: 'controllers' | 'scheduling' | 'authn' | 'authz',
  plugin: Plugin,
  spec: ClusterDocument['spec'] = {},
): Promise<void> {
  const document = clusterSchema.parse({
    apiVersion: 'oarlock.dev/v1',
    kind: 'Cluster',
    spec: { roles: ['apiserver', 'controllers', 'scheduler'], storage: 'storage-memory', [section]: [plugin.id], ...spec },
  });
  running = await run({
    dataDir,
    port: 0,
    file: { name: 'test', spec: document.spec, locate: () => undefined },
    knownPlugins: new Map([[plugin.id, plugin]]),
    mapPlugin: (planned) => {
      const front = frontOf(planned.plugin.provides);
      return planned.plugin === plugin
        ? { ...planned, plugin: withDedicatedInformers(plugin), ...(front && { makeSwappable: front }) }
        : planned;
    },
  });
}
async function replace(plugin: Plugin): Promise<void> {
  const { host, plan } = started().composition;
  const { adapt } = plan.plugins.find(({ name }) => name === plugin.id) ?? {};
  const own = withDedicatedInformers(plugin);
  const { retired } = await host.replace(plugin.provides, { name: plugin.id, plugin: adapt?.(own) ?? own, config: {} });
  retired.catch(() => {}); // ends with the cluster
}
const client = () => started().composition.host.get(Client);
const none = z.strictObject({});

it('a new version of a controller receives all objects again, with its own indexes', async () => {
  const copier = (name: string) =>
    Controllers.plugin({
      id: 'controller-copier',
      declares: { rules: 'create | core | configmaps' },
      config: none,
      needs: { informers: Informers },
      create({ informers }) {
        const all = informers.forResource(namespaces);
        all.addIndexer('copier', () => [name]);
        return {
          name: 'copier',
          watches: [watch(all, ({ metadata }) => [metadata?.name ?? ''])],
          async reconcile(namespace, context) {
            if (all.byIndex('copier', name).length === 0) throw new Error('its index does not exist');
            try {
              await context.client.create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name } });
            } catch (error) {
              if (!isStatus(error, 'AlreadyExists')) throw error;
            }
          },
        };
      },
    });
  await start('controllers', copier('first'));
  const there = async (namespace: string, name: string) =>
    client()
      .get(configMaps, { namespace, name })
      .then(
        () => true,
        () => false,
      );
  await expect.poll(() => there('default', 'first')).toBe(true);
  await replace(copier('second'));
  await expect.poll(() => there('default', 'second')).toBe(true);
  await client().create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'later' } });
  await expect.poll(() => there('later', 'second')).toBe(true);
  expect(await there('later', 'first')).toBe(false);
});

it('a new version of a scheduling plugin decides for the next pods and for pods that the old version rejected', async () => {
  const picky = (wanted: string) =>
    Scheduling.plugin({
      id: 'scheduling-picky',
      config: none,
      create: () => ({ name: 'Picky', filter: (_state, _pod, { name }) => (name === wanted ? success : unschedulable(`not ${wanted}`)) }),
    });
  await start('scheduling', picky('node-1'), {
    roles: ['apiserver', 'controllers', 'scheduler', 'kubelet'],
    runtimes: ['runtime-simulated'],
    admission: [], // no wait for the namespace's service account
    settings: { kubelet: { nodeName: 'node', count: 3, port: 0 } },
  });
  const get = (name: string) => client().get(pods, { namespace: 'default', name });
  const nodeOf = async (name: string) => {
    await expect.poll(async () => (await get(name)).spec?.nodeName).toBeDefined();
    return (await get(name)).spec?.nodeName;
  };
  const scheduledNode = async (name: string) => {
    await client().create(pods, pod({ name }));
    return nodeOf(name);
  };
  expect(await scheduledNode('first')).toBe('node-1');
  await client().create(pods, pod({ name: 'waiting', spec: { nodeSelector: { 'kubernetes.io/hostname': 'node-2' } } }));
  await expect.poll(async () => (await get('waiting')).status?.conditions?.[0]?.message).toContain('not node-1');
  await replace(picky('node-2'));
  expect(await nodeOf('waiting')).toBe('node-2');
  expect(await scheduledNode('second')).toBe('node-2');
  // its extension points may differ from those of the old version
  await replace(
    Scheduling.plugin({
      id: 'scheduling-picky',
      config: none,
      create: () => ({ name: 'Picky', weight: 100, score: (_state, _pod, { name }) => (name === 'node-0' ? 100 : 0) }),
    }),
  );
  expect(await scheduledNode('third')).toBe('node-0');
});

it("a new version of a scheduling plugin receives the scheduler handle, its profile's arguments and the pod groups", () => {
  const attached: string[] = [];
  const handle = {
    activate: () => {},
    waitingPod: () => undefined,
    podInPreBind: () => undefined,
    requeueRejectedBy: (name: string) => void attached.push(`${name} again`),
  };
  const version = (mark: string, size = 1): SchedulingPlugin => ({
    name: 'Teams',
    withArgs: (args) => version(mark, (args as { readonly size: number }).size),
    setHandle: () => void attached.push(`${mark} ${size}`),
    podGroup: () => ({ key: mark, size }) as never,
  });
  const front = frontOf(Scheduling)?.(version('first'), { clock: new FakeClock() } as unknown as PluginContext);
  const plugin = front?.instance as SchedulingPlugin;
  const big = plugin.withArgs?.({ size: 3 });
  for (const each of [plugin, big]) each?.setHandle?.(handle);
  expect([plugin.podGroup?.(pod()), big?.podGroup?.(pod())]).toEqual([
    { key: 'first', size: 1 },
    { key: 'first', size: 3 },
  ]);
  void front?.swap(version('second'));
  expect([plugin.podGroup?.(pod()), big?.podGroup?.(pod())]).toEqual([
    { key: 'second', size: 1 },
    { key: 'second', size: 3 },
  ]);
  expect(attached).toEqual(['first 1', 'first 3', 'second 1', 'Teams again', 'second 3', 'Teams again']);
});

it('new versions of an authorizer and an authenticator decide the next request', async () => {
  const lets = (user: string) =>
    Authz.plugin({
      id: 'authz-lets',
      config: none,
      create: () => ({ authorize: ({ identity }) => (identity.name === user ? { decision: 'allow', reason: 'it says so' } : noOpinion) }),
    });
  const unknownUser = Authn.plugin({ id: 'authn-nobody', config: none, create: () => ({ authenticate: () => abstained }) });
  expect(frontOf(unknownUser.provides)).toBeDefined();
  await start('authz', lets('ada'), { roles: ['apiserver'], authz: ['authz-masters', 'authz-lets'] });
  const may = (user: string) =>
    started()
      .clientAs({ name: user, groups: ['system:authenticated'] })
      .list(namespaces)
      .then(
        () => true,
        () => false,
      );
  expect([await may('ada'), await may('bob')]).toEqual([true, false]);
  await replace(lets('bob'));
  expect([await may('ada'), await may('bob')]).toEqual([false, true]);
});
