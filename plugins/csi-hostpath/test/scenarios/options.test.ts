import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { csiTable } from '@oarlock/csi/csi-messages';
import type { AccessMode } from '@oarlock/csi/csi-messages';
import type { CsiVolume, VolumeCapability } from '@oarlock/csi/csi-types';
import { UnixClient } from '@oarlock/grpc/unix-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { driver } from '../../src/driver.ts';

const mount = (mode: AccessMode): VolumeCapability => ({ mount: {}, accessMode: { mode } });
const writer = mount('SINGLE_NODE_WRITER');

describe('csi-hostpath with --shared and --attach', () => {
  let directory: string;
  const servers: { close(): Promise<void> }[] = [];
  const clients = new Map<string, UnixClient>();
  let openClients = 0;
  const node = <T extends object>(name: string, method: string, request: object) => {
    const client = clients.get(name);
    if (client === undefined) throw new Error(`there is no node ${name}`);
    return client.call<T>('csi.v1.Node', method, request);
  };
  const controller = <T extends object>(method: string, request: object) => {
    const client = clients.get('n1');
    if (client === undefined) throw new Error('there is no controller');
    return client.call<T>('csi.v1.Controller', method, request);
  };
  const create = async (capability: VolumeCapability = writer) =>
    (await controller<{ volume: CsiVolume }>('CreateVolume', { name: `volume-${++openClients}`, volumeCapabilities: [capability] })).volume
      .volumeId;
  const attach = (volumeId: string, nodeId: string, volumeCapability = writer, readonly = false) =>
    controller('ControllerPublishVolume', { volumeId, nodeId, volumeCapability, readonly });
  const stage = (on: string, volumeId: string, volumeCapability = writer) =>
    node(on, 'NodeStageVolume', { volumeId, stagingTargetPath: join(directory, on, 'staging'), volumeCapability });
  const publish = (on: string, volumeId: string, at: string, more: object = {}) =>
    node(on, 'NodePublishVolume', {
      volumeId,
      stagingTargetPath: join(directory, on, 'staging'),
      targetPath: join(directory, on, at),
      volumeCapability: writer,
      ...more,
    });

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'csi-shared-'));
    for (const nodeId of ['n1', 'n2']) {
      const endpoint = join(directory, `${nodeId}.sock`);
      servers.push(
        await driver({
          name: 'hostpath.csi.oarlock.dev',
          endpoint,
          nodeId,
          dataDir: join(directory, 'data'),
          capacityBytes: 2 ** 40,
          version: 'test',
          now: Date.now,
          attach: true,
          shared: true,
          mutable: ['speed'],
          maxVolumes: 4,
        }),
      );
      clients.set(nodeId, new UnixClient({ socket: endpoint, table: csiTable, timeoutMs: 30_000 }));
    }
  });
  afterAll(async () => {
    for (const client of clients.values()) client.close();
    for (const server of servers) await server.close();
    await rm(directory, { recursive: true });
  });

  it('attaches a single-node volume to one node at a time', async () => {
    const volumeId = await create();
    await expect(stage('n1', volumeId)).rejects.toMatchObject({ code: 'FAILED_PRECONDITION' });
    await attach(volumeId, 'n1');
    await attach(volumeId, 'n1');
    await expect(attach(volumeId, 'n1', writer, true)).rejects.toMatchObject({ code: 'ALREADY_EXISTS' });
    await expect(attach(volumeId, 'n2')).rejects.toMatchObject({ code: 'FAILED_PRECONDITION' });
    await stage('n1', volumeId);
    await expect(stage('n2', volumeId)).rejects.toMatchObject({ code: 'FAILED_PRECONDITION' });
    await expect(controller('DeleteVolume', { volumeId })).rejects.toMatchObject({ code: 'FAILED_PRECONDITION' });
    expect(await controller('ControllerGetVolume', { volumeId })).toMatchObject({ status: { publishedNodeIds: ['n1'] } });
    for (let time = 0; time < 2; time++) await controller('ControllerUnpublishVolume', { volumeId, nodeId: 'n1' });
    await attach(volumeId, 'n2');
    await stage('n2', volumeId);
    // an empty node_id means all nodes
    await controller('ControllerUnpublishVolume', { volumeId, nodeId: '' });
    await controller('DeleteVolume', { volumeId });
    await controller('ControllerUnpublishVolume', { volumeId, nodeId: 'n1' });
  });

  it('attaches a multi-node volume to several nodes, and at most --max-volumes volumes to a node', async () => {
    const many = mount('MULTI_NODE_MULTI_WRITER');
    const ids = [];
    for (let n = 0; n < 5; n++) ids.push(await create(many));
    for (const id of ids.slice(0, 4)) await attach(id, 'n1', many);
    await attach(ids[0] ?? '', 'n2', many);
    await expect(attach(ids[4] ?? '', 'n1', many)).rejects.toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
    for (const volumeId of ids) {
      await controller('ControllerUnpublishVolume', { volumeId, nodeId: '' });
      await controller('DeleteVolume', { volumeId });
    }
  });

  it('rejects a second target of a single-writer volume and a changed read-only flag', async () => {
    const single = mount('SINGLE_NODE_SINGLE_WRITER');
    const volumeId = await create(single);
    await attach(volumeId, 'n1', single);
    await stage('n1', volumeId, single);
    await publish('n1', volumeId, 'one', { volumeCapability: single });
    await expect(publish('n1', volumeId, 'one', { volumeCapability: single, readonly: true })).rejects.toMatchObject({
      code: 'ALREADY_EXISTS',
    });
    await expect(publish('n1', volumeId, 'two', { volumeCapability: single })).rejects.toMatchObject({ code: 'FAILED_PRECONDITION' });
    await controller('ControllerUnpublishVolume', { volumeId, nodeId: 'n1' });
    await expect(controller('DeleteVolume', { volumeId })).rejects.toMatchObject({ code: 'FAILED_PRECONDITION' });
    await node('n1', 'NodeUnpublishVolume', { volumeId, targetPath: join(directory, 'n1', 'one') });
    await controller('DeleteVolume', { volumeId });
  });

  it('creates an inline volume when it is published, and deletes it when it is unpublished', async () => {
    const request = { volumeContext: { 'csi.storage.k8s.io/ephemeral': 'true' }, stagingTargetPath: '' };
    await publish('n1', 'for-a-pod', 'inline', request);
    await publish('n1', 'for-a-pod', 'inline', request);
    expect(await readdir(join(directory, 'data', 'content'))).toEqual(['for-a-pod']);
    for (let time = 0; time < 2; time++)
      await node('n1', 'NodeUnpublishVolume', { volumeId: 'for-a-pod', targetPath: join(directory, 'n1', 'inline') });
    expect(await readdir(join(directory, 'data', 'content'))).toEqual([]);
  });

  it.each([
    ['ControllerPublishVolume', { nodeId: 'n1', volumeCapability: writer }, 'INVALID_ARGUMENT'],
    ['ControllerPublishVolume', { volumeId: 'none', volumeCapability: writer }, 'INVALID_ARGUMENT'],
    ['ControllerPublishVolume', { volumeId: 'none', nodeId: 'n1' }, 'INVALID_ARGUMENT'],
    ['ControllerPublishVolume', { volumeId: 'none', nodeId: 'n1', volumeCapability: writer }, 'NOT_FOUND'],
    ['ControllerUnpublishVolume', { nodeId: 'n1' }, 'INVALID_ARGUMENT'],
    ['ControllerGetVolume', {}, 'INVALID_ARGUMENT'],
    ['ControllerGetVolume', { volumeId: 'none' }, 'NOT_FOUND'],
    ['ControllerModifyVolume', {}, 'INVALID_ARGUMENT'],
    ['ControllerModifyVolume', { volumeId: 'none', mutableParameters: { speed: 'high' } }, 'NOT_FOUND'],
    ['ControllerExpandVolume', { volumeId: 'none', capacityRange: { requiredBytes: 1 } }, 'NOT_FOUND'],
    ['ValidateVolumeCapabilities', { volumeId: 'none', volumeCapabilities: [writer] }, 'NOT_FOUND'],
  ])('%s rejects %j', async (method, request, code) => {
    await expect(controller(method, request)).rejects.toMatchObject({ code });
  });

  it('modifies only mutable parameters', async () => {
    const volumeId = await create();
    await controller('ControllerModifyVolume', { volumeId, mutableParameters: { speed: 'high' } });
    await expect(controller('ControllerModifyVolume', { volumeId, mutableParameters: { colour: 'blue' } })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    const flags: VolumeCapability = { mount: { mountFlags: ['exec,dev'] }, accessMode: { mode: 'SINGLE_NODE_WRITER' } };
    await expect(create(flags)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await controller('DeleteVolume', { volumeId });
  });
});
