import { deferred } from '@oarlock/primitives/concurrency/deferred';
import { silentLogger } from '@oarlock/primitives/logger';
import type { ContainerStatus, RuntimeDriver, RuntimeEvent } from '@oarlock/spi/runtime';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PLEGMetrics } from '../../src/metrics/pleg-metrics.ts';
import { PLEG } from '../../src/runtime/pleg.ts';
import { RuntimePodStatus } from '../../src/runtime/runtime-pod-status.ts';

const container = { id: 'c', sandboxId: 's', state: 'RUNNING', createdAt: 0, metadata: { name: 'main', attempt: 0 } } as ContainerStatus;

describe('PLEG', () => {
  let clock: FakeClock;
  let stop: AbortController;
  let registry: Registry;
  let invalidated: number;
  let send: (event: RuntimeEvent | 'resync') => void;
  let list: () => Promise<readonly ContainerStatus[]>;

  beforeEach(async () => {
    stop = new AbortController();
    registry = new Registry();
    clock = new FakeClock();
    invalidated = 0;
    const events: (RuntimeEvent | 'resync')[] = ['resync'];
    let wake = deferred();
    send = (event) => {
      events.push(event);
      wake.resolve();
    };
    const driver = {
      traits: {},
      version: async () => ({ name: 'test', version: '1' }),
      listPodSandbox: async () => [],
      listContainers: () => list(),
      async *events(signal: AbortSignal) {
        signal.addEventListener('abort', () => wake.resolve());
        while (!signal.aborted) {
          yield* events.splice(0);
          await wake.promise;
          wake = deferred();
        }
      },
    };
    const pleg = new PLEG('test', driver as unknown as RuntimeDriver, {
      clock,
      log: silentLogger,
      relistMs: 300_000,
      ownerIds: new Set(['node']),
      metrics: new PLEGMetrics([registry]),
    });
    await pleg.open(stop.signal);
    const state = new RuntimePodStatus();
    state.setContainer(container);
    const invalidate = () => {
      invalidated += 1;
    };
    pleg.watch('s', { state, isSyncing: false, invalidate });
  });
  afterEach(() => stop.abort());

  it('measures relists and the intervals between them, but no failed relist', async () => {
    expect(await registry.metrics()).toContain('kubelet_pleg_last_seen_seconds 0\n');
    list = async () => {
      await clock.sleep(2_000);
      return [container];
    };
    await clock.advance(302_000);
    const first = await registry.metrics();
    expect(first).toContain('kubelet_pleg_relist_duration_seconds_sum 2\n');
    expect(first).toContain('kubelet_pleg_relist_duration_seconds_bucket{le="2.5"} 1\n');
    expect(first).toContain('kubelet_pleg_relist_interval_seconds_count 0\n');
    expect(first).toContain(`kubelet_pleg_last_seen_seconds ${Math.floor(clock.now() / 1000) - 2}\n`);
    list = async () => {
      throw new Error('the runtime does not answer');
    };
    await clock.advance(300_000);
    expect(await registry.metrics()).toBe(first);
    list = async () => [container];
    await clock.advance(600_000);
    const last = await registry.metrics();
    expect(last).toMatch(/kubelet_pleg_relist_interval_seconds_count [1-9]/);
    expect(last).toMatch(/kubelet_pleg_relist_interval_seconds_bucket\{le="10"\} 0/);
  });

  it('relists again if events were lost during a relist', async () => {
    const answers = [deferred(), deferred()];
    let calls = 0;
    let state: ContainerStatus['state'] = 'RUNNING';
    list = async () => {
      const listed = { ...container, state };
      await answers[calls++]?.promise;
      return [listed];
    };
    await clock.advance(300_000);
    expect(calls).toBe(1);
    state = 'EXITED';
    send('resync');
    await clock.settle();
    answers[0]?.resolve();
    await clock.settle();
    expect(calls).toBe(2);
    expect(invalidated).toBe(0);
    answers[1]?.resolve();
    await clock.settle();
    expect(invalidated).toBe(1);
  });

  it('repeats a relist that failed', async () => {
    list = () => Promise.reject(new Error('no answer'));
    send('resync');
    await clock.advance(1_000);
    list = () => Promise.resolve([{ ...container, state: 'EXITED' }]);
    await clock.advance(5_000);
    expect(invalidated).toBe(1);
  });

  it.each([
    ['STARTED', 0],
    ['STOPPED', 1],
  ] as const)('invalidates a sandbox whose status was not read yet after %s: %i times', async (type, times) => {
    send({ type, sandboxId: 's', at: 0 });
    await clock.settle();
    expect(invalidated).toBe(times);
  });
});
