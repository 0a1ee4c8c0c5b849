import { readFile } from 'node:fs/promises';
import type { Container, EphemeralContainer, Pod } from '@oarlock/api/types/core-v1';
import type { ContainerConfig, Device, Image, PodSandboxConfig, PortMapping } from '@oarlock/spi/runtime';
import { blockDevices, generateMounts } from '../container-mounts.ts';
import type { ContainerDevices } from '../../container-manager/devices/device-plugin-messages.ts';
import { parseResolvConf, podDnsConfig } from '../../pod/environment/dns.ts';
import { containerEnvironment } from '../../pod/environment/container-environment.ts';
import { expand, newExpansionBudget } from '../../pod-util/expansion.ts';
import { memoryCapacityOf, type DownwardApiValues } from '../../pod-util/downward-api.ts';
import { podHostname } from '../../pod/environment/hosts-file.ts';
import { containerAnnotations, containerLabels, runtimeLabels, type Strings, sandboxLabels } from '../../runtime/labels.ts';
import { dottedSysctl } from '../../pod-util/sysctls.ts';
import type { NodeContext, PodRuntime } from '../../pod/node-context.ts';
import { allContainers, isHostNetwork } from '../../pod-util/pods.ts';
import { linuxResources, sandboxResources } from '../../pod-util/resources.ts';
import { containerSecurityContext, sandboxSecurityContext } from './security-context.ts';
import { readFileInVolume } from '../../volumes/sub-path.ts';
import type { PodVolumes } from '../../volumes/volume-manager.ts';

/**
 * Returns true if the kubelet obtains the pod's address from the CNI plugin: the plugin works in the node's network namespace, and the pod is not
 * on the host network.
 */
export function usesNodeNetworkNamespace(pod: Pod, node: Pick<NodeContext, 'network'>, runtime: PodRuntime): boolean {
  return !isHostNetwork(pod) && !runtime.pleg.simulated && node.network?.traits.namespace === 'node';
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

/** Returns the annotations of a sandbox: those of the pod, which cannot set its addresses, and the addresses that the kubelet obtained. */
function sandboxAnnotations(pod: Pod, podIPs: readonly string[] | undefined): Strings {
  const { [runtimeLabels.podIPs]: _forged, ...annotations } = pod.metadata?.annotations ?? {};
  return podIPs === undefined ? annotations : { ...annotations, [runtimeLabels.podIPs]: podIPs.join(',') };
}

/** The properties of the node that determine the config of a sandbox. */
export type SandboxConfigNode = Pick<
  NodeContext,
  | 'paths'
  | 'hostname'
  | 'facts'
  | 'resolvConf'
  | 'clusterDNS'
  | 'recorder'
  | 'network'
  | 'containerManager'
  | 'userNamespaceManager'
  | 'owner'
>;
export interface SandboxConfigRequest {
  readonly pod: Pod;
  readonly node: SandboxConfigNode;
  readonly runtime: PodRuntime;
  /** The runtime handler of the pod's RuntimeClass; empty without a RuntimeClass. */
  readonly handler: string;
}

/** Returns the CRI config of a sandbox. `podIPs` are the addresses that the kubelet obtained for the sandbox. */
export async function generatePodSandboxConfig(
  { pod, node, runtime, handler }: SandboxConfigRequest,
  attempt: number,
  podIPs: readonly string[] | undefined,
): Promise<PodSandboxConfig> {
  const { name = '', namespace = '', uid = '' } = pod.metadata ?? {};
  if (pod.spec?.hostUsers === false && !runtime.pleg.supports(handler, 'userNamespaces'))
    throw new Error("can't set `spec.hostUsers: false`, runtime does not support user namespaces");
  const nodeNetwork = usesNodeNetworkNamespace(pod, node, runtime);
  const parent = node.containerManager.podContainerManager(runtime)?.podCgroupPath(pod);
  const { sysctls } = pod.spec?.securityContext ?? {};
  return {
    metadata: { name, namespace, uid, attempt },
    hostname: podHostname(pod, { hostname: node.hostname, domain: node.facts.domain }).hostname,
    logDirectory: runtime.hollow ? '' : node.paths.podLogs(pod),
    ...(!runtime.hollow && { dns: await dnsConfigOf(pod, node) }),
    portMappings: isHostNetwork(pod) ? [] : portMappings(pod),
    labels: sandboxLabels(pod, node.owner),
    annotations: sandboxAnnotations(pod, podIPs),
    linux: {
      ...(parent !== undefined && { cgroupParent: parent }),
      ...sandboxResources(pod),
      security: sandboxSecurityContext(pod, {
        rootDir: node.paths.root,
        nodeNetwork,
        users: await node.userNamespaceManager.idMappings(pod),
      }),
      ...(sysctls &&
        sysctls.length > 0 && { sysctls: Object.fromEntries(sysctls.map(({ name: key, value }) => [dottedSysctl(key), value])) }),
    },
  };
}

async function dnsConfigOf(pod: Pod, node: SandboxConfigNode): Promise<NonNullable<PodSandboxConfig['dns']>> {
  const host = parseResolvConf(await readFile(node.resolvConf, 'utf8').catch(() => ''));
  const { dns, warnings } = podDnsConfig(pod, { domain: node.facts.domain, servers: node.clusterDNS }, host);
  for (const { reason, message } of warnings) node.recorder.event(pod, 'Warning', reason, message);
  return dns;
}

/** The properties of the node that determine the config of a container. */
export type ContainerConfigNode = Pick<
  NodeContext,
  | 'name'
  | 'addresses'
  | 'allocatable'
  | 'capacity'
  | 'cgroupV2'
  | 'facts'
  | 'hostname'
  | 'network'
  | 'objectCache'
  | 'owner'
  | 'paths'
  | 'serviceEnvironment'
  | 'userNamespaceManager'
>;
export interface ContainerConfigRequest {
  readonly pod: Pod;
  readonly container: Container | EphemeralContainer;
  readonly restartCount: number;
  readonly node: ContainerConfigNode;
  readonly runtime: PodRuntime;
  readonly podIPs: readonly string[];
  readonly volumes: PodVolumes;
  /** The runtime handler of the pod's RuntimeClass; empty without a RuntimeClass. */
  readonly handler?: string;
  /** The combined result of the device plugins' Allocate for the container. */
  readonly devices?: ContainerDevices | undefined;
  /** The CDI names of the devices of the container's ResourceClaims. */
  readonly cdiDevices?: readonly string[];
  /** The images of image volumes to mount, keyed by volume name. */
  readonly mountedImages?: ReadonlyMap<string, string>;
  readonly image: { readonly reference: string; readonly image: Image | undefined };
  /** The id of the container whose process namespace an ephemeral container shares. */
  readonly targetId?: string | undefined;
  event(type: 'Normal' | 'Warning', reason: string, message: string): void;
}

/** Returns the CRI config of a container. @throws Error with the message of the waiting reason CreateContainerConfigError */
export async function generateContainerConfig(request: ContainerConfigRequest): Promise<ContainerConfig> {
  const { pod, container, restartCount, node, runtime, podIPs, image, targetId, event } = request;
  const facts: DownwardApiValues = { podIPs, hostIPs: node.addresses, nodeName: node.name };
  const expansionBudget = newExpansionBudget();
  const variables = await containerEnvironment(pod, container, {
    expansionBudget,
    objects: node.objectCache,
    facts,
    allocatable: node.allocatable,
    services: node.serviceEnvironment.variables(pod.metadata?.namespace ?? '', pod.spec?.enableServiceLinks !== false),
    fileIn: (name, path) => readEnvFile(request.volumes, name, path),
    invalidNames: (keys, source) =>
      event(
        'Warning',
        'InvalidEnvironmentVariableNames',
        `Keys [${keys.join(', ')}] from the EnvFrom ${source} were skipped since they are considered invalid environment variable names.`,
      ),
  });
  const lookup = (name: string) => variables.get(name);
  const { devices } = request;
  for (const [name, value] of Object.entries(devices?.envs ?? {})) variables.set(name, value);
  const { command = [], args = [] } = container;
  const stopSignal = container.lifecycle?.stopSignal;
  const users = await node.userNamespaceManager.idMappings(pod);
  return {
    metadata: { name: container.name, attempt: restartCount },
    image: { image: image.reference, ...(container.image !== undefined && { userSpecifiedImage: container.image }) },
    command: command.map((word) => expand(word, lookup, expansionBudget)),
    args: args.map((word) => expand(word, lookup, expansionBudget)),
    ...(container.workingDir && { workingDir: container.workingDir }),
    envs: Array.from(variables, ([key, value]) => ({ key, value })),
    mounts: runtime.hollow
      ? []
      : [
          ...(await generateMounts(request, lookup, users)),
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
      security: containerSecurityContext(pod, container, {
        image: image.image,
        facts: { rootDir: node.paths.root, nodeNetwork: usesNodeNetworkNamespace(pod, node, runtime), users },
        targetId,
      }),
    },
  };
}

/** The maximum size of an environment file. Bytes. */
const maxEnvFileBytes = 1024 * 1024;

async function readEnvFile(volumes: PodVolumes, name: string, path: string): Promise<string | undefined> {
  const volume = volumes.get(name);
  if (!volume) throw new Error(`cannot find volume "${name}" of an environment file`);
  return (await readFileInVolume(volume.hostPath, path, maxEnvFileBytes))?.toString('utf8');
}

const cdiList = (names: readonly string[]) => (names.length > 0 ? { cdiDevices: [...new Set(names)] } : {});
const deviceList = (devices: readonly Device[]) => (devices.length > 0 ? { devices } : {});
