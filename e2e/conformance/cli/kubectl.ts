import { mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { busyboxImage } from '../../fixtures/test-image.ts';
import { Daemon } from '../../harness/programs.ts';
import { until, untilValue } from '../../harness/until.ts';
import type { NodeWorkbench, Spec } from '../node-workbench.ts';

/** Behaviors of kubectl, tested with the real binary. */
export function kubectlBehaviours(bench: NodeWorkbench): void {
  const k = (...args: string[]) => bench.k(...args);
  const apply = (object: object) => bench.cluster.kubectl.apply(object, { namespace: bench.namespace });
  const serve = 'mkdir -p /w; echo "$TEXT" > /w/index.html; exec httpd -f -p 8080 -h /w';
  const template = (app: string, text = app): Spec => ({
    metadata: { labels: { app } },
    spec: {
      terminationGracePeriodSeconds: 1,
      containers: [
        {
          name: 'main',
          image: busyboxImage,
          command: ['sh', '-c', serve],
          env: [{ name: 'TEXT', value: text }],
          ports: [{ containerPort: 8080 }],
        },
      ],
    },
  });
  const controller = (name: string, replicas: number): Spec => ({
    apiVersion: 'v1',
    kind: 'ReplicationController',
    metadata: { name, labels: { app: name } },
    spec: { replicas, selector: { app: name }, template: template(name) },
  });
  const ready = (app: string, count: number) => bench.api.untilReady(bench.namespace, app, count);
  const firstOf = async (app: string) => (await ready(app, 1))[0]?.metadata.name ?? '';

  it('Kubectl client Kubectl api-versions should check if v1 is in available api versions', async () => {
    expect((await k('api-versions')).split('\n')).toContain('v1');
  });
  it('Kubectl client Kubectl cluster-info should check if Kubernetes control plane services is included in cluster-info', async () => {
    expect(await k('cluster-info')).toMatch(/Kubernetes control plane.*is running at.*https:/);
  });
  it('Kubectl client Kubectl version should check is all data is printed', async () => {
    const text = await bench.cluster.kubectl.try(['version', '-o', 'yaml']);
    for (const word of ['clientVersion', 'serverVersion', 'gitVersion', 'gitCommit', 'buildDate', 'goVersion', 'platform'])
      expect(text.stdout).toContain(word);
  });
  it('Kubectl client Update Demo should create and stop, and scale a replication controller', async () => {
    await apply(controller('update-demo', 2));
    await ready('update-demo', 2);
    await k('scale', 'rc', 'update-demo', '--replicas=1', '--timeout=2m');
    await ready('update-demo', 1);
    await k('scale', 'rc', 'update-demo', '--replicas=2', '--timeout=2m');
    await ready('update-demo', 2);
    await k('delete', 'rc', 'update-demo', '--wait=false');
    await bench.api.until('the pods are gone', bench.api.pods(bench.namespace, 'update-demo'), (pods) => pods.length === 0);
  });
  it('Kubectl client Guestbook application should create and stop a working application', async () => {
    for (const name of ['guestbook-frontend', 'guestbook-primary'])
      await apply({
        apiVersion: 'v1',
        kind: 'List',
        items: [
          {
            apiVersion: 'apps/v1',
            kind: 'Deployment',
            metadata: { name },
            spec: { replicas: 1, selector: { matchLabels: { app: name } }, template: template(name, `hello from ${name}`) },
          },
          {
            apiVersion: 'v1',
            kind: 'Service',
            metadata: { name },
            spec: { selector: { app: name }, ports: [{ port: 80, targetPort: 8080 }] },
          },
        ],
      });
    const pod = await firstOf('guestbook-frontend');
    await ready('guestbook-primary', 1);
    const address = await k('get', 'service', 'guestbook-primary', '-o', 'jsonpath={.spec.clusterIP}');
    await untilValue(
      'the application responds',
      () => k('exec', pod, '--', 'wget', '-q', '-O', '-', `http://${address}:80/`),
      (text) => text === 'hello from guestbook-primary\n',
      { everyMs: 500 },
    );
    for (const name of ['guestbook-frontend', 'guestbook-primary']) await k('delete', 'deployment,service', name, '--wait=false');
  });
  it('Kubectl client Kubectl describe should check if kubectl describe prints relevant information for rc and pods', async () => {
    await apply(controller('described', 1));
    const pod = await firstOf('described');
    const output = await k('describe', 'pod', pod);
    for (const line of [
      /^Name:\s+described-/m,
      /^Namespace:\s+behaviour$/m,
      /^Node:\s+node-[ab]\//m,
      /^Labels:\s+app=described$/m,
      /^Status:\s+Running$/m,
      /^IP:/m,
      /^Controlled By:\s+ReplicationController\/described$/m,
      /^Image:\s+|Image:/m,
      /State:\s+Running/,
      /^QoS Class:\s+BestEffort$/m,
    ])
      expect(output).toMatch(line);
    const rc = await k('describe', 'rc', 'described');
    for (const line of [
      /^Selector:\s+app=described$/m,
      /^Replicas:\s+1 current \/ 1 desired$/m,
      /^Pods Status:\s+1 Running \/ 0 Waiting \/ 0 Succeeded \/ 0 Failed$/m,
      /^Events:/m,
    ])
      expect(rc).toMatch(line);
    expect(await k('describe', 'node', 'node-a')).toMatch(/^Non-terminated Pods:/m);
    expect(await k('describe', 'namespace', bench.namespace)).toMatch(/^Status:\s+Active$/m);
    await k('delete', 'rc', 'described', '--wait=false');
  });
  it('Kubectl client Kubectl expose should create services for rc', async () => {
    const [rm2, rm3] = [bench.name('rm2'), bench.name('rm3')];
    await apply(controller('exposed', 1));
    await ready('exposed', 1);
    await k('expose', 'rc', 'exposed', `--name=${rm2}`, '--port=1234', '--target-port=8080');
    expect(await k('get', 'service', rm2, '-o', 'jsonpath={.spec.ports[0].port} {.spec.ports[0].targetPort}')).toBe('1234 8080');
    await k('expose', 'service', rm2, `--name=${rm3}`, '--port=2345', '--target-port=8080');
    await until(
      'the endpoints exist',
      async () =>
        (await k(
          'get',
          'endpointslices',
          '-l',
          `kubernetes.io/service-name=${rm3}`,
          '-o',
          'jsonpath={.items[0].endpoints[0].addresses[0]}',
        )) !== '',
    );
    await k('delete', 'rc,service', 'exposed', rm2, rm3, '--ignore-not-found', '--wait=false').catch(() => undefined);
  });
  it('Kubectl client Kubectl label should update the label, and Kubectl patch add annotations for pods', async () => {
    const { metadata } = await bench.start('sleep 600');
    await k('label', 'pod', metadata.name, 'testing-label=testing-label-value');
    expect(await k('get', 'pod', metadata.name, '-L', 'testing-label')).toMatch(/testing-label-value/);
    await k('label', 'pod', metadata.name, 'testing-label-');
    expect(await k('get', 'pod', metadata.name, '-L', 'testing-label')).not.toMatch(/testing-label-value/);
    await k('patch', 'pod', metadata.name, '-p', '{"metadata":{"annotations":{"x":"y"}}}');
    expect(await k('get', 'pod', metadata.name, '-o', 'jsonpath={.metadata.annotations.x}')).toBe('y');
    bench.forget(metadata.name);
  });
  it("Kubectl client Kubectl replace should update a single-container pod's image, and server-side dry-run not", async () => {
    const name = bench.name('replaced');
    await k('run', name, `--image=${busyboxImage}`, '--labels=run=replaced', '--', 'sleep', '600');
    await bench.running(name);
    const patch = JSON.stringify({ spec: { containers: [{ name, image: 'oarlock.test/pause:1' }] } });
    expect(await k('patch', 'pod', name, '-p', patch, '--dry-run=server')).toContain('patched');
    const image = () => k('get', 'pod', name, '-o', 'jsonpath={.spec.containers[0].image}');
    expect(await image()).toBe(busyboxImage);
    const pod = await bench.api.get<{ readonly spec: { readonly containers: readonly object[] } }>(`${bench.at('pods')}/${name}`);
    const changed = {
      ...pod,
      spec: { ...pod.spec, containers: pod.spec.containers.map((one) => ({ ...one, image: 'oarlock.test/pause:1' })) },
    };
    await bench.cluster.kubectl.run(['-n', bench.namespace, 'replace', '-f', '-'], { input: JSON.stringify(changed) });
    expect(await image()).toBe('oarlock.test/pause:1');
    bench.forget(name);
  });
  it('Kubectl client Kubectl run pod should create a pod from an image when restart is Never', async () => {
    const name = bench.name('run');
    await k('run', name, '--restart=Never', `--image=${busyboxImage}`, '--', 'true');
    const pod = await bench.pods.until(name, 'succeed', ({ status }) => status.phase === 'Succeeded');
    expect((pod.spec as unknown as { readonly restartPolicy: string }).restartPolicy).toBe('Never');
    bench.forget(name);
  });
  it('Kubectl client Kubectl diff should check if kubectl diff finds a difference for Deployments', async () => {
    const deployment = (replicas: number) => ({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'differing' },
      spec: { replicas, selector: { matchLabels: { app: 'differing' } }, template: template('differing') },
    });
    await apply(deployment(0));
    const { code, stdout } = await bench.cluster.kubectl.try(['-n', bench.namespace, 'diff', '-f', '-'], {
      input: JSON.stringify(deployment(1)),
    });
    expect(code).toBe(1);
    expect(stdout).toMatch(/^\+ {2}replicas: 1$/m);
    await k('delete', 'deployment', 'differing', '--wait=false');
  });
  it('Kubectl logs logs should be able to retrieve and filter logs', async () => {
    const { metadata } = await bench.start('i=0; while [ $i -lt 20 ]; do echo "line number $i"; i=$((i + 1)); done; sleep 600');
    await untilValue(
      'the log is written',
      () => k('logs', metadata.name),
      (text) => text.trim().split('\n').length === 20,
    );
    expect(await k('logs', metadata.name, '--tail=1')).toBe('line number 19\n');
    expect((await k('logs', metadata.name, '--limit-bytes=1')).length).toBe(1);
    expect(await k('logs', metadata.name, '--tail=1', '--timestamps')).toMatch(/^\d{4}-\d\d-\d\dT\S+ line number 19\n$/);
    expect((await k('logs', metadata.name, '--since=24h')).split('\n')).toHaveLength(21);
    bench.forget(metadata.name);
  });

  const proxied = async (args: readonly string[], pattern: RegExp, target: (match: RegExpExecArray) => object) => {
    const daemon = new Daemon(bench.cluster.kubectl.file, ['proxy', ...args], { env: bench.cluster.kubectl.env });
    try {
      const options = target(await daemon.line(pattern));
      const body = await new Promise<string>((resolve, reject) => {
        request({ path: '/api/', ...options }, (response) => {
          let text = '';
          response
            .setEncoding('utf8')
            .on('data', (chunk: string) => (text += chunk))
            .on('end', () => resolve(text));
        })
          .on('error', reject)
          .end();
      });
      expect(JSON.parse(body)).toMatchObject({ kind: 'APIVersions', versions: ['v1'] });
    } finally {
      await daemon.stop('SIGTERM', 5000);
    }
  };
  it('Kubectl client Proxy server should support proxy with --port 0', () =>
    proxied(['-p', '0', '--disable-filter'], /Starting to serve on 127\.0\.0\.1:(\d+)/, ([, port]) => ({
      host: '127.0.0.1',
      port: Number(port),
    })));
  it('Kubectl client Proxy server should support --unix-socket=/path', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'oarlock-proxy-'));
    try {
      await proxied([`--unix-socket=${join(directory, 'test')}`], /Starting to serve on /, () => ({ socketPath: join(directory, 'test') }));
    } finally {
      await rm(directory, { recursive: true });
    }
  });
}
