import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { chmod, chown, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ContainerConfig } from '@oarlock/spi/runtime';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ProcessRuntime } from '../../src/process-runtime.ts';
import {
  isPrivileged,
  missingUserIsolation,
  openRuntime,
  startSupervisorAsUser,
  supervisorOptions,
  type ProcessFixture,
} from '../support/fixture.ts';
import { containerConfig, ended, podConfig, security, startPod } from '../support/pod.ts';

const secret = 'the key of the certificate authority';
const token = 'the token of another pod';
const hasPerl = spawnSync('perl', ['-v']).status === 0;

interface Stage {
  readonly fixture: ProcessFixture;
  readonly driver: ProcessRuntime;
  /** The data directory of the cluster, which contains that of the plugin. */
  readonly cluster: string;
  readonly key: string;
  /** A volume of another pod. */
  readonly tokens: string;
  /** The process of the supervisor. */
  readonly supervisor: number;
}

async function openStage(asUser: boolean): Promise<Stage> {
  const cluster = await mkdtemp(join(tmpdir(), 'isolation-'));
  const [pki, dataDir, tokens] = [join(cluster, 'pki'), join(cluster, 'plugins', 'runtime-process'), join(cluster, 'volumes', 'token')];
  for (const directory of [pki, dataDir, tokens]) await mkdir(directory, { recursive: true });
  const key = join(pki, 'ca.key');
  await writeFile(key, secret, { mode: 0o600 });
  await writeFile(join(tokens, 'token'), token, { mode: 0o600 });
  if (asUser) {
    for (const path of [cluster, pki, key, join(cluster, 'plugins'), tokens, join(tokens, 'token')]) await chown(path, 65_534, 65_534);
    await startSupervisorAsUser(supervisorOptions(dataDir, { hiddenPaths: [cluster] }));
  }
  const fixture = await openRuntime({ isolation: 'required', hiddenPaths: [cluster] }, undefined, dataDir);
  const { sandbox } = await startPod(fixture.driver, dataDir, ['/bin/true']); // starts the supervisor
  await fixture.driver.removePodSandbox(sandbox);
  const lock = readdirSync(dataDir).find((name) => name.startsWith('lock.')) ?? '';
  const { pid } = JSON.parse(await readFile(join(dataDir, lock), 'utf8')) as { readonly pid: number };
  return { fixture, driver: fixture.driver, cluster, key, tokens, supervisor: pid };
}

const modes = [
  { name: 'as root', asUser: false, missing: isPrivileged ? undefined : 'namespaces need root' },
  { name: 'as an ordinary user', asUser: true, missing: process.getuid?.() === 0 ? missingUserIsolation() : 'switching users needs root' },
] as const;

for (const { name, asUser, missing } of modes)
  describe.skipIf(missing !== undefined)(
    `an isolated container ${name}${missing === undefined ? '' : ` (${missing})`}`,
    { timeout: 300_000 },
    () => {
      let stage: Stage;
      beforeAll(async () => {
        stage = await openStage(asUser);
      });
      afterAll(async () => {
        await stage.fixture.dispose();
        await rm(stage.cluster, { recursive: true, force: true });
      });

      /** Returns exit code and log of a container that runs a shell script. */
      const run = async (script: string, args: readonly string[] = [], more: Partial<ContainerConfig> = {}) => {
        const { driver, fixture } = stage;
        const { sandbox, container } = await startPod(driver, fixture.dataDir, ['/bin/sh', '-c', script, 'sh', ...args], more);
        const { logPath, exitCode } = await ended(driver, container);
        const log = await readFile(logPath, 'utf8');
        await driver.removePodSandbox(sandbox);
        return {
          exitCode,
          log,
          lines: log
            .split('\n')
            .slice(0, -1)
            .map((line) => line.replace(/^\S+ (stdout|stderr) [FP] /, '')),
        };
      };
      const hostProcesses = security({ namespaces: { network: 'NODE', pid: 'NODE', ipc: 'POD' } });

      it('is isolated', async () => {
        expect(await stage.driver.isolation()).toEqual({ enforced: true, reason: '' });
      });

      it('cannot read the data directory by its path', async () => {
        const { exitCode, log } = await run('cat "$1"; ls "$2/pki"', [stage.key, stage.cluster]);
        expect(log).not.toContain(secret);
        expect(log).toContain('No such file or directory');
        expect(exitCode).not.toBe(0);
      });

      it('cannot read the data directory through the root directories of processes', async () => {
        const paths = ['1', 'self', 'thread-self', String(stage.supervisor), String(process.pid)].map(
          (pid) => `/proc/${pid}/root${stage.key}`,
        );
        const { log } = await run('for path in "$@"; do cat "$path"; done; for root in /proc/[0-9]*/root; do cat "$root$1"; done', [
          ...paths,
          stage.key,
        ]);
        expect(log).not.toContain(secret);
      });

      it('sees only its own processes', async () => {
        const { lines } = await run('for p in /proc/[0-9]*; do echo "${p#/proc/}"; done; kill -0 "$1" 2>/dev/null && echo reachable', [
          String(stage.supervisor),
        ]);
        // the first process of the namespace, the shell, and nothing of the node
        expect(lines).toHaveLength(2);
        expect(lines).not.toContain('reachable');
      });

      it('cannot read the environment, the files or the root of the supervisor, even with the processes of the host', async () => {
        const at = `/proc/${stage.supervisor}`;
        const { log, lines } = await run(
          `test -d ${at} && echo exists; cat ${at}/environ && echo read; readlink ${at}/fd/0 ${at}/fd/1 ${at}/exe && echo read; cat ${at}/root${stage.key} && echo read; cat ${at}/cwd${stage.key} && echo read`,
          [],
          hostProcesses,
        );
        expect(lines).toContain('exists');
        expect(log).not.toContain('stdout F read');
        expect(log).not.toContain(secret);
        expect(log).not.toContain('HOME=');
      });

      it.skipIf(!hasPerl)('cannot trace the supervisor', async () => {
        const attach = 'my ($pid) = @ARGV; print syscall(101, 16, $pid + 0, 0, 0) == 0 ? "traced\\n" : "denied: $!\\n"';
        const { lines } = await run('perl -e "$1" "$2"', [attach, String(stage.supervisor)], hostProcesses);
        expect(lines).toEqual([expect.stringContaining('denied')]);
        expect((await run('perl -e "$1" 1', [attach])).lines).toEqual([expect.stringContaining('denied')]);
      });

      it.skipIf(!hasPerl)('cannot connect to sockets of the node in the data directory', async () => {
        const connect =
          'use Socket; for (@ARGV) { socket(S, PF_UNIX, SOCK_STREAM, 0) or die; print connect(S, pack_sockaddr_un($_)) ? "connected $_\\n" : "denied\\n" }';
        const listening = (await readFile('/proc/net/unix', 'utf8'))
          .split('\n')
          .flatMap((row) => (row.includes(stage.cluster) ? [row.slice(row.indexOf(stage.cluster))] : []));
        const { pid, root } = { pid: String(stage.supervisor), root: `/proc/${stage.supervisor}/root` };
        const paths = [...new Set(listening)];
        expect(paths.length).toBeGreaterThan(0);
        const { lines } = await run('perl -e "$@"', [
          connect,
          ...paths,
          ...paths.map((path) => `${root}${path}`),
          `/proc/${pid}/cwd/socket`,
        ]);
        expect(new Set(lines)).toEqual(new Set(['denied']));
      });

      it('cannot uncover the data directory', async () => {
        const { log } = await run(
          'for path in "$2" /tmp /run /; do umount "$path"; umount -l "$path"; unshare --user --map-root-user --mount umount -l "$path"; unshare --user --map-root-user --mount sh -c \'umount -l "$1"; cat "$2"\' sh "$path" "$1"; done; nsenter --target 1 --mount cat "$1"; mount -o remount,rw /; cat "$1"; touch /etc/uncovered && echo written',
          [stage.key, stage.cluster],
        );
        expect(log).not.toContain(secret);
        expect(log).not.toContain('written');
        expect(existsSync('/etc/uncovered')).toBe(false);
      });

      it('cannot follow a link in a volume to a file of the node', async () => {
        const volume = await mkdtemp(join(stage.cluster, 'volumes', 'empty-'));
        await chmod(volume, 0o777);
        await symlink(stage.key, join(volume, 'link'));
        await symlink(join(stage.tokens, 'token'), join(volume, 'token'));
        const mounts = [
          { containerPath: '/tmp/volume', hostPath: volume },
          { containerPath: '/no/such/place', hostPath: volume },
        ];
        const { log, lines } = await run(
          'cd /tmp/volume && pwd; for d in /tmp/volume "$OARLOCK_ROOT/no/such/place"; do cat "$d/link"; cat "$d/token"; cat "$d/../../pki/ca.key"; done; cat "$OARLOCK_ROOT/../../../../../pki/ca.key"; echo mine > "$OARLOCK_ROOT/no/such/place/own"',
          [],
          { mounts },
        );
        expect(log).not.toContain(secret);
        expect(log).not.toContain(token);
        expect(lines).toContain('/tmp/volume');
        expect(await readFile(join(volume, 'own'), 'utf8')).toBe('mine\n');
      });

      it('does not start with another file than the kubelet has checked', async () => {
        const { driver, fixture, cluster } = stage;
        const volume = await mkdtemp(join(cluster, 'volumes', 'parts-'));
        await chmod(volume, 0o777);
        await mkdir(join(volume, 'part'));
        await chmod(join(volume, 'part'), 0o777);
        const { dev, ino } = statSync(join(volume, 'part'), { bigint: true });
        const places = ['/tmp/part', '/no/such/place'];
        const mountsOf = (hostPath: string) => places.map((containerPath) => ({ containerPath, hostPath, checkedFile: `${dev}:${ino}` }));
        expect((await run('echo fine', [], { mounts: mountsOf(join(volume, 'part')) })).lines).toEqual(['fine']);
        await symlink(join(cluster, 'pki'), join(volume, 'replaced')); // what a pod does between the check and the mount
        for (const mount of mountsOf(join(volume, 'replaced'))) {
          const config = podConfig(fixture.dataDir);
          const sandbox = await driver.runPodSandbox(config, '');
          const command = ['/bin/sh', '-c', 'cat "$1/ca.key"', 'sh', mount.containerPath];
          const container = await driver.createContainer(sandbox, containerConfig(command, { mounts: [mount] }), config);
          await expect(driver.startContainer(container)).rejects.toMatchObject({
            message: expect.stringContaining('changed while it was mounted'),
          });
          await driver.removePodSandbox(sandbox);
        }
      });

      it("cannot read other pods' volumes, configs and logs", async () => {
        const { driver, fixture, tokens } = stage;
        const own = { mounts: [{ containerPath: '/var/run/secrets/token', hostPath: tokens, readonly: true }] };
        const script = 'cat /var/run/secrets/token/token; echo; echo mine > /tmp/file; sleep 1000';
        const { sandbox, container } = await startPod(driver, fixture.dataDir, ['/bin/sh', '-c', script], own);
        const { log } = await run('cat "$1/token"; find / -xdev -name token -exec cat {} +; ls "$2" "$2/logs" "$2/pods"; cat /tmp/file', [
          tokens,
          fixture.dataDir,
        ]);
        expect(log).not.toContain(token);
        expect(log).not.toContain(container);
        expect(log).not.toContain('mine');
        const inside = await driver.execSync(container, ['sh', '-c', 'cat /var/run/secrets/token/token /tmp/file'], 20);
        expect(inside.stdout.toString()).toBe(`${token}mine\n`);
        await driver.removePodSandbox(sandbox);
      });

      it('has no devices of the node, and only its own terminals', async () => {
        const { lines } = await run('ls /dev /dev/pts; echo x > /dev/null && head -c 4 /dev/zero | wc -c');
        expect(lines.filter((line) => /^(sd|vd|nvme|mem|kmsg|loop|kvm)/.test(line))).toEqual([]);
        expect(lines.slice(lines.indexOf('/dev/pts:') + 1)).toEqual(['ptmx', '4']);
      });

      it('gets no privileges that it does not have', async () => {
        const { lines } = await run('grep -E "NoNewPrivs|CapEff" /proc/self/status | tr -s "\\t" " "; id -u');
        expect(lines).toContain('NoNewPrivs: 1');
        const effective = BigInt(`0x${/CapEff: (\w+)/.exec(lines.join('\n'))?.[1]}`);
        // SYS_MODULE, SYS_RAWIO, SYS_PTRACE, SYS_ADMIN, MKNOD, DAC_READ_SEARCH
        for (const capability of [16n, 17n, 19n, 21n, 27n, 2n]) expect(effective & (1n << capability)).toBe(0n);
        if (asUser) expect(effective).toBe(0n);
        expect(lines.at(-1)).toBe(asUser ? '65534' : '0');
      });

      it('runs exec in the same namespaces, with the same privileges', async () => {
        const { driver, fixture, key, supervisor } = stage;
        const { sandbox, container } = await startPod(driver, fixture.dataDir, ['/bin/sh', '-c', 'sleep 1000; true']);
        const script =
          'cat "$1" "/proc/$2/environ" /proc/1/environ "/proc/1/root$1"; id -u; grep NoNewPrivs /proc/self/status; umount -l /tmp; cat "$1"; ls /proc | grep -c "^[0-9]"';
        const { stdout, exitCode } = await driver.execSync(container, ['/bin/sh', '-c', script, 'sh', key, String(supervisor)], 20);
        expect(`${stdout}`).not.toContain(secret);
        expect(`${stdout}`.split('\n').slice(0, 2)).toEqual([asUser ? '65534' : '0', 'NoNewPrivs:\t1']);
        expect(exitCode).toBe(0);
        const namespaces = ['mnt', 'pid', 'user'].map((kind) => `/proc/self/ns/${kind}`);
        const ofExec = await driver.execSync(container, ['readlink', ...namespaces], 20);
        const sleep =
          `${(await driver.execSync(container, ['sh', '-c', 'for p in /proc/[0-9]*; do grep -q sleep $p/comm && echo ${p#/proc/}; done'], 20)).stdout}`.trim();
        const ofCommand = await driver.execSync(container, ['readlink', ...namespaces.map((path) => path.replace('self', sleep))], 20);
        expect(`${ofExec.stdout}`).toBe(`${ofCommand.stdout}`);
        expect((await driver.execSync(container, ['sh', '-c', 'kill -9 $$'], 20)).exitCode).toBe(137);
        await driver.removePodSandbox(sandbox);
      });

      it('does not let a volume replace programs or libraries of the wrappers', async () => {
        const volume = await mkdtemp(join(stage.cluster, 'volumes', 'programs-'));
        await chmod(volume, 0o777);
        const places = ['/usr/bin', '/bin', '/usr', '/etc', '/lib', '/lib64', '/usr/lib', '/proc', '/sys', '/dev', stage.cluster, tmpdir()];
        const mounts = places.map((containerPath) => ({ containerPath, hostPath: volume }));
        const { lines, exitCode } = await run('cat /etc/passwd | head -n 1; test -e "$1" || echo hidden', [stage.key], { mounts });
        expect(exitCode).toBe(0);
        expect(lines).toEqual([expect.stringContaining('root:'), 'hidden']);
      });

      it('has volumes at paths that do not exist on the node, and creates nothing there', async () => {
        const volume = await mkdtemp(join(stage.cluster, 'volumes', 'new-'));
        await chmod(volume, 0o777);
        await writeFile(join(volume, 'file'), 'content\n', { mode: 0o644 });
        const directories = [
          '/oarlock-data',
          '/etc/oarlock-app/config',
          '/usr/share/oarlock/html',
          '/var/lib/oarlock-app',
          '/run/app/config',
        ];
        const files = ['/oarlock.conf', '/etc/oarlock-app/app.conf'];
        const script =
          'for d in "$@"; do cat "$d/file"; echo new > "$d/new" || echo read-only; done; cat /oarlock.conf /etc/oarlock-app/app.conf; head -n 1 /etc/passwd; for d in / /etc /usr/share; do touch "$d/own" 2>/dev/null && echo written; done; echo "root=[$OARLOCK_ROOT]"';
        const { lines } = await run(script, directories, {
          mounts: [
            ...directories.map((containerPath) => ({ containerPath, hostPath: volume, readonly: true })),
            ...files.map((containerPath) => ({ containerPath, hostPath: join(volume, 'file') })),
          ],
        });
        const output = lines.filter((line) => !line.includes('cannot create'));
        expect(output).toEqual([
          ...directories.flatMap(() => ['content', 'read-only']),
          'content',
          'content',
          expect.stringContaining('root:'),
          'root=[]',
        ]);
        for (const path of ['/oarlock-data', '/etc/oarlock-app', '/usr/share/oarlock', '/var/lib/oarlock-app', '/run/app', '/oarlock.conf'])
          expect(existsSync(path)).toBe(false);
      });

      it('has volumes inside of volumes', async () => {
        const outer = await mkdtemp(join(stage.cluster, 'volumes', 'outer-'));
        const inner = await mkdtemp(join(stage.cluster, 'volumes', 'inner-'));
        for (const path of [outer, inner]) await chmod(path, 0o777);
        await writeFile(join(inner, 'file'), 'inner\n', { mode: 0o644 });
        const mounts = [
          { containerPath: '/work space/a/file.conf', hostPath: join(inner, 'file'), readonly: true },
          { containerPath: '/work space/a/b', hostPath: inner, readonly: true },
          { containerPath: '/work space', hostPath: outer },
        ];
        const script =
          'cd "/work space" && echo mine > mine; cat a/b/file a/file.conf; for f in a/b/new a/file.conf; do echo x > $f || echo read-only; done';
        const { lines } = await run(script, [], { mounts });
        expect(lines.filter((line) => !line.includes('cannot create'))).toEqual(['inner', 'inner', 'read-only', 'read-only']);
        expect(await readFile(join(outer, 'mine'), 'utf8')).toBe('mine\n');
        expect(readdirSync(outer).sort()).toEqual(['a', 'mine']);
      });

      it('does not start if the mount point in a volume is a link or the volume is read-only', async () => {
        const { driver, fixture, cluster } = stage;
        const outer = await mkdtemp(join(cluster, 'volumes', 'linked-'));
        await chmod(outer, 0o777);
        await symlink(join(cluster, 'pki'), join(outer, 'sub'));
        const start = async (mounts: ContainerConfig['mounts']) => {
          const config = podConfig(fixture.dataDir);
          const sandbox = await driver.runPodSandbox(config, '');
          const container = await driver.createContainer(sandbox, containerConfig(['/bin/true'], { mounts }), config);
          const failure = await driver.startContainer(container).catch((error: unknown) => error);
          await driver.removePodSandbox(sandbox);
          return failure;
        };
        const volume = { containerPath: '/work', hostPath: outer };
        expect(await start([volume, { containerPath: '/work/sub/new', hostPath: outer }])).toMatchObject({
          message: expect.stringContaining('make mountpoint "/work/sub/new": not a directory'),
        });
        expect(
          await start([
            { ...volume, readonly: true },
            { containerPath: '/work/new', hostPath: outer },
          ]),
        ).toMatchObject({
          message: expect.stringContaining('make mountpoint "/work/new": read-only file system'),
        });
        expect(readdirSync(join(cluster, 'pki'))).toEqual(['ca.key']);
        expect(readdirSync(outer)).toEqual(['sub']);
      });

      it.skipIf(!isPrivileged)('has read-only volumes of file systems with flags that the kernel locks', async () => {
        const volume = await mkdtemp(join(stage.cluster, 'volumes', 'flags-'));
        const flags = 'nosuid,nodev,noexec';
        expect(spawnSync('mount', ['-t', 'tmpfs', '-o', `${flags},mode=0777`, 'tmpfs', volume]).status).toBe(0);
        try {
          await writeFile(join(volume, 'file'), 'content\n', { mode: 0o644 });
          const mounts = ['/oarlock-flags', '/oarlock-flags-2'].map((containerPath, index) => ({
            containerPath,
            hostPath: volume,
            readonly: index === 0,
          }));
          const { lines } = await run(
            'cat /oarlock-flags/file; touch /oarlock-flags/new || echo read-only; touch /oarlock-flags-2/new && echo written; grep " /oarlock-flags " /proc/self/mountinfo | cut -d " " -f 6',
            [],
            { mounts },
          );
          expect(lines.filter((line) => !line.includes('cannot touch'))).toEqual([
            'content',
            'read-only',
            'written',
            expect.stringMatching(/^ro,nosuid,nodev,noexec/),
          ]);
        } finally {
          spawnSync('umount', [volume]);
        }
      });

      it('has the host name of the pod', async () => {
        const before = hostname();
        const { lines } = await run('hostname; cat /proc/sys/kernel/hostname; cat /etc/hostname; echo "$HOSTNAME"');
        expect(lines).toEqual(Array.from({ length: existsSync('/etc/hostname') ? 4 : 3 }, () => expect.stringMatching(/^pod-\d+$/)));
        expect(hostname()).toBe(before);
      });

      it('keeps privileged wrappers from acting on variables of the container', async () => {
        const library = join(stage.cluster, 'volumes', 'evil.so');
        await writeFile(library, 'not a library', { mode: 0o755 });
        const { lines } = await run('echo "$LD_PRELOAD $LANG"', [], {
          envs: [
            { key: 'LD_PRELOAD', value: library },
            { key: 'LANG', value: 'evil' },
          ],
        });
        expect(lines).toContain(`${library} evil`);
      });

      it('reports exit codes, and passes signals to the command', async () => {
        const { driver, fixture } = stage;
        expect((await run('exit 7')).exitCode).toBe(7);
        expect((await run('kill -9 $$')).exitCode).toBe(137);
        const signals = [
          ['SIGTERM', 'TERM', 43],
          ['SIGHUP', 'HUP', 44],
          ['SIGUSR1', 'USR1', 45],
          ['SIGQUIT', 'QUIT', 46],
        ] as const;
        for (const [stopSignal, trap, code] of signals) {
          const script = `trap 'exit ${code}' ${trap}; echo ready; while :; do sleep 1000 & wait $!; done`;
          const { sandbox, container } = await startPod(driver, fixture.dataDir, ['/bin/sh', '-c', script], { stopSignal });
          const { logPath } = await driver.containerStatus(container);
          await expect.poll(() => readFile(logPath, 'utf8')).toContain('ready');
          await driver.stopContainer(container, 60);
          expect(await driver.containerStatus(container)).toMatchObject({ exitCode: code });
          await driver.removePodSandbox(sandbox);
        }
        const { sandbox, container } = await startPod(driver, fixture.dataDir, ['/bin/sleep', '1000']);
        await driver.stopContainer(container, 60); // not the first process of its namespace: SIGTERM ends it at once
        expect(await driver.containerStatus(container)).toMatchObject({ exitCode: 143 });
        await driver.removePodSandbox(sandbox);
      });

      it('ends with all of its processes', async () => {
        const { driver, fixture } = stage;
        const { sandbox, container } = await startPod(driver, fixture.dataDir, ['/bin/sh', '-c', 'setsid sleep 4242 & sleep 4242']);
        await driver.stopContainer(container, 0);
        const left = spawnSync('sh', ['-c', 'cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" " "'], { encoding: 'utf8' }).stdout;
        expect(left).not.toContain('sleep 4242');
        await driver.removePodSandbox(sandbox);
      });
    },
  );

describe('what is not enforced', () => {
  it('are limits without control groups, and profiles of security modules for pods that request them', async () => {
    const fixture = await openRuntime({ cgroups: false });
    try {
      const found = await fixture.driver.limitations?.();
      expect(found?.map(({ feature, onRequest = false }) => `${feature} ${onRequest}`)).toEqual([
        'resources false',
        'seccomp true',
        'apparmor true',
        'selinux true',
      ]);
    } finally {
      await fixture.dispose();
    }
  });
});

describe('isolation', () => {
  it('is reported as missing with its reason, and pods run nevertheless', async () => {
    const fixture = await openRuntime({ isolation: 'none', cgroups: false });
    const expected = { enforced: false, reason: 'the config of runtime-process has `isolation: none`' };
    try {
      expect(await fixture.driver.isolation()).toEqual(expected);
      const { container } = await startPod(fixture.driver, fixture.dataDir, ['/bin/true']);
      expect(await ended(fixture.driver, container)).toMatchObject({ exitCode: 0 });
      expect(await fixture.driver.isolation()).toEqual(expected);
      const [{ message } = { message: '' }] = await fixture.driver.status();
      expect(message).toContain(`containers run without isolation: ${expected.reason}`);
    } finally {
      await fixture.dispose();
    }
  });

  it('is reported with the place of the volumes if they cannot be mounted', async () => {
    const fixture = await openRuntime({ namespaces: false, cgroups: false });
    try {
      expect(await fixture.driver.isolation()).toEqual({
        enforced: false,
        reason: 'the config of runtime-process has `namespaces: false`; volumes are not mounted but linked below $OARLOCK_ROOT',
      });
    } finally {
      await fixture.dispose();
    }
  });

  it('fails the start if it is required and not possible', async () => {
    const config = { isolation: 'required', namespaces: false, cgroups: false } as const;
    await expect(openRuntime(config)).rejects.toMatchObject({
      code: 'FailedPrecondition',
      message: 'pods cannot be isolated, which `isolation: required` demands: the config of runtime-process has `namespaces: false`',
    });
  });
});
