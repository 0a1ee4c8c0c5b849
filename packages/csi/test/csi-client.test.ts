import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serveUnix } from '@oarlock/grpc/unix-server';
import { afterEach, describe, expect, it } from 'vitest';
import { CsiClient } from '../src/csi-client.ts';
import { csiTable } from '../src/csi-messages.ts';

const serviceOf = (method: string) => {
  if (method.startsWith('GetPlugin')) return 'csi.v1.Identity';
  if (method.startsWith('Node')) return 'csi.v1.Node';
  return method.includes('Group') ? 'csi.v1.GroupController' : 'csi.v1.Controller';
};

/** Serves answers of a hostile driver on a real socket. */
class HostileDriver implements AsyncDisposable {
  readonly client: CsiClient;
  readonly #directory: string;
  readonly #server: { close(): Promise<void> };

  private constructor(directory: string, server: { close(): Promise<void> }, client: CsiClient) {
    this.#directory = directory;
    this.#server = server;
    this.client = client;
  }
  static async answering(method: string, answer: object | (() => object)): Promise<HostileDriver> {
    const directory = await mkdtemp(join(tmpdir(), 'hostile-'));
    const socket = join(directory, 'csi.sock');
    const methods = { [method]: () => (typeof answer === 'function' ? (answer as () => object)() : answer) };
    const services = { [serviceOf(method)]: methods };
    const server = await serveUnix({ socket, table: csiTable, services });
    return new HostileDriver(directory, server, new CsiClient(socket));
  }
  async [Symbol.asyncDispose](): Promise<void> {
    this.client.close();
    await this.#server.close();
    await rm(this.#directory, { recursive: true });
  }
}

const volume = (more: object = {}) => ({ volume: { volumeId: 'v', capacityBytes: 1, ...more } });
const snapshot = (more: object = {}) => ({ snapshot: { snapshotId: 's', sourceVolumeId: 'v', sizeBytes: 1, ...more } });
const group = (more: object = {}, snapshots: readonly object[] = [snapshot().snapshot]) => ({
  groupSnapshot: { groupSnapshotId: 'g', snapshots, ...more },
});
const create = (client: CsiClient) => client.createVolume({ name: 'n', volumeCapabilities: [] });
const take = (client: CsiClient) => client.createSnapshot({ name: 'n', sourceVolumeId: 'v' });
const takeGroup = (client: CsiClient) => client.createVolumeGroupSnapshot({ name: 'n', sourceVolumeIds: ['v', 'w'] });
const nodeInfo = (client: CsiClient) => client.nodeGetInfo();
const attach = (client: CsiClient) => client.controllerPublishVolume({ volumeId: 'v', nodeId: 'n', readonly: false });
const stats = (client: CsiClient) => client.nodeGetVolumeStats({ volumeId: 'v', volumePath: '/v' });
const capacity = (client: CsiClient) => client.getCapacity({});
const list = async (client: CsiClient) => {
  const ids: string[] = [];
  for await (const { volume: each } of client.listVolumes()) ids.push(each.volumeId);
  return ids;
};

type Case = readonly [method: string, answer: object, call: (client: CsiClient) => Promise<unknown>, rejection: string];
const rejected: readonly Case[] = [
  [
    'GetPluginInfo',
    { name: '../../etc' },
    (client) => client.getPluginInfo(),
    'name "../../etc" must be a domain name of at most 63 characters',
  ],
  ['CreateVolume', {}, create, 'volume is required'],
  ['CreateVolume', volume({ volumeId: '' }), create, 'volume.volume_id "" must not be empty'],
  ['CreateVolume', volume({ volumeId: 'a\u0000b' }), create, 'volume.volume_id "a\\u0000b" must not contain control characters'],
  [
    'CreateVolume',
    volume({ volumeId: 'x'.repeat(3000) }),
    create,
    `volume.volume_id "${'x'.repeat(64)}"... (3000 bytes) must have at most 2048 bytes`,
  ],
  ['CreateVolume', volume({ capacityBytes: -1 }), create, 'volume.capacity_bytes -1 must not be negative'],
  [
    'CreateVolume',
    volume({ capacityBytes: 2 ** 62 }),
    create,
    'volume.capacity_bytes 4611686018427388000 must be at most 9007199254740991',
  ],
  [
    'CreateVolume',
    volume({ volumeContext: { key: 'x'.repeat(70_000) } }),
    create,
    `volume.volume_context "key=${'x'.repeat(60)}"... (70004 bytes) must have at most 65536 bytes in all`,
  ],
  [
    'CreateVolume',
    volume({ accessibleTopology: [{ segments: { 'a b': 'c' } }] }),
    create,
    'volume.accessible_topology[0].segments "a b" must have keys that are label names',
  ],
  [
    'CreateVolume',
    volume({ accessibleTopology: [{ segments: { zone: '../x' } }] }),
    create,
    'volume.accessible_topology[0].segments[zone] "../x" must be a label value that is not empty',
  ],
  ['ControllerPublishVolume', { publishContext: { '': 'x' } }, attach, 'publish_context "" must not have an empty key'],
  [
    'ControllerExpandVolume',
    { capacityBytes: -5 },
    (client) => client.controllerExpandVolume({ volumeId: 'v' }),
    'capacity_bytes -5 must not be negative',
  ],
  [
    'ControllerExpandVolume',
    { capacityBytes: 0 },
    (client) => client.controllerExpandVolume({ volumeId: 'v', capacityRange: { requiredBytes: 7 } }),
    'capacity_bytes 0 must be at least 7, as requested',
  ],
  ['GetCapacity', { availableCapacity: -1 }, capacity, 'available_capacity -1 must not be negative'],
  ['GetCapacity', { maximumVolumeSize: { value: -2 } }, capacity, 'maximum_volume_size -2 must not be negative'],
  ['CreateSnapshot', {}, take, 'snapshot is required'],
  ['CreateSnapshot', snapshot({ snapshotId: '' }), take, 'snapshot.snapshot_id "" must not be empty'],
  ['CreateSnapshot', snapshot({ sourceVolumeId: 'other' }), take, 'snapshot.source_volume_id "other" must be "v", as requested'],
  [
    'CreateSnapshot',
    snapshot({ creationTime: { seconds: 1e12, nanos: 0 } }),
    take,
    'snapshot.creation_time.seconds 1000000000000 must be between 0 and 253402300799',
  ],
  [
    'ListSnapshots',
    { entries: [snapshot({ snapshotId: 'other' })] },
    (client) => client.snapshot('s', {}),
    'entries[0].snapshot.snapshot_id "other" must be "s", as requested',
  ],
  [
    'CreateVolumeGroupSnapshot',
    group({}, [{ ...snapshot().snapshot, sourceVolumeId: 'other' }]),
    takeGroup,
    'group_snapshot.snapshots[0].source_volume_id "other" must be one of the requested ["v" "w"]',
  ],
  [
    'CreateVolumeGroupSnapshot',
    group({}, [snapshot().snapshot, snapshot().snapshot, snapshot().snapshot]),
    takeGroup,
    'group_snapshot.snapshots 3 must have at most 2 entries',
  ],
  ['CreateVolumeGroupSnapshot', group(), takeGroup, 'group_snapshot.snapshots "w" is requested and missing'],
  [
    'GetVolumeGroupSnapshot',
    group({ groupSnapshotId: 'other' }),
    (client) => client.getVolumeGroupSnapshot({ groupSnapshotId: 'g', snapshotIds: [] }),
    'group_snapshot.group_snapshot_id "other" must be "g", as requested',
  ],
  [
    'ControllerGetVolume',
    { ...volume({ volumeId: 'other' }), status: {} },
    (client) => client.volumeCondition('v'),
    'volume.volume_id "other" must be "v", as requested',
  ],
  [
    'ListVolumes',
    { entries: [{ ...volume(), status: { volumeCondition: { abnormal: true, message: 'x'.repeat(5000) } } }] },
    list,
    `entries[0].status.volume_condition.message "${'x'.repeat(64)}"... (5000 bytes) must have at most 4096 bytes`,
  ],
  ['ListVolumes', { entries: [], nextToken: 'again' }, list, 'next_token "again" must differ from the token of the page'],
  ['NodeGetInfo', { nodeId: '' }, nodeInfo, 'node_id "" must not be empty'],
  ['NodeGetInfo', { nodeId: 'n', maxVolumesPerNode: -1 }, nodeInfo, 'max_volumes_per_node -1 must not be negative'],
  ['NodeGetVolumeStats', { usage: [{ unit: 'BYTES', used: -1 }] }, stats, 'usage[BYTES].used -1 must not be negative'],
];

describe('the answer of a hostile driver', () => {
  let driver: HostileDriver;
  afterEach(() => driver[Symbol.asyncDispose]());

  it.each(rejected)('%s is rejected: %o', async (method, answer, call, rejection) => {
    driver = await HostileDriver.answering(method, answer);
    await expect(call(driver.client)).rejects.toMatchObject({
      name: 'GrpcError',
      code: 'INTERNAL',
      message: `the driver's answer to ${method} is invalid: ${rejection}`,
    });
  });

  it('is rejected if its pages do not end', async () => {
    let page = 0;
    driver = await HostileDriver.answering('ListVolumes', () => ({ entries: [], nextToken: `page-${page++}` }));
    await expect(list(driver.client)).rejects.toThrow('pages 1001 must have at most 1000 entries');
  });

  it('is rejected if it is larger than a message of gRPC may be', async () => {
    const answer = volume({ volumeContext: { key: 'x'.repeat(5 * 2 ** 20) } });
    driver = await HostileDriver.answering('CreateVolume', answer);
    await expect(create(driver.client)).rejects.toMatchObject({ name: 'GrpcError', code: 'RESOURCE_EXHAUSTED' });
  });

  it('is accepted at the limits', async () => {
    driver = await HostileDriver.answering(
      'CreateVolume',
      volume({ volumeId: 'x'.repeat(2048), capacityBytes: Number.MAX_SAFE_INTEGER, accessibleTopology: [{ segments: { 'a.b/c': 'd' } }] }),
    );
    expect((await create(driver.client)).capacityBytes).toBe(Number.MAX_SAFE_INTEGER);
  });
});
