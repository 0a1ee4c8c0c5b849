import { readFile } from 'node:fs/promises';
import {
  RuntimeError,
  type ContainerConfig,
  type LinuxResources,
  type LinuxSandboxSecurity,
  type Mount,
  type PodSandboxConfig,
} from '@oarlock/spi/runtime';
import { since } from '../../engine/engine-features.ts';

// Bodies of `POST /containers/create` and `/update`.

/**
 * Limits the engine's own copy of a container log. The kubelet rotates the copy in CRI format; the engine's copy covers the time while Oarlock is
 * down.
 */
const logConfig = { Type: 'json-file', Config: { 'max-size': '16m', 'max-file': '2' } };
/** The OOM score adjustment of the pause process, so that the kernel kills it as the last process of a pod. */
const sandboxOomScore = -998;
/**
 * The mount propagation modes. `private` is omitted: it is the engine's default, except for mounts that contain the engine's directory, for which
 * the engine selects another mode itself.
 */
const propagations = { PRIVATE: undefined, HOST_TO_CONTAINER: 'rslave', BIDIRECTIONAL: 'rshared' } as const;

const present = <T extends object>(value: T): T =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as T;

/** Encodes resource limits. As in Kubernetes, the memory limit applies to memory and swap together unless a swap limit is set. */
export function resources(limits: LinuxResources): object {
  const { memoryLimitBytes: memory, memorySwapLimitBytes: swap } = limits;
  return present({
    CpuPeriod: limits.cpuPeriod,
    CpuQuota: limits.cpuQuota,
    CpuShares: limits.cpuShares,
    CpusetCpus: limits.cpusetCpus,
    CpusetMems: limits.cpusetMems,
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

/**
 * Reads a seccomp profile, because the engine takes the content of a profile instead of its path.
 * @throws RuntimeError `InvalidArgument` if the profile cannot be read
 */
async function profile(path: string): Promise<string> {
  try {
    return JSON.stringify(JSON.parse(await readFile(path, 'utf8')));
  } catch (cause) {
    throw new RuntimeError('InvalidArgument', `cannot load seccomp profile ${JSON.stringify(path)}: ${(cause as Error).message}`, {
      cause,
    });
  }
}

/** Encodes the user and group of a container. @throws RuntimeError `InvalidArgument` for a group without a user */
function user({ runAsUser, runAsGroup, runAsUsername }: LinuxSandboxSecurity & { readonly runAsUsername?: string }): string | undefined {
  const name = runAsUser?.toString() ?? runAsUsername;
  if (runAsGroup === undefined) return name;
  if (name === undefined) throw new RuntimeError('InvalidArgument', 'runAsGroup is specified without a user');
  return `${name}:${runAsGroup}`;
}

/** Encodes a mount. Engines since version 25 make read-only mounts recursive by default, so the request states the mode; older engines never do. */
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
  /** The name of the OCI runtime in the engine; undefined for the engine's default. */
  readonly runtime: string | undefined;
  readonly labels: object;
  readonly cgroupParent: string | undefined;
  /** The lowest OOM score adjustment that the engine may set. */
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
    // the host's network implies the host's name
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
      // the pause process needs no CPU time
      ...resources({ cpuShares: 2 }),
    }),
  });
}

export interface ContainerRequest extends SandboxRequest {
  readonly sandboxId: string;
  readonly sandbox: PodSandboxConfig;
  /** The minor version of the Engine API 1.x in use. */
  readonly minor: number;
}

export async function containerRequest(
  config: ContainerConfig,
  { image, runtime, labels, cgroupParent, lowestOom, sandboxId, sandbox, minor }: ContainerRequest,
): Promise<object> {
  const { security, resources: limits } = config.linux;
  const { namespaces } = security;
  const sandboxNamespace = `container:${sandboxId}`;
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
    // the kubelet runs the probes
    Healthcheck: { Test: ['NONE'] },
    Labels: labels,
    HostConfig: present({
      NetworkMode: sandboxNamespace,
      Runtime: runtime,
      UTSMode: sandbox.linux.security.namespaces.network === 'NODE' ? 'host' : undefined,
      IpcMode: sandbox.linux.security.namespaces.ipc === 'NODE' ? 'host' : sandboxNamespace,
      PidMode:
        namespaces.pid === 'NODE'
          ? 'host'
          : namespaces.pid === 'POD'
            ? sandboxNamespace
            : namespaces.pid === 'TARGET'
              ? `container:${namespaces.targetId}`
              : undefined,
      CgroupParent: cgroupParent,
      Mounts: config.mounts.map((item) => mount(item, minor)),
      Devices: (config.devices ?? []).map(({ hostPath, containerPath, permissions }) => ({
        PathOnHost: hostPath,
        PathInContainer: containerPath,
        CgroupPermissions: permissions,
      })),
      // engines since 25 resolve CDI devices; older engines reject them
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
