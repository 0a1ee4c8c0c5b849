import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Container, EphemeralContainer, Pod, VolumeMount } from '@oarlock/api/types/core-v1';
import type { ContainerConfig, Device, Image, Mount, PodSandboxConfig, PortMapping } from '@oarlock/spi/runtime';
import type { ContainerDevices } from './devices/device-messages.ts';
import { parseResolvConf, podResolver } from './dns.ts';
import { environment } from './environment.ts';
import { expand } from './expansion.ts';
import { memoryCapacityOf, type PodFacts } from './field-values.ts';
import { hostNetworkHostsFile, hostsFile, podHostname } from './hosts-file.ts';
import { containerAnnotations, containerLabels, names, sandboxLabels } from './labels.ts';
import { dottedSysctl } from './node/sysctls.ts';
import type { NodeContext, PodRuntime } from './node-context.ts';
import { allContainers, isHostNetwork, podUid } from './pods.ts';
import { linuxResources, qosClass } from './resources.ts';
import { containerSecurity, sandboxSecurity } from './security.ts';
import { mayChangeOwners } from './volumes/ownership.ts';
import { mountsImages } from './volumes/image-volumes.ts';
import { prepareSubPath, readBelow } from './volumes/sub-path.ts';
import type { PodVolumes } from './volumes/volume-manager.ts';

/** Whether the kubelet itself obtains the pod's address: the network plugin works on the node's network, and the pod does not ask for it anyway. */
export function usesNodeNetwork(pod: Pod, node: NodeContext, runtime: PodRuntime): boolean {
  return !isHostNetwork(pod) && !runtime.hub.simulated && node.network?.traits.namespace === 'node';
}

function portMappings(pod: Pod): readonly PortMapping[] {
  const mappings: PortMapping[] = [];
  for (const { container } of allContainers(pod)) {
    for (const { containerPort, hostPort, hostIP, protocol } of container.ports ?? []) {
      if (hostPort)
        mappings.push({
          protocol: (protocol ?? 'TCP') as PortMapping['protocol'],
          containerPort,
          hostPort,
          ...(hostIP && { hostIp: hostIP }),
        });
    }
  }
  return mappings;
}

/** `/kubepods/burstable/pod<uid>` below the root that is configured. */
export function cgroupParent(pod: Pod, root: string | undefined): string | undefined {
  if (root === undefined) return undefined;
  const qos = qosClass(pod);
  return join(root, ...(qos === 'Guaranteed' ? [] : [qos.toLowerCase()]), `pod${podUid(pod)}`);
}

/** The config of a sandbox. `podIPs`: addresses that the kubelet obtained for it. */
export async function sandboxConfig(
  pod: Pod,
  attempt: number,
  node: NodeContext,
  runtime: PodRuntime,
  podIPs: readonly string[] | undefined,
): Promise<PodSandboxConfig> {
  const { name = '', namespace = '', uid = '' } = pod.metadata ?? {};
  if (pod.spec?.hostUsers === false) throw new Error("can't set `spec.hostUsers: false`, runtime does not support user namespaces");
  const nodeNetwork = usesNodeNetwork(pod, node, runtime);
  const parent = cgroupParent(pod, node.cgroupRoot);
  const { sysctls } = pod.spec?.securityContext ?? {};
  return {
    metadata: { name, namespace, uid, attempt },
    hostname: podHostname(pod, { hostname: node.hostname, domain: node.facts.domain }).hostname,
    logDirectory: runtime.hollow ? '' : node.paths.podLogs(pod),
    ...(!runtime.hollow && { dns: await resolverOf(pod, node) }),
    portMappings: isHostNetwork(pod) ? [] : portMappings(pod),
    labels: sandboxLabels(pod, node.owner),
    annotations: { ...pod.metadata?.annotations, ...(podIPs && { [names.podIPs]: podIPs.join(',') }) },
    linux: {
      ...(parent !== undefined && { cgroupParent: parent }),
      security: sandboxSecurity(pod, { rootDir: node.paths.root, nodeNetwork }),
      ...(sysctls &&
        sysctls.length > 0 && { sysctls: Object.fromEntries(sysctls.map(({ name: key, value }) => [dottedSysctl(key), value])) }),
    },
  };
}

async function resolverOf(pod: Pod, node: NodeContext): Promise<NonNullable<PodSandboxConfig['dns']>> {
  const host = parseResolvConf(await readFile(node.resolvConf, 'utf8').catch(() => ''));
  const { dns, left } = podResolver(pod, node.facts, host);
  for (const message of left) node.recorder.event(pod, 'Warning', 'DNSConfigForming', message);
  return dns;
}

export interface ContainerRequest {
  readonly pod: Pod;
  readonly container: Container | EphemeralContainer;
  readonly restartCount: number;
  readonly node: NodeContext;
  readonly runtime: PodRuntime;
  readonly podIPs: readonly string[];
  readonly volumes: PodVolumes;
  /** Of its RuntimeClass; '' without one. */
  readonly handler?: string;
  /** What device plugins give it. */
  readonly devices?: ContainerDevices | undefined;
  /** What its claims give it, by names in the Container Device Interface. */
  readonly cdiDevices?: readonly string[];
  /** Images to mount, by volume name. */
  readonly mountedImages?: ReadonlyMap<string, string>;
  readonly image: { readonly reference: string; readonly image: Image | undefined };
  /** Whose processes an ephemeral container sees. */
  readonly targetId?: string | undefined;
  event(type: 'Normal' | 'Warning', reason: string, message: string): void;
}

/** @throws Error with the message of CreateContainerConfigError */
export async function containerConfig(request: ContainerRequest): Promise<ContainerConfig> {
  const { pod, container, restartCount, node, runtime, podIPs, image, targetId, event } = request;
  const facts: PodFacts = { podIPs, hostIPs: node.addresses, nodeName: node.name };
  const variables = await environment(pod, container, {
    objects: node.objects,
    facts,
    allocatable: node.allocatable,
    services: node.services.variables(pod.metadata?.namespace ?? '', pod.spec?.enableServiceLinks !== false),
    fileIn: (name, path) => fileIn(request.volumes, name, path),
    invalidNames: (keys, source) =>
      event(
        'Warning',
        'InvalidEnvironmentVariableNames',
        `Keys [${keys.join(', ')}] from the EnvFrom ${source} were skipped since they are considered invalid environment variable names.`,
      ),
  });
  const lookup = (name: string) => variables.get(name);
  const { devices } = request;
  for (const [name, given] of Object.entries(devices?.envs ?? {})) variables.set(name, given);
  const { command = [], args = [] } = container;
  const stopSignal = container.lifecycle?.stopSignal;
  return {
    metadata: { name: container.name, attempt: restartCount },
    image: { image: image.reference, ...(container.image !== undefined && { userSpecifiedImage: container.image }) },
    command: command.map((word) => expand(word, lookup)),
    args: args.map((word) => expand(word, lookup)),
    ...(container.workingDir && { workingDir: container.workingDir }),
    envs: Array.from(variables, ([key, value]) => ({ key, value })),
    mounts: runtime.hollow
      ? []
      : [
          ...(await mountsOf(request, lookup)),
          ...(devices?.mounts ?? []).map(({ readOnly, ...mount }) => ({ ...mount, readonly: readOnly })),
        ],
    ...deviceList([...(devices?.devices ?? []), ...(runtime.hollow ? [] : blockDevices(request))]),
    labels: containerLabels(pod, container, node.owner),
    ...cdiList([...(devices?.cdiDevices ?? []).map(({ name }) => name), ...(request.cdiDevices ?? [])]),
    annotations: { ...devices?.annotations, ...containerAnnotations(pod, container, restartCount) },
    logPath: `${container.name}/${restartCount}.log`,
    stdin: container.stdin === true,
    stdinOnce: container.stdinOnce === true,
    tty: container.tty === true,
    ...(stopSignal !== undefined && { stopSignal }),
    linux: {
      resources: linuxResources(pod, container, { memoryCapacity: memoryCapacityOf(node.capacity), cgroupV2: node.cgroupV2 }),
      security: containerSecurity(
        pod,
        container,
        image.image,
        { rootDir: node.paths.root, nodeNetwork: usesNodeNetwork(pod, node, runtime) },
        targetId,
      ),
    },
  };
}

/** Of an environment file. Bytes. */
const longestEnvFile = 1024 * 1024;

async function fileIn(volumes: PodVolumes, name: string, path: string): Promise<string | undefined> {
  const volume = volumes.get(name);
  if (!volume) throw new Error(`cannot find volume "${name}" of an environment file`);
  return (await readBelow(volume.hostPath, path, longestEnvFile))?.toString('utf8');
}

const cdiList = (names: readonly string[]) => (names.length > 0 ? { cdiDevices: [...new Set(names)] } : {});
const deviceList = (devices: readonly Device[]) => (devices.length > 0 ? { devices } : {});

/** Volumes that the container has as block devices. @throws Error for one that is not there */
function blockDevices({ container, volumes }: ContainerRequest): readonly Device[] {
  return (container.volumeDevices ?? []).map(({ name, devicePath }) => {
    const volume = volumes.get(name);
    if (volume?.device !== true) throw new Error(`cannot find volume "${name}" to pass into container "${container.name}"`);
    return { containerPath: devicePath, hostPath: volume.hostPath, permissions: volume.readOnly ? 'r' : 'mrw' };
  });
}

const propagations: Readonly<Record<string, NonNullable<Mount['propagation']>>> = {
  HostToContainer: 'HOST_TO_CONTAINER',
  Bidirectional: 'BIDIRECTIONAL',
};

const isRecursive = ({ recursiveReadOnly }: VolumeMount) => recursiveReadOnly === 'Enabled' || recursiveReadOnly === 'IfPossible';

async function mountsOf(request: ContainerRequest, lookup: (name: string) => string | undefined): Promise<readonly Mount[]> {
  const { pod, container, node, restartCount, podIPs } = request;
  const mounts: Mount[] = [];
  for (const [index, mount] of (container.volumeMounts ?? []).entries()) {
    const volume = request.volumes.get(mount.name);
    if (!volume) throw new Error(`cannot find volume "${mount.name}" to mount into container "${container.name}"`);
    const subPath = subPathOf(mount, lookup);
    const recursive = request.runtime.hub.supports(request.handler ?? '', 'recursiveReadOnlyMounts');
    if (mount.recursiveReadOnly === 'Enabled' && !recursive)
      throw new Error(`volume "${mount.name}" requested recursive read-only mode, but it is not supported by the runtime`);
    const image = request.mountedImages?.get(mount.name);
    if (image !== undefined) {
      const { hub } = request.runtime;
      if (!mountsImages(hub)) throw new Error(`volume "${mount.name}" is an image, and ${hub.name} ${hub.version} does not mount images`);
      mounts.push({
        containerPath: mount.mountPath,
        hostPath: '',
        readonly: true,
        image,
        ...(subPath !== undefined && { imageSubPath: subPath }),
      });
      continue;
    }
    const hostPath =
      subPath === undefined
        ? volume.hostPath
        : await prepareSubPath({
            volumePath: volume.hostPath,
            subPath,
            target: mayChangeOwners() ? node.paths.subPath(podUid(pod), mount.name, container.name, index) : undefined,
          });
    const propagation = propagations[mount.mountPropagation ?? ''];
    mounts.push({
      containerPath: mount.mountPath,
      hostPath,
      ...(mount.readOnly && { readonly: true }),
      ...(mount.readOnly && recursive && isRecursive(mount) && { recursiveReadOnly: true }),
      ...(propagation && { propagation }),
    });
  }
  const taken = new Set(mounts.map(({ containerPath }) => containerPath));
  if (!taken.has('/etc/hosts')) mounts.push({ containerPath: '/etc/hosts', hostPath: await writeHosts(pod, podIPs, node) });
  const messagePath = container.terminationMessagePath ?? '/dev/termination-log';
  if (messagePath !== '') {
    const file = node.paths.terminationLog(podUid(pod), container.name, restartCount);
    await mkdir(dirname(file), { recursive: true, mode: 0o755 });
    await writeFile(file, '', { mode: 0o666 });
    await chmod(file, 0o666); // the container's user may be any
    mounts.push({ containerPath: messagePath, hostPath: file });
  }
  return mounts;
}

function subPathOf({ subPath, subPathExpr }: VolumeMount, lookup: (name: string) => string | undefined): string | undefined {
  if (!subPathExpr) return subPath || undefined;
  return expand(subPathExpr, (name) => {
    const value = lookup(name);
    if (value === undefined) throw new Error(`failed to expand subPathExpr: missing value for "${name}"`);
    return value;
  });
}

async function writeHosts(pod: Pod, podIPs: readonly string[], node: NodeContext): Promise<string> {
  const file = node.paths.hosts(podUid(pod));
  const text = isHostNetwork(pod)
    ? hostNetworkHostsFile(pod, await readFile('/etc/hosts', 'utf8').catch(() => '127.0.0.1\tlocalhost\n'))
    : hostsFile(pod, podIPs, podHostname(pod, { hostname: node.hostname, domain: node.facts.domain }));
  await mkdir(dirname(file), { recursive: true, mode: 0o750 });
  await writeFile(file, text, { mode: 0o644 });
  await chmod(file, 0o644);
  return file;
}
