import { thermalThrottlePaths } from '@oarlock/primitives/os/thermal-throttle';
import { describe, expect, it } from 'vitest';
import type { ContainerConfig } from '@oarlock/spi/runtime';
import { containerSpec, type SpecInput } from '../../src/spec/container-spec.ts';
import { containerConfig, namespaces, podConfig } from '../support/pod.ts';

const image = { entrypoint: ['/entry'], cmd: ['default'], env: ['PATH=/image', 'A=image', 'malformed'], user: '', workingDir: '/work' };
const id = 'a'.repeat(64);
const node: SpecInput['node'] = {
  capabilities: ['CHOWN', 'SYS_ADMIN'],
  cgroups: 2,
  apparmor: true,
  seccomp: true,
  architecture: 'x64',
  userNamespace: false,
  makesDevices: true,
  minOomScoreAdj: -1000,
};

function specOf(more: Partial<ContainerConfig> = {}, input: Partial<SpecInput> = {}) {
  const container = containerConfig('image', [], more);
  const base = { id, sandboxId: id, config: container } as SpecInput['record'];
  const sandbox = { id, config: podConfig('/logs') } as SpecInput['sandbox'];
  return containerSpec({
    record: base,
    sandbox,
    prepared: { root: { path: '/root' }, image, volumes: {} },
    user: { uid: 0, gid: 0, additionalGids: [0] },
    root: '/root',
    mounts: { shm: undefined, files: {}, volumes: {} },
    shared: {},
    node,
    ...input,
  });
}
const linux = (security: Partial<ContainerConfig['linux']['security']>, resources: ContainerConfig['linux']['resources'] = {}) => ({
  linux: { resources, security: { namespaces, ...security } },
});

describe('containerSpec', () => {
  it('combines the command of the pod with that of the image', () => {
    expect(specOf().process.args).toEqual(['/entry', 'default']);
    expect(specOf({ args: ['x'] }).process.args).toEqual(['/entry', 'x']);
    expect(specOf({ command: ['sh'] }).process.args).toEqual(['sh']);
    expect(specOf({ command: ['sh'], args: ['x'] }).process.args).toEqual(['sh', 'x']);
    const prepared = { root: { path: '/root' }, image: { ...image, entrypoint: [], cmd: [] }, volumes: {} };
    expect(() => specOf({}, { prepared })).toThrow('no command specified');
  });

  it('gives variables of the pod precedence over those of the image and the defaults', () => {
    const { env } = specOf({ envs: [{ key: 'A', value: 'pod=1' }], tty: true }).process;
    expect(env).toEqual(['PATH=/image', 'HOSTNAME=pod', 'TERM=xterm', 'A=pod=1']);
  });

  it('uses the working directory of the pod, else that of the image', () => {
    expect(specOf().process.cwd).toBe('/work');
    expect(specOf({ workingDir: '/own' }).process.cwd).toBe('/own');
  });

  it('masks paths of the kernel unless the container is privileged or the pod specifies them', () => {
    expect(specOf().linux.maskedPaths).toEqual(expect.arrayContaining(['/proc/kcore', '/proc/interrupts', ...thermalThrottlePaths()]));
    expect(specOf().linux.readonlyPaths).toContain('/proc/sys');
    expect(specOf(linux({ maskedPaths: [], readonlyPaths: [] })).linux).toMatchObject({ maskedPaths: [], readonlyPaths: [] });
    expect(specOf(linux({ privileged: true })).linux).toMatchObject({ maskedPaths: [], readonlyPaths: [] });
  });

  it('restricts what a container may do unless it is privileged', () => {
    const profiles = { seccomp: { type: 'RuntimeDefault' }, apparmor: { type: 'Localhost', localhostRef: 'profile' } } as const;
    const restricted = specOf(linux({ ...profiles, noNewPrivs: true, readonlyRootfs: true }));
    expect(restricted.process).toMatchObject({
      noNewPrivileges: true,
      apparmorProfile: 'profile',
      capabilities: { bounding: ['CAP_CHOWN'] },
    });
    expect(restricted.root.readonly).toBe(true);
    expect(restricted.linux.seccomp?.defaultAction).toBe('SCMP_ACT_ERRNO');
    const privileged = specOf(linux({ ...profiles, noNewPrivs: true, privileged: true }));
    expect(privileged.process).toMatchObject({ noNewPrivileges: false, capabilities: { bounding: ['CAP_CHOWN', 'CAP_SYS_ADMIN'] } });
    expect(privileged.process.apparmorProfile).toBeUndefined();
    expect(privileged.linux.seccomp).toBeUndefined();
  });

  it('rejects a seccomp profile that cannot be read', () => {
    const seccomp = { type: 'Localhost', localhostRef: '/absent.json' } as const;
    expect(() => specOf(linux({ seccomp }))).toThrow('cannot load seccomp profile "/absent.json"');
  });

  it('joins namespaces of the pod and makes none that the pod shares with the node', () => {
    expect(specOf({}, { shared: { ipc: '/pod/ipc' } }).linux.namespaces).toContainEqual({ type: 'ipc', path: '/pod/ipc' });
    const ofNode = specOf(linux({ namespaces: { network: 'NODE', pid: 'NODE', ipc: 'NODE' } }));
    expect(ofNode.linux.namespaces.map(({ type }) => type)).toEqual(['mount', 'cgroup']);
    expect(ofNode.hostname).toBeUndefined();
  });

  it('writes only limits that are set', () => {
    const { resources } = specOf(linux({}, { memoryLimitBytes: 1000, cpuShares: 0, cpuQuota: -1, cpuPeriod: 100_000 })).linux;
    expect(resources).toMatchObject({ memory: { limit: 1000 }, cpu: { quota: -1, period: 100_000 } });
    expect(resources.cpu?.shares).toBeUndefined();
    expect(specOf().linux.resources).toEqual({ devices: [{ allow: false, access: 'rwm' }] });
  });

  it('writes the weight of CPU shares itself, as updates of the container do', () => {
    const weightOf = (cgroups: 1 | 2) => specOf(linux({}, { cpuShares: 102 }), { node: { ...node, cgroups } }).linux.resources.unified;
    expect([weightOf(1), weightOf(2)]).toEqual([undefined, { 'cpu.weight': '17' }]);
    const unified = { 'memory.high': '1000' };
    expect(specOf(linux({}, { cpuShares: 1024, unified })).linux.resources.unified).toEqual({ 'cpu.weight': '100', ...unified });
  });

  it('writes no limits without control groups, because OCI runtimes reject them', () => {
    const { resources } = specOf(linux({}, { memoryLimitBytes: 1000, cpuQuota: 1000 }), { node: { ...node, cgroups: undefined } }).linux;
    expect(resources).toEqual({ devices: [{ allow: false, access: 'rwm' }] });
  });

  it('gives no oom_score_adj that the kernel would deny, because OCI runtimes fail then', () => {
    const scoreOf = (oomScoreAdj: number, minOomScoreAdj: number) =>
      specOf(linux({}, { oomScoreAdj }), { node: { ...node, minOomScoreAdj } }).process.oomScoreAdj;
    expect([scoreOf(-997, -1000), scoreOf(-997, 0), scoreOf(900, 0)]).toEqual([-997, 0, 900]);
  });

  it('mounts devices, and the processes of the node, where it can make neither', () => {
    const more = {
      ...linux({ namespaces: { ...namespaces, pid: 'NODE' } }),
      devices: [{ hostPath: '/dev/zero', containerPath: '/dev/extra', permissions: 'rw' }],
    };
    const ofRoot = specOf(more);
    expect(ofRoot.linux.devices).toMatchObject([{ path: '/dev/extra', type: 'c', major: 1, minor: 5 }]);
    expect(ofRoot.mounts).toContainEqual(expect.objectContaining({ destination: '/proc', type: 'proc' }));
    const ofUser = specOf(more, { node: { ...node, makesDevices: false, userNamespace: true } });
    expect(ofUser.linux.devices).toEqual([]);
    expect(ofUser.mounts).toContainEqual(expect.objectContaining({ destination: '/dev/extra', type: 'bind', source: '/dev/zero' }));
    expect(ofUser.mounts).toContainEqual(expect.objectContaining({ destination: '/proc', type: 'bind', source: '/proc' }));
  });
});
