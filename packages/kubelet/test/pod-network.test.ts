import { silentLogger } from '@oarlock/kernel/logger';
import type { NetworkDriver } from '@oarlock/spi/network';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import { podNetwork } from '../src/node/pod-network.ts';
import type { NodeSituation } from '../src/node/node-agent.ts';
import { facts } from './bench.ts';

const network = {
  traits: { namespace: 'pod' },
  setup: () => Promise.resolve(),
  gc: () => Promise.resolve(),
} as unknown as NetworkDriver;

describe('the network of pods', () => {
  /** A node whose state is looked at so, once for each look. */
  const begin = (looks: readonly (() => Promise<boolean>)[]) => {
    const clock = new FakeClock();
    const stop = new AbortController();
    const told: string[] = [];
    let [at, networkReady] = [0, false];
    const setup = podNetwork({
      context: { clock, log: silentLogger, random: () => 0, signal: stop.signal },
      network,
      nodeName: 'node-a',
      facts,
      addresses: ['10.0.0.1'],
      runtimes: () => [],
      situation: () => ({
        networkDone: () => told.push('done'),
        refresh: async () => {
          networkReady = (await looks[at++]?.()) === true;
        },
        get current() {
          return { networkReady } as NodeSituation;
        },
      }),
      agents: new Map([
        ['node-a', { pods: { wakeAll: () => told.push('woken') }, report: () => Promise.resolve(void told.push('reported')) }],
      ]),
      ours: [],
    });
    return { clock, stop, told, using: setup.use(['10.244.0.0/24']) };
  };

  it('wakes pods when the runtime has seen it, though looking fails meanwhile', async () => {
    const { clock, told, using } = begin([
      () => Promise.reject(new Error('no disk')),
      () => Promise.resolve(false),
      () => Promise.resolve(true),
    ]);
    await clock.runUntil(() => told.includes('reported'), { within: 10_000, what: 'it is told' });
    await using;
    expect(told).toEqual(['done', 'woken', 'reported']);
  });

  it('ends quietly when the kubelet stops while it waits', async () => {
    const { stop, told, using } = begin([
      () => {
        stop.abort();
        return Promise.reject(stop.signal.reason as Error);
      },
    ]);
    await using;
    expect(told).toEqual(['done']);
  });
});
