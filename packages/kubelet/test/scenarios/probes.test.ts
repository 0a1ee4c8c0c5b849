import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { pods } from '@oarlock/api/resources';
import { app, Bench, container, isReady, podOf } from '../support/bench.ts';

const probe = { exec: { command: ['true'] }, periodSeconds: 5 };
const seconds = (bench: Bench) => (bench.clock.now() - Date.UTC(2026, 0, 1)) / 1000;

describe('probes', () => {
  let bench: Bench;
  beforeEach(async () => {
    bench = await new Bench().start();
  });
  afterEach(() => bench.dispose());

  it('makes a pod ready when its readiness probe succeeds, after the initial delay', async () => {
    bench.create(
      podOf(
        'web',
        { containers: [app({ readinessProbe: { ...probe, initialDelaySeconds: 3, successThreshold: 2 } })] },
        { 'simulated.oarlock.dev/ready-after': '7s' },
      ),
    );
    const waiting = await bench.until('web', (pod) => pod?.status?.phase === 'Running');
    expect(waiting.status?.conditions?.find(({ type }) => type === 'Ready')).toMatchObject({
      status: 'False',
      reason: 'ContainersNotReady',
      message: 'containers with unready status: [app]',
    });
    await bench.ready('web');
    // attempts at 3, 8 and 13 s: the first fails, the other two succeed
    expect(seconds(bench)).toBe(13);
    expect(bench.events.of('Unhealthy')).toEqual([
      'web Warning Unhealthy spec.containers{app}: Readiness probe failed: simulated: not healthy',
    ]);
    const patches = bench.requests('patch', 'pods', 'status');
    await bench.clock.advance(120_000);
    expect(bench.requests('patch', 'pods', 'status')).toBe(patches);
  });

  it('makes a pod unready without a restart', async () => {
    bench.create(
      podOf(
        'web',
        { containers: [app({ readinessProbe: { ...probe, failureThreshold: 2 } })] },
        { 'simulated.oarlock.dev/unhealthy-after': '12s' },
      ),
    );
    await bench.ready('web');
    await bench.until('web', (pod) => !isReady(pod));
    expect(seconds(bench)).toBe(20);
    await bench.clock.advance(60_000);
    expect(container(bench.pod('web'))).toMatchObject({ ready: false, restartCount: 0 });
  });

  it('restarts a container whose liveness probe fails, with the grace period of the probe', async () => {
    bench.create(
      podOf(
        'web',
        {
          containers: [app({ command: ['stubborn'], livenessProbe: { ...probe, failureThreshold: 2, terminationGracePeriodSeconds: 4 } })],
        },
        { 'simulated.oarlock.dev/unhealthy-after': '12s' },
      ),
    );
    await bench.ready('web');
    const pod = await bench.until('web', (one) => container(one)?.restartCount === 1);
    expect(seconds(bench)).toBe(24);
    expect(container(pod)?.lastState?.terminated).toMatchObject({ exitCode: 137 });
    expect(bench.events.of('Killing')).toEqual([
      'web Normal Killing spec.containers{app}: Container app failed liveness probe, will be restarted',
    ]);
    expect(bench.events.of('Unhealthy')[0]).toBe(
      'web Warning Unhealthy spec.containers{app}: Liveness probe failed: simulated: not healthy',
    );
  });

  it('delays other probes until the startup probe succeeds, and restarts a container that never starts', async () => {
    bench.create(
      podOf(
        'slow',
        {
          containers: [
            app({ startupProbe: { ...probe, periodSeconds: 1, failureThreshold: 10 }, readinessProbe: probe, livenessProbe: probe }),
          ],
        },
        { 'simulated.oarlock.dev/ready-after': '6500ms' },
      ),
    );
    bench.create(
      podOf(
        'never',
        { containers: [app({ startupProbe: { ...probe, periodSeconds: 1, failureThreshold: 3 } })] },
        { 'simulated.oarlock.dev/ready-after': '1h' },
      ),
    );
    const slow = await bench.until('slow', (pod) => pod?.status?.phase === 'Running');
    expect(container(slow)).toMatchObject({ started: false, ready: false });
    await bench.ready('slow');
    expect(seconds(bench)).toBe(7);
    expect(container(bench.pod('slow'))).toMatchObject({ started: true });
    expect(bench.events.of('Killing').slice(0, 1)).toEqual([
      'never Normal Killing spec.containers{app}: Container app failed startup probe, will be restarted',
    ]);
  });

  it('evaluates readiness gates', async () => {
    bench.create(podOf('web', { readinessGates: [{ conditionType: 'example.com/balanced' }] }));
    const pod = await bench.until(
      'web',
      (one) => one?.status?.conditions?.some(({ reason }) => reason === 'ReadinessGatesNotReady') === true,
    );
    expect(pod.status?.conditions?.find(({ type }) => type === 'ContainersReady')?.status).toBe('True');
    expect(pod.status?.conditions?.find(({ type }) => type === 'Ready')?.message).toBe(
      'corresponding condition of pod readiness gate "example.com/balanced" does not exist.',
    );
    await bench.api
      .client()
      .patch(
        pods,
        { namespace: 'default', name: 'web' },
        'strategic',
        { status: { conditions: [{ type: 'example.com/balanced', status: 'True' }] } },
        { subresource: 'status' },
      );
    const ready = await bench.ready('web');
    expect(ready.status?.conditions?.map(({ type }) => type)).toContain('example.com/balanced');
  });
});
