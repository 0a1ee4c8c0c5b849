import { status } from '@grpc/grpc-js';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import type { ContainerConfig, PodSandboxConfig } from '@oarlock/spi/runtime';
import { afterEach, describe, expect, it } from 'vitest';
import { driverInConfig, systemdSlice } from '../../src/cri/cgroup-driver.ts';
import { codec } from '../../src/cri/codec.ts';
import { ContainerdRuntime } from '../../src/containerd-runtime.ts';
import { CriServer, failure, noSandboxes, version, type Methods } from '../support/cri-server.ts';

const cleanup: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const one of cleanup.splice(0).reverse()) await one();
});

async function open(methods: Methods, config: { requestTimeoutSeconds?: number } = {}) {
  const server = await CriServer.start({ ...methods, unary: { ...noSandboxes, ...methods.unary } });
  cleanup.push(() => server.dispose());
  const driver = new ContainerdRuntime(
    { socket: server.socket, requestTimeoutSeconds: 5, imagePullTimeoutSeconds: 5, streamIdleSeconds: 5, ...config },
    { clock: systemClock, log: silentLogger },
  );
  cleanup.push(() => driver.stop());
  return { server, driver };
}

const ids = [{ hostId: 65_536, containerId: 0, length: 65_536 }];
const users = { uids: ids, gids: ids };
const sandbox: PodSandboxConfig = {
  metadata: { name: 'web-0', uid: 'u-1', namespace: 'shop', attempt: 2 },
  hostname: 'web-0',
  logDirectory: '/var/log/pods/shop_web-0_u-1',
  dns: { servers: ['10.96.0.10'], searches: ['shop.svc.cluster.local'], options: ['ndots:5'] },
  portMappings: [{ protocol: 'UDP', containerPort: 53, hostPort: 5353, hostIp: '127.0.0.1' }],
  labels: { app: 'web' },
  annotations: { note: 'ü' },
  linux: {
    cgroupParent: '/kubepods/burstable/podu-1',
    sysctls: { 'net.ipv4.ip_unprivileged_port_start': '0' },
    overhead: { cpuShares: 10 },
    resources: { memoryLimitBytes: 1 << 30 },
    security: {
      namespaces: { network: 'POD', pid: 'CONTAINER', ipc: 'NODE' },
      runAsUser: 0,
      runAsGroup: 1000,
      supplementalGroups: [2000],
      readonlyRootfs: true,
      privileged: true,
      seccomp: { type: 'RuntimeDefault' },
      apparmor: { type: 'Localhost', localhostRef: 'tight' },
      selinux: { level: 's0:c1,c2' },
    },
  },
};
const container: ContainerConfig = {
  metadata: { name: 'main', attempt: 7 },
  image: { image: 'sha256:abc', userSpecifiedImage: 'web:1' },
  command: ['/bin/web'],
  args: ['--port', '80'],
  workingDir: '/srv',
  envs: [{ key: 'A', value: 'b' }],
  mounts: [
    { containerPath: '/data', hostPath: '/mnt/data', readonly: true, propagation: 'BIDIRECTIONAL', selinuxRelabel: true },
    { containerPath: '/tmp', hostPath: '/tmp/x', idMappings: users },
  ],
  devices: [{ containerPath: '/dev/x', hostPath: '/dev/y', permissions: 'rw' }],
  labels: { l: 'v' },
  annotations: { a: 'v' },
  logPath: 'main/7.log',
  stdin: true,
  stdinOnce: true,
  tty: true,
  stopSignal: 'SIGRTMIN+3',
  linux: {
    resources: {
      cpuPeriod: 100_000,
      cpuQuota: 50_000,
      cpuShares: 512,
      memoryLimitBytes: 5_000_000_000,
      memorySwapLimitBytes: 6_000_000_000,
      oomScoreAdj: -997,
      cpusetCpus: '0-1',
      cpusetMems: '0',
      unified: { 'memory.high': '1' },
    },
    security: {
      namespaces: { network: 'POD', pid: 'TARGET', ipc: 'POD', targetId: 'other', users },
      capabilities: { add: ['NET_ADMIN'], drop: ['ALL'] },
      runAsUsername: 'web',
      noNewPrivs: true,
      maskedPaths: ['/proc/kcore'],
      readonlyPaths: ['/proc/sys'],
      seccomp: { type: 'Unconfined' },
    },
  },
};

describe('config encoding', () => {
  it('encodes all fields of a sandbox and a container config', async () => {
    const { server, driver } = await open({
      unary: {
        RunPodSandbox: () => ({ podSandboxId: 's1' }),
        CreateContainer: () => ({ containerId: 'c1' }),
        RuntimeConfig: () => ({ linux: { cgroupDriver: 'CGROUPFS' } }),
      },
    });
    expect(await driver.runPodSandbox(sandbox, 'gvisor')).toBe('s1');
    expect(await driver.createContainer('s1', container, sandbox)).toBe('c1');
    const [run, create] = ['RunPodSandbox', 'CreateContainer'].map(
      (method) => server.calls.find((call) => call.method === method)?.request ?? {},
    );
    expect(run).toMatchObject({
      runtimeHandler: 'gvisor',
      config: {
        metadata: sandbox.metadata,
        hostname: 'web-0',
        logDirectory: sandbox.logDirectory,
        dnsConfig: sandbox.dns,
        portMappings: sandbox.portMappings,
        labels: { app: 'web' },
        annotations: { note: 'ü' },
        linux: {
          cgroupParent: '/kubepods/burstable/podu-1',
          sysctls: sandbox.linux.sysctls,
          overhead: { cpuShares: 10 },
          resources: { memoryLimitInBytes: 1 << 30 },
          securityContext: {
            namespaceOptions: { network: 'POD', pid: 'CONTAINER', ipc: 'NODE' },
            runAsUser: { value: 0 },
            runAsGroup: { value: 1000 },
            supplementalGroups: [2000],
            readonlyRootfs: true,
            privileged: true,
            seccomp: { profileType: 'RuntimeDefault' },
            apparmor: { profileType: 'Localhost', localhostRef: 'tight' },
            selinuxOptions: { level: 's0:c1,c2' },
          },
        },
      },
    });
    expect(create).toMatchObject({
      podSandboxId: 's1',
      sandboxConfig: run?.['config'],
      config: {
        metadata: { name: 'main', attempt: 7 },
        image: { image: 'sha256:abc', userSpecifiedImage: 'web:1' },
        command: ['/bin/web'],
        args: ['--port', '80'],
        workingDir: '/srv',
        envs: container.envs,
        mounts: [
          { containerPath: '/data', hostPath: '/mnt/data', readonly: true, propagation: 'PROPAGATION_BIDIRECTIONAL', selinuxRelabel: true },
          {
            containerPath: '/tmp',
            hostPath: '/tmp/x',
            readonly: false,
            propagation: 'PROPAGATION_PRIVATE',
            uidMappings: ids,
            gidMappings: ids,
          },
        ],
        devices: container.devices,
        logPath: 'main/7.log',
        stdin: true,
        stdinOnce: true,
        tty: true,
        stopSignal: 'SIGRTMINPLUS3',
        linux: {
          resources: {
            cpuPeriod: 100_000,
            cpuQuota: 50_000,
            cpuShares: 512,
            memoryLimitInBytes: 5_000_000_000,
            memorySwapLimitInBytes: 6_000_000_000,
            oomScoreAdj: -997,
            cpusetCpus: '0-1',
            cpusetMems: '0',
            unified: { 'memory.high': '1' },
          },
          securityContext: {
            capabilities: { addCapabilities: ['NET_ADMIN'], dropCapabilities: ['ALL'] },
            namespaceOptions: { pid: 'TARGET', targetId: 'other', usernsOptions: { uids: ids, gids: ids } },
            runAsUsername: 'web',
            runAsUser: null,
            noNewPrivs: true,
            maskedPaths: ['/proc/kcore'],
            readonlyPaths: ['/proc/sys'],
            seccomp: { profileType: 'Unconfined' },
            apparmor: null,
          },
        },
      },
    });
  });

  it('numbers signals as CRI does', () => {
    const numbers = (name: string) => codec('cri', 'ContainerConfig').encode({ stopSignal: name }).at(-1);
    expect(['SIGABRT', 'SIGTERM', 'SIGWINCH', 'SIGRTMIN', 'SIGRTMINPLUS15', 'SIGRTMAXMINUS14', 'SIGRTMAX'].map(numbers)).toEqual([
      1, 23, 32, 35, 50, 51, 65,
    ]);
  });

  it('decodes the user of a container if the runtime reports it', async () => {
    const user = { linux: { uid: 1000, gid: 3000, supplementalGroups: [3000, 4000] } };
    const status = (id: string) => ({ id, metadata: { name: 'main', attempt: 0 }, state: 'CONTAINER_RUNNING' });
    const listed = { id: 'c1', podSandboxId: 's1', metadata: { name: 'main', attempt: 0 } };
    let reported: object = { user };
    const { driver } = await open({
      unary: { ContainerStatus: () => ({ status: { ...status('c1'), ...reported } }), ListContainers: () => ({ containers: [listed] }) },
    });
    expect((await driver.containerStatus('c1')).user).toEqual(user.linux);
    reported = {};
    expect(await driver.containerStatus('c1')).not.toHaveProperty('user');
  });

  it("decodes the runtime's features and encodes the fields that depend on them", async () => {
    const can = (userNamespaces: boolean) => ({ recursiveReadOnlyMounts: true, userNamespaces });
    const { server, driver } = await open({
      unary: {
        Status: () => ({
          runtimeHandlers: [
            { name: '', features: can(true) },
            { name: 'gvisor', features: can(false) },
          ],
          features: { supplementalGroupsPolicy: true },
        }),
        CreateContainer: () => ({ containerId: 'c1' }),
      },
    });
    expect(await driver.features()).toEqual({
      handlers: [
        { name: '', ...can(true) },
        { name: 'gvisor', ...can(false) },
      ],
      supplementalGroupsPolicy: true,
    });
    const cdiDevices = ['vendor.com/gpu=0', 'vendor.com/gpu=1'];
    const [first] = container.mounts;
    await driver.createContainer(
      's1',
      {
        ...container,
        cdiDevices,
        mounts: first ? [{ ...first, recursiveReadOnly: true }] : [],
        linux: { ...container.linux, security: { ...container.linux.security, supplementalGroupsPolicy: 'Strict' } },
      },
      sandbox,
    );
    expect(server.calls.find(({ method }) => method === 'CreateContainer')?.request).toMatchObject({
      config: {
        cdiDevices: cdiDevices.map((name) => ({ name })),
        annotations: { a: 'v', 'cdi.k8s.io/oarlock': cdiDevices.join(',') },
        mounts: [{ recursiveReadOnly: true }],
        linux: { securityContext: { supplementalGroupsPolicy: 'Strict' } },
      },
    });
    const silent = await open({ unary: { Status: () => ({ status: { conditions: [] } }) } });
    expect(await silent.driver.features()).toBeUndefined();
  });

  it("omits the hostname for a pod on the host's network", async () => {
    const { server, driver } = await open({ unary: { RunPodSandbox: () => ({ podSandboxId: 's1' }) } });
    const { cgroupParent: _, ...linux } = sandbox.linux;
    await driver.runPodSandbox(
      { ...sandbox, linux: { ...linux, security: { namespaces: { network: 'NODE', pid: 'CONTAINER', ipc: 'POD' } } } },
      '',
    );
    expect(server.calls.at(-1)?.request).toMatchObject({ config: { hostname: '' } });
  });
});

describe('cgroup driver', () => {
  it('systemd: cgroup paths become slices', async () => {
    const { server, driver } = await open({
      unary: { RunPodSandbox: () => ({ podSandboxId: 's1' }), RuntimeConfig: () => ({ linux: { cgroupDriver: 'SYSTEMD' } }) },
    });
    await driver.runPodSandbox(sandbox, '');
    expect(server.calls.at(-1)?.request).toMatchObject({
      config: { linux: { cgroupParent: '/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu_1.slice' } },
    });
    await driver.runPodSandbox(sandbox, '');
    expect(server.calls.filter((call) => call.method === 'RuntimeConfig')).toHaveLength(1);
  });

  it('is read from the verbose status if RuntimeConfig is not implemented', async () => {
    const config = JSON.stringify({ containerd: { defaultRuntimeName: 'runc', runtimes: { runc: { options: { SystemdCgroup: true } } } } });
    const { server, driver } = await open({
      unary: { RunPodSandbox: () => ({ podSandboxId: 's1' }), Status: () => ({ info: { config } }) },
    });
    await driver.runPodSandbox(sandbox, '');
    expect(server.calls.at(-1)?.request).toMatchObject({ config: { linux: { cgroupParent: expect.stringContaining('.slice') } } });
  });

  it('is read from the configuration', () => {
    expect(driverInConfig(undefined)).toBe('cgroupfs');
    expect(driverInConfig('{')).toBe('cgroupfs');
    expect(driverInConfig('{"systemdCgroup":true}')).toBe('systemd');
    expect(
      driverInConfig(
        '{"containerd":{"defaultRuntimeName":"a","runtimes":{"a":{"options":null},"runc":{"options":{"SystemdCgroup":true}}}}}',
      ),
    ).toBe('cgroupfs');
    expect(systemdSlice('/a-b/c')).toBe('/a_b.slice/a_b-c.slice');
    expect(systemdSlice('/a.slice/a-b.slice')).toBe('/a.slice/a-b.slice');
  });
});

describe('CriClient', () => {
  it('sends the trace context', async () => {
    const { server, driver } = await open({});
    const spanContext = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 1 };
    await driver.version({ spanContext });
    expect(server.calls.at(-1)?.metadata.get('traceparent')).toEqual(['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01']);
  });

  it('ends a call at its deadline', async () => {
    const { driver } = await open({ unary: { Status: () => new Promise(() => {}) } }, { requestTimeoutSeconds: 0.2 });
    await expect(driver.status()).rejects.toMatchObject({ name: 'RuntimeError', code: 'DeadlineExceeded' });
  });

  it('cancels a call at the runtime when the signal aborts', async () => {
    let cancelled: () => void = () => {};
    const seen = new Promise<void>((resolve) => {
      cancelled = resolve;
    });
    const stop = new AbortController();
    const { driver } = await open({
      unary: {
        Status: (_request, { onCancel }) => {
          onCancel(cancelled);
          stop.abort(new Error('no longer wanted'));
          return new Promise(() => {});
        },
      },
    });
    await expect(driver.status({ signal: stop.signal })).rejects.toThrow('no longer wanted');
    await seen;
  });

  it('fails with Unavailable while the runtime is down, and reconnects when it is back', async () => {
    const { server, driver } = await open({});
    await driver.version();
    server.end();
    await expect(driver.version()).rejects.toMatchObject({ code: 'Unavailable' });
    await server.restart({ unary: { Version: () => version } });
    await expect
      .poll(
        () =>
          driver.version().then(
            (found) => found.name,
            () => 'away',
          ),
        { timeout: 120_000, interval: 20 },
      )
      .toBe('test');
  });

  const errors: readonly (readonly [status, string, string])[] = [
    [status.NOT_FOUND, 'an error occurred when try to find container "x": not found', 'NotFound'],
    [status.UNKNOWN, 'server is not initialized yet', 'Unavailable'],
    [status.UNKNOWN, 'failed to reserve sandbox name "web_shop_u_0": name "web_shop_u_0" is reserved for "0af"', 'AlreadyExists'],
    [status.ALREADY_EXISTS, 'there already', 'AlreadyExists'],
    [status.UNKNOWN, 'container is in CONTAINER_EXITED state', 'FailedPrecondition'],
    [status.FAILED_PRECONDITION, 'not now', 'FailedPrecondition'],
    [
      status.UNKNOWN,
      'failed to pull and unpack image "r/x:1": failed to resolve reference "r/x:1": unexpected status from HEAD request to https://r/v2/x/manifests/1: 403 Forbidden',
      'PermissionDenied',
    ],
    [status.UNKNOWN, 'failed to get sandbox runtime: no runtime for "kata" is configured', 'InvalidArgument'],
    [status.UNAUTHENTICATED, 'who?', 'PermissionDenied'],
    [status.INVALID_ARGUMENT, 'what?', 'InvalidArgument'],
    [status.UNIMPLEMENTED, 'unknown method', 'Unsupported'],
    [status.RESOURCE_EXHAUSTED, 'too large', 'Internal'],
    [status.UNKNOWN, 'something else', 'Internal'],
  ];
  it.each(errors)('maps code %i with message "%s" to %s', async (code, details, expected) => {
    const { driver } = await open({
      unary: {
        Status: () => {
          throw failure(code, details);
        },
      },
    });
    await expect(driver.status()).rejects.toMatchObject({
      code: expected,
      message: expect.stringMatching(/^rpc error: code = \w+ desc = /),
      runtimeMessage: expect.not.stringContaining('rpc error'),
    });
    await expect(driver.status()).rejects.toThrow(details);
  });

  it('gives execSync one second in addition to its timeout', async () => {
    const { server, driver } = await open({ unary: { ExecSync: () => new Promise(() => {}) } });
    const began = performance.now();
    await expect(driver.execSync('c', ['true'], 0.3)).rejects.toMatchObject({ code: 'DeadlineExceeded' });
    expect(performance.now() - began).toBeGreaterThan(1_900);
    // whole seconds on the wire, and never 0, which means no timeout
    expect(server.calls.at(-1)?.request).toMatchObject({ timeout: 1 });
  });

  it('rejects a response without its message field', async () => {
    const { driver } = await open({ unary: { ContainerStatus: () => ({}) } });
    await expect(driver.containerStatus('c')).rejects.toMatchObject({ code: 'Internal' });
  });
});
