import { expect, it } from 'vitest';
import { mustRun } from '../../harness/programs.ts';
import { until, untilValue } from '../../harness/until.ts';
import { idle, pod, type ChaosNode } from './chaos-node.ts';

/** Tests with a runtime, a probe and a volume that hang. */
export function hangTests(node: ChaosNode): void {
  it('a hanging runtime: containers keep running, and pods created meanwhile start later', async () => {
    const before = await node.before();
    const name = node.name('meanwhile');
    const runtime = await node.runtime.pid(node.cluster);
    process.kill(runtime, 'SIGSTOP');
    try {
      await node.apply(pod(name, idle, node.here));
      await node.untilDeleted(name);
      await untilValue(
        'the node reports that it cannot run pods',
        () => node.condition('Ready'),
        (ready) => ready?.status === 'False' && /container runtime is down/.test(ready.message),
        { everyMs: 200 },
      );
      // the API server is not blocked by it
      await node.cluster.kubectl.run(['get', 'node', node.cluster.nodeName]);
    } finally {
      process.kill(runtime, 'SIGCONT');
    }
    await node.ready(name);
    await untilValue(
      'the node is ready',
      () => node.condition('Ready'),
      (ready) => ready?.status === 'True',
      { everyMs: 200 },
    );
    await node.unharmed(before);
    await node.remove(name);
    await node.nothingLeaks(before);
  });

  it('a hanging probe: its container is not ready, and no probe process remains', async () => {
    const before = await node.before();
    const name = node.name('probed');
    const probe = { exec: { command: ['sleep', '4242'] }, periodSeconds: 1, timeoutSeconds: 1, failureThreshold: 2 };
    await node.apply(pod(name, idle, {}, { readinessProbe: probe }));
    await untilValue(
      'the probe has failed several times',
      () => node.events(name, '{.items[*].count}', ',reason=Unhealthy'),
      (text) =>
        text
          .trim()
          .split(/\s+/)
          .map(Number)
          .reduce((sum, count) => sum + count, 0) >= 3,
      { everyMs: 500 },
    );
    const [probed] = (await node.cluster.api.get<{ items: readonly { status: object }[] }>(node.cluster.api.pods('default', name))).items;
    expect(probed?.status).toMatchObject({ containerStatuses: [{ ready: false, restartCount: 0 }] });
    // the runtime kills a probe a moment after its limit, in which the next may start
    await untilValue(
      'only the probe that is still running',
      async () => (await mustRun('ps', ['-eo', 'args'])).split('\n').filter((line) => line.trim() === 'sleep 4242').length,
      (count) => count <= 1,
    );
    await node.remove(name);
    await until('no probe process is left', async () => !(await mustRun('ps', ['-eo', 'args'])).includes('sleep 4242'));
    await node.unharmed(before);
    await node.nothingLeaks(before);
  });

  it('a hanging volume: only its pod waits, starts when the volume responds, and is deleted when it responds again', async () => {
    const claim = node.name('claim');
    const [first, second, other] = [node.name('mounts'), node.name('mounts-again'), node.name('beside')];
    const mounting = (name: string) =>
      pod(
        name,
        idle,
        { volumes: [{ name: 'v', persistentVolumeClaim: { claimName: claim } }] },
        { volumeMounts: [{ name: 'v', mountPath: '/v' }] },
      );
    const before = await node.before();
    await node.apply({
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name: claim },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '16Mi' } } },
    });
    await node.apply(mounting(first));
    await node.ready(first);
    await node.remove(first);

    const driver = await driverOf(node);
    process.kill(driver, 'SIGSTOP');
    try {
      await node.apply(mounting(second));
      await node.untilDeleted(second);
      await node.apply(pod(other, idle));
      await node.ready(other);
      const [waits] = (await node.cluster.api.get<{ items: readonly { status: object }[] }>(node.cluster.api.pods('default', second)))
        .items;
      expect(waits?.status).toMatchObject({ phase: 'Pending' });
      await node.unharmed(before);
    } finally {
      process.kill(driver, 'SIGCONT');
    }
    await node.ready(second);

    process.kill(driver, 'SIGSTOP');
    try {
      await node.delete(second);
      // another pod starts and stops meanwhile
      await node.remove(other);
      const { items } = await node.cluster.api.get<{ items: readonly object[] }>(node.cluster.api.pods('default', second));
      expect(items).toHaveLength(1); // its volume is still mounted
    } finally {
      process.kill(driver, 'SIGCONT');
    }
    await node.gone(second);
    await node.cluster.kubectl.run(['delete', 'persistentvolumeclaim', claim, '--wait=false']);
    await node.unharmed(before);
    await node.nothingLeaks(before);
  });
}

/** The CSI driver on the node. */
async function driverOf({ cluster }: ChaosNode): Promise<number> {
  const found = await until('the CSI driver runs', async () => {
    const lines = (await mustRun('ps', ['-eo', 'pid,args'])).split('\n');
    const line = lines.find((one) => one.includes('csi-hostpath') && one.includes('--endpoint') && one.includes(cluster.dataDir));
    return line === undefined ? undefined : Number(line.trim().split(' ')[0]);
  });
  return found;
}
