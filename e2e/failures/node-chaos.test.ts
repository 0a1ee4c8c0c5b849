import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { busyboxImage } from '../fixtures/test-image.ts';
import type { PodItem } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { containersOf } from '../harness/containers.ts';
import { Machine, everythingIsNeeded, type SharedContainerd } from '../harness/machine.ts';
import { missing } from '../harness/machine-parts.ts';
import { mustRun, runProgram } from '../harness/programs.ts';
import { until, untilValue } from '../harness/until.ts';

const lacking = everythingIsNeeded ? undefined : await missing.containerd();

/** Everything that a node may leak, by kind. */
interface Leftovers {
  readonly shims: number;
  readonly mounts: number;
  readonly ports: number;
  readonly rules: number;
  readonly addresses: number;
  readonly podDirectories: number;
  readonly logDirectories: number;
}

const pod = (name: string, script: string, more: object = {}, container: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, labels: { app: name } },
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [{ name: 'main', image: busyboxImage, command: ['sh', '-c', script], ...container }],
    ...more,
  },
});
const idle = 'trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done';

describe.skipIf(lacking !== undefined)(`a node to which much happens${lacking === undefined ? '' : ` (${lacking})`}`, () => {
  const machine = Machine.use();
  let cluster: Cluster;
  let containerd: SharedContainerd;
  let bridge = '';
  let disk = '';

  const identity = ({ metadata, status }: PodItem) => ({
    name: metadata.name,
    uid: metadata.uid,
    id: status.containerStatuses?.[0]?.containerID,
    restarts: status.containerStatuses?.[0]?.restartCount,
    ip: status.podIP,
  });
  const steady = async () =>
    (await cluster.api.untilReady('default', 'steady', 3)).map(identity).sort((a, b) => (a.name < b.name ? -1 : 1));
  const running = () => containersOf('containerd', { dir: cluster.dir, containerd });
  const names = (directory: string) => readdir(directory).catch(() => []);
  const counted = async (): Promise<Leftovers> => {
    const mounts = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').map((line) => line.split(' ')[4] ?? '');
    const shims = (await mustRun('ps', ['-eo', 'args']))
      .split('\n')
      .filter((line) => line.includes('containerd-shim') && line.includes(containerd.socket));
    const { stdout: rules } = await runProgram('iptables-save', []);
    const kubelet = join(disk, 'kubelet');
    return {
      shims: shims.length,
      mounts: mounts.filter((path) => path.startsWith(join(containerd.socket, '..')) || path.startsWith(disk)).length,
      ports: (await names(`/sys/class/net/${bridge}/brif`)).length,
      rules: rules.split('\n').filter((line) => line.includes('CNI-')).length,
      addresses: (await addressesBelow(join(cluster.dataDir, 'plugins'))).length,
      podDirectories: (await names(join(kubelet, 'pods'))).length,
      logDirectories: (await names(join(kubelet, 'logs'))).length,
    };
  };
  /** Files of host-local are named after the address they hold. */
  const addressesBelow = async (directory: string): Promise<readonly string[]> =>
    (await readdir(directory, { recursive: true })).filter((path) => /(^|\/)10\.\d+\.\d+\.\d+$/.test(path));
  const nothingLeaks = async (before: Leftovers) => {
    await untilValue('nothing is left over', counted, (now) => JSON.stringify(now) === JSON.stringify(before), {
      everyMs: 500,
    });
  };
  const apply = (object: object) => cluster.kubectl.apply(object);
  const gone = (name: string) => cluster.api.until(`${name} is gone`, cluster.api.pods('default', name), (pods) => pods.length === 0);

  beforeAll(async () => {
    containerd = await machine.containerd();
    disk = machine.path('disk');
    await mkdir(disk);
    await mustRun('mount', ['-t', 'tmpfs', '-o', 'size=32m', 'tmpfs', disk]);
    machine.undo('disk', async () => {
      // pods run until the runtime ends, after this
      await runProgram('umount', ['--lazy', '--recursive', disk]);
      await rm(disk, { recursive: true, force: true });
    });
    const kubelet = {
      rootDir: join(disk, 'kubelet'),
      nodeStatusUpdateMs: 1000,
      evictionHard: { memoryAvailable: '0', diskAvailable: '0', inodesFree: '0', imageAvailable: '0', imageInodesFree: '0' },
    };
    const spec = composition({ storage: 'embedded', runtime: 'containerd', network: 'bridge', containerd, kubelet });
    bridge = spec.bridge ?? '';
    cluster = await machine.cluster({ spec });
    await until(
      'the namespace has its service account',
      async () => (await cluster.api.call('GET', '/api/v1/namespaces/default/serviceaccounts/default')).status === 200,
    );
    for (const name of ['steady-a', 'steady-b', 'steady-c']) {
      const made = pod(name, idle);
      await apply({ ...made, metadata: { ...made.metadata, labels: { app: 'steady' } } });
    }
    await steady();
  });

  it('a runtime that hangs for a while: what runs goes on, and what was asked for comes', async () => {
    const [before, tasks, left] = [await steady(), await running(), await counted()];
    process.kill(containerd.pid, 'SIGSTOP');
    try {
      await apply(pod('meanwhile', idle));
      await cluster.kubectl.run(['get', 'node', cluster.nodeName]);
      await new Promise((resolve) => {
        setTimeout(resolve, 4000); // it hangs
      });
    } finally {
      process.kill(containerd.pid, 'SIGCONT');
    }
    await cluster.api.untilReady('default', 'meanwhile', 1);
    expect(await steady()).toEqual(before);
    for (const [id, task] of tasks) expect((await running()).get(id)).toEqual(task);
    await cluster.kubectl.run(['delete', 'pod', 'meanwhile', '--wait=false']);
    await gone('meanwhile');
    await nothingLeaks(left);
  });

  it('a shim that is killed: its pod is made anew, the others are left alone', async () => {
    const [before, left] = [await steady(), await counted()];
    const [victim] = before;
    const lines = (await mustRun('ps', ['-eo', 'pid,args']))
      .split('\n')
      .filter((line) => line.includes('containerd-shim') && line.includes(containerd.socket));
    const task = (await running()).get(victim?.id?.replace('containerd://', '') ?? '');
    const parent = (await readFile(`/proc/${task?.pid}/stat`, 'utf8')).split(') ').at(-1)?.split(' ')[1];
    expect(lines.some((line) => line.trim().startsWith(`${parent} `))).toBe(true);
    process.kill(Number(parent), 'SIGKILL');
    await cluster.api.until<PodItem>('the pod runs again', cluster.api.pods('default', 'steady'), (pods) => {
      const now = pods.find(({ metadata }) => metadata.name === victim?.name);
      const status = now?.status.containerStatuses?.[0];
      return now?.metadata.uid === victim?.uid && status?.ready === true && status.restartCount === 1 && status.containerID !== victim?.id;
    });
    expect((await steady()).slice(1)).toEqual(before.slice(1));
    await nothingLeaks(left);
  });

  it('a probe that hangs: its container is not ready, and no process is left of it', async () => {
    const probe = { exec: { command: ['sleep', '4242'] }, periodSeconds: 1, timeoutSeconds: 1, failureThreshold: 2 };
    await apply(pod('probed', idle, {}, { readinessProbe: probe }));
    await untilValue(
      'the probe has failed some times',
      async () =>
        (
          await cluster.kubectl.run([
            'get',
            'events',
            '--field-selector=involvedObject.name=probed,reason=Unhealthy',
            '-o',
            'jsonpath={.items[*].count}',
          ])
        ).trim(),
      (text) =>
        text
          .split(/\s+/)
          .map(Number)
          .reduce((sum, count) => sum + count, 0) >= 3,
      { everyMs: 500 },
    );
    const [probed] = (await cluster.api.get<{ items: PodItem[] }>(cluster.api.pods('default', 'probed'))).items;
    expect(probed?.status.containerStatuses?.[0]).toMatchObject({ ready: false, restartCount: 0 });
    await until('no process of a probe is left but the one that is waited for', async () => {
      const sleeping = (await mustRun('ps', ['-eo', 'args'])).split('\n').filter((line) => line.trim() === 'sleep 4242');
      return sleeping.length <= 1;
    });
    await cluster.kubectl.run(['delete', 'pod', 'probed', '--wait=false']);
    await gone('probed');
    await until('no probe is left', async () => !(await mustRun('ps', ['-eo', 'args'])).includes('sleep 4242'));
  });

  it('a disk that is full: new pods wait until there is room, and the others do not notice', async () => {
    const [before, left] = [await steady(), await counted()];
    await cluster.kubectl.run(['create', 'configmap', 'content', `--from-literal=text=${'x'.repeat(100_000)}`]);
    await runProgram('dd', ['if=/dev/zero', `of=${join(disk, 'full')}`, 'bs=64k']);
    await apply(
      pod(
        'waiting',
        idle,
        { volumes: [{ name: 'v', configMap: { name: 'content' } }] },
        { volumeMounts: [{ name: 'v', mountPath: '/v' }] },
      ),
    );
    await until(
      'the pod says why it waits',
      async () =>
        /ENOSPC|no space left/.test(
          await cluster.kubectl.run([
            'get',
            'events',
            '--field-selector=involvedObject.name=waiting',
            '-o',
            'jsonpath={.items[*].message}',
          ]),
        ),
      { everyMs: 300 },
    );
    await rm(join(disk, 'full'));
    await cluster.api.untilReady('default', 'waiting', 1);
    expect(await steady()).toEqual(before);
    await cluster.kubectl.run(['delete', 'pod', 'waiting', '--wait=false']);
    await gone('waiting');
    await nothingLeaks(left);
  });

  it('a reboot: no process, mount or namespace outlives it; pods are the same, begun once more', async () => {
    const [before, left] = [await steady(), await counted()];
    await cluster.kill9();
    await containerd.stop();
    await rm(join(containerd.socket, '..', 'state'), { recursive: true, force: true }); // /run is empty after a boot
    await runProgram('ip', ['link', 'del', bridge]);
    expect(await names(`/sys/class/net/${bridge}/brif`)).toEqual([]);
    await containerd.restart();
    // who finds the machine too busy to answer ends, and is started again as by an init system
    await until('the node is up', () => cluster.up().then(() => true), { everyMs: 500 });
    const after = await untilValue(
      'all run again',
      steady,
      (pods) => pods.every(({ restarts }, index) => restarts === (before[index]?.restarts ?? 0) + 1),
      { everyMs: 500 },
    );
    expect(after.map(({ uid }) => uid)).toEqual(before.map(({ uid }) => uid));
    await nothingLeaks(left);
  });
});
