import { execFile } from 'node:child_process';
import { access, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { csiTable } from '@oarlock/csi/csi-messages';
import type { AccessMode } from '@oarlock/csi/csi-messages';
import type { CsiSnapshot, CsiVolume, VolumeCapability } from '@oarlock/csi/csi-types';
import { UnixClient } from '@oarlock/grpc/unix-client';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { driver } from '../../src/driver.ts';
import { Faults } from '../../src/faults.ts';

const run = promisify(execFile);
const isRoot = process.getuid?.() === 0;
const mount = (mode: AccessMode, more: object = {}): VolumeCapability => ({ mount: { ...more }, accessMode: { mode } });
const writer = mount('SINGLE_NODE_WRITER');
const mib = 2 ** 20;

type Call = readonly [service: 'Controller' | 'Node', method: string, request: object];
/** The requests of a volume's lifecycle, with `V` for the volume and `S` for a snapshot of it. */
const life: readonly Call[] = [
  ['Controller', 'ControllerPublishVolume', { volumeId: 'V', nodeId: 'here', volumeCapability: writer, readonly: false }],
  ['Node', 'NodeStageVolume', { volumeId: 'V', stagingTargetPath: 'D/staging', volumeCapability: writer }],
  ['Node', 'NodePublishVolume', { volumeId: 'V', stagingTargetPath: 'D/staging', targetPath: 'D/pod', volumeCapability: writer }],
  ['Node', 'NodeGetVolumeStats', { volumeId: 'V', volumePath: 'D/pod' }],
  ['Controller', 'ControllerExpandVolume', { volumeId: 'V', capacityRange: { requiredBytes: 2 * mib } }],
  ['Node', 'NodeExpandVolume', { volumeId: 'V', volumePath: 'D/pod', capacityRange: { requiredBytes: 2 * mib } }],
  ['Controller', 'ControllerModifyVolume', { volumeId: 'V', mutableParameters: { speed: 'high' } }],
  ['Controller', 'ControllerGetVolume', { volumeId: 'V' }],
  ['Controller', 'ValidateVolumeCapabilities', { volumeId: 'V', volumeCapabilities: [writer] }],
  ['Controller', 'CreateSnapshot', { sourceVolumeId: 'V', name: 'snapshot' }],
  ['Controller', 'DeleteSnapshot', { snapshotId: 'S' }],
  ['Node', 'NodeUnpublishVolume', { volumeId: 'V', targetPath: 'D/pod' }],
  ['Node', 'NodeUnstageVolume', { volumeId: 'V', stagingTargetPath: 'D/staging' }],
  ['Controller', 'ControllerUnpublishVolume', { volumeId: 'V', nodeId: 'here' }],
  ['Controller', 'DeleteVolume', { volumeId: 'V' }],
];

describe('csi-hostpath sanity (CSI specification)', () => {
  let directory: string;
  let server: { close(): Promise<void> };
  let client: UnixClient;
  let openClients = 0;
  const faults = () => join(directory, 'faults.json');
  const call = <T extends object>(service: string, method: string, request: object = {}) =>
    client.call<T>(`csi.v1.${service}`, method, request);
  const controller = <T extends object>(method: string, request: object = {}) => call<T>('Controller', method, request);
  const create = async (more: object = {}) =>
    (
      await controller<{ volume: CsiVolume }>('CreateVolume', {
        name: `volume-${++openClients}`,
        volumeCapabilities: [writer],
        capacityRange: { requiredBytes: mib },
        ...more,
      })
    ).volume.volumeId;
  const snapshotOf = async (sourceVolumeId: string) =>
    (await controller<{ snapshot: CsiSnapshot }>('CreateSnapshot', { sourceVolumeId, name: `snapshot-${++openClients}` })).snapshot
      .snapshotId;
  /** Replaces `V`, `S` and `D`. */
  const filled = (request: object, volume: string, snapshot: string): object =>
    JSON.parse(
      JSON.stringify(request)
        .replaceAll('"V"', JSON.stringify(volume))
        .replaceAll('"S"', JSON.stringify(snapshot))
        .replaceAll('"D/', `"${directory}/`),
    ) as object;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'csi-sanity-'));
    await writeFile(faults(), '{}');
    server = await driver({
      name: 'hostpath.csi.oarlock.dev',
      endpoint: join(directory, 'csi.sock'),
      nodeId: 'here',
      dataDir: join(directory, 'data'),
      capacityBytes: 1024 * mib,
      version: 'test',
      now: Date.now,
      attach: true,
      mutable: ['speed'],
      nodeExpansion: true,
      faults: new Faults(faults()),
    });
    client = new UnixClient({ socket: join(directory, 'csi.sock'), table: csiTable, timeoutMs: 30_000 });
  });
  afterAll(async () => {
    client.close();
    await server.close();
    await rm(directory, { recursive: true });
  });
  beforeEach(() => writeFile(faults(), '{}'));

  it('responds to a repeated call as to the first, through a lifecycle', async () => {
    const volume = await create();
    let snapshot = '';
    for (const [service, method, request] of life) {
      const asked = filled(request, volume, snapshot);
      const first = await call<{ snapshot?: CsiSnapshot }>(service, method, asked);
      const second = await call(service, method, asked);
      // free and used capacity may change between two calls
      if (method !== 'NodeGetVolumeStats') expect(second, method).toEqual(first);
      snapshot = first.snapshot?.snapshotId ?? snapshot;
    }
    expect((await controller<{ entries: unknown[] }>('ListVolumes')).entries).toEqual([]);
  });

  const guarded = life.filter(
    ([, method]) => !['NodeGetVolumeStats', 'ControllerGetVolume', 'ValidateVolumeCapabilities'].includes(method),
  );
  it.each([['Controller', 'CreateVolume', { volumeCapabilities: [writer], capacityRange: { requiredBytes: mib } }] as const, ...guarded])(
    '%s.%s is aborted while another call for the same object is in progress',
    async (service, method, request) => {
      const volume = await create();
      const snapshot = await snapshotOf(volume);
      const name = method === 'CreateSnapshot' || method === 'CreateVolume' ? { name: `twice-${++openClients}` } : {};
      const asked = { ...filled(request, volume, snapshot), ...name };
      await writeFile(faults(), JSON.stringify({ [method]: { hold: 'within' } }));
      const first = call(service, method, asked).then(
        () => undefined,
        (error: { code: string }) => error.code,
      );
      const mark = `${faults()}.${method}`;
      await vi.waitFor(() => access(mark), { timeout: 120_000, interval: 5 });
      await expect(call(service, method, asked)).rejects.toMatchObject({ code: 'ABORTED' });
      await rm(mark);
      // the first call is not disturbed: it fails only if the calls before it in the lifecycle were not made
      expect([undefined, 'FAILED_PRECONDITION', 'NOT_FOUND', 'OUT_OF_RANGE']).toContain(await first);
    },
  );

  it('rejects staging with another capability at the same path', async () => {
    const volumeId = await create();
    await controller('ControllerPublishVolume', { volumeId, nodeId: 'here', volumeCapability: writer, readonly: false });
    const stage = (volumeCapability: VolumeCapability) =>
      call('Node', 'NodeStageVolume', { volumeId, stagingTargetPath: join(directory, 'staged'), volumeCapability });
    await stage(writer);
    for (const other of [mount('SINGLE_NODE_READER_ONLY'), mount('SINGLE_NODE_WRITER', { mountFlags: ['noatime'] })])
      await expect(stage(other)).rejects.toMatchObject({ code: 'ALREADY_EXISTS' });
    await call('Node', 'NodeUnstageVolume', { volumeId, stagingTargetPath: join(directory, 'staged') });
    await stage(mount('SINGLE_NODE_READER_ONLY'));
  });

  it('attaches only to existing nodes, and expands on the node only up to the size of the controller', async () => {
    const volumeId = await create();
    await expect(controller('ControllerPublishVolume', { volumeId, nodeId: 'elsewhere', volumeCapability: writer })).rejects.toMatchObject({
      code: 'NOT_FOUND',
    });
    for (const capacityRange of [{ requiredBytes: 3 * mib }, { limitBytes: mib / 2 }])
      await expect(call('Node', 'NodeExpandVolume', { volumeId, volumePath: '/t', capacityRange })).rejects.toMatchObject({
        code: 'OUT_OF_RANGE',
      });
    expect(await controller('ControllerExpandVolume', { volumeId, capacityRange: { requiredBytes: 2 * mib } })).toEqual({
      capacityBytes: 2 * mib,
      nodeExpansionRequired: true,
    });
  });

  it.each([
    ['CreateSnapshot', { sourceVolumeId: 'V' }, 'INVALID_ARGUMENT'],
    ['CreateSnapshot', { name: 'nameless' }, 'INVALID_ARGUMENT'],
    ['DeleteSnapshot', {}, 'INVALID_ARGUMENT'],
    ['ControllerExpandVolume', {}, 'INVALID_ARGUMENT'],
    ['ControllerExpandVolume', { volumeId: 'V' }, 'INVALID_ARGUMENT'],
    ['ControllerExpandVolume', { volumeId: 'V', capacityRange: { requiredBytes: 2, limitBytes: 1 } }, 'OUT_OF_RANGE'],
    ['ControllerModifyVolume', { volumeId: 'V', mutableParameters: { colour: 'blue' } }, 'INVALID_ARGUMENT'],
    ['ControllerModifyVolume', {}, 'INVALID_ARGUMENT'],
    ['ControllerModifyVolume', { volumeId: 'none' }, 'NOT_FOUND'],
    ['ControllerExpandVolume', { volumeId: 'none', capacityRange: { requiredBytes: mib } }, 'NOT_FOUND'],
    ['CreateSnapshot', { name: 'sourceless', sourceVolumeId: 'none' }, 'NOT_FOUND'],
    ['ControllerPublishVolume', { nodeId: 'here', volumeCapability: writer }, 'INVALID_ARGUMENT'],
    ['ControllerPublishVolume', { volumeId: 'V', volumeCapability: writer }, 'INVALID_ARGUMENT'],
    ['ControllerPublishVolume', { volumeId: 'V', nodeId: 'here' }, 'INVALID_ARGUMENT'],
    ['ControllerPublishVolume', { volumeId: 'none', nodeId: 'here', volumeCapability: writer }, 'NOT_FOUND'],
    ['ControllerUnpublishVolume', { nodeId: 'here' }, 'INVALID_ARGUMENT'],
    ['ValidateVolumeCapabilities', { volumeCapabilities: [writer] }, 'INVALID_ARGUMENT'],
    ['ValidateVolumeCapabilities', { volumeId: 'V' }, 'INVALID_ARGUMENT'],
    ['ValidateVolumeCapabilities', { volumeId: 'none', volumeCapabilities: [writer] }, 'NOT_FOUND'],
    ['ControllerGetVolume', {}, 'INVALID_ARGUMENT'],
    ['ControllerGetVolume', { volumeId: 'none' }, 'NOT_FOUND'],
    ['DeleteVolume', {}, 'INVALID_ARGUMENT'],
    ['ListVolumes', { startingToken: 'nobody' }, 'ABORTED'],
    ['ListVolumes', { maxEntries: -1 }, 'INVALID_ARGUMENT'],
    ['ListSnapshots', { maxEntries: -1 }, 'INVALID_ARGUMENT'],
    ['ListSnapshots', { startingToken: 'nobody' }, 'ABORTED'],
  ] as const)('%s rejects %j', async (method, request, code) => {
    const volume = await create();
    await expect(controller(method, filled(request, volume, ''))).rejects.toMatchObject({ code });
  });

  it('rejects a name or an attachment that exists with other properties', async () => {
    const [volumeId, other] = [await create(), await create()];
    const name = `snapshot-${++openClients}`;
    await controller('CreateSnapshot', { sourceVolumeId: volumeId, name });
    await expect(controller('CreateSnapshot', { sourceVolumeId: other, name })).rejects.toMatchObject({ code: 'ALREADY_EXISTS' });
    const attachment = { volumeId, nodeId: 'here', volumeCapability: writer, readonly: false };
    await controller('ControllerPublishVolume', attachment);
    for (const change of [{ readonly: true }, { volumeCapability: mount('SINGLE_NODE_READER_ONLY') }])
      await expect(controller('ControllerPublishVolume', { ...attachment, ...change })).rejects.toMatchObject({ code: 'ALREADY_EXISTS' });
  });

  it('finds snapshots by their source and by their id, in pages', async () => {
    const [one, other] = [await create(), await create()];
    const createSnapshot = [await snapshotOf(one), await snapshotOf(one), await snapshotOf(other)];
    const list = async (request: object) => {
      const { entries, nextToken } = await controller<{ entries: { snapshot: CsiSnapshot }[]; nextToken: string }>(
        'ListSnapshots',
        request,
      );
      return { ids: entries.map(({ snapshot }) => snapshot.snapshotId), nextToken };
    };
    expect((await list({ sourceVolumeId: one })).ids).toEqual(createSnapshot.slice(0, 2).sort());
    expect((await list({ snapshotId: createSnapshot[2] })).ids).toEqual(createSnapshot.slice(2));
    expect((await list({ snapshotId: 'nobody' })).ids).toEqual([]);
    expect((await list({ sourceVolumeId: 'nobody' })).ids).toEqual([]);
    const first = await list({ sourceVolumeId: one, maxEntries: 1 });
    const second = await list({ sourceVolumeId: one, maxEntries: 1, startingToken: first.nextToken });
    expect([...first.ids, ...second.ids]).toEqual(createSnapshot.slice(0, 2).sort());
  });

  it.skipIf(!isRoot)('reports RESOURCE_EXHAUSTED if the disk has no space for a copy', async () => {
    const small = join(directory, 'small');
    await mkdir(small);
    await run('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', small]);
    const options = { name: 'small.example', nodeId: 'here', capacityBytes: 1024 * mib, version: 'test', now: Date.now };
    const tight = await driver({ ...options, endpoint: join(directory, 'small.sock'), dataDir: join(small, 'data') });
    const asking = new UnixClient({ socket: join(directory, 'small.sock'), table: csiTable, timeoutMs: 30_000 });
    try {
      const ask = <T extends object>(method: string, request: object) => asking.call<T>('csi.v1.Controller', method, request);
      const { volume } = await ask<{ volume: CsiVolume }>('CreateVolume', { name: 'full', volumeCapabilities: [writer] });
      await writeFile(join(small, 'data', 'content', volume.volumeId, 'file'), Buffer.alloc(600 << 10, 1));
      for (const [method, request] of [
        ['CreateSnapshot', { name: 'copy', sourceVolumeId: volume.volumeId }],
        ['CreateVolume', { name: 'copy', volumeCapabilities: [writer], volumeContentSource: { volume: { volumeId: volume.volumeId } } }],
      ] as const)
        await expect(ask(method, request)).rejects.toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
      expect((await ask<{ entries: unknown[] }>('ListSnapshots', {})).entries).toEqual([]);
    } finally {
      asking.close();
      await tight.close();
      await run('umount', [small]);
    }
  });
});
