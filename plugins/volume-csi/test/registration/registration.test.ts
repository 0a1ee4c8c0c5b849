import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { csiNodes, nodes, storageClasses } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import { driver } from '@oarlock/csi-hostpath/driver';
import { registrationTable, type RegistrationInfo, type RegistrationStatus } from '@oarlock/grpc/registration-client';
import { serveUnix } from '@oarlock/grpc/unix-server';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CsiDriver } from '../../src/driver/csi-driver.ts';
import { installDriver } from '../../src/registration/registration.ts';
import { until, World } from '../support/csi-environment.ts';

const other = 'other.example.com';

describe('driver registration', () => {
  let world: World;
  let statuses: RegistrationStatus[];
  const open: { close(): Promise<void> }[] = [];
  const socket = () => join(world.directory, 'kubelet', 'plugins_registry', `${other}-reg.sock`);
  const endpoint = () => join(world.directory, 'other.sock');

  beforeEach(async () => {
    statuses = [];
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
  /** Serves what node-driver-registrar serves. */
  const registrar = async (more: Partial<RegistrationInfo> = {}) => {
    const server = await serveUnix({
      socket: socket(),
      table: registrationTable,
      types: { GetInfo: ['InfoRequest', 'PluginInfo'], NotifyRegistrationStatus: ['RegistrationStatus', 'RegistrationStatusResponse'] },
      services: {
        'pluginregistration.Registration': {
          GetInfo: () => ({ type: 'CSIPlugin', name: other, endpoint: endpoint(), supportedVersions: ['1.0.0'], ...more }),
          NotifyRegistrationStatus: (status: RegistrationStatus) => {
            statuses.push(status);
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

  it('adds the driver to the CSINode with its topology and limit until its socket is removed', async () => {
    await plugin();
    await startDriver();
    await registrar();
    await until(entry);
    expect(entry()).toEqual({ name: other, nodeID: 'id-of-here', topologyKeys: [`topology.${other}/node`], allocatable: { count: 7 } });
    expect(ids()).toMatchObject({ [other]: 'id-of-here' });
    await until(() => statuses.find(({ pluginRegistered }) => pluginRegistered));
    await rm(socket());
    await until(() => (entry() === undefined ? true : undefined));
    expect(ids()).not.toHaveProperty([other]);
  });

  it('finds drivers that registered before the start, and drivers that register again', async () => {
    await startDriver();
    const first = await registrar();
    const instance = await plugin();
    await until(entry);
    await first.close();
    await until(() => (instance.names.includes(other) ? undefined : true));
    await registrar();
    await until(() => (entry() !== undefined && instance.names.includes(other) ? true : undefined));
  });

  it('reports a missing StorageClass that the node may not create as an event of the Node', async () => {
    const forbidden = () => failure('Forbidden', 'storageclasses.storage.k8s.io is forbidden', {});
    world.api.failNext(({ verb, resource }) => verb === 'create' && resource.resource === storageClasses.resource, forbidden());
    await plugin();
    expect(await until(() => world.events.find((event) => event.includes('StorageClass')))).toMatch(
      /^Warning FailedCreate the StorageClass standard does not exist and this node may not create it: /,
    );
  });

  it.each([
    ['none of the versions', { supportedVersions: ['0.3.0'] }],
    ['supported versions are empty', { supportedVersions: [] }],
    ['is not a valid driver name', { name: 'no/driver' }],
    ['is not a path of a unix socket', { endpoint: 'relative.sock' }],
    ['but its driver has the name', { name: 'else.example.com' }],
  ])('rejects a driver and notifies it: %s', async (message, more) => {
    await plugin();
    await startDriver();
    await registrar(more);
    expect(await until(() => statuses[0])).toMatchObject({ pluginRegistered: false, error: expect.stringContaining(message) });
    expect(entry()).toBeUndefined();
  });

  it.each([['detected topology value collision', { labels: { [`topology.${other}/node`]: 'foreign' } }]])(
    'rejects a driver whose topology would change labels of the node: %s',
    async (message, metadata) => {
      await world.api.client().patch(nodes, { name: 'here' }, 'merge', { metadata });
      await plugin();
      await startDriver();
      await registrar();
      expect(await until(() => statuses[0])).toMatchObject({ pluginRegistered: false, error: expect.stringContaining(message) });
      expect(entry()).toBeUndefined();
      expect(world.api.object(nodes, { name: 'here' })?.metadata?.labels).toMatchObject(metadata.labels);
    },
  );

  it('rejects a driver whose topology is a label of isolation', async () => {
    const node = { nodeId: 'x', maxVolumesPerNode: 0, accessibleTopology: { segments: { 'node-restriction.kubernetes.io/team': 'a' } } };
    const hostile = { name: other, node } as unknown as CsiDriver;
    const before = world.api.object(nodes, { name: 'here' })?.metadata?.labels;
    for (const key of ['node-restriction.kubernetes.io/team', 'node-role.kubernetes.io/control-plane']) {
      const segments = { [key]: 'a' };
      const driverOf = { ...hostile, node: { ...node, accessibleTopology: { segments } } } as CsiDriver;
      await expect(installDriver(driverOf, 'here', world.api.client())).rejects.toThrow('a label that a node may not set');
    }
    expect(world.api.object(nodes, { name: 'here' })?.metadata?.labels).toEqual(before);
  });

  it('ignores plugins of other types', async () => {
    const instance = await plugin();
    await registrar({ type: 'DRAPlugin' });
    await startDriver();
    expect(instance.names).not.toContain(other);
    expect(statuses).toEqual([]);
  });
});
