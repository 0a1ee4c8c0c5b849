import { pods } from '@oarlock/api/resources';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { app, Bench, container, podOf } from '../support/bench.ts';

describe('kubelet restart', () => {
  let bench: Bench;
  beforeEach(async () => {
    bench = await new Bench().start();
  });
  afterEach(() => bench.dispose());
  const running = async () => (await bench.runtime.listContainers({ state: 'RUNNING' })).map(({ id }) => id).sort();

  it('adopts running pods: nothing is restarted and nothing is reported again', async () => {
    for (const name of ['a', 'b'])
      bench.create(podOf(name, { containers: [app(), app({ name: 'other', readinessProbe: { exec: { command: ['true'] } } })] }));
    await Promise.all([bench.ready('a'), bench.ready('b')]);
    const before = await running();
    const status = bench.pod('a')?.status;
    bench.api.requests.length = 0;
    const events = bench.events.lines.length;
    await bench.restart(5000);
    await bench.clock.advance(30_000);
    expect(await running()).toEqual(before);
    expect(bench.pod('a')?.status).toEqual(status);
    expect(bench.requests('patch', 'pods', 'status')).toBe(0);
    expect(bench.events.lines.slice(events).filter((line) => !line.startsWith('node-a'))).toEqual([]);
  });

  it('manages adopted pods', async () => {
    bench.create(podOf('a'));
    await bench.ready('a');
    await bench.restart();
    const [id] = await running();
    bench.runtime.finish(id ?? '', 9);
    const pod = await bench.until('a', (one) => container(one)?.restartCount === 1 && container(one)?.state?.running !== undefined);
    expect(container(pod)?.lastState?.terminated).toMatchObject({ exitCode: 9 });
  });

  it('completes pods that terminated meanwhile', async () => {
    bench.create(podOf('job', { restartPolicy: 'Never', containers: [app({ command: ['sleep', '10'] })] }));
    await bench.ready('job');
    await bench.restart(20_000);
    const pod = await bench.until('job', (one) => one?.status?.phase === 'Succeeded');
    expect(container(pod)?.state?.terminated).toMatchObject({ exitCode: 0, finishedAt: '2026-01-01T00:00:10Z' });
  });

  it('completes the deletion of pods that were deleted meanwhile, gracefully or not', async () => {
    bench.create(podOf('soft'));
    bench.create(podOf('hard'));
    await Promise.all([bench.ready('soft'), bench.ready('hard')]);
    const restarting = bench.restart(1000);
    await bench.delete('soft');
    bench.api.remove(pods, { namespace: 'default', name: 'hard' });
    await restarting;
    await bench.until('soft', (pod) => pod === undefined);
    await bench.clock.settle();
    expect(await bench.runtime.listPodSandbox()).toEqual([]);
  });

  it('terminates its own orphans and leaves those of other kubelets alone', async () => {
    bench.create(podOf('mine'));
    await bench.ready('mine');
    const [mine] = await bench.runtime.listPodSandbox();
    const foreign = await bench.runtime.runPodSandbox(
      {
        metadata: { name: 'theirs', namespace: 'default', uid: 'other', attempt: 0 },
        hostname: 'theirs',
        logDirectory: '',
        portMappings: [],
        annotations: {},
        labels: { ...mine?.labels, 'io.kubernetes.pod.uid': 'other', 'oarlock.dev/kubelet': 'another' },
        linux: { security: { namespaces: { network: 'POD', pid: 'CONTAINER', ipc: 'POD' } } },
      },
      '',
    );
    const restarting = bench.restart(1000);
    bench.api.remove(pods, { namespace: 'default', name: 'mine' });
    await restarting;
    await bench.clock.advance(5000);
    expect((await bench.runtime.listPodSandbox()).map(({ id }) => id)).toEqual([foreign]);
  });

  it('finds a pod by name while it terminates the orphan of an earlier pod with that name, and afterwards', async () => {
    bench.create(podOf('web'));
    await bench.ready('web');
    const restarting = bench.restart(1000);
    bench.api.remove(pods, { namespace: 'default', name: 'web' });
    bench.create(podOf('web'));
    await restarting;
    const uid = (await bench.ready('web')).metadata?.uid;
    const found = () => bench.kubelet.agents.get('node-a')?.pods.find('default', 'web')?.record.uid;
    expect(found()).toBe(uid);
    await bench.clock.advance(60_000);
    expect(await bench.runtime.listPodSandbox()).toHaveLength(1);
    expect(found()).toBe(uid);
  });

  it('recovers from a crash between any two runtime calls', async () => {
    for (const calls of [1, 2, 3, 4, 5, 6, 7, 8]) {
      let left = calls;
      await bench.dispose();
      // after so many calls the runtime does not answer, as for a dead process
      bench = await new Bench({
        wrap: (driver) =>
          new Proxy(driver, {
            get(target, key) {
              const value = Reflect.get(target, key) as unknown;
              if (typeof value !== 'function') return value;
              const changes = [
                'runPodSandbox',
                'createContainer',
                'startContainer',
                'pullImage',
                'podSandboxStatus',
                'containerStatus',
                'imageStatus',
              ].includes(String(key));
              return (...args: unknown[]) => {
                if (changes && left-- <= 0) return new Promise(() => undefined);
                return (value as (...rest: unknown[]) => unknown).apply(target, args);
              };
            },
          }),
      }).start();
      bench.create(podOf('web', { initContainers: [app({ name: 'init', command: ['true'] })] }));
      await bench.clock.advance(1000);
      left = Number.POSITIVE_INFINITY;
      await bench.restart(1000);
      const pod = await bench.ready('web');
      expect(await bench.runtime.listPodSandbox({ state: 'READY' }), `after ${calls} calls`).toHaveLength(1);
      expect(await running(), `after ${calls} calls`).toHaveLength(1);
      expect(pod.status?.containerStatuses).toHaveLength(1);
    }
  });
});
