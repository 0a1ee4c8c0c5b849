import { failure } from '@oarlock/api/status';
import { pods } from '@oarlock/api/resources';
import { sequence } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { app, Bench, isReady, podOf } from '../support/bench.ts';

/** Random events in any order: afterwards exactly the desired pods run. */
describe('a node with random faults', () => {
  it.each([1, 2, 3, 4, 5, 6])('converges (%i)', async (seed) => {
    const random = sequence(seed);
    const below = (limit: number) => Math.floor(random() * limit);
    const bench = await new Bench().start();
    let count = 0;
    const some = <T>(items: readonly T[]): T | undefined => items[below(items.length)];
    const names = () => bench.api.objects(pods).map(({ metadata }) => metadata?.name ?? '');
    const happenings: readonly (() => unknown)[] = [
      () => {
        count += 1;
        const initContainers = [
          ...(below(2) === 0 ? [app({ name: 'side', restartPolicy: 'Always' })] : []),
          app({ name: 'init', command: ['true'] }),
        ];
        const probe = below(2) === 0 ? { readinessProbe: { exec: { command: ['true'] }, periodSeconds: 2 } } : {};
        bench.create(
          podOf(
            `p-${count}`,
            { terminationGracePeriodSeconds: below(5), initContainers, containers: [app(probe), app({ name: 'other' })] },
            { 'simulated.oarlock.dev/start-delay': `${below(3)}s`, 'simulated.oarlock.dev/stop-delay': `${below(8)}s` },
          ),
        );
      },
      async () => {
        const name = some(names());
        if (name !== undefined) await bench.delete(name, below(2) === 0 ? undefined : below(4));
      },
      () => {
        const name = some(names());
        if (name !== undefined && below(3) === 0) bench.api.remove(pods, { namespace: 'default', name });
      },
      async () => {
        const running = some(await bench.runtime.listContainers({ state: 'RUNNING' }));
        if (running) await bench.runtime.stopContainer(running.id, 0);
      },
      async () => {
        const sandbox = some(await bench.runtime.listPodSandbox({ state: 'READY' }));
        if (sandbox) await bench.runtime.stopPodSandbox(sandbox.id);
      },
      async () => {
        const sandbox = some(await bench.runtime.listPodSandbox());
        if (sandbox && below(3) === 0) await bench.runtime.removePodSandbox(sandbox.id);
      },
      () => bench.api.dropWatches(),
      () => bench.api.compact(),
      // fails only the kubelet's writes: no other client sends preconditions
      () =>
        bench.api.failNext(
          ({ verb, body }) =>
            verb === 'patch' || (verb === 'delete' && (body as { preconditions?: object } | undefined)?.preconditions !== undefined),
          failure('ServiceUnavailable', 'not now'),
          1 + below(3),
        ),
      () => bench.restart(below(5000)),
      () => bench.clock.advance(below(15_000)),
    ];
    for (let round = 0; round < 120; round += 1) {
      await happenings[below(happenings.length)]?.();
      if (below(3) === 0) await bench.clock.advance(below(3000));
    }
    // the back-off is at most five minutes, and so is the relist period
    await bench.clock.advance(1_300_000);
    const wanted = bench.api.objects(pods);
    expect(
      wanted.every(isReady),
      JSON.stringify(wanted.filter((pod) => !isReady(pod)).map(({ metadata, status }) => ({ metadata, status }))),
    ).toBe(true);
    const uids = wanted.map(({ metadata }) => metadata?.uid ?? '').sort();
    const sandboxes = await bench.runtime.listPodSandbox({ state: 'READY' });
    expect(sandboxes.map(({ metadata }) => metadata.uid).sort()).toEqual(uids);
    expect((await bench.runtime.listPodSandbox()).every(({ metadata }) => uids.includes(metadata.uid))).toBe(true);
    const perPod = wanted.reduce((sum, { spec }) => sum + 2 + (spec?.initContainers?.length === 2 ? 1 : 0), 0);
    expect(await bench.runtime.listContainers({ state: 'RUNNING' })).toHaveLength(perPod);
    expect(bench.kubelet.agents.get('node-a')?.pods.size).toBe(wanted.length);
    await bench.dispose();
  });
});
