import { configMaps, nodes, leases, pods, runtimeClasses, secrets, services } from '@oarlock/api/resources';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { PodSpec } from '@oarlock/api/types/core-v1';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import type { NetworkDriver } from '@oarlock/spi/network';
import type { PodSandboxConfig, RuntimeDriver } from '@oarlock/spi/runtime';
import { kubeletConfig } from '../../src/config/kubelet-config.ts';
import { app, Bench, container, isReady, noKeys, podOf, withTraits } from '../support/bench.ts';

describe('container config', () => {
  let bench: Bench;
  beforeEach(async () => {
    bench = await new Bench().start();
  });
  afterEach(() => bench.dispose());
  const env = async (name: string) => {
    const [found] = await bench.runtime.listContainers({ labels: { 'io.kubernetes.pod.name': name }, state: 'RUNNING' });
    const { stdout } = await bench.runtime.execSync(found?.id ?? '', ['printenv'], 0);
    return new Map(
      stdout
        .toString()
        .trim()
        .split('\n')
        .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
    );
  };

  it('has the environment of the container spec', async () => {
    bench.api.seed(services, {
      metadata: { name: 'my-db', namespace: 'default' },
      spec: { clusterIP: '10.96.0.7', ports: [{ name: 'sql', port: 5432, protocol: 'TCP' }] },
    });
    bench.api.seed(configMaps, { metadata: { name: 'conf', namespace: 'default' }, data: { COLOR: 'blue', SIZE: 'big' } });
    bench.api.seed(secrets, { metadata: { name: 'key', namespace: 'default' }, data: { TOKEN: Buffer.from('s3cret').toString('base64') } });
    await bench.clock.settle();
    bench.create(
      podOf(
        'web',
        {
          serviceAccountName: 'bot',
          containers: [
            app({
              resources: { limits: { cpu: '1500m', memory: '64Mi' }, requests: { cpu: '250m' } },
              envFrom: [{ prefix: 'C_', configMapRef: { name: 'conf' } }, { configMapRef: { name: 'none', optional: true } }],
              env: [
                { name: 'C_SIZE', value: 'small' },
                { name: 'PLAIN', value: '$(C_COLOR) $(MY_DB_SERVICE_HOST) $$(C_COLOR) $(UNKNOWN) $' },
                { name: 'IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } },
                { name: 'NODE', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } },
                { name: 'HOST', valueFrom: { fieldRef: { fieldPath: 'status.hostIP' } } },
                { name: 'ACCOUNT', valueFrom: { fieldRef: { fieldPath: 'spec.serviceAccountName' } } },
                { name: 'NOTE', valueFrom: { fieldRef: { fieldPath: "metadata.annotations['note']" } } },
                { name: 'CPU', valueFrom: { resourceFieldRef: { resource: 'limits.cpu' } } },
                { name: 'MILLI', valueFrom: { resourceFieldRef: { resource: 'requests.cpu', divisor: '1m' } } },
                { name: 'MEMORY', valueFrom: { resourceFieldRef: { resource: 'limits.memory', divisor: '1Mi' } } },
                { name: 'DISK', valueFrom: { resourceFieldRef: { resource: 'limits.ephemeral-storage', divisor: '1Gi' } } },
                { name: 'SECRET', valueFrom: { secretKeyRef: { name: 'key', key: 'TOKEN' } } },
                { name: 'MAYBE', valueFrom: { secretKeyRef: { name: 'key', key: 'NO', optional: true } } },
              ],
            }),
          ],
        },
        { note: 'remember' },
      ),
    );
    await bench.ready('web');
    expect(Object.fromEntries(await env('web'))).toMatchObject({
      C_COLOR: 'blue',
      C_SIZE: 'small',
      PLAIN: 'blue 10.96.0.7 $(C_COLOR) $(UNKNOWN) $',
      IP: '10.128.0.1',
      NODE: 'node-a',
      HOST: '10.0.0.1',
      ACCOUNT: 'bot',
      NOTE: 'remember',
      CPU: '2',
      MILLI: '250',
      MEMORY: '64',
      DISK: '1024',
      SECRET: 's3cret',
      MY_DB_SERVICE_HOST: '10.96.0.7',
      MY_DB_SERVICE_PORT_SQL: '5432',
      MY_DB_PORT_5432_TCP: 'tcp://10.96.0.7:5432',
      KUBERNETES_SERVICE_HOST: '10.96.0.1',
      KUBERNETES_SERVICE_PORT: '443',
      KUBERNETES_SERVICE_PORT_HTTPS: '443',
    });
    expect((await env('web')).has('MAYBE')).toBe(false);
  });

  it("leaves out Services with enableServiceLinks: false, except the API server's", async () => {
    bench.api.seed(services, { metadata: { name: 'db', namespace: 'default' }, spec: { clusterIP: '10.96.0.7', ports: [{ port: 5432 }] } });
    await bench.clock.settle();
    bench.create(podOf('web', { enableServiceLinks: false }));
    await bench.ready('web');
    expect([...(await env('web')).keys()].filter((name) => !name.startsWith('KUBERNETES_'))).toEqual([]);
  });

  it('waits for a missing ConfigMap and starts as soon as it exists', async () => {
    bench.create(podOf('web', { containers: [app({ env: [{ name: 'A', valueFrom: { configMapKeyRef: { name: 'late', key: 'a' } } }] })] }));
    const waiting = await bench.until('web', (pod) => container(pod)?.state?.waiting?.reason === 'CreateContainerConfigError');
    expect(container(waiting)?.state?.waiting?.message).toBe('configmap "late" not found');
    expect(bench.events.of('Failed')).toContain('web Warning Failed spec.containers{app}: Error: configmap "late" not found');
    await bench.api.client().create(configMaps, { metadata: { name: 'late', namespace: 'default' }, data: { a: '1' } });
    const before = bench.clock.now();
    await bench.ready('web');
    expect(bench.clock.now()).toBe(before);
    await bench.delete('web');
    await bench.until('web', (pod) => pod === undefined);
    await bench.clock.settle();
    expect(bench.kubelet.context.objectCache.size).toBe(0);
  });

  it('replaces a container whose image changed, and starts ephemeral containers once', async () => {
    bench.create(podOf('web'));
    await bench.ready('web');
    await bench.api.client().patch(pods, { namespace: 'default', name: 'web' }, 'strategic', {
      spec: { containers: [{ name: 'app', image: 'registry.test/app:2' }] },
    });
    const pod = await bench.until('web', (one) => container(one)?.restartCount === 1);
    expect(container(pod)?.image).toBe('registry.test/app:2');
    expect(bench.events.of('Killing')).toEqual([
      'web Normal Killing spec.containers{app}: Container app definition changed, will be restarted',
    ]);
    await bench.api.client().patch(pods, { namespace: 'default', name: 'web' }, 'strategic', {
      spec: { ephemeralContainers: [{ name: 'debug', image: 'busybox', command: ['sleep', '5'], targetContainerName: 'app' }] },
    });
    const debugged = await bench.until('web', (one) => container(one, 'debug')?.state?.terminated !== undefined);
    expect(debugged.status?.phase).toBe('Running');
    await bench.clock.advance(60_000);
    expect(container(bench.pod('web'), 'debug')?.restartCount).toBe(0);
  });

  it('recreates a dead sandbox with all of its containers', async () => {
    bench.create(podOf('web', { initContainers: [app({ name: 'init', command: ['true'] })] }));
    await bench.ready('web');
    const [sandbox] = await bench.runtime.listPodSandbox();
    await bench.runtime.stopPodSandbox(sandbox?.id ?? '');
    const pod = await bench.until('web', (one) => container(one)?.restartCount === 1 && container(one)?.state?.running !== undefined);
    expect(container(pod, 'init')).toMatchObject({ restartCount: 1, state: { terminated: { exitCode: 0 } } });
    expect(bench.events.of('SandboxChanged')).toEqual([
      'web Normal SandboxChanged: Pod sandbox changed, it will be killed and re-created.',
    ]);
    expect((await bench.runtime.listPodSandbox({ state: 'READY' })).map(({ metadata }) => metadata.attempt)).toEqual([1]);
  });

  it('fails a pod at its active deadline', async () => {
    bench.create(podOf('web', { activeDeadlineSeconds: 20 }));
    await bench.ready('web');
    const pod = await bench.until('web', (one) => one?.status?.phase === 'Failed');
    expect(pod.status).toMatchObject({
      reason: 'DeadlineExceeded',
      message: 'Pod was active on the node longer than the specified deadline',
    });
    expect(await bench.runtime.listContainers({ state: 'RUNNING' })).toEqual([]);
  });

  it('rejects pods that do not fit on the node', async () => {
    await bench.dispose();
    bench = await new Bench({ config: { capacity: { cpu: '1' }, maxPods: 3 } }).start();
    bench.create(podOf('a', { containers: [app({ resources: { requests: { cpu: '800m' } } })] }));
    await bench.ready('a');
    bench.create(podOf('b', { containers: [app({ resources: { requests: { cpu: '300m' } } })] }));
    const pod = await bench.until('b', (one) => one?.status?.phase === 'Failed');
    expect(pod.status).toMatchObject({
      reason: 'OutOfcpu',
      message: "Pod was rejected: Node didn't have enough resource: cpu, requested: 300, used: 800, capacity: 1000",
    });
    bench.create(podOf('c', { nodeSelector: { disk: 'fast' } }));
    expect((await bench.until('c', (one) => one?.status?.phase === 'Failed')).status?.reason).toBe('NodeAffinity');
    bench.create(podOf('e', { securityContext: { supplementalGroups: [7], supplementalGroupsPolicy: 'Strict' } }));
    expect((await bench.until('e', (one) => one?.status?.phase === 'Failed')).status).toMatchObject({
      reason: 'SupplementalGroupsPolicyNotSupported',
      message: 'Pod was rejected: SupplementalGroupsPolicy=Strict is not supported in this node',
    });
    bench.create(
      podOf('f', { containers: [app({ resources: { requests: { cpu: '1m' } } })], securityContext: { supplementalGroupsPolicy: 'Merge' } }),
    );
    await bench.ready('f');
    await bench.delete('f');
    await bench.until('f', (one) => one === undefined);
    const withHostPort = (hostIP: string) => ({ containers: [app({ ports: [{ containerPort: 80, hostPort: 8080, hostIP }] })] });
    bench.create(podOf('g', withHostPort('')));
    await bench.ready('g');
    bench.create(podOf('h', withHostPort('10.0.0.1')));
    expect((await bench.until('h', (one) => one?.status?.phase === 'Failed')).status).toMatchObject({
      reason: 'NodePorts',
      message: "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
    });
    await bench.delete('g');
    await bench.until('g', (one) => one === undefined);
    bench.create(podOf('i', withHostPort('10.0.0.1')));
    await bench.ready('i');
    await bench.delete('i');
    await bench.until('i', (one) => one === undefined);
    await bench.delete('a');
    await bench.until('a', (one) => one === undefined);
    bench.create(podOf('d', { containers: [app({ resources: { requests: { cpu: '900m' } } })] }));
    await bench.ready('d');
  });

  it('[sig-node] Sysctls: sets safe and allowed sysctls and rejects others', async () => {
    await bench.dispose();
    const set: unknown[] = [];
    bench = await new Bench({
      config: { allowedUnsafeSysctls: ['net.ipv4.conf.*'] },
      wrap: (driver) =>
        new Proxy<RuntimeDriver>(driver, {
          get(target, key) {
            const value = Reflect.get(target, key) as unknown;
            if (key !== 'runPodSandbox') return typeof value === 'function' ? (value.bind(target) as unknown) : value;
            return (config: PodSandboxConfig, handler: string) => {
              set.push(config.linux.sysctls);
              return target.runPodSandbox(config, handler);
            };
          },
        }),
    }).start();
    const podWith = (name: string, sysctl: string, spec: Partial<PodSpec> = {}) =>
      bench.create(podOf(name, { ...spec, securityContext: { sysctls: [{ name: sysctl, value: '1' }] } }));
    podWith('safe', 'kernel/shm_rmid_forced');
    podWith('allowed', 'net/ipv4/conf/eth0.1/forwarding');
    await Promise.all([bench.ready('safe'), bench.ready('allowed')]);
    expect(set).toEqual(expect.arrayContaining([{ 'kernel.shm_rmid_forced': '1' }, { 'net.ipv4.conf.eth0/1.forwarding': '1' }]));
    podWith('unsafe', 'kernel.msgmax');
    podWith('shared', 'net.ipv4.tcp_syncookies', { hostNetwork: true });
    for (const [name, why] of [
      ['unsafe', 'forbidden sysctl: "kernel.msgmax" not allowlisted'],
      ['shared', 'forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host net enabled'],
    ] as const) {
      const pod = await bench.until(name, (one) => one?.status?.phase === 'Failed');
      expect(pod.status).toMatchObject({ reason: 'SysctlForbidden', message: `Pod was rejected: ${why}` });
    }
    expect(bench.events.of('SysctlForbidden')).toHaveLength(2);
    expect(() => kubeletConfig.parse({ nodeName: 'a', allowedUnsafeSysctls: ['kernel.*'] })).toThrow('cannot be allowed');
  });

  it('reports a missing RuntimeClass', async () => {
    bench.create(podOf('web', { runtimeClassName: 'gvisor' }));
    await bench.clock.advance(3000);
    expect(bench.events.of('FailedCreatePodSandBox')[0]).toBe(
      'web Warning FailedCreatePodSandBox: Failed to create pod sandbox: failed to get sandbox runtime: runtimeclass.node.k8s.io "gvisor" not found',
    );
    bench.api.seed(runtimeClasses, { metadata: { name: 'gvisor' }, handler: 'runsc' });
    await bench.ready('web');
  });

  it('registers the node and renews its lease', async () => {
    const node = bench.api.object(nodes, { name: 'node-a' });
    expect(node?.metadata?.labels).toMatchObject({ 'kubernetes.io/hostname': 'node-a', 'kubernetes.io/os': 'linux' });
    expect(node?.status).toMatchObject({
      capacity: { cpu: '32', memory: '256Gi', pods: '110' },
      addresses: [
        { type: 'InternalIP', address: '10.0.0.1' },
        { type: 'Hostname', address: 'node-a' },
      ],
      daemonEndpoints: { kubeletEndpoint: { Port: 10_250 } },
      nodeInfo: { kubeletVersion: 'v1.36.0+oarlock.0.1.0', containerRuntimeVersion: 'simulated://0.1.0', operatingSystem: 'linux' },
    });
    expect(node?.status?.conditions?.map(({ type, status, reason }) => `${type}=${status} ${reason}`)).toEqual([
      'MemoryPressure=False KubeletHasSufficientMemory',
      'DiskPressure=False KubeletHasNoDiskPressure',
      'PIDPressure=False KubeletHasSufficientPID',
      'Ready=True KubeletReady',
    ]);
    const lease = () => bench.api.object(leases, { namespace: 'kube-node-lease', name: 'node-a' });
    expect(lease()).toMatchObject({
      metadata: { ownerReferences: [{ kind: 'Node', name: 'node-a', uid: node?.metadata?.uid }] },
      spec: { holderIdentity: 'node-a', leaseDurationSeconds: 40, renewTime: '2026-01-01T00:00:00.000000Z' },
    });
    bench.api.requests.length = 0;
    await bench.clock.advance(100_000);
    expect(Date.parse(lease()?.spec?.renewTime ?? '')).toBeGreaterThan(bench.clock.now() - 12_000);
    expect(bench.requests('update', 'leases')).toBeLessThanOrEqual(11);
    expect(bench.requests('patch', 'nodes', 'status')).toBe(0);
    await bench.clock.advance(400_000);
    expect([1, 2]).toContain(bench.requests('patch', 'nodes', 'status'));
  });

  it('annotates the node with the issuer of the withHostPort certificate, also an existing node', async () => {
    const certificate = (one: Bench) =>
      one.api.object(nodes, { name: 'node-a' })?.metadata?.annotations?.['oarlock.dev/kubelet-certificate'];
    expect(certificate(bench)).toBe('cluster');
    const keys: { -readonly [K in keyof ClusterKeys]: ClusterKeys[K] } = { ...noKeys, trustOnly: true };
    const other = await new Bench({ keys }).start();
    try {
      expect(certificate(other)).toBeUndefined();
      keys.trustOnly = false;
      await other.restart();
      expect(certificate(other)).toBe('cluster');
      keys.trustOnly = true;
      await other.restart();
      expect(certificate(other)).toBeUndefined();
    } finally {
      await other.dispose();
    }
  });

  it('makes extended resources that other clients advertise allocatable, and no other resources', async () => {
    const resource = 'example.com/dongle';
    const node = () => bench.api.object(nodes, { name: 'node-a' });
    const advertise = (capacity: Readonly<Record<string, string | null>>) =>
      bench.api.client().patch(nodes, { name: 'node-a' }, 'strategic', { status: { capacity } }, { subresource: 'status' });
    await advertise({ [resource]: '3', 'hugepages-64Ki': '2Gi' });
    await bench.clock.advance(20_000);
    expect(node()?.status).toMatchObject({ capacity: { [resource]: '3' }, allocatable: { cpu: '32', [resource]: '3' } });
    expect(node()?.status?.allocatable).not.toHaveProperty('hugepages-64Ki');
    await advertise({ [resource]: '5' });
    await bench.clock.advance(20_000);
    expect(node()?.status?.allocatable?.[resource]).toBe('5');
    bench.api.requests.length = 0;
    await bench.clock.advance(60_000);
    expect(bench.requests('patch', 'nodes', 'status')).toBe(0);
    await advertise({ [resource]: null });
    await bench.clock.advance(20_000);
    expect(node()?.status?.capacity).not.toHaveProperty(resource);
    expect(node()?.status?.allocatable).not.toHaveProperty(resource);
  });

  it('admits no more pods than advertised extended resources and huge pages allow', async () => {
    const resource = 'example.com/dongle';
    const podWith = (name: string, count: string, of = resource) =>
      podOf(name, { containers: [app({ resources: { requests: { [of]: count }, limits: { [of]: count } } })] });
    await bench.api
      .client()
      .patch(nodes, { name: 'node-a' }, 'strategic', { status: { capacity: { [resource]: '3' } } }, { subresource: 'status' });
    await bench.clock.advance(20_000);
    bench.create(podWith('a', '2'));
    await bench.ready('a');
    bench.create(podWith('b', '2'));
    expect((await bench.until('b', (one) => one?.status?.phase === 'Failed')).status).toMatchObject({
      reason: `OutOf${resource}`,
      message: `Pod was rejected: Node didn't have enough resource: ${resource}, requested: 2, used: 2, capacity: 3`,
    });
    bench.create(podWith('c', '4Mi', 'hugepages-64Ki'));
    expect((await bench.until('c', (one) => one?.status?.phase === 'Failed')).status?.reason).toBe('OutOfhugepages-64Ki');
    // a resource that the node never advertised is not limited
    bench.create(podWith('d', '7', 'example.com/other'));
    await bench.ready('d');
    await bench.delete('a');
    await bench.until('a', (one) => one === undefined);
    bench.create(podWith('e', '3'));
    await bench.ready('e');
  });

  it('preempts the fewest pods with the lowest priority for a critical pod', async () => {
    await bench.dispose();
    bench = await new Bench({ config: { capacity: { cpu: '1' } } }).start();
    const podWith = (name: string, cpu: string, priority = 0) =>
      podOf(name, { priority, containers: [app({ resources: { requests: { cpu } } })] });
    for (const [name, cpu] of [
      ['small', '200m'],
      ['fits', '300m'],
      ['large', '500m'],
    ] as const) {
      bench.create(podWith(name, cpu));
      await bench.ready(name);
    }
    bench.create(podWith('agent', '300m', 2_000_001_000));
    const gone = await bench.until('fits', (one) => one?.status?.phase === 'Failed');
    expect(gone.status).toMatchObject({ reason: 'Preempting', message: 'Preempted in order to admit critical pod' });
    expect(gone.status?.conditions).toContainEqual(expect.objectContaining({ type: 'DisruptionTarget', status: 'True' }));
    await bench.ready('agent');
    expect([isReady(bench.pod('small')), isReady(bench.pod('large'))]).toEqual([true, true]);
    // all the other pods together would not free enough
    bench.create(podWith('too-large', '900m', 2_000_001_000));
    expect((await bench.until('too-large', (one) => one?.status?.phase === 'Failed')).status?.reason).toBe('OutOfcpu');
    expect([isReady(bench.pod('small')), isReady(bench.pod('large'))]).toEqual([true, true]);
  });

  it("obtains addresses for pods if the network plugin uses the node's network namespace", async () => {
    await bench.dispose();
    const allocated = new Map<string, string>();
    const calls: string[] = [];
    const network: NetworkDriver = {
      traits: { namespace: 'node', podCIDR: '127.64.0.0/16', serviceCIDR: '127.96.0.0/16' },
      async setup() {
        calls.push('setup');
      },
      async add({ containerId }) {
        const ip = allocated.get(containerId) ?? `127.64.0.${allocated.size + 1}`;
        allocated.set(containerId, ip);
        return { ips: [ip] };
      },
      async check() {
        /* as it was left */
      },
      async del({ containerId }) {
        allocated.delete(containerId);
      },
      async status() {
        return { ready: true, message: '' };
      },
      async gc(valid) {
        calls.push(`gc ${valid.length}`);
      },
    };
    // like containerd without a CNI config
    const unconnected = (driver: RuntimeDriver): RuntimeDriver =>
      new Proxy(driver, {
        get(target, key) {
          if (key === 'status')
            return () =>
              Promise.resolve([{ type: 'NetworkReady', status: false, reason: 'NetworkPluginNotReady', message: 'no conflist' }]);
          const value = Reflect.get(target, key) as unknown;
          return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value;
        },
      });
    bench = await new Bench({
      network,
      wrap: (driver) => unconnected(withTraits(driver, { simulated: false })),
      config: { files: false, port: 0 },
    }).start();
    bench.create(podOf('web', { containers: [app({ env: [{ name: 'IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } }] })] }));
    bench.create(podOf('host', { hostNetwork: true }));
    const [web, host] = await Promise.all([bench.ready('web'), bench.ready('host')]);
    expect([web.status?.podIP, host.status?.podIP]).toEqual(['127.64.0.1', '10.0.0.1']);
    expect((await env('web')).get('IP')).toBe('127.64.0.1');
    await bench.restart();
    await bench.clock.advance(60_000);
    expect(bench.pod('web')?.status?.podIP).toBe('127.64.0.1');
    expect(calls).toEqual(['setup', 'gc 0', 'setup', 'gc 1']);
    await bench.delete('web');
    await bench.until('web', (pod) => pod === undefined);
    expect(allocated.size).toBe(0);
  });

  it('releases addresses of missing sandboxes before pods start if runtimes connect pods', async () => {
    await bench.dispose();
    const calls: string[] = [];
    let sandboxes = 0;
    const network: NetworkDriver = {
      traits: { namespace: 'pod', podCIDR: '10.244.0.0/16', serviceCIDR: '10.96.0.0/16' },
      async setup({ podCIDRs }) {
        calls.push(`setup ${podCIDRs.join()}`);
      },
      add: () => Promise.reject(new Error('the runtime does that')),
      check: () => Promise.resolve(),
      del: () => Promise.resolve(),
      status: () => Promise.resolve({ ready: true, message: '' }),
      async gc(valid) {
        sandboxes = (await bench.runtime.listPodSandbox()).length;
        calls.push(`gc ${valid.map(({ containerId, ifName }) => `${containerId}/${ifName}`).join()}`);
      },
    };
    bench = new Bench({
      network,
      wrap: (driver) => withTraits(driver, { simulated: false }),
      config: { files: false, port: 0, podCIDR: '10.244.7.0/24' },
    });
    bench.create(podOf('web'));
    await bench.start();
    await bench.ready('web');
    expect(calls).toEqual(['setup 10.244.7.0/24', 'gc ']);
    const [sandbox] = await bench.runtime.listPodSandbox();
    await bench.restart();
    await bench.clock.advance(60_000);
    expect(calls.slice(2)).toEqual(['setup 10.244.7.0/24', `gc ${sandbox?.id}/eth0`]);
    expect(sandboxes).toBe(1);
    expect(container(bench.pod('web'))?.restartCount).toBe(0);
  });

  it('does not wait for a pod CIDR if the network plugin has addresses of its own', async () => {
    await bench.dispose();
    const calls: string[] = [];
    const network: NetworkDriver = {
      traits: { namespace: 'pod', ownAddresses: true, podCIDR: '10.244.0.0/16', serviceCIDR: '10.96.0.0/16' },
      async setup({ podCIDRs }) {
        calls.push(`setup ${podCIDRs.join()}`);
      },
      add: () => Promise.reject(new Error('the runtime does that')),
      check: () => Promise.resolve(),
      del: () => Promise.resolve(),
      status: () => Promise.resolve({ ready: calls.length > 0, message: '' }),
      gc: () => Promise.resolve(),
    };
    bench = new Bench({ network, wrap: (driver) => withTraits(driver, { simulated: false }), config: { files: false, port: 0 } });
    bench.create(podOf('web'));
    await bench.start();
    await bench.ready('web');
    expect(calls).toEqual(['setup ']);
  });
});
