import { readFile } from 'node:fs/promises';
import type { Container, EphemeralContainer, Pod } from '@oarlock/api/types/core-v1';
import type { ContainerConfig, Device, Image, PodSandboxConfig, PortMapping } from '@oarlock/spi/runtime';
import { blockDevices, mountsOf } from './container-mounts.ts';
import type { ContainerDevices } from './devices/device-messages.ts';
import { parseResolvConf, podResolver } from './dns.ts';
import { environment } from './environment.ts';
import { expand } from './expansion.ts';
import { memoryCapacityOf, type PodFacts } from './field-values.ts';
import { podHostname } from './hosts-file.ts';
import { containerAnnotations, containerLabels, names, sandboxLabels } from './labels.ts';
import { dottedSysctl } from './node/sysctls.ts';
import type { NodeContext, PodRuntime } from './node-context.ts';
import { allContainers, isHostNetwork } from './pods.ts';
import { linuxResources, sandboxResources } from './resources.ts';
import { containerSecurity, sandboxSecurity } from './security.ts';
import { readBelow } from './volumes/sub-path.ts';
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

export interface SandboxRequest {
  readonly pod: Pod;
  readonly node: NodeContext;
  readonly runtime: PodRuntime;
  /** Of its RuntimeClass; '' without one. */
  readonly handler: string;
}

/** The config of a sandbox. `podIPs`: addresses that the kubelet obtained for it. */
export async function sandboxConfig(
  { pod, node, runtime, handler }: SandboxRequest,
  attempt: number,
  podIPs: readonly string[] | undefined,
): Promise<PodSandboxConfig> {
  const { name = '', namespace = '', uid = '' } = pod.metadata ?? {};
  if (pod.spec?.hostUsers === false && !runtime.hub.supports(handler, 'userNamespaces'))
    throw new Error("can't set `spec.hostUsers: false`, runtime does not support user namespaces");
  const nodeNetwork = usesNodeNetwork(pod, node, runtime);
  const parent = node.cgroups.of(runtime)?.of(pod);
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
      ...sandboxResources(pod),
      security: sandboxSecurity(pod, { rootDir: node.paths.root, nodeNetwork, users: await node.users.of(pod) }),
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
  const users = await node.users.of(pod);
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
          ...(await mountsOf(request, lookup, users)),
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
        { rootDir: node.paths.root, nodeNetwork: usesNodeNetwork(pod, node, runtime), users },
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
