import { configMaps, jobs, leases, secrets } from '@oarlock/api/resources';
import { splitKey } from '@oarlock/api/object';
import { failure } from '@oarlock/api/status';
import plugin from '@oarlock/controllers/plugin';
import { WiringError } from '@oarlock/kernel/errors';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Client, Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { Roles } from '@oarlock/spi/role';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';

const copier = (name: string) =>
  Controllers.plugin({
    id: `controller-${name}`,
    config: z.strictObject({}),
    needs: { informers: Informers },
    create({ informers }) {
      const maps = informers.forResource(configMaps);
      return {
        name,
        watches: [watch(maps, (map) => [`${map.metadata?.namespace}/${map.metadata?.name}`])],
        async reconcile(key, { client }) {
          const { namespace = '', name: mapName } = splitKey(key);
          await client.create(secrets, { metadata: { namespace, name: `${name}-${mapName}` } });
        },
      };
    },
  });

describe('controllers role', () => {
  let clock: FakeClock;
  let api: ReturnType<typeof memoryApi>;
  beforeEach(() => {
    clock = new FakeClock();
    api = memoryApi({ clock });
  });

  const host = (config: unknown) =>
    new PluginHost({ clock })
      .provide(Client, api.client())
      .provide(Informers, api.informers)
      .add({ plugin: copier('one') })
      .add({ plugin: copier('two') })
      .add({ plugin, config });
  const role = (of: PluginHost) => of.get(Roles)[0]!;
  const createdNames = () =>
    api
      .objects(secrets)
      .map(({ metadata }) => metadata?.name)
      .sort();

  it('runs every enabled controller until it is stopped', async () => {
    const running = host({ disable: ['two'], workers: { one: 1 } });
    await running.start();
    await role(running).waitUntilReady?.(new AbortController().signal);
    expect(role(running).checkHealth()).toEqual({ healthy: true });
    api.seed(configMaps, { metadata: { namespace: 'd', name: 'a' } });
    await clock.settle();
    expect(createdNames()).toEqual(['one-a']);
    expect(api.objects(leases)).toEqual([]);
    await running.stop();
    api.seed(configMaps, { metadata: { namespace: 'd', name: 'b' } });
    await clock.settle();
    expect(createdNames()).toEqual(['one-a']);
  });

  it('runs a controller that is disabled by default only if it is enabled', async () => {
    const optional = Controllers.plugin({
      id: 'controller-three',
      config: z.strictObject({}),
      needs: { informers: Informers },
      create: ({ informers }) => ({
        name: 'three',
        isDisabledByDefault: true,
        watches: [watch(informers.forResource(configMaps), () => ['key'])],
        reconcile: async (_key, { client }) => {
          await client.create(secrets, { metadata: { namespace: 'd', name: 'three' } });
        },
      }),
    });
    const createdWith = async (config: unknown) => {
      const running = host(config).add({ plugin: optional });
      await running.start();
      await role(running).waitUntilReady?.(new AbortController().signal);
      await clock.settle();
      await running.stop();
      return createdNames();
    };
    api.seed(configMaps, { metadata: { namespace: 'd', name: 'a' } });
    expect(await createdWith({ disable: ['one', 'two'] })).toEqual([]);
    expect(await createdWith({ disable: ['one', 'two', 'three'], enable: ['three'] })).toEqual([]);
    expect(await createdWith({ disable: ['one', 'two'], enable: ['three'] })).toEqual(['three']);
  });

  it('rejects unknown controller names and unknown keys', async () => {
    await expect(host({ disable: ['three'] }).start()).rejects.toThrow('unknown controller three; known controllers: one, two');
    await expect(host({ workers: { four: 2 } }).start()).rejects.toThrow('unknown controller four');
    await expect(host({ leader: true }).start()).rejects.toThrow(WiringError);
    await expect(
      host({})
        .add({ plugin: copier('one'), name: 'again' })
        .start(),
    ).rejects.toThrow('two controllers have the name one');
  });

  it('delays a controller until its kinds are served and runs the others', async () => {
    const jobsVersion = '/apis/batch/v1';
    api.paths.set(jobsVersion, { resources: [] });
    const newController = (name: string, partial?: boolean) =>
      Controllers.plugin({
        id: `controller-${name}`,
        config: z.strictObject({}),
        needs: { informers: Informers },
        create: ({ informers }) => ({
          name,
          ...(partial !== undefined && { toleratesMissingKinds: partial }),
          watches: [watch(informers.forResource(configMaps), () => ['key']), watch(informers.forResource(jobs), () => [])],
          reconcile: async (_key, { client }) => {
            await client.create(secrets, { metadata: { namespace: 'd', name } });
          },
        }),
      });
    const missing = failure('NotFound', 'the server could not find the requested resource');
    api.failNext({ resource: jobs }, missing, 1);
    const running = new PluginHost({ clock })
      .provide(Client, api.client())
      .provide(Informers, api.informers)
      .add({ plugin: copier('one') })
      .add({ plugin: newController('later') })
      .add({ plugin: newController('partly', true) })
      .add({ plugin, config: {} });
    await running.start();
    await role(running).waitUntilReady?.(new AbortController().signal);
    api.seed(configMaps, { metadata: { namespace: 'd', name: 'a' } });
    await clock.settle();
    expect(createdNames()).toEqual(['one-a', 'partly']);
    const asked = () => api.requests.filter(({ resource }) => resource === jobs).length;
    const before = asked();
    await clock.advance(600_000);
    expect(createdNames()).toEqual(['one-a', 'partly']);
    expect(asked()).toBe(before); // discovery is requested, not the kind itself

    api.paths.delete(jobsVersion);
    await clock.runUntil(() => createdNames().includes('later'), { within: 60_000 });
    await running.stop();
  });

  it('elects one of two processes, and the other takes over', async () => {
    const first = host({ leaderElect: true });
    await first.start();
    await clock.settle();
    const second = host({ leaderElect: true });
    await second.start();
    api.seed(configMaps, { metadata: { namespace: 'd', name: 'a' } });
    await clock.advance(10_000);
    expect(createdNames()).toEqual(['one-a', 'two-a']);
    expect(api.requests.filter(({ verb, resource }) => verb === 'create' && resource === secrets)).toHaveLength(2);
    const holder = () => api.object(leases, { namespace: 'kube-system', name: 'kube-controller-manager' })?.spec?.holderIdentity;
    const before = holder();
    await first.stop();
    await clock.runUntil(() => holder() !== '' && holder() !== before, { within: 6000 });
    api.remove(secrets, { namespace: 'd', name: 'one-a' });
    await api.client().patch(configMaps, { namespace: 'd', name: 'a' }, 'merge', { data: { x: 'y' } });
    await clock.settle();
    expect(createdNames()).toContain('one-a');
    await second.stop();
  });
});
