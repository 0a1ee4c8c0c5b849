import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import { driver as hostpath } from '@oarlock/csi-hostpath/driver';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { connectDriver, type CsiDriver } from '../../src/driver/csi-driver.ts';
import { NodeExpansion } from '../../src/node/node-expansion.ts';
import { OnlineExpansion } from '../../src/node/online-expansion.ts';
import { Staging } from '../../src/node/staging.ts';
import { driverName, waiting } from '../support/csi-environment.ts';

describe('OnlineExpansion', () => {
  let directory: string;
  let server: { close(): Promise<void> };
  let driver: CsiDriver;
  let clock: FakeClock;
  let api: MemoryApi;
  let growth: OnlineExpansion;
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
    driver = await connectDriver(socket, config, { clock, log: silentLogger, signal: new AbortController().signal });
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
    growth = new OnlineExpansion({ client: api.client(), staging, expansion, clock, log: silentLogger, random: () => 0.5 });
    growth.watch({
      driver,
      claim: name,
      volumeName: 'v',
      volumePath: directory,
      staged: staging.directoryOf(driverName, volumeId),
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

  /** Writes what an external resizer writes after the driver's part. */
  const larger = async () => {
    const client = api.client();
    await client.patch(persistentVolumes, { name: 'v' }, 'merge', { spec: { capacity: { storage: '2Mi' } } });
    const status = { allocatedResourceStatuses: { storage: 'NodeResizePending' }, allocatedResources: { storage: '2Mi' } };
    await client.patch(persistentVolumeClaims, name, 'merge', { status }, { subresource: 'status' });
  };

  it('expands a volume on the node', async () => {
    await driver.client.controllerExpandVolume({ volumeId, capacityRange: { requiredBytes: 2 ** 21 } });
    await larger();
    await clock.advance(30_001);
    await vi.waitFor(() => expect(claim()?.status?.capacity).toEqual({ storage: '2Mi' }), waiting);
    expect(claim()?.status?.allocatedResourceStatuses).toBeUndefined();
    expect(events).toEqual(['Normal FileSystemResizeSuccessful']);
  });

  it('marks the claim as infeasible if the driver rejects the size; the claim may then request less', async () => {
    // the driver's controller was not called, so the driver does not have the new size
    await larger();
    await clock.advance(30_001);
    await vi.waitFor(() => expect(claim()?.status?.allocatedResourceStatuses).toEqual({ storage: 'NodeResizeInfeasible' }), waiting);
    expect(claim()?.status?.capacity).toEqual({ storage: '1Mi' });
    expect(events).toEqual(['Warning VolumeResizeFailed']);
  });

  it('stops polling when the volume is unmounted', async () => {
    growth.stop();
    await larger();
    api.requests.length = 0;
    await clock.advance(120_000);
    expect(api.requests.filter(({ verb }) => verb === 'get')).toEqual([]);
  });
});
