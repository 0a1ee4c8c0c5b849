import { nodes } from '@oarlock/api/resources';
import type { Container, Pod } from '@oarlock/api/types/core-v1';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { app, Bench, container, isReady, podOf } from './bench.ts';

const rules: Partial<Container> = {
  restartPolicy: 'Never',
  restartPolicyRules: [{ action: 'RestartAllContainers', exitCodes: { operator: 'In', values: [42] } }],
};
const of = 'simulated.oarlock.dev/';
/** `asker` ends with 42 after 5 s, so often. */
const ends = (asker: string, times = 1, after = '5s') => ({
  [`${of}exit-after.${asker}`]: after,
  [`${of}exit-code.${asker}`]: '42',
  [`${of}exits.${asker}`]: String(times),
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

describe('a container whose end asks for all to be started anew', () => {
  let bench: Bench;
  beforeEach(async () => {
    bench = await new Bench().start();
  });
  afterEach(() => bench.dispose());
  const anew = (name: string, asker: string, times = 1) =>
    bench.until(name, (pod) => isReady(pod) && container(pod, asker)?.restartCount === times, { what: `${name} was started anew` });
  const three = (times = 1) =>
    bench.create(
      podOf(
        'three',
        {
          restartPolicy: 'Never',
          initContainers: [init('first')],
          containers: [app({ lifecycle: preStop }), app({ name: 'asker', ...rules })],
        },
        { ...ends('asker', times), [`${of}stop-delay.app`]: '20s' },
      ),
    );

  it('is said to be carried out by the node', () => {
    expect(bench.api.object(nodes, { name: 'node-a' })?.status?.declaredFeatures).toContain('RestartAllContainersOnContainerExits');
  });

  it('has init containers run again, and all others, in the sandbox that there is', async () => {
    three();
    const before = await bench.ready('three');
    expect(condition(before)).toMatchObject({ status: 'False' });
    bench.api.requests.length = 0;
    const began = bench.clock.now();
    const after = await anew('three', 'asker');
    // what was told meanwhile, in this order
    const told = bench.api.requests.flatMap((request) => (request.subresource === 'status' ? [JSON.stringify(request.body)] : []));
    expect(told.findIndex((one) => one.includes('RestartAllContainersStarted') && one.includes('"phase":"Pending"'))).toBe(0);
    // grace and hooks are left out: the others end at once
    expect(bench.clock.now() - began).toBeLessThan(10_000);
    expect(bench.events.of('FailedPreStopHook')).toEqual([]);
    expect(counts(after)).toEqual({ first: 1, app: 1, asker: 1 });
    expect(after.status).toMatchObject({ phase: 'Running', podIP: before.status?.podIP });
    expect(condition(after)).toMatchObject({ status: 'False' });
    expect(container(after, 'asker')?.lastState?.terminated).toMatchObject({ exitCode: 42 });
    expect(container(after, 'app')?.lastState?.terminated).toMatchObject({ exitCode: 137 });
    expect(container(after, 'first')?.lastState?.terminated).toMatchObject({ exitCode: 0 });
    expect(await bench.runtime.listPodSandbox()).toHaveLength(1);
    expect(await bench.runtime.listContainers()).toHaveLength(3);
  });

  it('has to wait when it asks too often', async () => {
    three(2);
    await bench.ready('three');
    await anew('three', 'asker');
    await bench.until('three', (pod) => condition(pod)?.status === 'True');
    const began = bench.clock.now();
    const waiting = await bench.until('three', (pod) => container(pod, 'asker')?.state?.waiting?.reason === 'CrashLoopBackOff');
    expect(condition(waiting)).toMatchObject({ status: 'True', reason: 'RestartAllContainersStarted' });
    expect(waiting.status?.phase).toBe('Pending');
    await anew('three', 'asker', 2);
    expect(bench.clock.now() - began).toBeGreaterThanOrEqual(10_000);
    expect(bench.events.of('BackOff')).toHaveLength(1);
  });

  it('may be an init container, or a sidecar after all others have ended', async () => {
    const annotations = { ...ends('asker'), [`${of}exit-after.app`]: '1s' };
    bench.create(
      podOf('init', { restartPolicy: 'Never', initContainers: [init('first'), app({ name: 'asker', ...rules })] }, ends('asker')),
    );
    bench.create(
      podOf(
        'sidecar',
        { restartPolicy: 'Never', initContainers: [app({ name: 'asker', ...rules, restartPolicy: 'Always' })] },
        annotations,
      ),
    );
    await bench.until('init', (pod) => container(pod, 'first')?.restartCount === 1 && container(pod, 'asker')?.restartCount === 1);
    expect(bench.events.lines.filter((line) => line.startsWith('init') && line.includes('{app}'))).toEqual([]);
    // a sidecar does not keep a pod from ending
    const ended = await bench.until('sidecar', (pod) => pod?.status?.phase === 'Succeeded');
    expect(condition(ended)).toMatchObject({ status: 'False', reason: 'PodCompleted' });
  });

  it('counts only by the first rule that matches', async () => {
    const both = {
      ...rules,
      restartPolicyRules: [{ action: 'Restart', exitCodes: rules.restartPolicyRules?.[0]?.exitCodes }, ...(rules.restartPolicyRules ?? [])],
    };
    bench.create(
      podOf('one', { restartPolicy: 'Never', containers: [app(), app({ name: 'asker', ...(both as Partial<Container>) })] }, ends('asker')),
    );
    await bench.ready('one');
    expect(counts(await anew('one', 'asker'))).toEqual({ app: 0, asker: 1 });
  });

  it('leaves no pod failed, whatever its policies, when an init container does not come through the second time', async () => {
    const pod = podOf(
      'twice',
      { restartPolicy: 'Never', initContainers: [init('first')], containers: [app({ name: 'asker', ...rules })] },
      ends('asker'),
    );
    bench.create(pod);
    await bench.ready('twice');
    const phases = new Set<string | undefined>();
    await bench.until('twice', (one) => {
      phases.add(one?.status?.phase);
      return isReady(one) && container(one, 'asker')?.restartCount === 1;
    });
    expect([...phases].filter((phase) => phase === 'Failed' || phase === 'Succeeded')).toEqual([]);
  });
});

describe('a kubelet that is killed while all containers are started anew', () => {
  // dies before the given call of the runtime
  it.each([
    ['stopContainer', 1],
    ['removeContainer', 1],
    ['createContainer', 1],
    // what was made but not started counts
    ['startContainer', 2],
  ] as const)('before %s: finishes what was begun', async (method, starts) => {
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
              return new Promise(() => undefined); // never comes back: the kubelet is gone by then
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
            containers: [app(), app({ name: 'other' }), app({ name: 'asker', ...rules })],
          },
          ends('asker'),
        ),
      );
      await bench.ready('three');
      armed = true;
      await bench.until('three', () => !armed);
      await bench.restart();
      const pod = await bench.until('three', (one) => isReady(one) && container(one, 'asker')?.restartCount === 1);
      expect(counts(pod)).toEqual({ first: 1, app: starts, other: 1, asker: 1 });
      expect(condition(pod)).toMatchObject({ status: 'False' });
    } finally {
      await bench.dispose();
    }
  });
});
