import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { csiTable } from '@oarlock/csi/csi-messages';
import type { CreateVolumeRequest, CsiSnapshot, CsiVolume, VolumeCapability } from '@oarlock/csi/csi-types';
import { UnixClient } from '@oarlock/grpc/unix-client';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { driver } from '../src/driver.ts';

const gib = 2 ** 30;
const name = 'hostpath.csi.oarlock.dev';
const topology = { segments: { [`topology.${name}/node`]: 'here' } };
const mount: VolumeCapability = { mount: {}, accessMode: { mode: 'SINGLE_NODE_WRITER' } };
const block: VolumeCapability = { block: {}, accessMode: { mode: 'SINGLE_NODE_WRITER' } };

describe('csi-hostpath', () => {
  let directory: string;
  let server: { close(): Promise<void> };
  let client: UnixClient;
  let clients = 0;
  const start = async () => {
    server = await driver({
      name,
      endpoint: join(directory, 'csi.sock'),
      nodeId: 'here',
      dataDir: join(directory, 'data'),
      capacityBytes: 10 * gib,
      version: '0.1.0',
      now: () => 1_800_000_000_000,
    });
    client = new UnixClient({ socket: join(directory, 'csi.sock'), table: csiTable, timeoutMs: 30_000 });
  };
  const stop = async () => {
    client.close();
    await server.close();
  };
  const controller = <T extends object>(method: string, request: object = {}) => client.call<T>('csi.v1.Controller', method, request);
  const node = <T extends object>(method: string, request: object = {}) => client.call<T>('csi.v1.Node', method, request);
  const create = async (more: Partial<CreateVolumeRequest> = {}) =>
    (await controller<{ volume: CsiVolume }>('CreateVolume', { name: `volume-${++clients}`, volumeCapabilities: [mount], ...more })).volume;
  const content = (id: string) => join(directory, 'data', 'content', id);

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'csi-'));
    await start();
  });
  beforeEach(async () => {
    const { entries } = await controller<{ entries: { volume: CsiVolume }[] }>('ListVolumes');
    for (const { volume } of entries) await controller('DeleteVolume', { volumeId: volume.volumeId });
    const { entries: snapshotOf } = await controller<{ entries: { snapshot: CsiSnapshot }[] }>('ListSnapshots');
    for (const { snapshot } of snapshotOf) await controller('DeleteSnapshot', { snapshotId: snapshot.snapshotId });
  });
  afterAll(async () => {
    await stop();
    await rm(directory, { recursive: true });
  });

  it('reports its name and capabilities', async () => {
    expect(await client.call('csi.v1.Identity', 'GetPluginInfo', {})).toMatchObject({ name, vendorVersion: '0.1.0' });
    expect(await client.call('csi.v1.Identity', 'Probe', {})).toMatchObject({ ready: { value: true } });
    expect(await node('NodeGetInfo')).toMatchObject({ nodeId: 'here', accessibleTopology: topology });
    const { capabilities } = await controller<{ capabilities: { rpc: { type: string } }[] }>('ControllerGetCapabilities');
    expect(capabilities.map(({ rpc }) => rpc.type)).toContain('CREATE_DELETE_SNAPSHOT');
  });

  describe('CreateVolume', () => {
    it('creates a volume of the requested size on this node', async () => {
      expect(await create({ capacityRange: { requiredBytes: gib } })).toMatchObject({ capacityBytes: gib, accessibleTopology: [topology] });
    });
    it('returns the same volume for the same name', async () => {
      const one = await create({ name: 'same', capacityRange: { requiredBytes: gib } });
      expect(await create({ name: 'same', capacityRange: { requiredBytes: gib } })).toEqual(one);
      await expect(create({ name: 'same', capacityRange: { requiredBytes: 2 * gib } })).rejects.toMatchObject({ code: 'ALREADY_EXISTS' });
      await expect(create({ name: 'same', volumeCapabilities: [block] })).rejects.toMatchObject({ code: 'ALREADY_EXISTS' });
    });
    it.each([
      ['no name', { name: '' }, 'INVALID_ARGUMENT'],
      ['a name that is too long', { name: 'x'.repeat(129) }, 'INVALID_ARGUMENT'],
      ['no capability', { volumeCapabilities: [] }, 'INVALID_ARGUMENT'],
      ['a capability without an access mode', { volumeCapabilities: [{ mount: {} }] }, 'INVALID_ARGUMENT'],
      ['a capability of no kind', { volumeCapabilities: [{ accessMode: mount.accessMode }] }, 'INVALID_ARGUMENT'],
      [
        'several nodes at once',
        { volumeCapabilities: [{ mount: {}, accessMode: { mode: 'MULTI_NODE_MULTI_WRITER' } }] },
        'INVALID_ARGUMENT',
      ],
      ['block and mount at once', { volumeCapabilities: [mount, block] }, 'INVALID_ARGUMENT'],
      ['a limit below what is required', { capacityRange: { requiredBytes: 2 * gib, limitBytes: gib } }, 'OUT_OF_RANGE'],
      ['more than the capacity', { capacityRange: { requiredBytes: 11 * gib } }, 'RESOURCE_EXHAUSTED'],
      [
        'another node',
        { accessibilityRequirements: { requisite: [{ segments: { [`topology.${name}/node`]: 'there' } }] } },
        'RESOURCE_EXHAUSTED',
      ],
      ['a missing snapshot', { volumeContentSource: { snapshot: { snapshotId: 'none' } } }, 'NOT_FOUND'],
      ['a missing volume', { volumeContentSource: { volume: { volumeId: 'none' } } }, 'NOT_FOUND'],
    ] as const)('rejects %s', async (_title, more, code) => {
      await expect(create(more as Partial<CreateVolumeRequest>)).rejects.toMatchObject({ code });
      expect((await controller<{ entries: unknown[] }>('ListVolumes')).entries).toEqual([]);
      expect(await readdir(join(directory, 'data', 'content'))).toEqual([]);
    });
  });

  it('deletes a volume with its content, and ignores volumes that do not exist', async () => {
    const { volumeId } = await create();
    await writeFile(join(content(volumeId), 'file'), 'x');
    await controller('DeleteVolume', { volumeId });
    await controller('DeleteVolume', { volumeId });
    await expect(controller('DeleteVolume', { volumeId: '' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect(await readdir(join(directory, 'data', 'content'))).toEqual([]);
  });

  it('lists in pages and rejects invalid tokens', async () => {
    const ids = [];
    for (let n = 0; n < 3; n++) ids.push((await create()).volumeId);
    const first = await controller<{ entries: { volume: CsiVolume }[]; nextToken: string }>('ListVolumes', { maxEntries: 2 });
    const second = await controller<typeof first>('ListVolumes', { maxEntries: 2, startingToken: first.nextToken });
    expect([...first.entries, ...second.entries].map(({ volume }) => volume.volumeId).sort()).toEqual(ids.sort());
    expect(second.nextToken).toBe('');
    await expect(controller('ListVolumes', { startingToken: 'nobody' })).rejects.toMatchObject({ code: 'ABORTED' });
    await expect(controller('ListVolumes', { maxEntries: -1 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  it('reports the free capacity, here and for another topology', async () => {
    await create({ capacityRange: { requiredBytes: gib } });
    expect(await controller('GetCapacity')).toMatchObject({ availableCapacity: 9 * gib });
    expect(await controller('GetCapacity', { accessibleTopology: { segments: { [`topology.${name}/node`]: 'there' } } })).toMatchObject({
      availableCapacity: 0,
    });
  });

  it('confirms only the capabilities of a volume', async () => {
    const { volumeId } = await create();
    expect(await controller('ValidateVolumeCapabilities', { volumeId, volumeCapabilities: [mount] })).toHaveProperty('confirmed');
    expect(await controller('ValidateVolumeCapabilities', { volumeId, volumeCapabilities: [block] })).not.toHaveProperty('confirmed');
    await expect(controller('ValidateVolumeCapabilities', { volumeId })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(controller('ValidateVolumeCapabilities', { volumeId: 'none', volumeCapabilities: [mount] })).rejects.toMatchObject({
      code: 'NOT_FOUND',
    });
  });

  it('expands a volume and never shrinks it', async () => {
    const { volumeId } = await create({ capacityRange: { requiredBytes: 2 * gib } });
    const expand = (requiredBytes: number) => controller('ControllerExpandVolume', { volumeId, capacityRange: { requiredBytes } });
    expect(await expand(3 * gib)).toMatchObject({ capacityBytes: 3 * gib, nodeExpansionRequired: false });
    expect(await expand(gib)).toMatchObject({ capacityBytes: 3 * gib });
    await expect(expand(20 * gib)).rejects.toMatchObject({ code: 'OUT_OF_RANGE' });
    await expect(controller('ControllerExpandVolume', { volumeId: 'none', capacityRange: {} })).rejects.toMatchObject({
      code: 'NOT_FOUND',
    });
  });

  it('takes snapshots, and creates volumes from snapshots and volumes', async () => {
    const { volumeId } = await create();
    await writeFile(join(content(volumeId), 'file'), 'before');
    const take = (name: string, sourceVolumeId: string) =>
      controller<{ snapshot: CsiSnapshot }>('CreateSnapshot', { name, sourceVolumeId });
    const { snapshot } = await take('one', volumeId);
    expect(snapshot).toMatchObject({ sourceVolumeId: volumeId, readyToUse: true, creationTime: { seconds: 1_800_000_000 } });
    expect((await take('one', volumeId)).snapshot).toEqual(snapshot);
    await expect(take('one', (await create()).volumeId)).rejects.toMatchObject({ code: 'ALREADY_EXISTS' });
    await expect(take('two', 'none')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await writeFile(join(content(volumeId), 'file'), 'after');
    const restored = await create({ volumeContentSource: { snapshot: { snapshotId: snapshot.snapshotId } } });
    const cloned = await create({ volumeContentSource: { volume: { volumeId } } });
    expect(await readFile(join(content(restored.volumeId), 'file'), 'utf8')).toBe('before');
    expect(await readFile(join(content(cloned.volumeId), 'file'), 'utf8')).toBe('after');
    const list = await controller<{ entries: { snapshot: CsiSnapshot }[] }>('ListSnapshots', { sourceVolumeId: volumeId });
    expect(list.entries.map(({ snapshot: each }) => each.snapshotId)).toEqual([snapshot.snapshotId]);
    await controller('DeleteSnapshot', { snapshotId: snapshot.snapshotId });
    await controller('DeleteSnapshot', { snapshotId: snapshot.snapshotId });
    expect((await controller<{ entries: unknown[] }>('ListSnapshots')).entries).toEqual([]);
  });

  it('publishes a volume at several targets, repeatedly, and unpublishes it', async () => {
    const { volumeId } = await create();
    await writeFile(join(content(volumeId), 'file'), 'here');
    const [stagingTargetPath, targetPath] = [join(directory, 'staging'), join(directory, 'pods', 'one')];
    const request = { volumeId, stagingTargetPath, targetPath, volumeCapability: mount };
    for (let time = 0; time < 2; time++) {
      await node('NodeStageVolume', request);
      await node('NodePublishVolume', request);
    }
    expect(await readFile(join(targetPath, 'file'), 'utf8')).toBe('here');
    expect(await node('NodeGetVolumeStats', { volumeId, volumePath: targetPath })).toHaveProperty('usage.0.total');
    for (let time = 0; time < 2; time++) {
      await node('NodeUnpublishVolume', request);
      await node('NodeUnstageVolume', request);
    }
    await expect(readFile(join(targetPath, 'file'))).rejects.toMatchObject({ code: 'ENOENT' });
    expect(await readFile(join(content(volumeId), 'file'), 'utf8')).toBe('here');
    await expect(node('NodeGetVolumeStats', { volumeId, volumePath: targetPath })).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it.each([
    ['NodeStageVolume', { volumeId: '' }, 'INVALID_ARGUMENT'],
    ['NodeStageVolume', { volumeId: 'none', volumeCapability: mount }, 'INVALID_ARGUMENT'],
    ['NodeStageVolume', { volumeId: 'none', stagingTargetPath: '/s' }, 'INVALID_ARGUMENT'],
    ['NodeStageVolume', { volumeId: 'none', stagingTargetPath: '/s', volumeCapability: mount }, 'NOT_FOUND'],
    ['NodeUnstageVolume', { volumeId: 'none' }, 'INVALID_ARGUMENT'],
    ['NodePublishVolume', { volumeId: 'none', targetPath: '/t', volumeCapability: mount }, 'NOT_FOUND'],
    ['NodePublishVolume', { volumeId: 'none', volumeCapability: mount }, 'INVALID_ARGUMENT'],
    ['NodeUnpublishVolume', { volumeId: 'none' }, 'INVALID_ARGUMENT'],
    ['NodeGetVolumeStats', { volumeId: 'none' }, 'INVALID_ARGUMENT'],
    ['NodeGetVolumeStats', { volumeId: 'none', volumePath: '/t' }, 'NOT_FOUND'],
    ['NodeExpandVolume', { volumeId: 'none' }, 'INVALID_ARGUMENT'],
    ['NodeExpandVolume', { volumeId: 'none', volumePath: '/t' }, 'NOT_FOUND'],
  ])('%s rejects %j', async (method, request, code) => {
    await expect(node(method, request)).rejects.toMatchObject({ code });
  });

  it('does not publish a volume that is not staged', async () => {
    const { volumeId } = await create();
    await expect(node('NodePublishVolume', { volumeId, targetPath: join(directory, 't'), volumeCapability: mount })).rejects.toMatchObject({
      code: 'FAILED_PRECONDITION',
    });
  });

  it('keeps its volumes over a restart, and removes content that was not acknowledged', async () => {
    const volume = await create({ name: 'kept', capacityRange: { requiredBytes: gib } });
    await stop();
    const { mkdir } = await import('node:fs/promises');
    await mkdir(content('half-made'));
    await start();
    expect(await create({ name: 'kept', capacityRange: { requiredBytes: gib } })).toEqual(volume);
    expect(await readdir(join(directory, 'data', 'content'))).toEqual([volume.volumeId]);
  });
});
