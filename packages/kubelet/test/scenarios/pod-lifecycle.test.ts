import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { app, Bench, container, isReady, podOf } from '../support/bench.ts';

describe('pod lifecycle', () => {
  let bench: Bench;
  beforeEach(async () => {
    bench = await new Bench().start();
  });
  afterEach(() => bench.dispose());

  it('runs a pod and reports its status and events as upstream does', async () => {
    bench.create(podOf('web'));
    const pod = await bench.ready('web');
    expect(pod.status).toMatchObject({
      phase: 'Running',
      hostIP: '10.0.0.1',
      podIP: '10.128.0.1',
      podIPs: [{ ip: '10.128.0.1' }],
      qosClass: 'BestEffort',
      startTime: '2026-01-01T00:00:00Z',
    });
    expect(pod.status?.conditions?.map(({ type, status }) => `${type}=${status}`)).toEqual([
      'PodReadyToStartContainers=True',
      'Initialized=True',
      'Ready=True',
      'ContainersReady=True',
      'PodScheduled=True',
    ]);
    expect(container(pod)).toMatchObject({
      name: 'app',
      ready: true,
      started: true,
      restartCount: 0,
      image: 'registry.test/app:1',
      imageID: expect.stringMatching(/^sha256:/),
      containerID: expect.stringMatching(/^simulated:\/\//),
      state: { running: { startedAt: '2026-01-01T00:00:00Z' } },
      lastState: {},
    });
    expect(bench.events.lines.filter((line) => line.startsWith('web'))).toEqual([
      'web Normal Pulling spec.containers{app}: Pulling image "registry.test/app:1"',
      expect.stringMatching(
        /^web Normal Pulled spec\.containers\{app\}: Successfully pulled image "registry\.test\/app:1" in 0ms \(0ms including waiting\)\. Image size: \d+ bytes\.$/,
      ),
      'web Normal Created spec.containers{app}: Container created',
      'web Normal Started spec.containers{app}: Container started',
    ]);
    await bench.clock.advance(60_000);
    expect(bench.requests('patch', 'pods', 'status')).toBe(1);
  });

  it('reports the addresses that the pod got, not those of its annotations', async () => {
    bench.create(podOf('web', {}, { 'oarlock.dev/pod-ips': '10.0.0.99', 'example.com/mine': 'kept' }));
    const { status } = await bench.ready('web');
    expect([status?.podIP, status?.podIPs]).toEqual(['10.128.0.1', [{ ip: '10.128.0.1' }]]);
    const [sandbox] = await bench.runtime.listPodSandbox();
    expect(sandbox?.annotations).toMatchObject({ 'example.com/mine': 'kept' });
    expect(sandbox?.annotations).not.toHaveProperty(['oarlock.dev/pod-ips']);
  });

  it('stops a deleted pod within its grace period and removes everything of it', async () => {
    bench.create(podOf('web', {}, { 'simulated.oarlock.dev/stop-delay': '5s' }));
    await bench.ready('web');
    const began = bench.clock.now();
    await bench.delete('web');
    await bench.until('web', (pod) => pod === undefined);
    expect(bench.clock.now() - began).toBe(5000);
    expect(bench.events.of('Killing')).toEqual(['web Normal Killing spec.containers{app}: Stopping container app']);
    expect(await bench.runtime.listPodSandbox()).toEqual([]);
    expect(bench.kubelet.agents.get('node-a')?.pods.size).toBe(0);
  });

  it('kills containers at the end of the grace period, also of a shortened one', async () => {
    bench.create(podOf('web', { containers: [app({ command: ['stubborn'] })] }));
    await bench.ready('web');
    const began = bench.clock.now();
    await bench.delete('web');
    await bench.clock.advance(3000);
    await bench.delete('web', 4);
    await bench.until('web', (pod) => pod === undefined);
    expect(bench.clock.now() - began).toBe(7000);
    expect(bench.events.of('Killing')).toHaveLength(1);
  });

  it('ends with Succeeded or Failed if no container is restarted', async () => {
    bench.create(podOf('good', { restartPolicy: 'Never', containers: [app({ command: ['sleep', '3'] })] }));
    bench.create(
      podOf('bad', {
        restartPolicy: 'OnFailure',
        containers: [app({ command: ['true'] }), app({ name: 'other', command: ['sleep', '1'] })],
      }),
    );
    bench.create(
      podOf('ugly', {
        restartPolicy: 'Never',
        containers: [app({ command: ['exit', '7'] }), app({ name: 'other', command: ['sleep', '1'] })],
      }),
    );
    expect((await bench.until('good', (pod) => pod?.status?.phase === 'Succeeded')).status).toMatchObject({ phase: 'Succeeded' });
    expect(
      (await bench.until('bad', (pod) => pod?.status?.phase === 'Succeeded')).status?.conditions?.find(({ type }) => type === 'Ready'),
    ).toMatchObject({ status: 'False', reason: 'PodCompleted' });
    const ugly = await bench.until('ugly', (pod) => pod?.status?.phase === 'Failed');
    expect(container(ugly)?.state?.terminated).toMatchObject({ exitCode: 7, reason: 'Error', containerID: container(ugly)?.containerID });
    expect((await bench.runtime.listPodSandbox({ state: 'READY' })).length).toBe(0);
    expect((await bench.runtime.listContainers()).length).toBe(5);
    await bench.delete('ugly');
    await bench.until('ugly', (pod) => pod === undefined);
    await bench.clock.settle();
    expect((await bench.runtime.listContainers()).length).toBe(3);
  });

  it('restarts containers with back-off: immediately, after 10 s, after 20 s', async () => {
    bench.create(
      podOf(
        'crash',
        {},
        { 'simulated.oarlock.dev/exit-after': '1s', 'simulated.oarlock.dev/exit-code': '3', 'simulated.oarlock.dev/exits': '3' },
      ),
    );
    const restarted = (count: number) =>
      bench.until('crash', (pod) => container(pod)?.restartCount === count && container(pod)?.state?.running !== undefined);
    await restarted(1);
    expect(bench.clock.now()).toBe(Date.UTC(2026, 0, 1) + 1000);
    const waiting = await bench.until('crash', (pod) => container(pod)?.state?.waiting !== undefined);
    expect(container(waiting)).toMatchObject({
      ready: false,
      restartCount: 1,
      state: {
        waiting: {
          reason: 'CrashLoopBackOff',
          message: expect.stringMatching(/^back-off 10s restarting failed container=app pod=crash_default\(/),
        },
      },
      lastState: { terminated: { exitCode: 3, reason: 'Error' } },
    });
    expect(waiting.status?.phase).toBe('Running');
    await restarted(2);
    expect(bench.clock.now()).toBe(Date.UTC(2026, 0, 1) + 12_000);
    await restarted(3);
    expect(bench.clock.now()).toBe(Date.UTC(2026, 0, 1) + 33_000);
    expect(bench.events.of('BackOff')).toHaveLength(2);
    expect((await bench.runtime.listContainers()).length).toBe(2);
  });

  it('runs init containers in order and restarts a failed one', async () => {
    bench.create(
      podOf(
        'init',
        { initContainers: [app({ name: 'one', command: ['sleep', '1'] }), app({ name: 'two' })] },
        {
          'simulated.oarlock.dev/exit-after.two': '2s',
          'simulated.oarlock.dev/exit-code.two': '1',
          'simulated.oarlock.dev/exits.two': '1',
        },
      ),
    );
    const pending = await bench.until('init', (pod) => container(pod, 'two')?.state?.running !== undefined);
    expect(pending.status?.phase).toBe('Pending');
    expect(container(pending)?.state?.waiting).toEqual({ reason: 'PodInitializing' });
    expect(pending.status?.conditions?.find(({ type }) => type === 'Initialized')).toMatchObject({
      status: 'False',
      reason: 'ContainersNotInitialized',
      message: 'containers with incomplete status: [two]',
    });
    expect(container(pending, 'one')).toMatchObject({
      ready: true,
      started: false,
      state: { terminated: { reason: 'Completed', exitCode: 0 } },
    });
    const [two] = await bench.runtime.listContainers({ labels: { 'io.kubernetes.container.name': 'two' }, state: 'RUNNING' });
    await bench.until('init', (pod) => container(pod, 'two')?.restartCount === 1);
    expect(two).toBeDefined();
    const [again] = await bench.runtime.listContainers({ labels: { 'io.kubernetes.container.name': 'two' }, state: 'RUNNING' });
    bench.runtime.finish(again?.id ?? '', 0);
    const ready = await bench.ready('init');
    expect(container(ready, 'two')).toMatchObject({ ready: true, restartCount: 1 });
  });

  it('keeps sidecars running beside the other containers and stops them last', async () => {
    bench.create(
      podOf('side', {
        restartPolicy: 'Never',
        initContainers: [app({ name: 'proxy', restartPolicy: 'Always' }), app({ name: 'setup', command: ['true'] })],
        containers: [app({ command: ['sleep', '5'] })],
      }),
    );
    const ready = await bench.ready('side');
    expect(container(ready, 'proxy')).toMatchObject({ ready: true, started: true });
    const done = await bench.until('side', (pod) => pod?.status?.phase === 'Succeeded');
    expect(container(done, 'proxy')?.state?.terminated).toBeDefined();
    expect(container(done)?.state?.terminated?.exitCode).toBe(0);
  });

  it('waits with pull back-off for a missing image', async () => {
    await bench.dispose();
    bench = await new Bench({ runtime: { missingImages: ['registry.test/none:1'] } }).start();
    bench.create(podOf('lost', { containers: [app({ image: 'registry.test/none:1' })] }));
    const first = await bench.until('lost', (pod) => container(pod)?.state?.waiting?.reason === 'ErrImagePull');
    expect(container(first)?.state?.waiting?.message).toMatch(/not found$/);
    const second = await bench.until('lost', (pod) => container(pod)?.state?.waiting?.reason === 'ImagePullBackOff', { within: 30_000 });
    expect(container(second)?.state?.waiting?.message).toMatch(/^Back-off pulling image "registry\.test\/none:1": ErrImagePull: /);
    expect(isReady(second)).toBe(false);
    await bench.clock.advance(60_000);
    expect(bench.events.of('Pulling').length).toBe(3);
  });
});
