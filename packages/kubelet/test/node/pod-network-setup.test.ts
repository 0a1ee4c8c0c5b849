import { silentLogger } from '@oarlock/primitives/logger';
import type { NetworkDriver } from '@oarlock/spi/network';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import { createNodeNetworkSetup } from '../../src/node/pod-network-setup.ts';
import type { NodeState } from '../../src/node/node-agent.ts';
import { facts } from '../support/bench.ts';

const network = {
  traits: { namespace: 'pod' },
  setup: () => Promise.resolve(),
  gc: () => Promise.resolve(),
} as unknown as NetworkDriver;

describe('createNodeNetworkSetup', () => {
  /** Starts the setup of a node whose refreshes return these results in turn. */
  const begin = (refreshes: readonly (() => Promise<boolean>)[]) => {
    const clock = new FakeClock();
    const stop = new AbortController();
    const calls: string[] = [];
    let [at, networkReady] = [0, false];
    const setup = createNodeNetworkSetup({
      context: { clock, log: silentLogger, random: () => 0, signal: stop.signal },
      network,
      nodeName: 'node-a',
      facts,
      addresses: ['10.0.0.1'],
      runtimes: () => [],
      nodeState: () => ({
        networkConfigured: () => calls.push('done'),
        refresh: async () => {
          networkReady = (await refreshes[at++]?.()) === true;
        },
        get current() {
          return { networkReady } as NodeState;
        },
      }),
      agents: new Map([
        ['node-a', { pods: { wakeSyncingPods: () => calls.push('woken') }, report: () => Promise.resolve(void calls.push('reported')) }],
      ]),
      heldAttachments: [],
    });
    return { clock, stop, calls, done: setup.setPodCIDRs(['10.244.0.0/24']) };
  };

  it('wakes pods when the runtime reports the network ready, also after a failed refresh', async () => {
    const { clock, calls, done } = begin([
      () => Promise.reject(new Error('no disk')),
      () => Promise.resolve(false),
      () => Promise.resolve(true),
    ]);
    await clock.runUntil(() => calls.includes('reported'), { within: 10_000, what: 'the node is reported' });
    await done;
    expect(calls).toEqual(['done', 'woken', 'reported']);
  });

  it('ends without an error when the kubelet stops', async () => {
    const { stop, calls, done } = begin([
      () => {
        stop.abort();
        return Promise.reject(stop.signal.reason as Error);
      },
    ]);
    await done;
    expect(calls).toEqual(['done']);
  });
});
