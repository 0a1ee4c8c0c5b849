import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { configMaps, events, namespaces, services } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { pluginHealthUrl, type PluginHealthList } from '@oarlock/cluster/paths/plugin-health-path';
import { startCluster, type StartClusterOptions, type TestCluster } from '@oarlock/testing/start-cluster';
import { afterEach, describe, expect, it } from 'vitest';

const file = (name: string) => fileURLToPath(new URL(`../support/plugins/${name}.ts`, import.meta.url));
type Placed = NonNullable<NonNullable<StartClusterOptions['spec']>['admission']>[number];

let cluster: TestCluster;
afterEach(() => cluster?.stop());
async function start(...admission: Placed[]): Promise<void> {
  cluster = await startCluster({ roles: ['apiserver'], spec: { admission } });
}
let names = 0;
const make = (what?: string, more: Readonly<Record<string, string>> = {}) =>
  cluster.client.create(configMaps, {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace: 'default', name: `map-${++names}`, annotations: { ...(what !== undefined && { do: what }), ...more } },
  });
const outcomeOf = (request: Promise<unknown>): Promise<string> =>
  request.then(
    () => 'admitted',
    (error: unknown) => (isStatus(error) ? `${error.status.code} ${error.status.message}` : String(error)),
  );

describe.each(['host', 'thread', 'process'] as const)('misbehaving plugin with placement %s', (placement) => {
  it('admits and rejects requests as usual', async () => {
    await start({ use: file('misbehaving'), placement, config: { mark: 'second' } });
    expect((await make()).metadata?.labels).toEqual({ mark: 'second' });
    expect((await make('warn')).metadata?.labels).toEqual({ mark: 'second' });
    expect(await outcomeOf(make('deny'))).toMatch(/^403 configmaps "map-\d+" is forbidden: not this one$/);
  });

  it('fails only its own request, with a message, if it throws, hangs or returns nonsense', async () => {
    await start({ use: file('misbehaving'), placement, deadlineMs: 1_000 });
    const plugin = 'Internal error occurred: admission plugin "admission-misbehaving" failed';
    const [thrown, hung, mutated, none, ...others] = await Promise.all([
      outcomeOf(make('throw')),
      outcomeOf(make('hang')),
      outcomeOf(make('write')),
      outcomeOf(make('nothing')),
      ...Array.from({ length: 20 }, () => outcomeOf(make())),
    ]);
    expect(thrown).toBe(`500 ${plugin}: I have had enough`);
    expect(hung).toBe(`500 ${plugin}: it did not answer within 1000 ms`);
    expect(mutated).toMatch(/failed: Cannot .*: arguments of plugins are frozen and shared, change a copy$/);
    expect(none).toBe(`500 ${plugin}: mutate returned undefined: return the object, or deny(message)`);
    expect(new Set(others)).toEqual(new Set(['admitted']));
  });

  it('is skipped with failurePolicy Ignore', async () => {
    await start({ use: file('misbehaving'), placement, deadlineMs: 1_000, failurePolicy: 'Ignore' });
    expect((await make('throw')).metadata?.labels).toBeUndefined();
    expect((await make('hang')).metadata?.labels).toBeUndefined();
    expect((await make()).metadata?.labels).toEqual({ mark: 'first' });
    expect(await outcomeOf(make('deny'))).toMatch(/^403 /);
  });
});

describe('plugin in its own thread', () => {
  it('is terminated in an endless loop, and the requests behind it are answered', async () => {
    await start({ use: file('misbehaving'), placement: 'thread', deadlineMs: 1_000 });
    const looping = [outcomeOf(make('loop')), outcomeOf(make('loop'))];
    const others = Array.from({ length: 5 }, () => outcomeOf(make()));
    for (const outcome of await Promise.all(looping)) expect(outcome).toMatch(/did not answer within 1000 ms$/);
    expect(await Promise.all(others)).toEqual(Array.from(others, () => 'admitted'));
    expect((await make()).metadata?.labels).toEqual({ mark: 'first' });
  });

  it('is terminated when its heap is full, and only the request that filled it fails', async () => {
    await start({ use: file('misbehaving'), placement: 'thread', deadlineMs: 60_000, memoryMiB: 48 });
    const eating = outcomeOf(make('eat'));
    const others = Array.from({ length: 5 }, () => outcomeOf(make()));
    expect(await eating).toMatch(/its thread ran out of memory \(48 MiB\)$/);
    expect(await Promise.all(others)).toEqual(Array.from(others, () => 'admitted'));
  });

  it('has the client and informers of the process', async () => {
    await start({ use: file('client-user'), placement: 'thread' });
    const closed = await outcomeOf(make());
    expect(closed).toMatch(/the namespace is not open$/);
    await cluster.client.patch(namespaces, { name: 'default' }, 'merge', { metadata: { labels: { open: '' } } });
    await expect.poll(() => outcomeOf(make())).toBe('admitted');
    expect(await outcomeOf(make(undefined, { after: `map-${names}` }))).toBe('admitted');
    expect(await outcomeOf(make(undefined, { after: 'nobody' }))).toMatch(/failed: configmaps "nobody" not found$/);
  });
});

describe('controller in its own thread that does not declare what its informers read', () => {
  const remedy = "declares: { rules: 'patch | core | configmaps; list,watch | core | configmaps' }";

  it('is reported in its health and in an Event, with the declaration to write', async () => {
    cluster = await startCluster({
      roles: ['apiserver', 'controllers'],
      spec: { controllers: [{ use: file('undeclared-controller'), placement: 'thread' }] },
    });
    const health = async () => ((await cluster.client.raw('GET', pluginHealthUrl)) as PluginHealthList).plugins[0];
    await expect.poll(health, { timeout: 20_000 }).toMatchObject({ healthy: false, reason: expect.stringContaining(remedy) as string });
    await expect
      .poll(async () => (await cluster.client.list(events, { namespace: 'kube-system' })).items.map(({ message }) => message))
      .toContainEqual(expect.stringContaining(remedy));
  });
});

describe.each(['thread', 'process'] as const)('cloud provider in its own %s', (placement) => {
  const faulty = fileURLToPath(new URL('../support/faulty-plugins/cloud.ts', import.meta.url));
  const serve = (name: string) =>
    cluster.client.create(services, {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { namespace: 'default', name },
      spec: { type: 'LoadBalancer', ports: [{ port: 80 }] },
    });
  const ingressOf = async (name: string) =>
    (await cluster.client.get(services, { namespace: 'default', name })).status?.loadBalancer?.ingress;

  it('is replaced when it loops, and then serves the Service', async () => {
    const switches = await mkdtemp(join(tmpdir(), 'oarlock-switches-'));
    try {
      cluster = await startCluster({
        roles: ['apiserver', 'controllers'],
        spec: { cloud: { use: faulty, placement, deadlineMs: 1_000, config: { switches, name: 'cloud' } } },
      });
      await serve('before');
      await expect.poll(() => ingressOf('before')).toMatchObject([{ ip: '192.0.2.1' }]);
      await writeFile(join(switches, 'cloud'), 'loop');
      await serve('after');
      const health = async () => ((await cluster.client.raw('GET', pluginHealthUrl)) as PluginHealthList).plugins[0];
      await expect.poll(health, { timeout: 20_000 }).toMatchObject({ healthy: false, faults: { ended: expect.any(Number) as number } });
      await rm(join(switches, 'cloud'));
      await expect.poll(() => ingressOf('after'), { timeout: 30_000 }).toMatchObject([{ ip: '192.0.2.1' }]);
    } finally {
      await rm(switches, { recursive: true });
    }
  });

  it('is rejected if it does not declare the parts of its provider', async () => {
    const rejected = startCluster({ roles: ['apiserver', 'controllers'], spec: { cloud: { use: file('undeclared-cloud'), placement } } });
    await expect(rejected).rejects.toThrow(/cannot run in a \w+ of its own: it does not declare the parts of its provider/);
  });
});
