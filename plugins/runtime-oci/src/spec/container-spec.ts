import { readFileSync } from 'node:fs';
import { cpuWeight } from '@oarlock/api/component-helpers/cpu-weight';
import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import { cgroupPath } from '@oarlock/process-supervisor/containers/containers';
import type { SandboxContainer } from '@oarlock/process-supervisor/containers/container-launcher';
import { thermalThrottlePaths } from '@oarlock/primitives/os/thermal-throttle';
import type { LinuxResources, SecurityProfile } from '@oarlock/spi/runtime';
import { commandLine, type PreparedContainer } from './prepared-container.ts';
import { capabilitySets, containerCapabilities } from './capabilities.ts';
import { containerDevices } from './devices.ts';
import { containerMounts, rootPropagation, type MountSources } from './mounts.ts';
import type { RuntimeSpec, SpecDeviceRule, SpecNamespace, SpecResources, SpecSeccomp, SpecUser } from './runtime-spec.ts';
import { defaultSeccomp } from './seccomp.ts';

export interface SpecInput extends SandboxContainer {
  readonly prepared: PreparedContainer;
  readonly user: SpecUser;
  /** The root directory of the container. */
  readonly root: string;
  readonly mounts: Omit<MountSources, 'privileged' | 'ofNode' | 'devices'>;
  /** Namespaces of the pod that exist already, by type. */
  readonly shared: Readonly<Partial<Record<'ipc' | 'pid', string>>>;
  readonly node: NodeFeatures;
}
/** What the machine offers to containers. */
export interface NodeFeatures {
  /** Capabilities that this process can give. */
  readonly capabilities: readonly string[];
  readonly cgroups: 1 | 2 | undefined;
  readonly apparmor: boolean;
  readonly seccomp: boolean;
  /** True if containers are in a user namespace, that of Oarlock or their own. The kernel does not let them mount the processes of the node anew. */
  readonly userNamespace: boolean;
  /** False if devices of the node are mounted, because they cannot be made. */
  readonly makesDevices: boolean;
  /** The least value of oom_score_adj that this process can give to others. */
  readonly minOomScoreAdj: number;
  /** `process.arch` */
  readonly architecture: string;
}

const defaultPath = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const defaultMaskedPaths = [
  ...[
    '/proc/acpi',
    '/proc/asound',
    '/proc/interrupts',
    '/proc/kcore',
    '/proc/keys',
    '/proc/latency_stats',
    '/proc/timer_list',
    '/proc/timer_stats',
  ],
  ...['/proc/sched_debug', '/proc/scsi', '/sys/firmware', '/sys/devices/virtual/powercap'],
];
const defaultReadonlyPaths = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'];

/** Returns the OCI runtime configuration of a container. @throws SupervisorError if the container cannot be run */
export function containerSpec(input: SpecInput): RuntimeSpec {
  const { record, sandbox, prepared, user, node } = input;
  const { config } = record;
  const { security, resources } = config.linux;
  const privileged = security.privileged === true;
  const args = commandLine(config, prepared.image);
  if (args.length === 0) throw new SupervisorError('InvalidArgument', 'no command specified');
  const capabilities = containerCapabilities({ ...security.capabilities, privileged }, node.capabilities);
  const found = containerDevices(config.devices ?? [], privileged);
  const seccomp = privileged || !node.seccomp ? undefined : seccompOf(security.seccomp, capabilities, node.architecture);
  const propagation = rootPropagation(config.mounts);
  const { oomScoreAdj } = resources;
  const apparmor = privileged || !node.apparmor ? undefined : security.apparmor;
  return {
    ociVersion: '1.0.2',
    process: {
      terminal: config.tty,
      user,
      args,
      env: environment(input),
      cwd: config.workingDir !== undefined && config.workingDir !== '' ? config.workingDir : prepared.image.workingDir || '/',
      capabilities: capabilitySets(capabilities),
      noNewPrivileges: security.noNewPrivs === true && !privileged,
      // an OCI runtime fails if the kernel denies the value
      ...(oomScoreAdj !== undefined && { oomScoreAdj: Math.max(oomScoreAdj, node.minOomScoreAdj) }),
      ...(apparmor?.type === 'Localhost' && apparmor.localhostRef !== undefined && { apparmorProfile: apparmor.localhostRef }),
    },
    root: { path: input.root, readonly: security.readonlyRootfs === true },
    ...(security.namespaces.network !== 'NODE' && { hostname: sandbox.config.hostname }),
    mounts: containerMounts(config, {
      ...input.mounts,
      privileged,
      ofNode: {
        processes: security.namespaces.pid === 'NODE' && node.userNamespace,
        messageQueues: security.namespaces.ipc === 'NODE' && node.userNamespace,
      },
      devices: node.makesDevices ? [] : found.sources,
    }),
    linux: {
      ...(node.cgroups !== undefined && { cgroupsPath: `/${cgroupPath(input)}` }),
      namespaces: namespaces(input),
      devices: node.makesDevices ? found.devices : [],
      resources: resourcesOf(resources, found.rules, node),
      sysctl: sandbox.config.linux.sysctls ?? {},
      maskedPaths: privileged ? [] : (security.maskedPaths ?? [...defaultMaskedPaths, ...thermalThrottlePaths()]),
      readonlyPaths: privileged ? [] : (security.readonlyPaths ?? defaultReadonlyPaths),
      ...(propagation !== undefined && { rootfsPropagation: propagation }),
      ...(seccomp && { seccomp }),
    },
  };
}

function namespaces({ record, sandbox, shared, node }: SpecInput): readonly SpecNamespace[] {
  const { namespaces: wanted } = record.config.linux.security;
  return [
    { type: 'mount' },
    ...(sandbox.netns !== undefined ? [{ type: 'network', path: sandbox.netns } as const] : []),
    // a pod on the network of the node has the host name of the node
    ...(wanted.network === 'NODE' ? [] : [{ type: 'uts' } as const]),
    ...(wanted.ipc === 'NODE' ? [] : [{ type: 'ipc', ...(shared.ipc !== undefined && { path: shared.ipc }) } as const]),
    ...(wanted.pid === 'NODE' ? [] : [{ type: 'pid', ...(shared.pid !== undefined && { path: shared.pid }) } as const]),
    ...(node.cgroups === 2 ? [{ type: 'cgroup' } as const] : []),
  ];
}

function environment({ record: { config }, sandbox, prepared }: SpecInput): readonly string[] {
  const variables = new Map<string, string>();
  const set = (variable: string) => variables.set(variable.split('=')[0] ?? '', variable);
  set(defaultPath);
  set(`HOSTNAME=${sandbox.config.hostname}`);
  if (config.tty) set('TERM=xterm');
  for (const variable of prepared.image.env) if (variable.includes('=')) set(variable);
  for (const { key, value } of config.envs) set(`${key}=${value}`);
  return [...variables.values()];
}

function resourcesOf(
  resources: LinuxResources,
  devices: readonly SpecDeviceRule[],
  { cgroups, userNamespace }: Pick<NodeFeatures, 'cgroups' | 'userNamespace'>,
): SpecResources {
  const { memoryLimitBytes: limit, memorySwapLimitBytes: swap, cpuShares, cpuQuota, cpuPeriod, unified } = resources;
  // the controllers of CPUs and huge pages are not delegated to ordinary users as a rule, and an OCI runtime fails without them
  const { cpusetCpus, cpusetMems, hugepageLimits = [] } = userNamespace ? {} : resources;
  // an OCI runtime rejects limits without a control group; the runtime reports that they are not enforced
  if (cgroups === undefined) return { devices };
  const memory = limit !== undefined && limit > 0 ? { limit, ...(swap !== undefined && swap > 0 && { swap }) } : undefined;
  const cpu = {
    ...(cpuShares !== undefined && cpuShares > 0 && { shares: cpuShares }),
    ...(cpuQuota !== undefined && cpuQuota !== 0 && { quota: cpuQuota }),
    ...(cpuPeriod !== undefined && cpuPeriod > 0 && { period: cpuPeriod }),
    ...(cpusetCpus !== undefined && cpusetCpus !== '' && { cpus: cpusetCpus }),
    ...(cpusetMems !== undefined && cpusetMems !== '' && { mems: cpusetMems }),
  };
  return {
    devices,
    ...(memory && { memory }),
    ...(Object.keys(cpu).length > 0 && { cpu }),
    ...(hugepageLimits.length > 0 && { hugepageLimits: hugepageLimits.map(({ pageSize, limit: bytes }) => ({ pageSize, limit: bytes })) }),
    // runc before 1.3.2 converts shares to another weight than an update of the container does
    ...(cgroups === 2 &&
      (unified || cpu.shares !== undefined) && {
        unified: { ...(cpu.shares !== undefined && { 'cpu.weight': String(cpuWeight(cpu.shares)) }), ...unified },
      }),
  };
}

function seccompOf(profile: SecurityProfile | undefined, capabilities: readonly string[], architecture: string): SpecSeccomp | undefined {
  if (profile?.type === 'RuntimeDefault') return defaultSeccomp(capabilities, architecture);
  if (profile?.type !== 'Localhost') return undefined;
  const path = profile.localhostRef ?? '';
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as SpecSeccomp;
  } catch (cause) {
    throw new SupervisorError('InvalidArgument', `cannot load seccomp profile ${JSON.stringify(path)}: ${(cause as Error).message}`, {
      cause,
    });
  }
}
