import { existsSync } from 'node:fs';
import { copyFile, mkdir, open, readFile, rm, rmdir, stat, truncate, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { Machine } from '../harness/machine.ts';
import { endProcessesBelow, freePort, mustRun, processesBelow, runProgram } from '../harness/programs.ts';
import { seed, seeded } from '../harness/random.ts';
import { until } from '../harness/until.ts';
import { checkHistory } from './checker/check-history.ts';
import { HistoryRecorder } from './support/history-recorder.ts';

const onRequest = process.env['OARLOCK_HA_DISK'] === undefined ? 'on request: npm run ha -- --disk' : undefined;
const notHere = componentMissing.etcd() ?? (process.getuid?.() === 0 ? undefined : 'needs root');
const missing = onRequest ?? notHere;
const throttles = '/sys/fs/cgroup/blkio';
/** The device mapper's delay target would slow other kernels down; this one limits the writes of a control group of version 1. */
const noThrottle = existsSync(join(throttles, 'blkio.throttle.write_iops_device')) ? undefined : 'the kernel has no blkio control group';
const title = (text: string, reason: string | undefined) => `${text}${reason === undefined ? '' : ` (skipped: ${reason})`}`;

const machine = Machine.use();
const storages = {
  'storage-embedded': async () => 'storage-embedded',
  'storage-etcd': async () => ({
    use: 'storage-etcd',
    config: { managed: { clientPort: await freePort(), peerPort: await freePort() } },
  }),
} as const;

/** Starts a cluster whose data is on a mounted file system, with clients that write. */
async function startOn(mount: string, storage: keyof typeof storages) {
  const spec = { roles: ['apiserver', 'controllers'], server: { address: '127.0.0.1' }, storage: await storages[storage]() };
  const cluster = await machine.cluster({ dir: join(mount, 'cluster'), spec });
  await cluster.kubectl.run(['create', 'namespace', 'ha']);
  // a copy, which clients can read while the disk fails
  const kubeconfig = machine.path('kubeconfig');
  await copyFile(cluster.kubeconfig, kubeconfig);
  const recorder = new HistoryRecorder([kubeconfig, kubeconfig], { namespace: 'ha', random: seeded(seed) });
  await recorder.start(3);
  await recorder.untilWritten('before the fault');
  return { cluster, recorder };
}

async function expectNothingLost(what: string, recorder: HistoryRecorder): Promise<void> {
  const { lost, violations, ...counts } = checkHistory(await recorder.finish());
  console.log(JSON.stringify({ what, ...counts, relists: recorder.relists, lost: lost.length, violations: violations.length }));
  expect(lost).toEqual([]);
  expect(violations.slice(0, 20)).toEqual([]);
}

/** Takes all space of a file system. Returns the file that takes it. */
async function fill(mount: string): Promise<string> {
  const path = join(mount, 'filler');
  const file = await open(path, 'w');
  try {
    // pages of memory one by one, until no page is left
    for (const page = Buffer.alloc(4096); ; ) await file.writeFile(page);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  } finally {
    await file.close();
  }
  return path;
}

const create = (cluster: Cluster, name: string) => {
  const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: { big: 'x'.repeat(500_000) } };
  return cluster.api.call('POST', '/api/v1/namespaces/default/configmaps', { body });
};

describe.skipIf(missing !== undefined)(title('a full disk', missing), () => {
  it.each(Object.keys(storages) as (keyof typeof storages)[])('of %s fails writes, which continue when it has space', async (storage) => {
    const mount = machine.path('full');
    await mkdir(mount);
    await mustRun('mount', ['-t', 'tmpfs', '-o', 'size=300m', 'tmpfs', mount]);
    machine.undo('mount', () => mustRun('umount', ['--lazy', mount]));
    const { cluster, recorder } = await startOn(mount, storage);
    const filler = await fill(mount);
    let created = 0;
    await until('a write fails', async () => (await create(cluster, `big-${(created += 1)}`)).status >= 500);
    await until('the server is not ready', async () => (await cluster.api.call('GET', '/readyz')).status === 500);
    await rm(filler);
    await recorder.untilWritten('with space');
    await until('the server is ready', async () => (await cluster.api.call('GET', '/readyz')).status === 200);
    await cluster.kill9();
    await cluster.up();
    await recorder.untilWritten('after a restart');
    await expectNothingLost(`${storage} on a full disk`, recorder);
  });
});

const shutDown = `import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))`;
const failures = {
  'is read-only after an error': async (mount: string) => {
    const device = (await mustRun('findmnt', ['-no', 'SOURCE', mount])).trim();
    await writeFile(join('/sys/fs/ext4', basename(device), 'trigger_fs_error'), '1');
  },
  // EXT4_IOC_SHUTDOWN without a flush of the journal: all that has not been synchronized is lost, and every access fails with EIO
  'fails every access': (mount: string) => mustRun('python3', ['-c', shutDown, mount]),
} as const;

describe.skipIf(notHere !== undefined)(title('a failing disk', notHere), () => {
  const cases = (Object.keys(failures) as (keyof typeof failures)[]).flatMap((failure) =>
    (Object.keys(storages) as (keyof typeof storages)[])
      // the keys, which another test does not cover, are the same for all storages
      .filter((storage) => onRequest === undefined || storage === 'storage-embedded')
      .map((storage) => ({ storage, failure })),
  );
  it.each(cases)('of $storage that $failure loses no acknowledged write', async ({ storage, failure }) => {
    const [image, mount] = [machine.path('image'), machine.path('failing')];
    await writeFile(image, '');
    await truncate(image, 600 * 1024 * 1024);
    await mustRun('mkfs.ext4', ['-q', '-F', image]);
    await mkdir(mount);
    const mountAgain = () => mustRun('mount', ['-o', 'loop,errors=remount-ro', image, mount]);
    await mountAgain();
    machine.undo('mount', () => mustRun('umount', ['--lazy', mount]));
    const { cluster, recorder } = await startOn(mount, storage);
    // the administrator's file; the server synchronizes its own
    await mustRun('sync', [join(cluster.dir, 'cluster.yaml'), cluster.dir, mount]);
    await failures[failure](mount);
    let failed = 0;
    await until('a write fails', async () => (await create(cluster, `unwritten-${(failed += 1)}`)).status >= 500);
    await until('the server is not ready', async () => (await cluster.api.call('GET', '/readyz')).status === 500);
    await cluster.kill9();
    await endProcessesBelow(cluster.dir);
    await mustRun('umount', [mount]);
    await runProgram('e2fsck', ['-fy', image]);
    await mountAgain();
    await cluster.up();
    await recorder.untilWritten('after the repair');
    await expectNothingLost(`${storage} on a disk that ${failure}`, recorder);
  });
});

const slowMissing = missing ?? noThrottle;
const writesPerSecond = 10;
describe.skipIf(slowMissing !== undefined)(title('a disk with ten writes a second', slowMissing), () => {
  it.each(Object.keys(storages) as (keyof typeof storages)[])('of %s loses no write, also with SIGKILL', async (storage) => {
    const [image, mount, group] = [machine.path('image'), machine.path('slow'), join(throttles, `oarlock-${process.pid}-${storage}`)];
    await writeFile(image, '');
    await truncate(image, 600 * 1024 * 1024);
    await mustRun('mkfs.ext4', ['-q', '-F', image]);
    await mkdir(mount);
    await mustRun('mount', ['-o', 'loop', image, mount]);
    machine.undo('mount', () => mustRun('umount', ['--lazy', mount]));
    const { dev } = await stat(mount);
    await mkdir(group);
    machine.undo('control group', () => until('the control group is empty', () => rmdir(group).then(() => true)));
    const { cluster, recorder } = await startOn(mount, storage);
    // as the kernel encodes the numbers of a device
    const device = `${(dev >> 8) & 0xfff}:${(dev & 0xff) | ((dev >> 12) & 0xfff00)}`;
    await writeFile(join(group, 'blkio.throttle.write_iops_device'), `${device} ${writesPerSecond}`);
    const limited = await processesBelow(cluster.dir);
    for (const pid of limited) await writeFile(join(group, 'cgroup.procs'), String(pid));
    if (storage === 'storage-etcd')
      expect(await Promise.all(limited.map((pid) => readFile(`/proc/${pid}/comm`, 'utf8')))).toContain('etcd\n');
    const startedAt = performance.now();
    await recorder.untilWritten('on the slow disk', 60);
    const writes = Number(
      (await readFile(join(group, 'blkio.throttle.io_serviced'), 'utf8')).match(new RegExp(`^${device} Write (\\d+)`, 'm'))?.[1],
    );
    const seconds = (performance.now() - startedAt) / 1000;
    console.log(`${storage}: ${writes} writes to the disk in ${seconds.toFixed(1)} s`);
    // the group limited the writes of the storage: a slow machine makes fewer, and without the limit there are more in less time
    expect(writes).toBeGreaterThan(0);
    expect(writes).toBeLessThanOrEqual(writesPerSecond * (seconds + 2));
    expect((await cluster.api.call('GET', '/readyz')).status).toBe(200);
    await cluster.kill9();
    await cluster.up();
    await recorder.untilWritten('after a restart');
    await expectNothingLost(`${storage} on a slow disk`, recorder);
  });
});
