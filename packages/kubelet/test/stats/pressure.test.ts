import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CgroupfsManager } from '../../src/container-manager/cgroupfs-manager.ts';
import { PodContainerManager } from '../../src/container-manager/pod-container-manager.ts';
import { SystemdCgroupManager } from '../../src/container-manager/systemd-cgroup-manager.ts';
import { MetricSeries } from '../../src/server/stats/metric-series.ts';
import { addPressureMetrics, podPressure } from '../../src/server/stats/pressure-stats.ts';
import { cgroupPressure, machinePressure, parsePressure } from '../../src/stats/pressure.ts';
import { podOf } from '../support/bench.ts';

const line = (kind: string, total: number) => `${kind} avg10=1.50 avg60=0.25 avg300=0.00 total=${total}\n`;
const data = (total: number) => ({ total, avg10: 1.5, avg60: 0.25, avg300: 0 });
const none = { total: 0, avg10: 0, avg60: 0, avg300: 0 };

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'oarlock-pressure-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function writePressure(directory: string, total: number, extension = '.pressure'): void {
  mkdirSync(directory, { recursive: true });
  for (const [index, resource] of ['cpu', 'memory', 'io'].entries())
    writeFileSync(join(directory, `${resource}${extension}`), line('some', total + index) + line('full', total + 10 + index));
}
const pressure = (total: number) =>
  Object.fromEntries(
    ['cpu', 'memory', 'io'].map((resource, index) => [resource, { some: data(total + index), full: data(total + 10 + index) }]),
  );

describe('pressure stall information', () => {
  it('is parsed with and without the line "full", which the CPU of older kernels lacks', () => {
    expect(parsePressure(line('some', 7) + line('full', 8))).toEqual({ some: data(7), full: data(8) });
    expect(parsePressure(line('some', 7))).toEqual({ some: data(7), full: none });
    expect(parsePressure('')).toBeUndefined();
  });

  it('of the machine is empty without support of the kernel', async () => {
    expect(await machinePressure(root)).toEqual({});
    writePressure(join(root, 'pressure'), 100, '');
    expect(await machinePressure(root)).toEqual(pressure(100));
  });

  it('of a cgroup lacks the resources that the kernel does not report', async () => {
    writeFileSync(join(root, 'io.pressure'), line('some', 3) + line('full', 4));
    expect(await cgroupPressure(root)).toEqual({ io: { some: data(3), full: data(4) } });
  });
});

describe('the pressure of a pod', () => {
  const web = { ...podOf('web', {}), metadata: { name: 'web', namespace: 'default', uid: 'uid-web' } };
  const managerOf = (cgroups: CgroupfsManager | SystemdCgroupManager) =>
    new PodContainerManager({ cgroups, root: '/', node: {}, maxPids: 100, clock: systemClock, log: silentLogger });
  const read = (manager: PodContainerManager | undefined) =>
    podPressure({
      record: { pod: web, runtime: undefined, node: { containerManager: { podContainerManager: () => manager } } },
    } as never);

  it('is read from its cgroup, and that of a container from the child with its id', async () => {
    writeFileSync(join(root, 'cgroup.controllers'), '');
    writePressure(join(root, 'kubepods/besteffort/poduid-web'), 1000);
    writePressure(join(root, 'kubepods/besteffort/poduid-web/cri-containerd-abc.scope'), 2000);
    const cgroups = await CgroupfsManager.open(root);
    const found = await read(cgroups && managerOf(cgroups));
    expect(found.ofPod).toEqual(pressure(1000));
    expect(found.ofContainer('abc')).toEqual(pressure(2000));
    expect(found.ofContainer('def')).toEqual({});
  });

  it('is read below the slices of systemd', async () => {
    writeFileSync(join(root, 'cgroup.controllers'), '');
    const slice = 'kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poduid_web.slice';
    writePressure(join(root, slice), 1000);
    const cgroups = await CgroupfsManager.open(root);
    const found = await read(cgroups && managerOf(new SystemdCgroupManager(cgroups)));
    expect(found.ofPod).toEqual(pressure(1000));
  });

  it('is empty with cgroup v1, and without a cgroup of the pod', async () => {
    for (const controller of ['cpu', 'memory']) mkdirSync(join(root, controller));
    const cgroups = await CgroupfsManager.open(root);
    for (const manager of [cgroups && managerOf(cgroups), undefined]) {
      const found = await read(manager);
      expect(found.ofPod).toEqual({});
      expect(found.ofContainer('abc')).toEqual({});
    }
  });
});

describe('the metrics of pressure stall information', () => {
  it('are in seconds and omit what the kernel does not report', () => {
    const series = new MetricSeries();
    addPressureMetrics(series, [
      { labels: { container: 'app' }, at: 5000, pressure: { cpu: { some: data(2_500_000), full: data(500_000) } } },
      { labels: { container: 'other' }, at: 5000, pressure: {} },
    ]);
    expect(series.text).toBe(
      [
        '# HELP container_pressure_cpu_stalled_seconds_total Total time duration no tasks in the container could make progress due to CPU congestion.',
        '# TYPE container_pressure_cpu_stalled_seconds_total counter',
        'container_pressure_cpu_stalled_seconds_total{container="app"} 0.5 5000',
        '# HELP container_pressure_cpu_waiting_seconds_total Total time duration tasks in the container have waited due to CPU congestion.',
        '# TYPE container_pressure_cpu_waiting_seconds_total counter',
        'container_pressure_cpu_waiting_seconds_total{container="app"} 2.5 5000',
        '',
      ].join('\n'),
    );
  });
});
