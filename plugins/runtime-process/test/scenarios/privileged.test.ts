import { execFile, spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Attachment } from '@oarlock/spi/network';
import type { ContainerConfig, PodSandboxConfig } from '@oarlock/spi/runtime';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { preparation } from '../../src/containers/internal/wrapper-scripts.ts';
import { PodNetwork } from '@oarlock/process-supervisor/client/pod-network';
import { hasCgroups, isPrivileged, loopbackNetwork, openRuntime, type ProcessFixture } from '../support/fixture.ts';
import { ended, podConfig, security, startPod } from '../support/pod.ts';

const run = promisify(execFile);
const podNetwork = { linux: { security: { namespaces: { network: 'POD', pid: 'CONTAINER', ipc: 'POD' } } } } as const;

describe.skipIf(!isPrivileged)('runtime-process as root, with namespaces', () => {
  let fixture: ProcessFixture;
  let volume = '';
  const network = loopbackNetwork();
  beforeAll(async () => {
    fixture = await openRuntime({}, network);
    volume = await mkdtemp(join(tmpdir(), 'process-volume-'));
    await chmod(volume, 0o755);
    await writeFile(join(volume, 'greeting'), 'hello from the volume\n', { mode: 0o644 });
    await mkdir(join(volume, 'place'));
  });
  afterAll(async () => {
    await fixture.dispose();
    await rm(volume, { recursive: true, force: true });
  });

  const logs = '/tmp';
  /** Returns the output of a shell script that runs as a container. */
  const print = async (script: string, more: Partial<ContainerConfig> = {}, pod: Partial<PodSandboxConfig> = {}) => {
    const { sandbox, container } = await startPod(
      fixture.driver,
      await mkdtemp(join(logs, 'process-logs-')),
      ['/bin/sh', '-c', script],
      more,
      pod,
    );
    const { logPath, exitCode } = await ended(fixture.driver, container);
    const lines = (await readFile(logPath, 'utf8'))
      .split('\n')
      .slice(0, -1)
      .map((line) => line.replace(/^\S+ (stdout|stderr) [FP] /, ''));
    await fixture.driver.removePodSandbox(sandbox);
    await rm(join(logPath, '../../../..'), { recursive: true, force: true });
    return { lines, exitCode };
  };

  it('mounts volumes if the mount point exists, read-only if requested, and invisible to the host', async () => {
    const place = join(volume, 'place');
    const { lines } = await print(`cat ${place}/greeting; touch ${place}/x 2>/dev/null || echo read-only; echo "root=[$OARLOCK_ROOT]"`, {
      mounts: [{ containerPath: place, hostPath: volume, readonly: true }],
    });
    expect(lines).toEqual(['hello from the volume', 'read-only', 'root=[]']);
    expect(readdirSync(place)).toEqual([]);
    expect(await readFile('/proc/self/mountinfo', 'utf8')).not.toContain(place);
  });

  it('mounts volumes whose mount point does not exist, and creates nothing on the host', async () => {
    const places = ['/var/lib/not-here/below', '/not-here', '/etc/not-here', '/dev/not-here'];
    const { lines } = await print(
      'for place in "$@"; do cat "$place/greeting"; done; ls /etc/passwd /dev/null; echo "root=[$OARLOCK_ROOT] $OARLOCK_MOUNT_0"',
      { args: ['sh', ...places], mounts: places.map((containerPath) => ({ containerPath, hostPath: volume })) },
    );
    expect(lines).toEqual([
      ...places.map(() => 'hello from the volume'),
      '/dev/null',
      '/etc/passwd',
      'root=[] /var/lib/not-here/below:/var/lib/not-here/below',
    ]);
    for (const place of ['/var/lib/not-here', '/not-here', '/etc/not-here', '/dev/not-here']) expect(existsSync(place)).toBe(false);
  });

  it('links volumes over programs of the host', async () => {
    const { lines } = await print('cat "$OARLOCK_ROOT/usr/bin/greeting"; echo "$OARLOCK_MOUNT_0"', {
      mounts: [{ containerPath: '/usr/bin', hostPath: volume }],
    });
    expect(lines).toEqual(['hello from the volume', `/usr/bin:${volume}`]);
  });

  it('gives privileged containers their volumes, and the files of the host', async () => {
    const { lines } = await print('cat /var/run/secrets/kubernetes.io/serviceaccount/greeting; test -e "$1" && echo visible; hostname', {
      args: ['sh', join(volume, 'greeting')],
      mounts: [{ containerPath: '/var/run/secrets/kubernetes.io/serviceaccount', hostPath: volume, readonly: true }],
      ...security({ privileged: true }),
    });
    expect(lines).toEqual(['hello from the volume', 'visible', expect.stringMatching(/^pod-/)]);
    expect(existsSync('/var/run/secrets/kubernetes.io')).toBe(false);
  });

  it('does not start a container whose nested mount lands elsewhere or is writable', async () => {
    const tree = await mkdtemp(join(tmpdir(), 'nested-'));
    try {
      for (const name of ['root', 'root/dev', 'root/work', 'elsewhere', 'bin']) await mkdir(join(tree, name));
      const fstab = join(tree, 'fstab');
      await writeFile(fstab, `${tree}/root ${tree}/root none rbind 0 0\n`);
      const target = join(tree, 'root', 'work');
      /** Runs the preparation with a \`mount\` that acts like the real one when the pod replaces a directory of the path in the meantime. */
      const runWith = async (replacement: string) => {
        const mount = join(tree, 'bin', 'mount');
        await writeFile(mount, `#!/bin/sh\ncase "$*" in *-o*) ${replacement} ;; esac\nexec mount "$@"\n`, { mode: 0o755 });
        const programs = ['', mount, 'umount', 'pivot_root', 'stat', '', '0'];
        const view = [join(tree, 'root'), fstab, '1', volume, target, 'rbind,ro', target, '0'];
        const args = ['--mount', '--', 'sh', '-c', preparation, 'oarlock', ...programs, ...view, '/', '/bin/echo', 'started'];
        return spawnSync('unshare', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe', 'pipe'] }).output[3];
      };
      expect(await runWith(`exec mount -n -o rbind,ro "${volume}" "${tree}/elsewhere"`)).toBe(
        `the volume at ${target} changed while it was mounted`,
      );
      expect(await runWith(`exec mount -n -o rbind "${volume}" "${target}"`)).toBe(`cannot make the mount at ${target} read-only`);
      // the new root of this test has no programs, so that the real mount fails only afterwards
      expect(await runWith(':')).toContain('cannot leave the root directory of the node');
    } finally {
      await rm(tree, { recursive: true });
    }
  });

  it('sets hostname and resolver of a pod without changing those of the host', async () => {
    const before = hostname();
    const { lines } = await print(
      'cat /proc/sys/kernel/hostname; grep -c 10.96.0.10 /etc/resolv.conf',
      {},
      { hostname: 'web-0', dns: { servers: ['10.96.0.10'], searches: [], options: [] }, ...podNetwork },
    );
    expect(lines).toEqual(['web-0', '1']);
    expect(hostname()).toBe(before);
    expect(await readFile('/etc/resolv.conf', 'utf8')).not.toContain('10.96.0.10');
  });

  it('switches user, groups and capabilities after all other preparation', async () => {
    const limits = security({
      runAsUser: 65534,
      runAsGroup: 65534,
      supplementalGroups: [4242],
      noNewPrivs: true,
      capabilities: { add: [], drop: ['ALL'] },
    });
    const { lines } = await print(
      'id -u; id -g; id -G; grep -E "NoNewPrivs|CapEff|CapBnd" /proc/self/status | tr -s "\\t" " "; echo oops > /dev/stderr',
      { ...limits, mounts: [{ containerPath: join(volume, 'place'), hostPath: volume }] },
    );
    expect(lines).toEqual([
      '65534',
      '65534',
      '65534 4242',
      'CapEff: 0000000000000000',
      'CapBnd: 0000000000000000',
      'NoNewPrivs: 1',
      'oops',
    ]);
  });

  it("runs no code of the pod's choosing as root before the user is switched", async () => {
    const trap = join(volume, 'trap');
    const library = join(volume, 'evil.so');
    await writeFile(library, 'not a library', { mode: 0o755 });
    await writeFile(trap, `id -u > ${volume}/trapped\n`, { mode: 0o755 });
    const { lines, exitCode } = await print('id -u', {
      ...security({ runAsUser: 65534 }),
      mounts: [{ containerPath: join(volume, 'place'), hostPath: volume }],
      envs: [
        { key: 'LD_PRELOAD', value: library },
        { key: 'BASH_ENV', value: trap },
        { key: 'ENV', value: trap },
        { key: 'PATH', value: `${volume}:/usr/bin:/bin` },
      ],
    });
    expect(exitCode).toBe(0);
    // the loader's warnings come over another pipe, before or after
    expect(lines.filter((line) => !line.includes('evil.so'))).toEqual(['65534']);
    // each program that loads the library prints one warning: those before the switch must print none
    expect(lines.filter((line) => line.includes('evil.so')).length).toBeLessThanOrEqual(3);
    expect(existsSync(join(volume, 'trapped'))).toBe(false);
  });

  it('rejects a container with a device', async () => {
    const config = podConfig(logs);
    const sandbox = await fixture.driver.runPodSandbox(config, '');
    const containerConfig: ContainerConfig = {
      metadata: { name: 'x', attempt: 0 },
      image: { image: 'host' },
      command: ['/bin/true'],
      args: [],
      workingDir: '/',
      envs: [],
      mounts: [],
      labels: {},
      annotations: {},
      logPath: 'x.log',
      stdin: false,
      stdinOnce: false,
      tty: false,
      ...security({}),
      devices: [{ containerPath: '/dev/disk', hostPath: '/dev/null', permissions: 'r' }],
    };
    await expect(fixture.driver.createContainer(sandbox, containerConfig, config)).rejects.toMatchObject({
      code: 'Unsupported',
      message: expect.stringContaining('do not support devices: /dev/disk'),
    });
  });

  it('distinguishes a failure of the preparation from one of the command', async () => {
    const config = podConfig(logs);
    const sandbox = await fixture.driver.runPodSandbox(config, '');
    const failing: Partial<ContainerConfig> = {
      workingDir: '/no/such/directory',
      mounts: [{ containerPath: join(volume, 'place'), hostPath: volume }],
    };
    const { container } = await (async () => {
      const id = await fixture.driver.createContainer(
        sandbox,
        {
          ...{
            metadata: { name: 'x', attempt: 0 },
            image: { image: 'host' },
            command: ['/bin/true'],
            args: [],
            envs: [],
            labels: {},
            annotations: {},
            logPath: 'x/0.log',
            stdin: false,
            stdinOnce: false,
            tty: false,
            ...security({}),
          },
          mounts: [],
          ...failing,
        },
        config,
      );
      return { container: id };
    })();
    await expect(fixture.driver.startContainer(container)).rejects.toMatchObject({
      code: 'FailedPrecondition',
      message: expect.stringContaining('/no/such/directory'),
    });
    expect(await fixture.driver.containerStatus(container)).toMatchObject({
      state: 'EXITED',
      exitCode: 128,
      reason: 'StartError',
      message: expect.stringContaining('/no/such/directory'),
    });
    await fixture.driver.removePodSandbox(sandbox);
    await rm(config.logDirectory, { recursive: true, force: true });
  });

  it('connects network namespaces, and removes them with their sandboxes', async () => {
    const { sandbox, container } = await startPod(
      fixture.driver,
      volume,
      ['/bin/sleep', '1000'],
      {},
      { linux: { ...podNetwork.linux, sysctls: { 'net.ipv4.ip_unprivileged_port_start': '80' } } },
    );
    expect(`${(await fixture.driver.execSync(container, ['cat', '/proc/sys/net/ipv4/ip_unprivileged_port_start'], 10)).stdout}`).toBe(
      '80\n',
    );
    await expect(
      fixture.driver.runPodSandbox(podConfig(logs, { linux: { ...podNetwork.linux, sysctls: { 'kernel.shmmax': '1' } } }), ''),
    ).rejects.toMatchObject({ code: 'Unsupported' });
    const namespace = PodNetwork.pathOf(sandbox);
    expect(existsSync(namespace)).toBe(true);
    expect(network.added.has(sandbox)).toBe(true);
    const inside = await fixture.driver.execSync(
      container,
      ['readlink', '/proc/self/ns/net', '/proc/self/ns/mnt', '/proc/self/ns/uts'],
      10,
    );
    const outside = (await run('readlink', ['/proc/self/ns/net', '/proc/self/ns/mnt', '/proc/self/ns/uts'])).stdout;
    const spaces = inside.stdout.toString().trim().split('\n');
    for (const space of outside.trim().split('\n')) expect(spaces).not.toContain(space);
    await fixture.driver.stopPodSandbox(sandbox);
    await fixture.driver.stopPodSandbox(sandbox);
    expect(existsSync(namespace)).toBe(false);
    expect(network.added.has(sandbox)).toBe(false);
    await fixture.driver.removePodSandbox(sandbox);
  });

  it('removes a sandbox whose network could not be connected', async () => {
    const asked: string[] = [];
    const broken = {
      ...loopbackNetwork(),
      add: async ({ netns = '' }: Attachment) => {
        expect(existsSync(netns)).toBe(true);
        asked.push(netns);
        throw new Error('no address left');
      },
    };
    const other = await openRuntime({}, broken);
    await expect(other.driver.runPodSandbox(podConfig(logs, podNetwork), '')).rejects.toMatchObject({
      name: 'RuntimeError',
      message: 'no address left',
    });
    expect(await other.driver.listPodSandbox()).toEqual([]);
    expect(asked.map((netns) => existsSync(netns))).toEqual([false]);
    await other.dispose();
  });

  it.skipIf(!hasCgroups)('removes control groups with their containers', async () => {
    const root = ['/sys/fs/cgroup/oarlock', '/sys/fs/cgroup/memory/oarlock'].find((path) => existsSync(path)) ?? '';
    const { sandbox, container } = await startPod(fixture.driver, volume, ['/bin/sh', '-c', 'setsid sleep 1000 & sleep 1000'], {
      linux: {
        resources: { memoryLimitBytes: 32 * 1024 * 1024, cpuShares: 512, cpuQuota: 50_000, cpuPeriod: 100_000 },
        security: security({}).linux.security,
      },
    });
    expect(existsSync(join(root, sandbox, container))).toBe(true);
    await fixture.driver.removePodSandbox(sandbox);
    expect(existsSync(join(root, sandbox, container))).toBe(false);
    expect(existsSync(join(root, sandbox))).toBe(false);
  });

  it('supports terminals: attach, sizes, and signals to their processes', async () => {
    const { sandbox, container } = await startPod(
      fixture.driver,
      volume,
      [
        '/bin/sh',
        '-c',
        'test -t 0 && test -t 1 && echo "a terminal $1"; trap "exit 9" TERM; while :; do sleep 1000 & wait $!; done',
        'sh',
        '$(id); "quoted" \'words\'',
      ],
      { tty: true, stdin: true, mounts: [{ containerPath: join(volume, 'place'), hostPath: volume }] },
    );
    const { logPath } = await fixture.driver.containerStatus(container);
    await vi.waitFor(async () => expect(await readFile(logPath, 'utf8')).toContain('a terminal $(id); "quoted" \'words\''), {
      timeout: 120_000,
      interval: 20,
    });
    await fixture.driver.stopContainer(container, 10);
    expect(await fixture.driver.containerStatus(container)).toMatchObject({ exitCode: 9 });
    await fixture.driver.removePodSandbox(sandbox);
  });
});
