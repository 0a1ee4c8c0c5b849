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
      const maps = informers.of(configMaps);
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

describe('the controllers role', () => {
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
      .place({ plugin: copier('one') })
      .place({ plugin: copier('two') })
      .place({ plugin, config });
  const role = (of: PluginHost) => of.get(Roles)[0]!;
  const made = () =>
    api
      .objects(secrets)
      .map(({ metadata }) => metadata?.name)
      .sort();

  it('runs every controller that is not disabled, until it is stopped', async () => {
    const running = host({ disable: ['two'], workers: { one: 1 } });
    await running.start();
    await role(running).ready?.(new AbortController().signal);
    expect(role(running).health()).toEqual({ healthy: true });
    api.seed(configMaps, { metadata: { namespace: 'd', name: 'a' } });
    await clock.settle();
    expect(made()).toEqual(['one-a']);
    expect(api.objects(leases)).toEqual([]);
    await running.stop();
    api.seed(configMaps, { metadata: { namespace: 'd', name: 'b' } });
    await clock.settle();
    expect(made()).toEqual(['one-a']);
  });

  it('refuses names of controllers that there are not, and unknown keys', async () => {
    await expect(host({ disable: ['three'] }).start()).rejects.toThrow('there is no controller three; there are one, two');
    await expect(host({ workers: { four: 2 } }).start()).rejects.toThrow('there is no controller four');
    await expect(host({ leader: true }).start()).rejects.toThrow(WiringError);
    await expect(
      host({})
        .place({ plugin: copier('one'), name: 'again' })
        .start(),
    ).rejects.toThrow('there are two controllers named one');
  });

  it('lets a loop wait for kinds that the server does not have, and runs the others', async () => {
    const jobsVersion = '/apis/batch/v1';
    api.paths.set(jobsVersion, { resources: [] });
    const told = (name: string, partial?: boolean) =>
      Controllers.plugin({
        id: `controller-${name}`,
        config: z.strictObject({}),
        needs: { informers: Informers },
        create: ({ informers }) => ({
          name,
          ...(partial !== undefined && { partial }),
          watches: [watch(informers.of(configMaps), () => ['key']), watch(informers.of(jobs), () => [])],
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
      .place({ plugin: copier('one') })
      .place({ plugin: told('later') })
      .place({ plugin: told('partly', true) })
      .place({ plugin, config: {} });
    await running.start();
    await role(running).ready?.(new AbortController().signal);
    api.seed(configMaps, { metadata: { namespace: 'd', name: 'a' } });
    await clock.settle();
    expect(made()).toEqual(['one-a', 'partly']);
    const asked = () => api.requests.filter(({ resource }) => resource === jobs).length;
    const before = asked();
    await clock.advance(600_000);
    expect(made()).toEqual(['one-a', 'partly']);
    expect(asked()).toBe(before); // it is discovery that is asked, not the kind

    api.paths.delete(jobsVersion);
    await clock.runUntil(() => made().includes('later'), { within: 60_000 });
    await running.stop();
  });

  it('lets one of two processes lead, the other take over', async () => {
    const first = host({ leaderElect: true });
    await first.start();
    await clock.settle();
    const second = host({ leaderElect: true });
    await second.start();
    api.seed(configMaps, { metadata: { namespace: 'd', name: 'a' } });
    await clock.advance(10_000);
    expect(made()).toEqual(['one-a', 'two-a']);
    expect(api.requests.filter(({ verb, resource }) => verb === 'create' && resource === secrets)).toHaveLength(2);
    const holder = () => api.object(leases, { namespace: 'kube-system', name: 'kube-controller-manager' })?.spec?.holderIdentity;
    const before = holder();
    await first.stop();
    await clock.runUntil(() => holder() !== '' && holder() !== before, { within: 6000 });
    api.remove(secrets, { namespace: 'd', name: 'one-a' });
    await api.client().patch(configMaps, { namespace: 'd', name: 'a' }, 'merge', { data: { x: 'y' } });
    await clock.settle();
    expect(made()).toContain('one-a');
    await second.stop();
  });
});
