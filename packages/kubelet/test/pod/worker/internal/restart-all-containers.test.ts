import { nodes } from '@oarlock/api/resources';
import type { Container, Pod } from '@oarlock/api/types/core-v1';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { app, Bench, container, isReady, podOf } from '../../../support/bench.ts';

const rules: Partial<Container> = {
  restartPolicy: 'Never',
  restartPolicyRules: [{ action: 'RestartAllContainers', exitCodes: { operator: 'In', values: [42] } }],
};
const of = 'simulated.oarlock.dev/';
/** The container exits with 42 after 5 s, so many times. */
const exitsWith42 = (requester: string, times = 1, after = '5s') => ({
  [`${of}exit-after.${requester}`]: after,
  [`${of}exit-code.${requester}`]: '42',
  [`${of}exits.${requester}`]: String(times),
});
const init = (name: string, more: Partial<Container> = {}) => app({ name, command: ['true'], ...more });
const preStop = { preStop: { exec: { command: ['false'] } } };
const condition = (pod: Pod | undefined) => pod?.status?.conditions?.find(({ type }) => type === 'AllContainersRestarting');
const counts = (pod: Pod | undefined) =>
  Object.fromEntries(
    [...(pod?.status?.initContainerStatuses ?? []), ...(pod?.status?.containerStatuses ?? [])].map(({ name, restartCount }) => [
      name,
      restartCount,
    ]),
  );

describe('RestartAllContainers (KEP-5532)', () => {
  let bench: Bench;
  beforeEach(async () => {
    bench = await new Bench().start();
  });
  afterEach(() => bench.dispose());
  const untilRestarted = (name: string, requester: string, times = 1) =>
    bench.until(name, (pod) => isReady(pod) && container(pod, requester)?.restartCount === times, { what: `${name} was restarted` });
  const three = (times = 1) =>
    bench.create(
      podOf(
        'three',
        {
          restartPolicy: 'Never',
          initContainers: [init('first')],
          containers: [app({ lifecycle: preStop }), app({ name: 'requester', ...rules })],
        },
        { ...exitsWith42('requester', times), [`${of}stop-delay.app`]: '20s' },
      ),
    );

  it('is a declared feature of the node', () => {
    expect(bench.api.object(nodes, { name: 'node-a' })?.status?.declaredFeatures).toContain('RestartAllContainersOnContainerExits');
  });

  it('restarts init containers and all others in the same sandbox', async () => {
    three();
    const before = await bench.ready('three');
    expect(condition(before)).toMatchObject({ status: 'False' });
    bench.api.requests.length = 0;
    const began = bench.clock.now();
    const after = await untilRestarted('three', 'requester');
    // the statuses that were reported meanwhile, in order
    const statuses = bench.api.requests.flatMap((request) => (request.subresource === 'status' ? [JSON.stringify(request.body)] : []));
    expect(statuses.findIndex((one) => one.includes('RestartAllContainersStarted') && one.includes('"phase":"Pending"'))).toBe(0);
    // containers are killed without grace period and hooks
    expect(bench.clock.now() - began).toBeLessThan(10_000);
    expect(bench.events.of('FailedPreStopHook')).toEqual([]);
    expect(counts(after)).toEqual({ first: 1, app: 1, requester: 1 });
    expect(after.status).toMatchObject({ phase: 'Running', podIP: before.status?.podIP });
    expect(condition(after)).toMatchObject({ status: 'False' });
    expect(container(after, 'requester')?.lastState?.terminated).toMatchObject({ exitCode: 42 });
    expect(container(after, 'app')?.lastState?.terminated).toMatchObject({ exitCode: 137 });
    expect(container(after, 'first')?.lastState?.terminated).toMatchObject({ exitCode: 0 });
    expect(await bench.runtime.listPodSandbox()).toHaveLength(1);
    expect(await bench.runtime.listContainers()).toHaveLength(3);
  });

  it('waits for the back-off of a container that requests it too often', async () => {
    three(2);
    await bench.ready('three');
    await untilRestarted('three', 'requester');
    await bench.until('three', (pod) => condition(pod)?.status === 'True');
    const began = bench.clock.now();
    const waiting = await bench.until('three', (pod) => container(pod, 'requester')?.state?.waiting?.reason === 'CrashLoopBackOff');
    expect(condition(waiting)).toMatchObject({ status: 'True', reason: 'RestartAllContainersStarted' });
    expect(waiting.status?.phase).toBe('Pending');
    await untilRestarted('three', 'requester', 2);
    expect(bench.clock.now() - began).toBeGreaterThanOrEqual(10_000);
    expect(bench.events.of('BackOff')).toHaveLength(1);
  });

  it('can be requested by an init container, and by a sidecar', async () => {
    const annotations = { ...exitsWith42('requester'), [`${of}exit-after.app`]: '1s' };
    bench.create(
      podOf(
        'init',
        { restartPolicy: 'Never', initContainers: [init('first'), app({ name: 'requester', ...rules })] },
        exitsWith42('requester'),
      ),
    );
    bench.create(
      podOf(
        'sidecar',
        { restartPolicy: 'Never', initContainers: [app({ name: 'requester', ...rules, restartPolicy: 'Always' })] },
        annotations,
      ),
    );
    await bench.until('init', (pod) => container(pod, 'first')?.restartCount === 1 && container(pod, 'requester')?.restartCount === 1);
    expect(bench.events.lines.filter((line) => line.startsWith('init') && line.includes('{app}'))).toEqual([]);
    // a sidecar does not keep a completed pod running
    const ended = await bench.until('sidecar', (pod) => pod?.status?.phase === 'Succeeded');
    expect(condition(ended)).toMatchObject({ status: 'False', reason: 'PodCompleted' });
  });

  it('applies only if its rule is the first that matches', async () => {
    const both = {
      ...rules,
      restartPolicyRules: [{ action: 'Restart', exitCodes: rules.restartPolicyRules?.[0]?.exitCodes }, ...(rules.restartPolicyRules ?? [])],
    };
    bench.create(
      podOf(
        'one',
        { restartPolicy: 'Never', containers: [app(), app({ name: 'requester', ...(both as Partial<Container>) })] },
        exitsWith42('requester'),
      ),
    );
    await bench.ready('one');
    expect(counts(await untilRestarted('one', 'requester'))).toEqual({ app: 0, requester: 1 });
  });

  it('does not make a pod terminal while its init containers run again', async () => {
    const pod = podOf(
      'twice',
      { restartPolicy: 'Never', initContainers: [init('first')], containers: [app({ name: 'requester', ...rules })] },
      exitsWith42('requester'),
    );
    bench.create(pod);
    await bench.ready('twice');
    const phases = new Set<string | undefined>();
    await bench.until('twice', (one) => {
      phases.add(one?.status?.phase);
      return isReady(one) && container(one, 'requester')?.restartCount === 1;
    });
    expect([...phases].filter((phase) => phase === 'Failed' || phase === 'Succeeded')).toEqual([]);
  });
});

describe('a kubelet that is killed during RestartAllContainers', () => {
  // the kubelet dies before this call of the runtime
  it.each([
    ['stopContainer', 1],
    ['removeContainer', 1],
    ['createContainer', 1],
    // a created but not started container counts as an attempt
    ['startContainer', 2],
  ] as const)('before %s: completes the restart', async (method, starts) => {
    let armed = false;
    let calls = 0;
    const bench: Bench = await new Bench({
      wrap: (driver) =>
        new Proxy(driver, {
          get(target, key) {
            const value = Reflect.get(target, key) as unknown;
            if (typeof value !== 'function') return value;
            const call = (value as (...args: unknown[]) => unknown).bind(target);
            if (key !== method) return call;
            return (...args: unknown[]) => {
              if (!armed || (calls += 1) !== 2) return call(...args);
              armed = false;
              return new Promise(() => undefined); // never resolves: the kubelet is dead
            };
          },
        }),
    }).start();
    try {
      bench.create(
        podOf(
          'three',
          {
            restartPolicy: 'Never',
            initContainers: [init('first')],
            containers: [app(), app({ name: 'other' }), app({ name: 'requester', ...rules })],
          },
          exitsWith42('requester'),
        ),
      );
      await bench.ready('three');
      armed = true;
      await bench.until('three', () => !armed);
      await bench.restart();
      const pod = await bench.until('three', (one) => isReady(one) && container(one, 'requester')?.restartCount === 1);
      expect(counts(pod)).toEqual({ first: 1, app: starts, other: 1, requester: 1 });
      expect(condition(pod)).toMatchObject({ status: 'False' });
    } finally {
      await bench.dispose();
    }
  });
});
