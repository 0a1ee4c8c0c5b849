import { existsSync } from 'node:fs';
import { mkdtemp, mkdir, readFile, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  checkExecutable,
  credentialsOf,
  environmentOf,
  linkMounts,
  writeContainerFiles,
  writeKubeconfig,
} from '../../src/containers/internal/container-environment.ts';
import { isHostImage } from '@oarlock/spi/runtime';
import { buildLaunch, type ProcessSpec } from '../../src/containers/internal/process-launch.ts';
import type { Tools } from '@oarlock/process-supervisor/host/host-tools';
import { containerConfig, podConfig, security } from '../support/pod.ts';

let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'process-units-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const bare: Tools = {
  root: false,
  shell: '/bin/sh',
  env: '/usr/bin/env',
  mkfifo: undefined,
  mount: '/bin/mount',
  umount: '/bin/umount',
  pivotRoot: '/sbin/pivot_root',
  hostname: '/bin/hostname',
  nsenter: '/bin/nsenter',
  unshare: '/bin/unshare',
  setpriv: '/bin/setpriv',
  setsid: '/bin/setsid',
  stat: '/bin/stat',
  script: '/bin/script',
  stty: '/bin/stty',
  namespaces: false,
};
const wish: ProcessSpec = {
  command: ['/app', '-v', '$(reboot)'],
  environment: { A: '1' },
  directory: '/srv',
  tty: false,
  credentials: { groups: [], noNewPrivileges: false },
  cgroups: [],
};

describe('buildLaunch', () => {
  it('runs the command directly if no wrapper is needed', () => {
    expect(buildLaunch(wish, bare)).toEqual({
      file: '/app',
      args: ['-v', '$(reboot)'],
      environment: { A: '1' },
      directory: '/srv',
      reports: false,
      depth: 0,
      tty: false,
      owner: {},
    });
    expect(
      buildLaunch({ ...wish, credentials: { uid: 7, gid: 8, groups: [], noNewPrivileges: false } }, { ...bare, root: true }),
    ).toMatchObject({ file: '/app', uid: 7, gid: 8 });
  });
  it('switches the user last, and hides dangerous variables from the wrappers', () => {
    const launch = buildLaunch(
      {
        ...wish,
        environment: { A: '1', LD_PRELOAD: '/evil.so', BASH_ENV: '/evil' },
        netns: '/run/netns/x',
        cgroups: ['/cg/procs'],
        credentials: { uid: 7, gid: 8, groups: [9, 10], noNewPrivileges: true, capabilities: { add: ['NET_BIND_SERVICE'], drop: ['ALL'] } },
        own: {
          hostname: 'pod',
          view: {
            newRoot: '/new',
            fstab: '/fstab',
            nested: [{ source: '/vol', target: '/new/data/a b', options: 'rbind,ro', escapedTarget: '/new/data/a\\040b' }],
            checks: [{ path: '/new/data', file: '1:2' }],
          },
        },
      },
      { ...bare, root: true, namespaces: true },
    );
    expect(launch.environment).toEqual({ A: '1' });
    expect(launch).toMatchObject({ file: '/bin/nsenter', directory: '/', reports: true });
    expect(launch.uid).toBeUndefined();
    expect(launch.owner).toEqual({ uid: 7, gid: 8 });
    const { args } = launch;
    expect(args.slice(0, 2)).toEqual(['--net=/run/netns/x', '--']);
    expect(args.slice(args.indexOf('oarlock'))).toEqual([
      'oarlock',
      '',
      '/bin/mount',
      '/bin/umount',
      '/sbin/pivot_root',
      '/bin/stat',
      'pod',
      '1',
      '/cg/procs',
      '/new',
      '/fstab',
      '1',
      '/vol',
      '/new/data/a b',
      'rbind,ro',
      '/new/data/a\\040b',
      '1',
      '/new/data',
      '1:2',
      '/srv',
      '/bin/setpriv',
      '--reuid',
      '7',
      '--regid',
      '8',
      '--groups',
      '9,10',
      '--bounding-set',
      '-all,+net_bind_service',
      '--inh-caps',
      '-all,+net_bind_service',
      '--no-new-privs',
      '--',
      '/usr/bin/env',
      'LD_PRELOAD=/evil.so',
      'BASH_ENV=/evil',
      '/app',
      '-v',
      '$(reboot)',
    ]);
  });
  it('reports missing programs', () => {
    expect(() => buildLaunch({ ...wish, tty: true }, { ...bare, script: undefined })).toThrow(
      expect.objectContaining({ code: 'Unsupported' }),
    );
    expect(() =>
      buildLaunch({ ...wish, netns: '/x', credentials: { uid: 1, groups: [], noNewPrivileges: false } }, { ...bare, setpriv: undefined }),
    ).toThrow(expect.objectContaining({ code: 'FailedPrecondition' }));
  });
});

describe('container environment', () => {
  it('is clean and locates the volumes', async () => {
    await mkdir(join(directory, 'vol'));
    const config = containerConfig(['x'], {
      envs: [
        { key: 'PATH', value: '/only' },
        { key: 'A', value: 'b=c' },
      ],
      mounts: [
        { containerPath: '/etc/conf', hostPath: join(directory, 'vol') },
        { containerPath: '/etc/conf/below', hostPath: directory },
        { containerPath: '/../../up', hostPath: directory },
      ],
    });
    const root = linkMounts(config, join(directory, 'own'));
    expect(await readlink(join(root, 'etc/conf'))).toBe(join(directory, 'vol'));
    expect(await readlink(join(root, 'up'))).toBe(directory);
    expect(existsSync(join(directory, 'vol/below'))).toBe(false);
    const environment = environmentOf(
      'c1',
      { config, sandbox: podConfig('/x', { hostname: 'web-0' }) },
      { path: '/default', root, home: '/home/me' },
    );
    expect(environment).toEqual({
      PATH: '/only',
      HOME: '/home/me',
      HOSTNAME: 'web-0',
      A: 'b=c',
      OARLOCK_ROOT: root,
      OARLOCK_MOUNT_0: `/etc/conf:${join(directory, 'vol')}`,
      OARLOCK_MOUNT_1: `/etc/conf/below:${directory}`,
      OARLOCK_MOUNT_2: `/../../up:${directory}`,
      OARLOCK_CONTAINER: 'c1',
    });
  });
  it('has the resolver and the host name of the pod', async () => {
    const pod = podConfig('/x', {
      hostname: 'web-0',
      dns: { servers: ['10.96.0.10'], searches: ['svc.cluster.local'], options: ['ndots:5'] },
    });
    const files = writeContainerFiles(pod, directory);
    expect(Object.keys(files).sort()).toEqual(['/etc/hostname', '/etc/resolv.conf']);
    expect(await readFile(files['/etc/hostname'] ?? '', 'utf8')).toBe('web-0\n');
    expect(await readFile(files['/etc/resolv.conf'] ?? '', 'utf8')).toBe(
      'search svc.cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n',
    );
    expect(Object.keys(writeContainerFiles(podConfig('/x'), directory))).toEqual(['/etc/hostname']);
  });
  it('has a kubeconfig if the service account token cannot be mounted', async () => {
    const volume = join(directory, 'token-volume');
    const mounts = [{ containerPath: '/var/run/secrets/kubernetes.io/serviceaccount', hostPath: volume }];
    const envs = [
      { key: 'KUBERNETES_SERVICE_HOST', value: 'fd00::1' },
      { key: 'KUBERNETES_SERVICE_PORT', value: '443' },
    ];
    const config = containerConfig(['x'], { mounts, envs });
    const pod = podConfig('/x');
    const kubeconfig = writeKubeconfig(config, pod, directory) ?? '';
    const loaded = new KubeConfig();
    loaded.loadFromFile(kubeconfig);
    expect(loaded.getCurrentCluster()).toMatchObject({ server: 'https://[fd00::1]:443', caFile: join(volume, 'ca.crt') });
    expect(JSON.parse(await readFile(kubeconfig, 'utf8'))).toMatchObject({ users: [{ user: { tokenFile: join(volume, 'token') } }] });
    expect(loaded.getContextObject('in-cluster')?.namespace).toBe('test');
    const options = { path: '/bin', root: '', home: '/', kubeconfig };
    expect(environmentOf('c1', { config, sandbox: pod }, options)).toMatchObject({ KUBECONFIG: kubeconfig });
    const own = containerConfig(['x'], { mounts, envs: [...envs, { key: 'KUBECONFIG', value: '/mine' }] });
    expect(environmentOf('c1', { config: own, sandbox: pod }, options)).toMatchObject({ KUBECONFIG: '/mine' });
    expect(writeKubeconfig(containerConfig(['x'], { envs }), pod, directory)).toBeUndefined();
    expect(writeKubeconfig(containerConfig(['x'], { mounts }), pod, directory)).toBeUndefined();
  });
  it('rejects a user that the supervisor cannot switch to', () => {
    const me = process.getuid?.() ?? 0;
    expect(credentialsOf(containerConfig(['x'], security({ runAsUser: me })), { root: false })).toMatchObject({ groups: [] });
    expect(() => credentialsOf(containerConfig(['x'], security({ runAsUser: me + 1 })), { root: false })).toThrow(
      expect.objectContaining({ code: 'FailedPrecondition' }),
    );
    expect(() => credentialsOf(containerConfig(['x'], security({ runAsUsername: 'no-such-user' })), { root: true })).toThrow(
      expect.objectContaining({ code: 'InvalidArgument' }),
    );
    expect(
      credentialsOf(containerConfig(['x'], security({ runAsUsername: 'root', supplementalGroups: [5] })), { root: true }),
    ).toMatchObject({ groups: me === 0 ? [5] : [5] });
  });
  it('reports why a command cannot run, with the messages of common runtimes', () => {
    const about = (program: string) => checkExecutable(program, { path: '/bin:/usr/bin', directory: '/', mounts: [] });
    expect([about('sh'), about('/bin/sh'), about('./bin/sh')]).toEqual([undefined, undefined, undefined]);
    expect(about('nothing-like-it')).toBe('exec: "nothing-like-it": executable file not found in $PATH');
    expect(about('/no/such')).toBe('exec: "/no/such": stat /no/such: no such file or directory');
    expect(about('/etc/passwd')).toBe('exec: "/etc/passwd": permission denied');
    expect(about('/tmp')).toContain('is a directory');
  });
});

it('isHostImage accepts the names that defaulting produces, and no other', () => {
  expect(['host', 'host:latest', 'docker.io/library/host:latest', 'docker.io/host'].every(isHostImage)).toBe(true);
  expect(['host:1', 'hosts', 'example.com/host', 'nginx', ''].some(isHostImage)).toBe(false);
});
