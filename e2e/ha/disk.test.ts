import { existsSync } from 'node:fs';
import { mkdir, open, readFile, rm, rmdir, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { Machine } from '../harness/machine.ts';
import { freePort, mustRun, processesBelow } from '../harness/programs.ts';
import { seed, seeded } from '../harness/random.ts';
import { until, untilValue } from '../harness/until.ts';
import { checkHistory } from './checker/check-history.ts';
import { HistoryRecorder } from './support/history-recorder.ts';

const onRequest = process.env['OARLOCK_HA_DISK'] === undefined ? 'on request: npm run ha -- --disk' : undefined;
const missing = onRequest ?? componentMissing.etcd() ?? (process.getuid?.() === 0 ? undefined : 'needs root');
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
  const recorder = new HistoryRecorder([cluster.kubeconfig, cluster.kubeconfig], { namespace: 'ha', random: seeded(seed) });
  recorder.useKeys(['first']);
  await recorder.start(3);
  const untilWritten = async (what: string, writes = 30) => {
    recorder.useKeys(Array.from({ length: 6 }, (_, index) => `${what}-${index}`));
    const before = recorder.acknowledged;
    await untilValue(
      `writes are acknowledged: ${what}`,
      () => recorder.acknowledged,
      (count) => count > before + writes,
    );
  };
  await untilWritten('before');
  return { cluster, recorder, untilWritten };
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
    const { cluster, recorder, untilWritten } = await startOn(mount, storage);
    const filler = await fill(mount);
    let created = 0;
    await until('a write fails', async () => (await create(cluster, `big-${(created += 1)}`)).status >= 500);
    await until('the server is not ready', async () => (await cluster.api.call('GET', '/readyz')).status === 500);
    await rm(filler);
    await untilWritten('with-space');
    await until('the server is ready', async () => (await cluster.api.call('GET', '/readyz')).status === 200);
    await cluster.kill9();
    await cluster.up();
    await untilWritten('after-a-restart');
    await expectNothingLost(`${storage} on a full disk`, recorder);
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
    const { cluster, recorder, untilWritten } = await startOn(mount, storage);
    // as the kernel encodes the numbers of a device
    const device = `${(dev >> 8) & 0xfff}:${(dev & 0xff) | ((dev >> 12) & 0xfff00)}`;
    await writeFile(join(group, 'blkio.throttle.write_iops_device'), `${device} ${writesPerSecond}`);
    const limited = await processesBelow(cluster.dir);
    for (const pid of limited) await writeFile(join(group, 'cgroup.procs'), String(pid));
    if (storage === 'storage-etcd')
      expect(await Promise.all(limited.map((pid) => readFile(`/proc/${pid}/comm`, 'utf8')))).toContain('etcd\n');
    const startedAt = performance.now();
    await untilWritten('slow', 60);
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
    await untilWritten('after-a-restart');
    await expectNothingLost(`${storage} on a slow disk`, recorder);
  });
});
