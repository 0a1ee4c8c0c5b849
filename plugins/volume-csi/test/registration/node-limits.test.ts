import { csiDrivers, csiNodes } from '@oarlock/api/resources';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { nodes } from '@oarlock/api/resources';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { CsiDriver } from '../../src/driver/csi-driver.ts';
import { NodeLimits } from '../../src/registration/node-limits.ts';

const name = 'a.example.com';
let clock: FakeClock;
let api: ReturnType<typeof memoryApi>;
let limits: NodeLimits;
let most: number;
let asked: number;

beforeEach(async () => {
  [most, asked] = [3, 0];
  clock = new FakeClock();
  api = memoryApi({ clock });
  api.seed(nodes, { metadata: { name: 'here', uid: 'u' } });
  api.seed(csiNodes, { metadata: { name: 'here' }, spec: { drivers: [{ name, nodeID: 'id', allocatable: { count: 3 } }] } });
  const node = { nodeId: 'id', maxVolumesPerNode: 3 };
  const nodeGetInfo = () => Promise.resolve({ ...node, maxVolumesPerNode: (asked++, most) });
  const driver = { name, node, client: { nodeGetInfo } } as unknown as CsiDriver;
  limits = new NodeLimits({ driver, nodeName: 'here', client: api.client(), informers: api.informers, clock, log: silentLogger });
  limits.start();
  await api.settle();
});
afterEach(async () => {
  await limits.stop();
  await api.stop();
});
const count = () => api.object(csiNodes, { name: 'here' })?.spec.drivers[0]?.allocatable?.count;
const every = (nodeAllocatableUpdatePeriodSeconds: number | null) =>
  api.client().patch(csiDrivers, { name }, 'merge', { spec: { nodeAllocatableUpdatePeriodSeconds } });

it('queries a driver at the period of its CSIDriver, and not at all without one', async () => {
  await api.client().create(csiDrivers, { metadata: { name }, spec: {} });
  await clock.advance(600_000);
  limits.onResourceExhausted();
  expect(asked).toBe(0);
  await every(60);
  most = 2;
  await api.settle();
  await clock.advance(60_000);
  await api.settle();
  expect([asked, count()]).toEqual([1, 2]);
  await clock.advance(120_000);
  await api.settle();
  expect(asked).toBe(3);
  await every(null);
  await api.settle();
  await clock.advance(600_000);
  expect(asked).toBe(3);
});

it('queries the driver at once when an attachment fails with ResourceExhausted', async () => {
  await api.client().create(csiDrivers, { metadata: { name }, spec: { nodeAllocatableUpdatePeriodSeconds: 3600 } });
  await api.settle();
  most = 1;
  limits.onResourceExhausted();
  await api.settle();
  expect([asked, count()]).toEqual([1, 1]);
});
