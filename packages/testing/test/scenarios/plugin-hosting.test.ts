import { fileURLToPath } from 'node:url';
import { configMaps, namespaces } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
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
const told = (made: Promise<unknown>): Promise<string> =>
  made.then(
    () => 'admitted',
    (error: unknown) => (isStatus(error) ? `${error.status.code} ${error.status.message}` : String(error)),
  );

describe.each(['none', 'worker'] as const)('a plugin that misbehaves, isolation %s', (isolation) => {
  it('does what it does, and refuses, as any', async () => {
    await start({ use: file('misbehaving'), isolation, config: { mark: 'second' } });
    expect((await make()).metadata?.labels).toEqual({ mark: 'second' });
    expect((await make('warn')).metadata?.labels).toEqual({ mark: 'second' });
    expect(await told(make('deny'))).toMatch(/^403 configmaps "map-\d+" is forbidden: not this one$/);
  });

  it('throws, hangs or answers nonsense: the request fails with words, and no other does', async () => {
    await start({ use: file('misbehaving'), isolation, deadlineMs: 1_000 });
    const plugin = 'Internal error occurred: admission plugin "admission-misbehaving" failed';
    const [thrown, hung, written, none, ...others] = await Promise.all([
      told(make('throw')),
      told(make('hang')),
      told(make('write')),
      told(make('nothing')),
      ...Array.from({ length: 20 }, () => told(make())),
    ]);
    expect(thrown).toBe(`500 ${plugin}: I have had enough`);
    expect(hung).toBe(`500 ${plugin}: it did not answer within 1000 ms`);
    expect(written).toMatch(/failed: Cannot .*: arguments of plugins are frozen and shared, change a copy$/);
    expect(none).toBe(`500 ${plugin}: mutate returned undefined: return the object, or deny(message)`);
    expect(new Set(others)).toEqual(new Set(['admitted']));
  });

  it('is left out when the policy says so', async () => {
    await start({ use: file('misbehaving'), isolation, deadlineMs: 1_000, failurePolicy: 'Ignore' });
    expect((await make('throw')).metadata?.labels).toBeUndefined();
    expect((await make('hang')).metadata?.labels).toBeUndefined();
    expect((await make()).metadata?.labels).toEqual({ mark: 'first' });
    expect(await told(make('deny'))).toMatch(/^403 /);
  });
});

describe('a plugin in a thread of its own', () => {
  it('is ended when it loops for ever, and what waited behind it is answered', async () => {
    await start({ use: file('misbehaving'), isolation: 'worker', deadlineMs: 1_000 });
    const looping = told(make('loop'));
    const others = Array.from({ length: 5 }, () => told(make()));
    expect(await looping).toMatch(/did not answer within 1000 ms$/);
    expect(await Promise.all(others)).toEqual(Array.from(others, () => 'admitted'));
    expect((await make()).metadata?.labels).toEqual({ mark: 'first' });
  });

  it('is ended when its heap is full, and only who filled it fails', async () => {
    await start({ use: file('misbehaving'), isolation: 'worker', deadlineMs: 60_000, memoryMiB: 48 });
    const eating = told(make('eat'));
    const others = Array.from({ length: 5 }, () => told(make()));
    expect(await eating).toMatch(/its thread ran out of memory \(48 MiB\)$/);
    expect(await Promise.all(others)).toEqual(Array.from(others, () => 'admitted'));
  });

  it('has the client and informers of the process', async () => {
    await start({ use: file('client-user'), isolation: 'worker' });
    const closed = await told(make());
    expect(closed).toMatch(/the namespace is not open$/);
    await cluster.client.patch(namespaces, { name: 'default' }, 'merge', { metadata: { labels: { open: '' } } });
    await expect.poll(() => told(make())).toBe('admitted');
    expect(await told(make(undefined, { after: `map-${names}` }))).toBe('admitted');
    expect(await told(make(undefined, { after: 'nobody' }))).toMatch(/failed: configmaps "nobody" not found$/);
  });
});
