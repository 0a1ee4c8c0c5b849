import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { runProgram } from '../../harness/programs.ts';
import { until, untilValue } from '../../harness/until.ts';
import { idle, pod, type ChaosNode } from './chaos-node.ts';

const hourMs = 3_600_000;
const shiftMs = 26 * hourMs;

/** Tests with a full disk, a changed clock and a reboot. */
export function machineTests(node: ChaosNode): void {
  it('a full disk: new pods wait for space, and running pods are not disturbed', async () => {
    const before = await node.before();
    const name = node.name('waiting');
    const content = node.name('content');
    await node.cluster.kubectl.run(['create', 'configmap', content, `--from-literal=text=${'x'.repeat(100_000)}`]);
    const full = join(node.disk, 'full');
    try {
      await runProgram('dd', ['if=/dev/zero', `of=${full}`, 'bs=64k']);
      const volumes = [{ name: 'v', configMap: { name: content } }];
      await node.apply(pod(name, idle, { volumes }, { volumeMounts: [{ name: 'v', mountPath: '/v' }] }));
      await until(
        'the reason for waiting is reported',
        async () => /ENOSPC|no space left/.test(await node.events(name, '{.items[*].message}')),
        {
          everyMs: 300,
        },
      );
    } finally {
      await rm(full);
    }
    await node.ready(name);
    await node.unharmed(before);
    await node.remove(name);
    await node.nothingLeaks(before);
  });

  it('a clock set forward by a day and back: pods start and stop, and none is considered lost or expired', async () => {
    const before = await node.before();
    const [through, after, again] = [node.name('through'), node.name('after'), node.name('again')];
    const startedAt = Date.now();
    await node.apply(pod(through, idle, { activeDeadlineSeconds: 3 * 24 * 3600 }));
    await node.ready(through);
    const kept = { ...before, running: await node.running() };
    try {
      await node.setClock(shiftMs);
      await node.apply(pod(after, idle));
      const [created] = await node.ready(after);
      // the cluster uses its own clock
      expect(Math.abs(Date.parse(created?.status.startTime ?? '') - startedAt - shiftMs)).toBeLessThan(hourMs);
      await untilValue(
        'the node is ready',
        () => node.condition('Ready'),
        (ready) => ready?.status === 'True',
      );
      await node.unharmed(kept);
    } finally {
      await node.setClock(0);
    }
    await node.apply(pod(again, idle));
    await node.ready(again);
    await node.unharmed(kept);
    for (const name of [after, again, through]) await node.remove(name);
    await node.nothingLeaks(before);
  });

  it('a reboot: no process, mount or namespace remains; the same pods start once', async () => {
    const before = await node.before();
    const { cluster, runtime, bridge } = node;
    const links = () => readdir(`/sys/class/net/${bridge}/brif`).catch(() => []);
    await cluster.kill9();
    await runtime.shutDown(cluster);
    await runProgram('ip', ['link', 'del', bridge]);
    expect(await links()).toEqual([]);
    await runtime.restart();
    await until('the node is up', () => cluster.up().then(() => true), { everyMs: 500 });
    const restarts = new Map(before.steady.map((one) => [one.name, one.restarts ?? 0]));
    const after = await untilValue(
      'all pods run again',
      () => node.steady(),
      (pods) => pods.every((one) => one.restarts === (restarts.get(one.name) ?? 0) + 1),
      { everyMs: 500 },
    );
    expect(after.map(({ uid }) => uid)).toEqual(before.steady.map(({ uid }) => uid));
    await node.nothingLeaks(before);
  });
}
