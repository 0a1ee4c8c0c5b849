import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { ControllerRpc } from '@oarlock/csi/csi-messages';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, describe, expect, it } from 'vitest';
import { connectDriver, type CsiDriver } from '../../src/driver/csi-driver.ts';
import { HealthMonitor } from '../../src/sidecars/health-monitor.ts';
import { until } from '../support/csi-environment.ts';
import { PlainDriver, plainDriverName } from '../support/plain-driver.ts';

const condition = (abnormal: boolean, message: string) => ({ abnormal, message });

describe.each<readonly [string, ControllerRpc, number]>([
  ['ListVolumes', 'LIST_VOLUMES', 300_000],
  ['ControllerGetVolume', 'GET_VOLUME', 60_000],
])('HealthMonitor with %s', (method, capability, periodMs) => {
  let directory: string;
  let server: { close(): Promise<void> };
  let plain: PlainDriver;
  let driver: CsiDriver;
  let api: MemoryApi;
  let clock: FakeClock;
  let monitor: HealthMonitor;
  const events: string[] = [];
  /** The conditions that the driver reports, by volume id. An id without one has no volume. */
  const conditions = new Map<string, object>();

  const open = async () => {
    events.length = 0;
    conditions.clear();
    directory = await mkdtemp(join(tmpdir(), 'health-'));
    const message = (volumeId: string) => ({ volume: { volumeId }, status: { volumeCondition: conditions.get(volumeId) } });
    plain = new PlainDriver({
      controllerCapabilities: [capability, 'CONTROLLER_VOLUME_CONDITION'],
      answers: {
        ListVolumes: (_answer, { startingToken }) => {
          const [first, ...others] = [...conditions.keys()];
          return startingToken === ''
            ? { entries: first === undefined ? [] : [message(first)], nextToken: 'others' }
            : { entries: others.map(message) };
        },
        ControllerGetVolume: (_answer, { volumeId }) => {
          if (!conditions.has(volumeId)) throw new GrpcError('NOT_FOUND', `no volume ${volumeId}`);
          return message(volumeId);
        },
      },
    });
    const socket = join(directory, 'csi.sock');
    server = await plain.serve(socket, join(directory, 'data'));
    clock = new FakeClock();
    api = memoryApi({ clock });
    const config = { socket, provision: true, central: true };
    driver = await connectDriver(socket, config, { clock, log: silentLogger, signal: new AbortController().signal });
    const recorder = {
      event: (about: { readonly metadata?: { readonly name?: string } }, type: string, reason: string, text: string) =>
        void events.push(`${about.metadata?.name} ${type} ${reason}: ${text}`),
    };
    monitor = new HealthMonitor({
      driver,
      nodeName: 'here',
      client: api.client(),
      informers: api.informers,
      recorder,
      clock,
      log: silentLogger,
    });
  };
  afterEach(async () => {
    await monitor.stop();
    driver.client.close();
    await server.close();
    await api.stop();
    await rm(directory, { recursive: true });
  });
  const volume = (name: string, phase = 'Bound') => {
    api.seed(persistentVolumeClaims, { metadata: { namespace: 'default', name }, spec: { accessModes: ['ReadWriteOnce'] } });
    api.seed(persistentVolumes, {
      metadata: { name: `pv-${name}` },
      spec: { csi: { driver: plainDriverName, volumeHandle: name }, claimRef: { namespace: 'default', name } },
      status: { phase },
    });
  };
  /** Waits until the check with this number has made its calls, and has set the timer of the next. */
  const checked = async (calls: number) => {
    await until(() => (plain.calls.filter((each) => each === method).length >= calls ? true : undefined));
    await until(() => (clock.pending > 0 ? true : undefined));
  };

  it('reports abnormal volumes once, and their recovery', async () => {
    await open();
    for (const name of ['good', 'bad', 'gone']) volume(name);
    volume('free', 'Available');
    conditions.set('good', condition(false, 'fine'));
    conditions.set('bad', condition(true, 'a disk is lost'));
    conditions.set('free', condition(true, 'without a claim'));
    conditions.set('unknown', condition(true, 'no PersistentVolume has it'));
    const perCheck = method === 'ListVolumes' ? 2 : 3;
    monitor.start();
    await checked(perCheck);
    expect(events).toEqual(['bad Warning VolumeConditionAbnormal: a disk is lost']);
    await clock.advance(periodMs);
    await checked(2 * perCheck);
    expect(events).toHaveLength(1);
    conditions.set('bad', condition(false, 'fine'));
    await clock.advance(periodMs);
    await checked(3 * perCheck);
    expect(events.slice(1)).toEqual(['bad Normal VolumeConditionNormal: The Volume returns to the healthy state']);
  });
});
