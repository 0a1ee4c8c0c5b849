import { execFile } from 'node:child_process';
import { existsSync, readlinkSync } from 'node:fs';
import { chmod, chown, mkdir, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Limitation } from '@oarlock/spi/runtime';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { modeFacts, namespaceTypes, type NamespaceType } from '../../src/modes/mode-facts.ts';
import { podSettings, type Enforcement, type ModeName } from '../../src/modes/pod-settings.ts';
import { probePod, type ProbeRequest } from '../support/container-probe.ts';
import {
  loopbackNetwork,
  missingForMappedUsers,
  missingForRoot,
  missingForRunc,
  missingForUser,
  openRuntime,
  runcMode,
} from '../support/fixture.ts';
import type { OciFixture } from '../support/fixture.ts';

const run = promisify(execFile);
type Kind = Enforcement['kind'];
type Check = (fixture: OciFixture) => Promise<Kind>;

const nodeNamespaces = { network: 'NODE', pid: 'NODE', ipc: 'NODE' } as const;
const sharedProcesses = { network: 'NODE', pid: 'POD', ipc: 'POD' } as const;
const mib = 1024 * 1024;

/** Runs one container, and returns what it has; its error is a failure of the test. */
async function seen(fixture: OciFixture, request: ProbeRequest): Promise<Readonly<Record<string, string>>> {
  const result = await probePod(fixture, request);
  if ('error' in result) throw new Error(result.error);
  return result.seen[0] ?? {};
}
const enforcedIf = (held: boolean): Kind => (held ? 'enforced' : 'limited');

/** Remembers what a probe of a fixture returned. */
function once(probe: (fixture: OciFixture) => Promise<Readonly<Record<string, string>>>): typeof probe {
  const known = new WeakMap<OciFixture, ReturnType<typeof probe>>();
  return (fixture) => {
    const found = known.get(fixture) ?? probe(fixture);
    known.set(fixture, found);
    return found;
  };
}
/** A container whose pod requests nothing. */
const plain = once((fixture) => seen(fixture, {}));
/** A container whose pod requests all restrictions. */
const restricted = once((fixture) =>
  seen(fixture, {
    security: {
      readonlyRootfs: true,
      noNewPrivs: true,
      seccomp: { type: 'RuntimeDefault' },
      apparmor: { type: 'RuntimeDefault' },
      selinux: { level: 's0:c1,c2' },
      capabilities: { add: ['NET_BIND_SERVICE'], drop: ['ALL'] },
    },
    resources: { memoryLimitBytes: 64 * mib, cpusetCpus: '0' },
    container: { devices: [{ hostPath: '/dev/zero', containerPath: '/dev/extra', permissions: 'rw' }] },
  }),
);

/** Makes a directory for a mount of containers. */
async function directoryFor(fixture: OciFixture, name: string, { gid, mode }: { readonly gid: number; readonly mode: number }) {
  const path = join(fixture.dataDir, name);
  await mkdir(path);
  await chown(path, fixture.root, gid);
  await chmod(path, mode);
  return path;
}

async function ownersDiffer(fixture: OciFixture): Promise<Kind> {
  const path = await directoryFor(fixture, 'owners', { gid: fixture.root, mode: 0o777 });
  const container = { mounts: [{ hostPath: path, containerPath: '/own' }] };
  for (const runAsUser of [1000, 2000]) expect((await seen(fixture, { security: { runAsUser }, container })).uid).toBe(String(runAsUser));
  const owners = await Promise.all((await readdir(path)).map(async (name) => (await stat(join(path, name))).uid));
  expect(owners).toHaveLength(2);
  return enforcedIf(owners[0] !== owners[1]);
}

/** A container in a group of the pod, which may write to a directory of the group. */
const groupMember = once(async (fixture) => {
  const path = await directoryFor(fixture, 'group', { gid: fixture.root + 2000, mode: 0o070 });
  const container = { mounts: [{ hostPath: path, containerPath: '/own' }] };
  return seen(fixture, { security: { runAsUser: 1000, supplementalGroups: [2000] }, container });
});

async function capabilities(fixture: OciFixture): Promise<Kind> {
  expect(BigInt(`0x${(await restricted(fixture)).bounding}`)).toBe(1n << 10n);
  return enforcedIf((await plain(fixture)).mknod === 'yes');
}

async function privileged(fixture: OciFixture): Promise<Kind> {
  const result = await seen(fixture, { security: { privileged: true } });
  expect(result).toMatchObject({ firmware: expect.not.stringMatching(/^0$/), seccomp: '0' });
  // a setting of the whole machine
  return enforcedIf(result.kernel === 'writable');
}

async function sysctls(fixture: OciFixture): Promise<Kind> {
  const result = await probePod(fixture, { pod: { sysctls: { 'kernel.shm_rmid_forced': '1' } } });
  if (!('error' in result)) return enforcedIf(result.seen[0]?.shm_rmid_forced === '1');
  if (!fixture.driver.traits.networkNamespaces) return 'rejected';
  const pod = { sysctls: { 'net.ipv4.ip_forward': '1' } };
  const namespaces = { network: 'POD', pid: 'CONTAINER', ipc: 'POD' } as const;
  return enforcedIf((await seen(fixture, { pod, security: { namespaces } })).forwarding === '1');
}

async function nodeIsVisible(fixture: OciFixture): Promise<Kind> {
  const { node, ipc } = await seen(fixture, { security: { namespaces: nodeNamespaces } });
  expect((await plain(fixture)).node).toBe('');
  expect(ipc).toBe(readlinkSync('/proc/self/ns/ipc'));
  return enforcedIf(node !== '' && node !== undefined);
}

const sharesNamespace =
  (type: 'ipc' | 'pid', namespaces: ProbeRequest['security']): Check =>
  async (fixture) => {
    const result = await probePod(fixture, { containers: 2, ...(namespaces && { security: namespaces }) });
    if ('error' in result) return 'rejected';
    const [first, second] = result.seen;
    return enforcedIf(first?.[type] === second?.[type]);
  };

async function propagates(fixture: OciFixture): Promise<Kind> {
  const path = await directoryFor(fixture, 'propagated', { gid: fixture.root, mode: 0o755 });
  const onNode = async (...command: readonly string[]) => {
    const [file = '', ...args] = [...fixture.enter, ...command];
    return (await run(file, args)).stdout;
  };
  await onNode('mount', '--bind', path, path);
  await onNode('mount', '--make-shared', path);
  try {
    const mounts = [{ hostPath: path, containerPath: '/shared', propagation: 'BIDIRECTIONAL' }] as const;
    const result = await probePod(fixture, { security: { privileged: true }, container: { mounts } });
    if ('error' in result) return 'rejected';
    expect(result.seen[0]?.mounted).toBe('yes');
    const mountPoints = (await onNode('cat', '/proc/self/mountinfo')).split('\n').map((line) => line.split(' ')[4]);
    return enforcedIf(mountPoints.filter((point) => point === path).length === 2);
  } finally {
    // there may be two mounts
    await onNode('sh', '-c', `while umount ${path} 2>/dev/null; do :; done`);
  }
}

/** What containers show, in the order of the table. */
const checks: Readonly<Record<string, Check>> = {
  '`runAsUser`, `runAsGroup`': ownersDiffer,
  // the kubelet takes an image without a user for one that runs as root
  '`runAsNonRoot`': async (fixture) => {
    const { uid, username } = (await fixture.driver.imageStatus(fixture.image)) ?? { uid: 0 };
    return enforcedIf(uid === undefined && username === undefined && (await plain(fixture)).uid === '0');
  },
  '`fsGroup`': async (fixture) => enforcedIf((await groupMember(fixture)).own === 'written'),
  '`supplementalGroups`, `supplementalGroupsPolicy`': async (fixture) =>
    enforcedIf((await groupMember(fixture)).groups?.split(' ').includes('2000') === true),
  '`capabilities`': capabilities,
  '`privileged`': privileged,
  '`readOnlyRootFilesystem`': async (fixture) => {
    expect((await plain(fixture)).root).toBe('writable');
    return enforcedIf((await restricted(fixture)).root === 'readonly');
  },
  '`allowPrivilegeEscalation: false`': async (fixture) => enforcedIf((await restricted(fixture)).nnp === '1'),
  '`seccompProfile`': async (fixture) => enforcedIf((await restricted(fixture)).seccomp === '2'),
  '`appArmorProfile`': async (fixture) => enforcedIf(/enforce/.test((await restricted(fixture)).label ?? '')),
  '`seLinuxOptions`': async (fixture) => enforcedIf(/c1,c2/.test((await restricted(fixture)).label ?? '')),
  '`hostUsers: false`, `procMount: Unmasked`': async ({ driver }) =>
    (await driver.features()).handlers.some(({ userNamespaces }) => userNamespaces) ? 'enforced' : 'rejected',
  'masked and read-only paths of `/proc` and `/sys`': async (fixture) => {
    const { firmware, kernel } = await plain(fixture);
    return enforcedIf(firmware === '0' && kernel === 'readonly');
  },
  '`sysctls`': sysctls,
  'limits of memory and CPU': async (fixture) => enforcedIf((await restricted(fixture)).memory === String(64 * mib)),
  'limits of huge pages, exclusive CPUs': async (fixture) => enforcedIf((await restricted(fixture)).cpus === '0'),
  '`hostPID`, `hostIPC`, `hostNetwork`': nodeIsVisible,
  'one IPC namespace for a pod': sharesNamespace('ipc', undefined),
  '`shareProcessNamespace`, ephemeral containers with a target': sharesNamespace('pid', { namespaces: sharedProcesses }),
  'devices of device plugins': async (fixture) => {
    const { extra, fuse } = await restricted(fixture);
    return enforcedIf(extra === '1' && fuse === 'no');
  },
  '`mountPropagation: Bidirectional`': propagates,
};

const unshare = (user: 'root' | 'user') => ({ program: 'unshare', user }) as const;
const modes: readonly { readonly mode: ModeName; readonly missing: string | undefined; open(): Promise<OciFixture> }[] = [
  { mode: 'root with runc', missing: missingForRunc(), open: () => openRuntime(runcMode(), { network: loopbackNetwork() }) },
  { mode: 'root without', missing: missingForRoot(), open: () => openRuntime(unshare('root'), { network: loopbackNetwork() }) },
  {
    mode: 'user with newuidmap',
    missing: missingForMappedUsers(),
    open: () => openRuntime({ ...runcMode(), mapped: true }, { mapped: true }),
  },
  { mode: 'user without', missing: missingForUser(), open: () => openRuntime(unshare('user')) },
];

/** Names of namespaces in /proc. */
const links: Readonly<Record<NamespaceType, string>> = {
  user: 'user',
  mount: 'mnt',
  PID: 'pid',
  IPC: 'ipc',
  UTS: 'uts',
  network: 'net',
  cgroup: 'cgroup',
};

describe.each(modes)('settings of pods in the mode $mode', ({ mode, missing, open }) => {
  describe.skipIf(missing !== undefined)(`containers${missing === undefined ? '' : ` (${missing})`}`, () => {
    let fixture: OciFixture;
    let limitations: readonly Limitation[];
    beforeAll(async () => {
      fixture = await open();
      limitations = await fixture.driver.limitations();
    });
    afterAll(() => fixture.dispose());

    it('containers have the namespaces of the mode', async () => {
      const { driver, supervisor } = fixture;
      const { networkNamespaces } = driver.traits;
      // on the network of the node, a pod has the host name of the node
      const network = networkNamespaces ? 'POD' : 'NODE';
      const found = await seen(fixture, { security: { namespaces: { network, pid: 'CONTAINER', ipc: 'POD' } } });
      const own = namespaceTypes.filter((type) => found[links[type]] !== readlinkSync(`/proc/${supervisor()}/ns/${links[type]}`));
      const absent = [
        ...(networkNamespaces ? [] : ['network', 'UTS']),
        ...(existsSync('/sys/fs/cgroup/cgroup.controllers') ? [] : ['cgroup']),
      ];
      const { namespaces: stated, inUserNamespace } = modeFacts[mode];
      expect(own).toEqual(namespaceTypes.filter((type) => stated.includes(type) && !absent.includes(type)));
      expect(readlinkSync(`/proc/${supervisor()}/ns/user`) !== readlinkSync('/proc/self/ns/user')).toBe(inUserNamespace);
    });

    it.each(podSettings)('$fields', async ({ fields, modes: entries }) => {
      const check = checks[fields];
      if (!check) throw new Error(`the row ${fields} has no test`);
      const stated = entries[mode];
      // a machine may lack control groups
      const resources = fields.startsWith('limits') && limitations.some(({ feature }) => feature === 'resources');
      expect(await check(fixture)).toBe(resources ? 'limited' : stated.kind);
      // what is not enforced is reported
      if (stated.kind === 'limited') expect(limitations.map(({ feature }) => feature)).toContain(stated.limitation.feature);
    });
  });
});
