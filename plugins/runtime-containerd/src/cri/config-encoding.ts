import type { ContainerConfig, LinuxResources, LinuxSandboxSecurity, Mount, PodSandboxConfig, RegistryAuth } from '@oarlock/spi/runtime';

/** Converts a cgroup path to the form that the runtime's cgroup driver uses. */
export type CgroupParent = (path: string) => string;

/** Returns the object without undefined members, because the encoder distinguishes `{ a: undefined }` from `{}`. */
const present = <T extends object>(value: T): T =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as T;

const namespaces = ({ namespaces: { network, pid, ipc, targetId, users } }: LinuxSandboxSecurity) =>
  present({ network, pid, ipc, targetId, usernsOptions: users && { mode: 'POD', uids: users.uids, gids: users.gids } });
const profile = (value: LinuxSandboxSecurity['seccomp']) => value && present({ profileType: value.type, localhostRef: value.localhostRef });
const id = (value: number | undefined) => (value === undefined ? undefined : { value });

export function linuxResources(resources: LinuxResources): object {
  const { memoryLimitBytes, memorySwapLimitBytes, ...unchanged } = resources;
  return present({ ...unchanged, memoryLimitInBytes: memoryLimitBytes, memorySwapLimitInBytes: memorySwapLimitBytes });
}

export function sandboxConfig(config: PodSandboxConfig, cgroupParent: CgroupParent): object {
  const { security } = config.linux;
  return present({
    metadata: config.metadata,
    // the runtime rejects a hostname together with the host's network
    hostname: security.namespaces.network === 'NODE' ? '' : config.hostname,
    logDirectory: config.logDirectory,
    dnsConfig: config.dns,
    portMappings: config.portMappings.map(present),
    labels: config.labels,
    annotations: config.annotations,
    linux: present({
      cgroupParent: config.linux.cgroupParent === undefined ? undefined : cgroupParent(config.linux.cgroupParent),
      sysctls: config.linux.sysctls,
      overhead: config.linux.overhead && linuxResources(config.linux.overhead),
      resources: config.linux.resources && linuxResources(config.linux.resources),
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

/** containerd before 1.7 has no field for CDI devices and reads this annotation; later versions deduplicate devices from both. */
const cdiAnnotation = 'cdi.k8s.io/oarlock';

export function containerConfig(config: ContainerConfig): object {
  const { security } = config.linux;
  const { cdiDevices = [] } = config;
  return present({
    metadata: config.metadata,
    image: present({ image: config.image.image, userSpecifiedImage: config.image.userSpecifiedImage }),
    command: config.command,
    args: config.args,
    workingDir: config.workingDir,
    envs: config.envs,
    mounts: config.mounts.map(mount),
    devices: config.devices,
    cdiDevices: cdiDevices.map((name) => ({ name })),
    labels: config.labels,
    annotations: cdiDevices.length > 0 ? { ...config.annotations, [cdiAnnotation]: cdiDevices.join(',') } : config.annotations,
    logPath: config.logPath,
    stdin: config.stdin,
    stdinOnce: config.stdinOnce,
    tty: config.tty,
    // SIGRTMIN+3 is SIGRTMINPLUS3 on the wire
    stopSignal: config.stopSignal?.replace('+', 'PLUS').replace('-', 'MINUS'),
    linux: {
      resources: linuxResources(config.linux.resources),
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

const mount = ({ propagation, image, idMappings, ...unchanged }: Mount) =>
  present({
    ...unchanged,
    propagation: propagation && `PROPAGATION_${propagation}`,
    image: image === undefined ? undefined : { image, userSpecifiedImage: image },
    uidMappings: idMappings?.uids,
    gidMappings: idMappings?.gids,
  });

export function authConfig(auth: RegistryAuth): object {
  return present(auth);
}
