import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseQuantity } from '@oarlock/api/quantity';
import type { PodSpec, ResourceRequirements } from '@oarlock/api/types/core-v1';
import { systemClock } from '@oarlock/kernel/clock';
import { silentLogger } from '@oarlock/kernel/logger';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CgroupTree, cpuWeight } from '../src/cgroups/cgroup-tree.ts';
import { nodeBounds, podBounds } from '../src/cgroups/pod-bounds.ts';
import { PodCgroups } from '../src/cgroups/pod-cgroups.ts';
import { SystemdSlices } from '../src/cgroups/systemd-slices.ts';
import { app, podOf } from './bench.ts';

const mebi = 2 ** 20;
/** `cpu memory` of requests, then of limits. */
const amounts = (requests: string, limits?: string): ResourceRequirements => {
  const of = (text: string) => ({ cpu: text.split(' ')[0] ?? '', memory: text.split(' ')[1] ?? '' });
  return { requests: of(requests), ...(limits !== undefined && { limits: of(limits) }) };
};
const pod = (name: string, spec: Partial<PodSpec>) => {
  const made = podOf(name, spec);
  return { ...made, metadata: { ...made.metadata, uid: `uid-${name}` } };
};
const asking = (...all: ResourceRequirements[]) =>
  pod('web', { containers: all.map((resources, index) => app({ name: `c${index}`, resources })) });

describe('what bounds a pod as a whole', () => {
  const none = { cpuQuota: Infinity, memory: Infinity, pids: 100, hugepages: {} };

  it('is the sum of its containers, where each has a limit', () => {
    expect(podBounds(asking(amounts('100m 64Mi', '200m 128Mi'), amounts('100m 64Mi', '300m 128Mi')), 100)).toEqual({
      ...none,
      cpuShares: 204,
      cpuQuota: 50_000,
      memory: 256 * mebi,
    });
    expect(podBounds(asking(amounts('100m 64Mi', '200m 128Mi'), { requests: { cpu: '100m' }, limits: { memory: '1Mi' } }), 100)).toEqual({
      ...none,
      cpuShares: 204,
      memory: 129 * mebi,
    });
    expect(podBounds(pod('web', {}), 100)).toEqual({ ...none, cpuShares: 2 });
  });

  it('is what the pod says of itself, with overhead and steps of initialization', () => {
    const whole = pod('web', {
      resources: amounts('500m 100Mi', '1 200Mi'),
      containers: [app({}), app({ name: 'b', resources: amounts('100m 10Mi', '200m 20Mi') })],
      overhead: { cpu: '100m', memory: '10Mi' },
    });
    expect(podBounds(whole, 100)).toEqual({ ...none, cpuShares: 614, cpuQuota: 110_000, memory: 210 * mebi });
    const init = pod('web', {
      containers: [app({ resources: amounts('100m 10Mi', '100m 10Mi') })],
      initContainers: [
        app({ name: 'side', restartPolicy: 'Always', resources: amounts('100m 10Mi', '100m 10Mi') }),
        app({ name: 'big', resources: amounts('300m 5Mi', '300m 5Mi') }),
      ],
    });
    expect(podBounds(init, 100)).toEqual({ ...none, cpuShares: 409, cpuQuota: 40_000, memory: 20 * mebi });
    const huge = asking({ limits: { ...amounts('1 1Gi').requests, 'hugepages-2Mi': '4Mi' }, requests: { 'hugepages-2Mi': '4Mi' } });
    expect(podBounds(huge, 100).hugepages).toEqual({ '2MB': 4 * mebi });
  });

  it('of all pods is the machine without what is kept from them', () => {
    const capacity = { cpu: parseQuantity('4'), memory: parseQuantity('8Gi') };
    expect(nodeBounds(capacity, { cpu: '500m', memory: '1Gi' })).toEqual({ cpuShares: 3584, memory: 7 * 1024 * mebi });
    expect([2, 1024, 262_144].map(cpuWeight)).toEqual([1, 100, 10_000]);
  });
});

describe('cgroups of pods', () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'oarlock-cgroups-'));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  /** The kernel puts files into every directory that is made; here they are put there before. */
  const offer = (directory: string, files: Readonly<Record<string, string>>) => {
    mkdirSync(join(root, directory), { recursive: true });
    for (const [file, text] of Object.entries(files)) writeFileSync(join(root, directory, file), text);
  };
  const read = (file: string) => readFileSync(join(root, file), 'utf8');
  const second = { 'cpu.weight': '100', 'cpu.max': 'max 100000', 'memory.max': 'max', 'pids.max': 'max' };
  const passes = { 'cgroup.controllers': 'cpuset cpu memory pids', 'cgroup.subtree_control': '' };
  const book = (cgroups: ConstructorParameters<typeof PodCgroups>[0]['cgroups'], at = '/') =>
    new PodCgroups({
      cgroups,
      root: at,
      node: { cpuShares: 2048, memory: 1024 * mebi },
      maxPids: 50,
      clock: systemClock,
      log: silentLogger,
    });

  const offerSecond = () => {
    offer('', passes);
    for (const directory of ['kubepods', 'kubepods/burstable', 'kubepods/besteffort']) offer(directory, { ...passes, ...second });
  };
  const web = (size: string) => asking(amounts('100m 64Mi', size));
  const at = 'kubepods/burstable/poduid-web';

  it('are bounded with version 2: all pods, each class, and each pod', async () => {
    offerSecond();
    offer(at, second);
    const tree = await CgroupTree.open(root);
    if (!tree) throw new Error('no cgroups');
    expect(tree.version).toBe(2);
    const pods = book(tree);
    await pods.open();
    expect(pods.of(web('200m 128Mi'))).toBe(`/${at}`);
    await pods.make(web('200m 128Mi'));
    expect(Object.keys(second).map((file) => read(`${at}/${file}`))).toEqual(['17', '20000 100000', String(128 * mebi), '50']);
    expect([read('kubepods/memory.max'), read('kubepods/besteffort/cpu.weight')]).toEqual([String(1024 * mebi), '1']);
    // the last that was asked for of what is passed on
    expect(read('kubepods/burstable/cgroup.subtree_control')).toBe('+cpuset');
    await pods.close();
    expect(read('kubepods/burstable/cpu.weight')).toBe('17');
  });

  it('are resized: larger before containers are, smaller after them, and not below what is used', async () => {
    offerSecond();
    offer(at, { ...second, 'memory.current': String(100 * mebi), 'memory.stat': `anon 1\ninactive_file ${10 * mebi}\n` });
    const tree = await CgroupTree.open(root);
    if (!tree) throw new Error('no cgroups');
    const pods = book(tree);
    await pods.make(web('200m 128Mi'));
    const now = () => [read(`${at}/cpu.max`), Number(read(`${at}/memory.max`)) / mebi];
    await pods.grow(web('300m 96Mi'));
    expect(now()).toEqual(['30000 100000', 128]);
    await pods.settle(web('300m 96Mi'));
    expect(now()).toEqual(['30000 100000', 96]);
    await expect(pods.settle(web('300m 80Mi'))).rejects.toThrow(
      `attempting to set pod memory limit (${80 * mebi}) below current usage (${90 * mebi})`,
    );
    expect(now()).toEqual(['30000 100000', 96]);
  });

  it('are bounded with version 1 in each hierarchy that there is', async () => {
    for (const directory of ['kubepods', 'kubepods/burstable', 'kubepods/besteffort', at]) {
      offer(`cpu/${directory}`, { 'cpu.shares': '', 'cpu.cfs_period_us': '', 'cpu.cfs_quota_us': '' });
      offer(`memory/${directory}`, { 'memory.limit_in_bytes': '' });
    }
    const tree = await CgroupTree.open(root);
    if (!tree) throw new Error('no cgroups');
    expect(tree.version).toBe(1);
    const pods = book(tree);
    await pods.open();
    await pods.make(web('200m 128Mi'));
    expect(['cpu.shares', 'cpu.cfs_period_us', 'cpu.cfs_quota_us'].map((file) => read(`cpu/${at}/${file}`))).toEqual([
      '102',
      '100000',
      '20000',
    ]);
    expect(read(`memory/${at}/memory.limit_in_bytes`)).toBe(String(128 * mebi));
    await pods.settle(asking({ requests: { cpu: '100m' } }));
    expect([read(`cpu/${at}/cpu.cfs_quota_us`), read(`memory/${at}/memory.limit_in_bytes`)]).toEqual(['-1', '-1']);
  });

  it('that cannot have the controllers are refused, with the reason', async () => {
    offer('', { ...passes });
    offer('own', { 'cgroup.controllers': 'cpu memory' });
    mkdirSync(join(root, 'own/cgroup.subtree_control'));
    const tree = await CgroupTree.open(root);
    if (!tree) throw new Error('no cgroups');
    await expect(book(tree, '/own').open()).rejects.toThrow(/the cgroup \/own does not pass on the controller cpu: /);
    expect(await CgroupTree.open(join(root, 'nothing'))).toBeUndefined();
  });

  it('are slices where systemd makes them', async () => {
    offer('', passes);
    offer('a_b.slice/a_b-kubepods.slice/a_b-kubepods-burstable.slice', {});
    offer('a_b.slice/a_b-kubepods.slice/a_b-kubepods-burstable.slice/a_b-kubepods-burstable-poduid_web.slice', {
      'memory.max': '134217728',
      'cpu.max': 'max 100000',
    });
    const tree = await CgroupTree.open(root);
    if (!tree) throw new Error('no cgroups');
    const calls: string[] = [];
    const pods = book(
      new SystemdSlices(tree, async (file, args) => {
        calls.push([file, ...args].join(' '));
      }),
      '/a-b',
    );
    await pods.make(web('200m 128Mi'));
    await pods.close();
    const slice = 'a_b-kubepods-burstable-poduid_web.slice';
    expect(calls).toEqual([
      `systemctl start ${slice}`,
      `systemctl set-property --runtime a_b-kubepods-burstable.slice CPUWeight=17`,
      `systemctl set-property --runtime ${slice} CPUWeight=17 CPUQuota=20% MemoryMax=134217728 TasksMax=50`,
      'systemctl stop a_b-kubepods-besteffort.slice',
    ]);
    await pods.keep((uid) => uid === 'uid-web');
    expect(calls).toHaveLength(4);
    await pods.keep(() => false);
    expect(calls.at(-1)).toBe(`systemctl stop ${slice}`);
  });
});

const real = process.getuid?.() === 0 ? await CgroupTree.open() : undefined;
describe.runIf(real !== undefined)('cgroups of this machine', () => {
  it('are made, bounded, emptied and removed', async () => {
    if (!real) return;
    const root = `/oarlock-test-${process.pid}-${Date.now()}`;
    const pods = new PodCgroups({ cgroups: real, root, node: {}, maxPids: Infinity, clock: systemClock, log: silentLogger });
    await pods.open();
    const one = asking(amounts('100m 64Mi', '200m 128Mi'));
    await pods.make(one);
    await pods.make(one);
    expect(await real.held(pods.of(one))).toEqual({ cpuQuota: 20_000, memory: 128 * mebi });
    expect(await pods.processes(one)).toEqual([]);
    expect(await real.children(`${root}/kubepods/burstable`)).toEqual(['poduid-web']);
    await pods.close();
    expect(await real.children(`${root}/kubepods/burstable`)).toEqual(['poduid-web']);
    await pods.keep(() => false);
    expect(await real.children(`${root}/kubepods/burstable`)).toEqual([]);
    await pods.remove(one);
    await pods.close();
    expect(await real.children(root)).toEqual([]);
  });
});
