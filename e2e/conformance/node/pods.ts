import { join } from 'node:path';
import { expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { until } from '../../harness/until.ts';
import type { NodeWorkbench, Spec } from '../node-workbench.ts';
import type { FullPod } from '../pod-follower.ts';
import { grpcServer } from './grpc-answer.ts';

/** The lifecycle of pods: hooks, probes, order, deadlines, deletion and access. */
export function podBehaviours(bench: NodeWorkbench): void {
  const path = (name: string) => `${bench.at('pods')}/${name}`;
  const only = (script: string, more: Spec = {}, pod: Spec = {}): Spec => ({ containers: [bench.container(script, more)], ...pod });
  const restarts = ({ status }: FullPod) => status.containerStatuses?.[0]?.restartCount ?? 0;
  const idle = 'trap "exit 0" TERM; sleep 600 & wait';
  const listener =
    'mkdir -p /w; echo ok > /w/index.html; echo ok > /w/healthz; for f in poststart prestop; do echo hi > /w/$f-http; echo hi > /w/$f-exec; done; exec httpd -f -vv -p 8080 -h /w';
  const logContains = (name: string, word: string, query = '') =>
    until(`${name} says ${word}`, async () => (await bench.log(name, query)).includes(word), { everyMs: 200 });
  /** Waits until the kubelet has counted so many results of a pod's probes. */
  const probedOften = (name: string, result: 'successful' | 'failed', times: number) =>
    until(
      `probes of ${name} ${result} ${times} times`,
      async () => {
        const { body } = await bench.api.call('GET', `/api/v1/nodes/${bench.pods.get(name)?.spec.nodeName ?? ''}/proxy/metrics/probes`);
        const line = body.split('\n').find((one) => one.includes(`pod="${name}"`) && one.includes(`result="${result}"`));
        return Number(line?.split(' ').at(-1) ?? 0) >= times;
      },
      { everyMs: 300 },
    );

  for (const [when, other] of [
    ['postStart', 'poststart'],
    ['preStop', 'prestop'],
  ] as const) {
    it(`Container Lifecycle Hook when create a pod with lifecycle hook should execute ${other} exec and http hook properly`, async () => {
      const { metadata, status } = await bench.ready(
        (await bench.pod(only(listener, { readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 } }))).metadata.name,
      );
      const lifecycle = { [when]: { httpGet: { path: `/${other}-http`, host: status.podIP, port: 8080 } } };
      const exec = { [when]: { exec: { command: ['sh', '-c', `wget -q -O - 'http://${status.podIP}:8080/${other}-exec'`] } } };
      for (const hook of [lifecycle, exec]) {
        const pod = await bench.start(only(idle, { lifecycle: hook }, { terminationGracePeriodSeconds: 15 }));
        if (when === 'preStop') await bench.remove(path(pod.metadata.name));
        else bench.forget(pod.metadata.name);
      }
      await logContains(metadata.name, `/${other}-http`);
      await logContains(metadata.name, `/${other}-exec`);
      bench.forget(metadata.name);
    });
  }
  it('PreStop should call prestop when killing a pod, and support the sleep action', async () => {
    const pod = await bench.start(only(idle, { lifecycle: { preStop: { sleep: { seconds: 2 } } } }, { terminationGracePeriodSeconds: 20 }));
    const began = Date.now();
    await bench.remove(path(pod.metadata.name));
    await bench.gone(pod.metadata.name);
    expect(Date.now() - began).toBeGreaterThan(1900);
  });

  const probed = (script: string, probe: Spec, more: Spec = {}) =>
    only(
      script,
      { livenessProbe: { periodSeconds: 1, failureThreshold: 1, timeoutSeconds: 5, ...probe }, ...more },
      { restartPolicy: 'Always' },
    );
  const restarted = async (spec: Spec, times = 1) => {
    const { metadata } = await bench.pod(spec);
    let last = 0;
    await bench.pods.until(
      metadata.name,
      `be restarted ${times} times`,
      (pod) => {
        expect(restarts(pod)).toBeGreaterThanOrEqual(last);
        last = restarts(pod);
        return last >= times;
      },
      600_000,
    );
    bench.forget(metadata.name);
  };
  /** As upstream: a slow starter has five attempts. */
  const patient = { failureThreshold: 5, initialDelaySeconds: 3 };
  const stays = async (spec: Spec) => {
    const { metadata } = await bench.start(spec);
    await probedOften(metadata.name, 'successful', 3);
    expect(restarts(await bench.running(metadata.name))).toBe(0);
    bench.forget(metadata.name);
  };
  const unhealthy = 'mkdir -p /w; echo ok > /w/healthz; httpd -p 8080 -h /w; sleep 5; rm /w/healthz; sleep 600';
  it('Probing container should be restarted with a exec "cat /tmp/health" liveness probe', () =>
    restarted(
      probed('echo ok > /tmp/health; sleep 4; rm -rf /tmp/health; sleep 600', {
        exec: { command: ['cat', '/tmp/health'] },
        initialDelaySeconds: 3,
      }),
    ));
  it('Probing container should be restarted with a /healthz http liveness probe', () =>
    restarted(probed(unhealthy, { httpGet: { path: '/healthz', port: 8080 }, initialDelaySeconds: 3 })));
  it('Probing container should be restarted with a GRPC liveness probe', () =>
    restarted(probed(grpcServer(5000), { grpc: { port: 2333 }, initialDelaySeconds: 2 })));
  it('Probing container should have monotonically increasing restart count', () =>
    restarted(probed('httpd -p 8080 -h /tmp; sleep 600', { httpGet: { path: '/healthz', port: 8080 }, initialDelaySeconds: 1 }, {}), 3));
  it('Probing container should *not* be restarted with a exec "cat /tmp/health" liveness probe', () =>
    stays(probed('echo ok > /tmp/health; sleep 600', { exec: { command: ['cat', '/tmp/health'] }, ...patient })));
  it('Probing container should *not* be restarted with a tcp:8080 liveness probe', () =>
    stays(probed(listener, { tcpSocket: { port: 8080 }, ...patient })));
  it('Probing container should *not* be restarted with a /healthz http liveness probe', () =>
    stays(probed(listener, { httpGet: { path: '/healthz', port: 8080 }, ...patient })));
  it('Probing container should *not* be restarted with a GRPC liveness probe', () =>
    stays(probed(grpcServer(5000), { grpc: { port: 5000 }, ...patient })));
  it('Probing container with readiness probe should not be ready before initial delay and never restart', async () => {
    const { metadata } = await bench.pod(
      only(
        listener,
        { readinessProbe: { httpGet: { path: '/', port: 8080 }, initialDelaySeconds: 5, periodSeconds: 1 } },
        { restartPolicy: 'Always' },
      ),
    );
    const pod = await bench.ready(metadata.name);
    const condition = pod.status.conditions?.find(({ type }) => type === 'Ready') as { readonly lastTransitionTime: string } | undefined;
    const started = pod.status.containerStatuses?.[0]?.state?.running?.startedAt ?? '';
    expect(Date.parse(condition?.lastTransitionTime ?? '') - Date.parse(started)).toBeGreaterThanOrEqual(4000);
    expect(restarts(pod)).toBe(0);
    bench.forget(metadata.name);
  });
  it('Probing container with readiness probe that fails should never be ready and never restart', async () => {
    const { metadata } = await bench.start(
      only(idle, { readinessProbe: { exec: { command: ['/bin/false'] }, periodSeconds: 1 } }, { restartPolicy: 'Always' }),
    );
    await probedOften(metadata.name, 'failed', 4);
    const { status } = bench.pods.get(metadata.name) ?? {};
    expect(status?.containerStatuses?.[0]).toMatchObject({ ready: false, restartCount: 0 });
    bench.forget(metadata.name);
  });

  for (const [policy, title] of [
    ['Always', 'RestartAlways'],
    ['Never', 'RestartNever'],
  ] as const) {
    it(`InitContainer should invoke init containers on a ${title} pod`, async () => {
      const { metadata } = await bench.pod({
        restartPolicy: policy,
        initContainers: [bench.container('true', { name: 'init1' }), bench.container('true', { name: 'init2' })],
        containers: [bench.container(policy === 'Always' ? idle : 'true')],
      });
      const { status } = await bench.pods.until(
        metadata.name,
        'be initialized and run',
        (pod) => pod.status.phase === (policy === 'Always' ? 'Running' : 'Succeeded'),
      );
      expect(status.conditions?.find(({ type }) => type === 'Initialized')?.status).toBe('True');
      for (const one of status.initContainerStatuses ?? [])
        expect(one).toMatchObject({ ready: true, state: { terminated: { exitCode: 0 } } });
      bench.forget(metadata.name);
    });
    it(`InitContainer should not start app containers if init containers fail on a ${title} pod`, async () => {
      const { metadata } = await bench.pod({
        restartPolicy: policy,
        initContainers: [bench.container('false', { name: 'init1' }), bench.container('true', { name: 'init2' })],
        containers: [bench.container('true')],
      });
      const { status } = await bench.pods.until(metadata.name, 'fail to initialize', (pod) =>
        policy === 'Never' ? pod.status.phase === 'Failed' : (pod.status.initContainerStatuses?.[0]?.restartCount ?? 0) >= 2,
      );
      expect(status.phase).toBe(policy === 'Never' ? 'Failed' : 'Pending');
      expect(status.conditions?.find(({ type }) => type === 'Initialized')).toMatchObject({
        status: 'False',
        reason: 'ContainersNotInitialized',
        message: 'containers with incomplete status: [init1 init2]',
      });
      expect(status.initContainerStatuses?.[1]?.state?.waiting?.reason).toBe('PodInitializing');
      expect(status.containerStatuses?.[0]).toMatchObject({
        ready: false,
        restartCount: 0,
        state: { waiting: { reason: 'PodInitializing' } },
      });
      bench.forget(metadata.name);
    });
  }
  it('sidecars start in order before the other containers, are restarted, and end last', async () => {
    const stamp = (name: string) => `trap 'echo stopped ${name} >> /v/log; exit 0' TERM; echo started ${name} >> /v/log; sleep 600 & wait`;
    const volumeMounts = [{ name: 'v', mountPath: '/v' }];
    const { metadata } = await bench.start({
      initContainers: [
        bench.container(stamp('one'), { name: 'one', restartPolicy: 'Always', volumeMounts }),
        bench.container('echo init >> /v/log', { name: 'init', volumeMounts }),
        bench.container(stamp('two'), { name: 'two', restartPolicy: 'Always', volumeMounts }),
      ],
      containers: [bench.container('sleep 2; echo main ended >> /v/log', { volumeMounts })],
      volumes: [{ name: 'v', hostPath: { path: join(bench.cluster.dir, bench.name('sidecars')), type: 'DirectoryOrCreate' } }],
    });
    const ended = await bench.pods.until(metadata.name, 'succeed', (pod) => pod.status.phase === 'Succeeded');
    expect(ended.status.initContainerStatuses?.map(({ name, state }) => `${name} ${state?.terminated?.exitCode}`)).toEqual([
      'one 0',
      'init 0',
      'two 0',
    ]);
    const volumes = (ended.spec as unknown as { readonly volumes: readonly { readonly hostPath?: { readonly path: string } }[] }).volumes;
    const { readFile, rm } = await import('node:fs/promises');
    const directory = volumes[0]?.hostPath?.path ?? '';
    expect((await readFile(`${directory}/log`, 'utf8')).trim().split('\n')).toEqual([
      'started one',
      'init',
      'started two',
      'main ended',
      'stopped two',
      'stopped one',
    ]);
    await rm(directory, { recursive: true });
    bench.forget(metadata.name);
  });

  it('Ephemeral Containers will start an ephemeral container in an existing pod, and should update them', async () => {
    const { metadata } = await bench.start(idle);
    const debuggers = (names: readonly string[]) => ({
      spec: {
        ephemeralContainers: names.map((name) => ({
          ...bench.container(`echo polo-${name}; sleep 600`, { name, stdin: true, tty: true }),
        })),
      },
    });
    await bench.merge(`${path(metadata.name)}/ephemeralcontainers`, debuggers(['debugger']), 'strategic-merge-patch');
    await logContains(metadata.name, 'polo-debugger', '?container=debugger');
    await bench.merge(`${path(metadata.name)}/ephemeralcontainers`, debuggers(['debugger', 'second']), 'strategic-merge-patch');
    await logContains(metadata.name, 'polo-second', '?container=second');
    await bench.pods.until(
      metadata.name,
      'report both',
      ({ status }) => status.ephemeralContainerStatuses?.map(({ name }) => name).join() === 'debugger,second',
    );
    bench.forget(metadata.name);
  });

  it('Pods should allow activeDeadlineSeconds to be updated', async () => {
    const { metadata } = await bench.start(only(idle, {}, { activeDeadlineSeconds: 600 }));
    await bench.merge(path(metadata.name), { spec: { activeDeadlineSeconds: 2 } });
    const { status } = await bench.pods.until(metadata.name, 'fail', (pod) => pod.status.phase === 'Failed');
    expect(status.reason).toBe('DeadlineExceeded');
    bench.forget(metadata.name);
  });
  it('Pods should be submitted and removed, and get a host IP', async () => {
    const { metadata, status } = await bench.start(only(idle, {}, { terminationGracePeriodSeconds: 30 }));
    expect(status.hostIP).toBeTruthy();
    await bench.remove(path(metadata.name), { gracePeriodSeconds: 30 });
    const leaving = await bench.pods.until(metadata.name, 'be leaving', (pod) => pod.metadata.deletionTimestamp !== undefined);
    expect(leaving.metadata.deletionGracePeriodSeconds).toBe(30);
    await bench.gone(metadata.name);
  });
  it('Pods should be updated, and delete a collection of pods', async () => {
    const names = await Promise.all(
      [1, 2, 3].map(async () => (await bench.start(only(idle), { labels: { type: 'collection' } })).metadata.name),
    );
    await bench.merge(path(names[0] ?? ''), { metadata: { labels: { time: 'now' } } });
    expect(await bench.k('get', 'pods', '-l', 'time=now', '-o', 'name')).toBe(`pod/${names[0]}\n`);
    await bench.remove(`${bench.at('pods')}?labelSelector=type%3Dcollection`, { gracePeriodSeconds: 0 });
    await Promise.all(names.map((name) => bench.gone(name)));
  });
  it('Pods should contain environment variables for services', async () => {
    await bench.create(bench.at('services'), {
      metadata: { name: 'fooservice' },
      spec: { ports: [{ port: 8765, targetPort: 8080 }], selector: { name: 'x' } },
    });
    const wanted = [
      'FOOSERVICE_SERVICE_HOST=',
      'FOOSERVICE_SERVICE_PORT=8765',
      'FOOSERVICE_PORT=tcp://',
      'FOOSERVICE_PORT_8765_TCP_PORT=8765',
      'FOOSERVICE_PORT_8765_TCP_PROTO=tcp',
      'FOOSERVICE_PORT_8765_TCP=',
      'FOOSERVICE_PORT_8765_TCP_ADDR=',
    ];
    // a kubelet learns of a Service a moment after its creation
    await until('a new pod has the variables of the Service', async () => {
      const env = await bench.outputOf('env');
      return wanted.every((word) => env.includes(word));
    });
  });
  it('Pods Extended Pods Set QOS Class should be set on Pods with matching resource requests and limits for memory and cpu', async () => {
    const resources = { requests: { cpu: '100m', memory: '100Mi' }, limits: { cpu: '100m', memory: '100Mi' } };
    const { metadata, status } = await bench.pod(only('true', { resources }));
    expect(status.qosClass).toBe('Guaranteed');
    bench.forget(metadata.name);
  });
  it('Pod Generation: starts at 1, counts updates and the graceful deletion, and observedGeneration converges', async () => {
    const { metadata } = await bench.start(only(idle, {}, { terminationGracePeriodSeconds: 20 }), { generation: 100 });
    expect(bench.pods.get(metadata.name)?.metadata.generation).toBe(1);
    for (let n = 1; n <= 50; n += 1) await bench.merge(path(metadata.name), { spec: { activeDeadlineSeconds: 10_000 - n } });
    const { status } = await bench.pods.until(metadata.name, 'be observed', (pod) => pod.status.observedGeneration === 51);
    for (const condition of (status.conditions ?? []) as readonly { readonly observedGeneration?: number }[])
      expect(condition.observedGeneration).toBe(51);
    await bench.remove(path(metadata.name));
    expect(
      (await bench.pods.until(metadata.name, 'be leaving', (pod) => pod.metadata.deletionTimestamp !== undefined)).metadata.generation,
    ).toBe(52);
    await bench.gone(metadata.name);
  });

  const socket = async (url: string, protocol: string) => {
    const { tls, server } = bench.api;
    const messages: Buffer[] = [];
    const client = new WebSocket(new URL(url, server.replace('https', 'wss')), [protocol], { ...tls });
    client.on('message', (data: Buffer) => messages.push(data));
    await new Promise<void>((resolve, reject) => client.once('close', () => resolve()).once('error', reject));
    return messages;
  };
  it('Pods should support remote command execution and retrieving logs over websockets', async () => {
    const { metadata } = await bench.start("echo 'container is alive'; sleep 600");
    const query = new URLSearchParams({ stdout: '1', stderr: '1', container: 'main' });
    for (const word of ['/bin/cat', '/etc/resolv.conf']) query.append('command', word);
    const messages = await socket(`${path(metadata.name)}/exec?${query}`, 'channel.k8s.io');
    for (const message of messages) if (message.length > 1) expect(message[0]).toBe(1);
    expect(Buffer.concat(messages.map((message) => message.subarray(1))).toString()).toContain('nameserver');
    await logContains(metadata.name, 'alive');
    const log = await socket(`${path(metadata.name)}/log?container=main`, 'binary.k8s.io');
    expect(Buffer.concat(log).toString()).toBe('container is alive\n');
    bench.forget(metadata.name);
  });
  it('logs: the last lines, since when, with times, so many bytes, and of the attempt before', async () => {
    // exits once, and then keeps running
    const script = 'echo line 1; echo line 2; sleep 1; echo line 3; [ -e /v/again ] && sleep 600; touch /v/again; exit 1';
    const volume = { volumeMounts: [{ name: 'v', mountPath: '/v' }] };
    const { metadata } = await bench.pod(only(script, volume, { restartPolicy: 'Always', volumes: [{ name: 'v', emptyDir: {} }] }));
    await bench.pods.until(metadata.name, 'run again', (pod) => restarts(pod) >= 1);
    await logContains(metadata.name, 'line 3');
    const log = (query: string) => bench.log(metadata.name, query);
    expect(await log('?tailLines=1')).toBe('line 3\n');
    expect(await log('?limitBytes=3')).toBe('lin');
    expect(await log('?timestamps=true&tailLines=1')).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d) line 3\n$/);
    expect(await log('?sinceSeconds=3600')).toContain('line 1\n');
    expect(await log('?previous=true')).toBe('line 1\nline 2\nline 3\n');
    bench.forget(metadata.name);
  });

  it('RuntimeClass should reject a Pod requesting a non-existent or deleted RuntimeClass, and schedule others, with and without PodOverhead', async () => {
    await expect(bench.pod(only('true', {}, { runtimeClassName: 'nobody' }))).rejects.toThrow(/403.*not found/);
    const at = '/apis/node.k8s.io/v1/runtimeclasses';
    await bench.create(at, { metadata: { name: 'heavy' }, handler: 'runc', overhead: { podFixed: { cpu: '10m', memory: '1Mi' } } });
    await bench.create(at, { metadata: { name: 'light' }, handler: 'runc' });
    const { pod } = await bench.run(only('true', {}, { runtimeClassName: 'heavy' })); // the informer of the admission plugin has it by then, or rejects
    expect((pod.spec as unknown as { readonly overhead: Spec }).overhead).toEqual({ cpu: '10m', memory: '1Mi' });
    expect((await bench.run(only('true', {}, { runtimeClassName: 'light' }))).pod.spec).not.toHaveProperty('overhead');
    await bench.remove(`${at}/heavy`);
    for (let rejected = false; !rejected; )
      rejected = await bench.pod(only('true', {}, { runtimeClassName: 'heavy' })).then(
        ({ metadata }) => (bench.forget(metadata.name), false),
        () => true,
      );
  });
}
