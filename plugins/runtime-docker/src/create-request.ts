import { readFile } from 'node:fs/promises';
import {
  RuntimeError,
  type ContainerConfig,
  type LinuxResources,
  type LinuxSandboxSecurity,
  type Mount,
  type PodSandboxConfig,
} from '@oarlock/spi/runtime';
import { since } from './engine-features.ts';

// Bodies of `POST /containers/create` and `/update`.

/** Half of the engine's own copy of a log. Ours is the one that is kept and rotated by the kubelet; the engine's bridges the time we are not there. */
const logConfig = { Type: 'json-file', Config: { 'max-size': '16m', 'max-file': '2' } };
/** What holds a pod together is the last of it to be ended for want of memory. */
const sandboxOomScore = -998;
/** Private is what the engine does unasked, save for what holds its own directory: of that it insists to see more, and picks it itself. */
const propagations = { PRIVATE: undefined, HOST_TO_CONTAINER: 'rslave', BIDIRECTIONAL: 'rshared' } as const;

const present = <T extends object>(value: T): T => Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined)) as T;

/** A memory limit is one of memory and swap together, as Kubernetes has it, unless swap has its own. */
export function resources(given: LinuxResources): object {
  const { memoryLimitBytes: memory, memorySwapLimitBytes: swap } = given;
  return present({
    CpuPeriod: given.cpuPeriod,
    CpuQuota: given.cpuQuota,
    CpuShares: given.cpuShares,
    CpusetCpus: given.cpusetCpus,
    CpusetMems: given.cpusetMems,
    Memory: memory,
    MemorySwap: swap !== undefined && swap !== 0 ? swap : memory,
  });
}

async function securityOptions(security: LinuxSandboxSecurity & { readonly noNewPrivs?: boolean }): Promise<readonly string[]> {
  const { seccomp, apparmor, selinux, noNewPrivs } = security;
  const options: string[] = [];
  if (seccomp === undefined || seccomp.type === 'Unconfined') options.push('seccomp=unconfined');
  else if (seccomp.type === 'Localhost') options.push(`seccomp=${await profile(seccomp.localhostRef ?? '')}`);
  if (apparmor?.type === 'Unconfined') options.push('apparmor=unconfined');
  else if (apparmor?.type === 'Localhost') options.push(`apparmor=${(apparmor.localhostRef ?? '').replace(/^localhost\//, '')}`);
  for (const [key, value] of Object.entries(selinux ?? {})) if (value) options.push(`label=${key}:${value}`);
  if (noNewPrivs === true) options.push('no-new-privileges');
  return options;
}

/** The engine wants the profile itself, not its name. @throws RuntimeError `InvalidArgument` */
async function profile(path: string): Promise<string> {
  try {
    return JSON.stringify(JSON.parse(await readFile(path, 'utf8')));
  } catch (cause) {
    throw new RuntimeError('InvalidArgument', `cannot load seccomp profile ${JSON.stringify(path)}: ${(cause as Error).message}`, {
      cause,
    });
  }
}

/** @throws RuntimeError `InvalidArgument` for a group of nobody */
function user({ runAsUser, runAsGroup, runAsUsername }: LinuxSandboxSecurity & { readonly runAsUsername?: string }): string | undefined {
  const who = runAsUser?.toString() ?? runAsUsername;
  if (runAsGroup === undefined) return who;
  if (who === undefined) throw new RuntimeError('InvalidArgument', 'runAsGroup is specified without a user');
  return `${who}:${runAsGroup}`;
}

/** An engine that makes mounts below a read-only one read-only as well does so unless told not to; an older one never does. */
function mount({ hostPath, containerPath, readonly = false, recursiveReadOnly, propagation = 'PRIVATE', ...from }: Mount, minor: number) {
  if (from.image !== undefined)
    return {
      Type: 'image',
      Source: from.image,
      Target: containerPath,
      ReadOnly: true,
      ...(from.imageSubPath !== undefined && { ImageOptions: { Subpath: from.imageSubPath } }),
    };
  const depth = recursiveReadOnly === true ? { ReadOnlyForceRecursive: true } : { ReadOnlyNonRecursive: true };
  return {
    Type: 'bind',
    Source: hostPath,
    Target: containerPath,
    ReadOnly: readonly,
    BindOptions: present({ Propagation: propagations[propagation], ...(readonly && minor >= since.recursiveReadOnly && depth) }),
  };
}

export interface SandboxRequest {
  readonly image: string;
  /** The OCI runtime, by the engine's name for it; undefined: the engine's default. */
  readonly runtime: string | undefined;
  readonly labels: object;
  readonly cgroupParent: string | undefined;
  /** Lower scores cannot be had. */
  readonly lowestOom: number;
}

export async function sandboxRequest(
  config: PodSandboxConfig,
  { image, runtime, labels, cgroupParent, lowestOom }: SandboxRequest,
): Promise<object> {
  const { security, sysctls } = config.linux;
  const onNode = security.namespaces.network === 'NODE';
  return present({
    Image: image,
    // a host's network comes with the host's name
    Hostname: onNode ? undefined : config.hostname,
    User: user(security),
    Labels: labels,
    HostConfig: present({
      NetworkMode: onNode ? 'host' : 'none',
      UTSMode: onNode ? 'host' : undefined,
      Runtime: runtime,
      PidMode: security.namespaces.pid === 'NODE' ? 'host' : undefined,
      IpcMode: security.namespaces.ipc === 'NODE' ? 'host' : 'shareable',
      CgroupParent: cgroupParent,
      Sysctls: sysctls,
      Privileged: security.privileged,
      ReadonlyRootfs: security.readonlyRootfs,
      GroupAdd: security.supplementalGroups?.map(String),
      SecurityOpt: await securityOptions(security),
      OomScoreAdj: Math.max(sandboxOomScore, lowestOom),
      LogConfig: { Type: 'none', Config: {} },
      // it does nothing
      ...resources({ cpuShares: 2 }),
    }),
  });
}

export interface ContainerRequest extends SandboxRequest {
  readonly sandboxId: string;
  readonly sandbox: PodSandboxConfig;
  /** Of version 1 of the API that the engine speaks. */
  readonly minor: number;
}

export async function containerRequest(
  config: ContainerConfig,
  { image, runtime, labels, cgroupParent, lowestOom, sandboxId, sandbox, minor }: ContainerRequest,
): Promise<object> {
  const { security, resources: limits } = config.linux;
  const { namespaces } = security;
  const ofSandbox = `container:${sandboxId}`;
  return present({
    Image: image,
    Entrypoint: config.command.length > 0 ? config.command : undefined,
    Cmd: config.args.length > 0 ? config.args : undefined,
    Env: config.envs.map(({ key, value }) => `${key}=${value}`),
    WorkingDir: config.workingDir,
    User: user(security),
    Tty: config.tty,
    OpenStdin: config.stdin,
    StdinOnce: config.stdinOnce,
    StopSignal: config.stopSignal,
    // probes are the kubelet's
    Healthcheck: { Test: ['NONE'] },
    Labels: labels,
    HostConfig: present({
      NetworkMode: ofSandbox,
      Runtime: runtime,
      UTSMode: sandbox.linux.security.namespaces.network === 'NODE' ? 'host' : undefined,
      IpcMode: sandbox.linux.security.namespaces.ipc === 'NODE' ? 'host' : ofSandbox,
      PidMode:
        namespaces.pid === 'NODE'
          ? 'host'
          : namespaces.pid === 'POD'
            ? ofSandbox
            : namespaces.pid === 'TARGET'
              ? `container:${namespaces.targetId}`
              : undefined,
      CgroupParent: cgroupParent,
      Mounts: config.mounts.map((one) => mount(one, minor)),
      Devices: (config.devices ?? []).map(({ hostPath, containerPath, permissions }) => ({
        PathOnHost: hostPath,
        PathInContainer: containerPath,
        CgroupPermissions: permissions,
      })),
      // the engine resolves them from version 25 on, and refuses them before
      DeviceRequests: config.cdiDevices && [{ Driver: 'cdi', DeviceIDs: config.cdiDevices }],
      Privileged: security.privileged,
      ReadonlyRootfs: security.readonlyRootfs,
      CapAdd: security.capabilities?.add,
      CapDrop: security.capabilities?.drop,
      GroupAdd: security.supplementalGroups?.map(String),
      SecurityOpt: await securityOptions(security),
      MaskedPaths: security.privileged === true ? undefined : security.maskedPaths,
      ReadonlyPaths: security.privileged === true ? undefined : security.readonlyPaths,
      OomScoreAdj: limits.oomScoreAdj === undefined ? undefined : Math.max(limits.oomScoreAdj, lowestOom),
      LogConfig: logConfig,
      ...resources(limits),
    }),
  });
}
