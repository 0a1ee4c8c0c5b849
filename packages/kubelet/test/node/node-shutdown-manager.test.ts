import { nodes } from '@oarlock/api/resources';
import { afterEach, describe, expect, it } from 'vitest';
import { kubeletConfig } from '../../src/config/kubelet-config.ts';
import { shutdownGroups } from '../../src/node/node-shutdown-manager.ts';
import { app, Bench, podOf } from '../support/bench.ts';

const config = (shutdown: object) => kubeletConfig.parse({ nodeName: 'node-a', shutdown });

describe('NodeShutdownManager', () => {
  let bench: Bench;
  afterEach(() => bench.dispose());

  it('terminates pods by ascending priority within their grace periods and rejects new pods', async () => {
    bench = await new Bench({ config: { shutdown: config({ graceSeconds: 30, criticalGraceSeconds: 10 }).shutdown } }).start();
    bench.create(podOf('quick', {}, { 'simulated.oarlock.dev/stop-delay': '3s' }));
    bench.create(podOf('stubborn', { containers: [app({ command: ['stubborn'] })], terminationGracePeriodSeconds: 60 }));
    bench.create(podOf('critical', { priority: 2_000_001_000, containers: [app({ command: ['stubborn'] })] }));
    for (const name of ['quick', 'stubborn', 'critical']) await bench.ready(name);
    const began = bench.clock.now();
    const ends = new Map<string, number>();
    const done = bench.kubelet.shutdown?.run();
    await bench.clock.runUntil(
      () => {
        for (const name of ['quick', 'stubborn', 'critical'])
          if (bench.pod(name)?.status?.phase === 'Failed' && !ends.has(name)) ends.set(name, bench.clock.now() - began);
        return ends.size === 3;
      },
      { within: 60_000, what: 'all have ended' },
    );
    await done;
    expect(ends.get('quick')).toBeLessThan(5000);
    expect(ends.get('stubborn')).toBe(20_000);
    expect(ends.get('critical')).toBe(30_000);
    expect(bench.pod('stubborn')?.status).toMatchObject({
      reason: 'Terminated',
      message: 'Pod was terminated in response to imminent node shutdown.',
      conditions: expect.arrayContaining([
        expect.objectContaining({ type: 'DisruptionTarget', status: 'True', reason: 'TerminationByKubelet' }),
      ]),
    });
    const ready = bench.api.object(nodes, { name: 'node-a' })?.status?.conditions?.find(({ type }) => type === 'Ready');
    expect(ready).toMatchObject({ status: 'False', message: 'node is shutting down' });
    bench.create(podOf('late'));
    expect((await bench.until('late', (pod) => pod?.status?.phase === 'Failed')).status).toMatchObject({
      reason: 'NodeShutdown',
      message: 'Pod was rejected as the node is shutting down.',
    });
    bench.kubelet.shutdown?.cancel();
    bench.create(podOf('after'));
    await bench.ready('after');
  });

  it('derives its groups from the config', async () => {
    bench = new Bench();
    expect(shutdownGroups(config({}))).toEqual([]);
    expect(shutdownGroups(config({ graceSeconds: 30, criticalGraceSeconds: 10 }))).toEqual([
      { priority: 0, seconds: 20 },
      { priority: 2_000_000_000, seconds: 10 },
    ]);
    const byPriority = [
      { priority: 100, seconds: 5 },
      { priority: 0, seconds: 7 },
    ];
    expect(shutdownGroups(config({ byPriority })).map(({ priority }) => priority)).toEqual([0, 100]);
    expect(() => config({ graceSeconds: 5, criticalGraceSeconds: 6 })).toThrow(/must not exceed graceSeconds/);
  });
});
