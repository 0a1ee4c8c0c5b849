import type { ContainerConfig, LinuxResources, LinuxSandboxSecurity, Mount, PodSandboxConfig, RegistryAuth } from '@oarlock/spi/runtime';

/** What the runtime's own cgroup driver makes of a cgroup's path. */
export type CgroupParent = (path: string) => string;

/** `{ a: undefined }` and `{}` are different to the encoder. */
const present = <T extends object>(value: T): T => Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined)) as T;

const namespaces = ({ namespaces: { network, pid, ipc, targetId, users } }: LinuxSandboxSecurity) =>
  present({ network, pid, ipc, targetId, usernsOptions: users && { mode: 'POD', uids: users.uids, gids: users.gids } });
const profile = (given: LinuxSandboxSecurity['seccomp']) => given && present({ profileType: given.type, localhostRef: given.localhostRef });
const id = (value: number | undefined) => (value === undefined ? undefined : { value });

export function linuxResources(given: LinuxResources): object {
  const { memoryLimitBytes, memorySwapLimitBytes, ...same } = given;
  return present({ ...same, memoryLimitInBytes: memoryLimitBytes, memorySwapLimitInBytes: memorySwapLimitBytes });
}

export function sandboxConfig(given: PodSandboxConfig, cgroupParent: CgroupParent): object {
  const { security } = given.linux;
  return present({
    metadata: given.metadata,
    // a host's network comes with the host's name: the runtime refuses another
    hostname: security.namespaces.network === 'NODE' ? '' : given.hostname,
    logDirectory: given.logDirectory,
    dnsConfig: given.dns,
    portMappings: given.portMappings.map(present),
    labels: given.labels,
    annotations: given.annotations,
    linux: present({
      cgroupParent: given.linux.cgroupParent === undefined ? undefined : cgroupParent(given.linux.cgroupParent),
      sysctls: given.linux.sysctls,
      overhead: given.linux.overhead && linuxResources(given.linux.overhead),
      resources: given.linux.resources && linuxResources(given.linux.resources),
      securityContext: present({
        namespaceOptions: namespaces(security),
        selinuxOptions: security.selinux && present(security.selinux),
        runAsUser: id(security.runAsUser),
        runAsGroup: id(security.runAsGroup),
        supplementalGroups: security.supplementalGroups,
        supplementalGroupsPolicy: security.supplementalGroupsPolicy,
        readonlyRootfs: security.readonlyRootfs,
        privileged: security.privileged,
        seccomp: profile(security.seccomp),
        apparmor: profile(security.apparmor),
      }),
    }),
  });
}

/** containerd before 1.7 reads no field for them; later ones take each device once. */
const cdiAnnotation = 'cdi.k8s.io/oarlock';

export function containerConfig(given: ContainerConfig): object {
  const { security } = given.linux;
  const { cdiDevices = [] } = given;
  return present({
    metadata: given.metadata,
    image: present({ image: given.image.image, userSpecifiedImage: given.image.userSpecifiedImage }),
    command: given.command,
    args: given.args,
    workingDir: given.workingDir,
    envs: given.envs,
    mounts: given.mounts.map(mount),
    devices: given.devices,
    cdiDevices: cdiDevices.map((name) => ({ name })),
    labels: given.labels,
    annotations: cdiDevices.length > 0 ? { ...given.annotations, [cdiAnnotation]: cdiDevices.join(',') } : given.annotations,
    logPath: given.logPath,
    stdin: given.stdin,
    stdinOnce: given.stdinOnce,
    tty: given.tty,
    // SIGRTMIN+3 is SIGRTMINPLUS3 on the wire
    stopSignal: given.stopSignal?.replace('+', 'PLUS').replace('-', 'MINUS'),
    linux: {
      resources: linuxResources(given.linux.resources),
      securityContext: present({
        capabilities: security.capabilities && { addCapabilities: security.capabilities.add, dropCapabilities: security.capabilities.drop },
        privileged: security.privileged,
        namespaceOptions: namespaces(security),
        selinuxOptions: security.selinux && present(security.selinux),
        runAsUser: id(security.runAsUser),
        runAsGroup: id(security.runAsGroup),
        runAsUsername: security.runAsUsername,
        readonlyRootfs: security.readonlyRootfs,
        supplementalGroups: security.supplementalGroups,
        supplementalGroupsPolicy: security.supplementalGroupsPolicy,
        noNewPrivs: security.noNewPrivs,
        maskedPaths: security.maskedPaths,
        readonlyPaths: security.readonlyPaths,
        seccomp: profile(security.seccomp),
        apparmor: profile(security.apparmor),
      }),
    },
  });
}

const mount = ({ propagation, image, idMappings, ...same }: Mount) =>
  present({
    ...same,
    propagation: propagation && `PROPAGATION_${propagation}`,
    image: image === undefined ? undefined : { image, userSpecifiedImage: image },
    uidMappings: idMappings?.uids,
    gidMappings: idMappings?.gids,
  });

export function authConfig(given: RegistryAuth): object {
  return present(given);
}
