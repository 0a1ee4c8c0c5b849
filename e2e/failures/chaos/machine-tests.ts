import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { runProgram } from '../../harness/programs.ts';
import { until, untilValue } from '../../harness/until.ts';
import { idle, pod, type ChaosNode } from './chaos-node.ts';

const hourMs = 3_600_000;
const shiftMs = 26 * hourMs;

/** A full disk, a clock that is set, a reboot. */
export function machineTests(node: ChaosNode): void {
  it('a disk that is full: new pods wait until there is room, and the others do not notice', async () => {
    const before = await node.before();
    const name = node.name('waiting');
    const content = node.name('content');
    await node.cluster.kubectl.run(['create', 'configmap', content, `--from-literal=text=${'x'.repeat(100_000)}`]);
    const full = join(node.disk, 'full');
    try {
      await runProgram('dd', ['if=/dev/zero', `of=${full}`, 'bs=64k']);
      const volumes = [{ name: 'v', configMap: { name: content } }];
      await node.apply(pod(name, idle, { volumes }, { volumeMounts: [{ name: 'v', mountPath: '/v' }] }));
      await until('the pod says why it waits', async () => /ENOSPC|no space left/.test(await node.events(name, '{.items[*].message}')), {
        everyMs: 300,
      });
    } finally {
      await rm(full);
    }
    await node.ready(name);
    await node.unharmed(before);
    await node.remove(name);
    await node.nothingLeaks(before);
  });

  it('a clock that is set forward by a day, and back again: pods come and go, and none is taken for lost or too old', async () => {
    const before = await node.before();
    const [through, after, again] = [node.name('through'), node.name('after'), node.name('again')];
    const begun = Date.now();
    await node.apply(pod(through, idle, { activeDeadlineSeconds: 3 * 24 * 3600 }));
    await node.ready(through);
    const kept = { ...before, running: await node.running() };
    try {
      await node.setClock(shiftMs);
      await node.apply(pod(after, idle));
      const [made] = await node.ready(after);
      // the cluster believes its clock
      expect(Math.abs(Date.parse(made?.status.startTime ?? '') - begun - shiftMs)).toBeLessThan(hourMs);
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

  it('a reboot: no process, mount or namespace outlives it; pods are the same, begun once more', async () => {
    const before = await node.before();
    const { cluster, containerd, bridge } = node;
    const links = () => readdir(`/sys/class/net/${bridge}/brif`).catch(() => []);
    await cluster.kill9();
    await containerd.stop();
    await rm(join(containerd.socket, '..', 'state'), { recursive: true, force: true }); // /run is empty after a boot
    await runProgram('ip', ['link', 'del', bridge]);
    expect(await links()).toEqual([]);
    await containerd.restart();
    await until('the node is up', () => cluster.up().then(() => true), { everyMs: 500 });
    const restarts = new Map(before.steady.map((one) => [one.name, one.restarts ?? 0]));
    const after = await untilValue(
      'all run again',
      () => node.steady(),
      (pods) => pods.every((one) => one.restarts === (restarts.get(one.name) ?? 0) + 1),
      { everyMs: 500 },
    );
    expect(after.map(({ uid }) => uid)).toEqual(before.steady.map(({ uid }) => uid));
    await node.nothingLeaks(before);
  });
}
