import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import { driver as hostpath } from '@oarlock/csi-hostpath/driver';
import { silentLogger } from '@oarlock/kernel/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { meet, type CsiDriver } from '../src/csi-driver.ts';
import { NodeExpansion } from '../src/node-expansion.ts';
import { OnlineGrowth } from '../src/online-growth.ts';
import { Staging } from '../src/staging.ts';
import { driverName, waiting } from './world.ts';

describe('volumes that others make larger while they are mounted', () => {
  let directory: string;
  let server: { close(): Promise<void> };
  let driver: CsiDriver;
  let clock: FakeClock;
  let api: MemoryApi;
  let growth: OnlineGrowth;
  let volumeId: string;
  const events: string[] = [];
  const name = { namespace: 'default', name: 'data' };
  const claim = () => api.object(persistentVolumeClaims, name);

  beforeEach(async () => {
    events.length = 0;
    directory = await mkdtemp(join(tmpdir(), 'growth-'));
    const socket = join(directory, 'csi.sock');
    const more = { nodeId: 'here', capacityBytes: 2 ** 30, version: 'test', now: Date.now, nodeExpansion: true };
    server = await hostpath({ name: driverName, endpoint: socket, dataDir: join(directory, 'data'), ...more });
    clock = new FakeClock();
    api = memoryApi({ clock });
    const config = { socket, provision: false, central: false };
    driver = await meet(socket, config, { clock, log: silentLogger, signal: new AbortController().signal });
    const writer = { mount: {}, accessMode: { mode: 'SINGLE_NODE_WRITER' } } as const;
    ({ volumeId } = await driver.client.createVolume({
      name: 'v',
      volumeCapabilities: [writer],
      capacityRange: { requiredBytes: 2 ** 20 },
    }));
    const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '2Mi' } }, volumeName: 'v' };
    api.seed(persistentVolumeClaims, { metadata: name, spec, status: { phase: 'Bound', capacity: { storage: '1Mi' } } });
    api.seed(persistentVolumes, {
      metadata: { name: 'v' },
      spec: { capacity: { storage: '1Mi' }, csi: { driver: driverName, volumeHandle: volumeId } },
    });
    const staging = new Staging(join(directory, 'staging'));
    const expansion = new NodeExpansion(api.client(), staging, {
      event: (_about, type, reason) => void events.push(`${type} ${reason}`),
    });
    growth = new OnlineGrowth({ client: api.client(), staging, expansion, clock, log: silentLogger, random: () => 0.5 });
    growth.watch({
      driver,
      claim: name,
      volumeName: 'v',
      volumePath: directory,
      staged: staging.of(driverName, volumeId),
      volumeCapability: writer,
    });
  });
  afterEach(async () => {
    growth.stop();
    driver.client.close();
    await server.close();
    await api.stop();
    await rm(directory, { recursive: true });
  });

  /** What a resizer writes when the driver has done its part. */
  const larger = async () => {
    const client = api.client();
    await client.patch(persistentVolumes, { name: 'v' }, 'merge', { spec: { capacity: { storage: '2Mi' } } });
    const status = { allocatedResourceStatuses: { storage: 'NodeResizePending' }, allocatedResources: { storage: '2Mi' } };
    await client.patch(persistentVolumeClaims, name, 'merge', { status }, { subresource: 'status' });
  };

  it('grow on the node', async () => {
    await driver.client.expand({ volumeId, capacityRange: { requiredBytes: 2 ** 21 } });
    await larger();
    await clock.advance(30_001);
    await vi.waitFor(() => expect(claim()?.status?.capacity).toEqual({ storage: '2Mi' }), waiting);
    expect(claim()?.status?.allocatedResourceStatuses).toBeUndefined();
    expect(events).toEqual(['Normal FileSystemResizeSuccessful']);
  });

  it('are said to be impossible when the driver says so, and may then ask for less', async () => {
    // the driver was not asked: it knows nothing of another size
    await larger();
    await clock.advance(30_001);
    await vi.waitFor(() => expect(claim()?.status?.allocatedResourceStatuses).toEqual({ storage: 'NodeResizeInfeasible' }), waiting);
    expect(claim()?.status?.capacity).toEqual({ storage: '1Mi' });
    expect(events).toEqual(['Warning VolumeResizeFailed']);
  });

  it('are asked for no more when they are not mounted any more', async () => {
    growth.stop();
    await larger();
    api.requests.length = 0;
    await clock.advance(120_000);
    expect(api.requests.filter(({ verb }) => verb === 'get')).toEqual([]);
  });
});
