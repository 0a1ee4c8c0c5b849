import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseQuantity } from '@oarlock/api/values/quantity';
import type { PodSpec, ResourceRequirements } from '@oarlock/api/types/core-v1';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { cpuWeight } from '@oarlock/api/component-helpers/cpu-weight';
import { CgroupfsManager } from '../../src/container-manager/cgroupfs-manager.ts';
import { nodeResourceConfig, podResourceConfig } from '../../src/container-manager/resource-config.ts';
import { PodContainerManager } from '../../src/container-manager/pod-container-manager.ts';
import { SystemdCgroupManager } from '../../src/container-manager/systemd-cgroup-manager.ts';
import { app, podOf } from '../support/bench.ts';

const mebi = 2 ** 20;
/** `cpu memory` of requests, and then of limits. */
const amounts = (requests: string, limits?: string): ResourceRequirements => {
  const of = (text: string) => ({ cpu: text.split(' ')[0] ?? '', memory: text.split(' ')[1] ?? '' });
  return { requests: of(requests), ...(limits !== undefined && { limits: of(limits) }) };
};
const pod = (name: string, spec: Partial<PodSpec>) => {
  const base = podOf(name, spec);
  return { ...base, metadata: { ...base.metadata, uid: `uid-${name}` } };
};
const podWith = (...all: ResourceRequirements[]) =>
  pod('web', { containers: all.map((resources, index) => app({ name: `c${index}`, resources })) });

describe('limits of a pod cgroup', () => {
  const none = { cpuQuota: Infinity, memory: Infinity, pids: 100, hugepages: {} };

  it("are the sum of the containers' limits if every container has one", () => {
    expect(podResourceConfig(podWith(amounts('100m 64Mi', '200m 128Mi'), amounts('100m 64Mi', '300m 128Mi')), 100)).toEqual({
      ...none,
      cpuShares: 204,
      cpuQuota: 50_000,
      memory: 256 * mebi,
    });
    expect(
      podResourceConfig(podWith(amounts('100m 64Mi', '200m 128Mi'), { requests: { cpu: '100m' }, limits: { memory: '1Mi' } }), 100),
    ).toEqual({
      ...none,
      cpuShares: 204,
      memory: 129 * mebi,
    });
    expect(podResourceConfig(pod('web', {}), 100)).toEqual({ ...none, cpuShares: 2 });
  });

  it('are the pod-level resources, with overhead and the peak of initialization', () => {
    const whole = pod('web', {
      resources: amounts('500m 100Mi', '1 200Mi'),
      containers: [app({}), app({ name: 'b', resources: amounts('100m 10Mi', '200m 20Mi') })],
      overhead: { cpu: '100m', memory: '10Mi' },
    });
    expect(podResourceConfig(whole, 100)).toEqual({ ...none, cpuShares: 614, cpuQuota: 110_000, memory: 210 * mebi });
    const init = pod('web', {
      containers: [app({ resources: amounts('100m 10Mi', '100m 10Mi') })],
      initContainers: [
        app({ name: 'side', restartPolicy: 'Always', resources: amounts('100m 10Mi', '100m 10Mi') }),
        app({ name: 'big', resources: amounts('300m 5Mi', '300m 5Mi') }),
      ],
    });
    expect(podResourceConfig(init, 100)).toEqual({ ...none, cpuShares: 409, cpuQuota: 40_000, memory: 20 * mebi });
    const huge = podWith({ limits: { ...amounts('1 1Gi').requests, 'hugepages-2Mi': '4Mi' }, requests: { 'hugepages-2Mi': '4Mi' } });
    expect(podResourceConfig(huge, 100).hugepages).toEqual({ '2MB': 4 * mebi });
  });

  it('of the node are its capacity minus the reserved resources', () => {
    const capacity = { cpu: parseQuantity('4'), memory: parseQuantity('8Gi') };
    expect(nodeResourceConfig(capacity, { cpu: '500m', memory: '1Gi' })).toEqual({ cpuShares: 3584, memory: 7 * 1024 * mebi });
    expect([2, 1024, 262_144].map(cpuWeight)).toEqual([1, 100, 10_000]);
  });
});

describe('PodContainerManager', () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'oarlock-cgroups-'));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  /** Creates the files that the kernel would create in a new cgroup. */
  const createFiles = (directory: string, files: Readonly<Record<string, string>>) => {
    mkdirSync(join(root, directory), { recursive: true });
    for (const [file, text] of Object.entries(files)) writeFileSync(join(root, directory, file), text);
  };
  const read = (file: string) => readFileSync(join(root, file), 'utf8');
  const v2Files = { 'cpu.weight': '100', 'cpu.max': 'max 100000', 'memory.max': 'max', 'pids.max': 'max' };
  const controllerFiles = { 'cgroup.controllers': 'cpuset cpu memory pids', 'cgroup.subtree_control': '' };
  const managerOf = (cgroups: ConstructorParameters<typeof PodContainerManager>[0]['cgroups'], at = '/') =>
    new PodContainerManager({
      cgroups,
      root: at,
      node: { cpuShares: 2048, memory: 1024 * mebi },
      maxPids: 50,
      clock: systemClock,
      log: silentLogger,
    });

  const createV2Files = () => {
    createFiles('', controllerFiles);
    for (const directory of ['kubepods', 'kubepods/burstable', 'kubepods/besteffort'])
      createFiles(directory, { ...controllerFiles, ...v2Files });
  };
  const web = (size: string) => podWith(amounts('100m 64Mi', size));
  const at = 'kubepods/burstable/poduid-web';

  it('limits all pods, each QoS class and each pod with cgroup v2', async () => {
    createV2Files();
    createFiles(at, v2Files);
    const tree = await CgroupfsManager.open(root);
    if (!tree) throw new Error('no cgroups');
    expect(tree.version).toBe(2);
    const pods = managerOf(tree);
    await pods.open();
    expect(pods.podCgroupPath(web('200m 128Mi'))).toBe(`/${at}`);
    await pods.ensureExists(web('200m 128Mi'));
    expect(Object.keys(v2Files).map((file) => read(`${at}/${file}`))).toEqual(['17', '20000 100000', String(128 * mebi), '50']);
    expect([read('kubepods/memory.max'), read('kubepods/besteffort/cpu.weight')]).toEqual([String(1024 * mebi), '1']);
    // the last write enables the last controller
    expect(read('kubepods/burstable/cgroup.subtree_control')).toBe('+cpuset');
    await pods.close();
    expect(read('kubepods/burstable/cpu.weight')).toBe('17');
  });

  it('raises limits before a resize, lowers them after it, and not below the usage', async () => {
    createV2Files();
    createFiles(at, { ...v2Files, 'memory.current': String(100 * mebi), 'memory.stat': `anon 1\ninactive_file ${10 * mebi}\n` });
    const tree = await CgroupfsManager.open(root);
    if (!tree) throw new Error('no cgroups');
    const pods = managerOf(tree);
    await pods.ensureExists(web('200m 128Mi'));
    const now = () => [read(`${at}/cpu.max`), Number(read(`${at}/memory.max`)) / mebi];
    await pods.raiseLimits(web('300m 96Mi'));
    expect(now()).toEqual(['30000 100000', 128]);
    await pods.applyLimits(web('300m 96Mi'));
    expect(now()).toEqual(['30000 100000', 96]);
    await expect(pods.applyLimits(web('300m 80Mi'))).rejects.toThrow(
      `attempting to set pod memory limit (${80 * mebi}) below current usage (${90 * mebi})`,
    );
    expect(now()).toEqual(['30000 100000', 96]);
  });

  it('limits pods with cgroup v1 in each hierarchy', async () => {
    for (const directory of ['kubepods', 'kubepods/burstable', 'kubepods/besteffort', at]) {
      createFiles(`cpu/${directory}`, { 'cpu.shares': '', 'cpu.cfs_period_us': '', 'cpu.cfs_quota_us': '' });
      createFiles(`memory/${directory}`, { 'memory.limit_in_bytes': '' });
    }
    const tree = await CgroupfsManager.open(root);
    if (!tree) throw new Error('no cgroups');
    expect(tree.version).toBe(1);
    const pods = managerOf(tree);
    await pods.open();
    await pods.ensureExists(web('200m 128Mi'));
    expect(['cpu.shares', 'cpu.cfs_period_us', 'cpu.cfs_quota_us'].map((file) => read(`cpu/${at}/${file}`))).toEqual([
      '102',
      '100000',
      '20000',
    ]);
    expect(read(`memory/${at}/memory.limit_in_bytes`)).toBe(String(128 * mebi));
    await pods.applyLimits(podWith({ requests: { cpu: '100m' } }));
    expect([read(`cpu/${at}/cpu.cfs_quota_us`), read(`memory/${at}/memory.limit_in_bytes`)]).toEqual(['-1', '-1']);
  });

  it('rejects a cgroup without the required controllers and gives the reason', async () => {
    createFiles('', { ...controllerFiles });
    createFiles('own', { 'cgroup.controllers': 'cpu memory' });
    mkdirSync(join(root, 'own/cgroup.subtree_control'));
    const tree = await CgroupfsManager.open(root);
    if (!tree) throw new Error('no cgroups');
    await expect(managerOf(tree, '/own').open()).rejects.toThrow(/the cgroup \/own does not enable the controller cpu: /);
    expect(await CgroupfsManager.open(join(root, 'nothing'))).toBeUndefined();
  });

  it('creates slices with the systemd driver', async () => {
    createFiles('', controllerFiles);
    createFiles('a_b.slice/a_b-kubepods.slice/a_b-kubepods-burstable.slice', {});
    createFiles('a_b.slice/a_b-kubepods.slice/a_b-kubepods-burstable.slice/a_b-kubepods-burstable-poduid_web.slice', {
      'memory.max': '134217728',
      'cpu.max': 'max 100000',
    });
    const tree = await CgroupfsManager.open(root);
    if (!tree) throw new Error('no cgroups');
    const calls: string[] = [];
    const pods = managerOf(
      new SystemdCgroupManager(tree, async (file, args) => {
        calls.push([file, ...args].join(' '));
      }),
      '/a-b',
    );
    await pods.ensureExists(web('200m 128Mi'));
    await pods.close();
    const slice = 'a_b-kubepods-burstable-poduid_web.slice';
    expect(calls).toEqual([
      `systemctl start ${slice}`,
      `systemctl set-property --runtime a_b-kubepods-burstable.slice CPUWeight=17`,
      `systemctl set-property --runtime ${slice} CPUWeight=17 CPUQuota=20% MemoryMax=134217728 TasksMax=50`,
      'systemctl stop a_b-kubepods-besteffort.slice',
    ]);
    await pods.removeOrphanedPodCgroups((uid) => uid === 'uid-web');
    expect(calls).toHaveLength(4);
    await pods.removeOrphanedPodCgroups(() => false);
    expect(calls.at(-1)).toBe(`systemctl stop ${slice}`);
  });
});

const real = process.getuid?.() === 0 ? await CgroupfsManager.open() : undefined;
describe.runIf(real !== undefined)('PodContainerManager on this machine', () => {
  it('creates, limits, empties and removes cgroups', async () => {
    if (!real) return;
    const root = `/oarlock-test-${process.pid}-${Date.now()}`;
    const pods = new PodContainerManager({ cgroups: real, root, node: {}, maxPids: Infinity, clock: systemClock, log: silentLogger });
    await pods.open();
    const one = podWith(amounts('100m 64Mi', '200m 128Mi'));
    await pods.ensureExists(one);
    await pods.ensureExists(one);
    expect(await real.resourceConfig(pods.podCgroupPath(one))).toEqual({ cpuQuota: 20_000, memory: 128 * mebi });
    expect(await pods.processes(one)).toEqual([]);
    expect(await real.children(`${root}/kubepods/burstable`)).toEqual(['poduid-web']);
    await pods.close();
    expect(await real.children(`${root}/kubepods/burstable`)).toEqual(['poduid-web']);
    await pods.removeOrphanedPodCgroups(() => false);
    expect(await real.children(`${root}/kubepods/burstable`)).toEqual([]);
    await pods.destroy(one);
    await pods.close();
    expect(await real.children(root)).toEqual([]);
  });
});
