import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { csiNodes, nodes } from '@oarlock/api/resources';
import { driver } from '@oarlock/csi-hostpath/driver';
import { registrationTable, type RegisteringPlugin, type RegistrationStatus } from '@oarlock/grpc/plugin-registration';
import { unixServer } from '@oarlock/grpc/unix-server';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until, World } from './world.ts';

const other = 'other.example.com';

describe('drivers that register', () => {
  let world: World;
  let told: RegistrationStatus[];
  const open: { close(): Promise<void> }[] = [];
  const socket = () => join(world.directory, 'kubelet', 'plugins_registry', `${other}-reg.sock`);
  const endpoint = () => join(world.directory, 'other.sock');

  beforeEach(async () => {
    told = [];
    world = await World.open();
  });
  afterEach(async () => {
    for (const each of open.splice(0)) await each.close();
    await world[Symbol.asyncDispose]();
  });
  const plugin = () => world.plugin({ kubeletDir: join(world.directory, 'kubelet') });
  const startDriver = async (more: object = {}) =>
    open.push(
      await driver({
        name: other,
        endpoint: endpoint(),
        nodeId: 'id-of-here',
        dataDir: join(world.directory, 'other'),
        capacityBytes: 2 ** 30,
        version: 'test',
        now: Date.now,
        maxVolumes: 7,
        ...more,
      }),
    );
  /** What node-driver-registrar serves. */
  const registrar = async (more: Partial<RegisteringPlugin> = {}) => {
    const server = await unixServer({
      socket: socket(),
      table: registrationTable,
      types: { GetInfo: ['InfoRequest', 'PluginInfo'], NotifyRegistrationStatus: ['RegistrationStatus', 'RegistrationStatusResponse'] },
      services: {
        'pluginregistration.Registration': {
          GetInfo: () => ({ type: 'CSIPlugin', name: other, endpoint: endpoint(), supportedVersions: ['1.0.0'], ...more }),
          NotifyRegistrationStatus: (status: RegistrationStatus) => {
            told.push(status);
            return {};
          },
        },
      },
    });
    open.push(server);
    return server;
  };
  const entry = () => world.api.object(csiNodes, { name: 'here' })?.spec.drivers.find(({ name }) => name === other);
  const ids = () =>
    JSON.parse(world.api.object(nodes, { name: 'here' })?.metadata?.annotations?.['csi.volume.kubernetes.io/nodeid'] ?? '{}') as object;

  it('are in the CSINode with their topology and their limit as long as their socket is there', async () => {
    await plugin();
    await startDriver();
    await registrar();
    await until(entry);
    expect(entry()).toEqual({ name: other, nodeID: 'id-of-here', topologyKeys: [`topology.${other}/node`], allocatable: { count: 7 } });
    expect(ids()).toMatchObject({ [other]: 'id-of-here' });
    await until(() => told.find(({ pluginRegistered }) => pluginRegistered));
    await rm(socket());
    await until(() => (entry() === undefined ? true : undefined));
    expect(ids()).not.toHaveProperty([other]);
  });

  it('are there already, and come back under the same name', async () => {
    await startDriver();
    const first = await registrar();
    const made = await plugin();
    await until(entry);
    await first.close();
    await until(() => (made.names.includes(other) ? undefined : true));
    await registrar();
    await until(() => (entry() !== undefined && made.names.includes(other) ? true : undefined));
  });

  it.each([
    ['none of the versions', { supportedVersions: ['0.3.0'] }],
    ['supported versions are empty', { supportedVersions: [] }],
    ['is not that of a driver', { name: 'no/driver' }],
    ['no path of a socket', { endpoint: 'relative.sock' }],
    ['and its driver says that it is', { name: 'else.example.com' }],
  ])('are refused and told so: %s', async (why, more) => {
    await plugin();
    await startDriver();
    await registrar(more);
    expect(await until(() => told[0])).toMatchObject({ pluginRegistered: false, error: expect.stringContaining(why) });
    expect(entry()).toBeUndefined();
  });

  it('are left alone when they are no volume drivers', async () => {
    const made = await plugin();
    await registrar({ type: 'DRAPlugin' });
    await startDriver();
    expect(made.names).not.toContain(other);
    expect(told).toEqual([]);
  });
});
