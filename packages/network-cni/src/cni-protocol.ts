import { NetworkError, type Attachment, type NetworkErrorCode, type NetworkResult } from '@oarlock/spi/network';

export type CniCommand = 'ADD' | 'CHECK' | 'DEL' | 'GC' | 'STATUS' | 'VERSION';

/** One entry of a conflist's `plugins`. */
export interface PluginConfig {
  readonly type: string;
  readonly capabilities?: Readonly<Record<string, boolean>>;
  readonly [key: string]: unknown;
}
/** CNI specification, section 1: a network configuration list. */
export interface NetworkList {
  readonly cniVersion: string;
  readonly name: string;
  readonly plugins: readonly PluginConfig[];
}

/** What ADD prints, kept as it came: the next plugin, CHECK and DEL want all of it. */
export interface CniResult {
  readonly ips: readonly { readonly address: string; readonly gateway?: string }[];
  readonly [key: string]: unknown;
}

/** An error object as section 5 of the specification defines it, or what stands for it when a plugin died without one. */
export class CniFault extends Error {
  override readonly name = 'CniFault';
  readonly plugin: string;
  readonly command: CniCommand;
  /** As in the specification: below 100 reserved, from 100 on the plugin's own. */
  readonly cniCode: number;
  constructor(plugin: string, command: CniCommand, cniCode: number, message: string) {
    super(message);
    this.plugin = plugin;
    this.command = command;
    this.cniCode = cniCode;
  }
}

/** CNI specification 1.1, section 5, "Error": well-known codes. */
const codes: Readonly<Record<number, NetworkErrorCode>> = {
  1: 'InvalidConfig',
  2: 'InvalidConfig',
  4: 'InvalidConfig',
  6: 'InvalidConfig',
  7: 'InvalidConfig',
  11: 'TryAgain',
  50: 'TryAgain',
  51: 'TryAgain',
};
/** The plugin was asked about a container that it does not know. */
export const unknownContainer = 3;

/** host-local has no code of its own for it. */
const exhausted = /no IP addresses available|no available IP|not enough (IP )?addresses/i;

export function toNetworkError(fault: CniFault): NetworkError {
  const message = `CNI ${fault.command} by ${fault.plugin} failed: ${fault.message}`;
  if (exhausted.test(fault.message)) return new NetworkError('Exhausted', message, { cause: fault });
  return new NetworkError(fault.command === 'CHECK' ? 'Broken' : (codes[fault.cniCode] ?? 'PluginFailed'), message, { cause: fault });
}

/** @throws CniFault when it is not a result */
export function parseResult(plugin: string, value: unknown): CniResult {
  const ips = (value as { ips?: unknown } | undefined)?.ips ?? [];
  if (!Array.isArray(ips) || ips.some((ip: { address?: unknown } | null) => typeof ip?.address !== 'string'))
    throw new CniFault(plugin, 'ADD', 6, 'the result has no list of addresses');
  return { ...(value as object), ips };
}

export function toNetworkResult({ ips }: CniResult): NetworkResult {
  const gateway = ips.find((ip) => ip.gateway !== undefined)?.gateway;
  return { ips: ips.map(({ address }) => address.split('/')[0] ?? ''), ...(gateway !== undefined && { gateway }) };
}

/** By which containerd hands the pod's annotations to plugins. */
export const annotationsCapability = 'io.kubernetes.cri.pod-annotations';

/** What a runtime says about one attachment to the plugins that declare the capability. */
export function runtimeConfig(
  { capabilities }: PluginConfig,
  { portMappings, bandwidth, annotations }: Attachment,
): Record<string, unknown> | undefined {
  const given: Record<string, unknown> = {};
  const mappings = portMappings.filter(({ hostPort }) => hostPort > 0);
  if (capabilities?.['portMappings'] && mappings.length > 0) {
    given['portMappings'] = mappings.map(({ hostPort, containerPort, protocol, hostIp }) => ({
      hostPort,
      containerPort,
      protocol: protocol.toLowerCase(),
      ...(hostIp !== undefined && hostIp !== '' && { hostIP: hostIp }),
    }));
  }
  if (capabilities?.['bandwidth'] && bandwidth) {
    // a burst must go with each rate; this one lets TCP start as upstream's does
    const burst = 2 ** 32 - 1;
    given['bandwidth'] = {
      ...(bandwidth.ingressBits !== undefined && { ingressRate: bandwidth.ingressBits, ingressBurst: burst }),
      ...(bandwidth.egressBits !== undefined && { egressRate: bandwidth.egressBits, egressBurst: burst }),
    };
  }
  if (capabilities?.[annotationsCapability] && annotations) given[annotationsCapability] = annotations;
  return Object.keys(given).length > 0 ? given : undefined;
}

/** CNI_ARGS. Names with a character that has a meaning there are refused rather than escaped: the API server lets none through. */
export function cniArgs({ containerId, pod }: Pick<Attachment, 'containerId' | 'pod'>): string {
  for (const value of [pod.namespace, pod.name, pod.uid])
    if (!/^[a-zA-Z0-9_.:-]*$/.test(value)) throw new NetworkError('InvalidConfig', `not a name of a pod: ${JSON.stringify(value)}`);
  return `IgnoreUnknown=1;K8S_POD_NAMESPACE=${pod.namespace};K8S_POD_NAME=${pod.name};K8S_POD_INFRA_CONTAINER_ID=${containerId};K8S_POD_UID=${pod.uid}`;
}

/** CNI specification 1.1, section 2: what CNI_CONTAINERID and CNI_IFNAME may be. @throws NetworkError `InvalidConfig` */
export function refuseBadNames({ containerId, ifName }: Pick<Attachment, 'containerId' | 'ifName'>): void {
  if (!/^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,199}$/.test(containerId))
    throw new NetworkError('InvalidConfig', `not a container id: ${JSON.stringify(containerId)}`);
  if (!/^[^/:\s]{1,15}$/.test(ifName) || ifName === '.' || ifName === '..')
    throw new NetworkError('InvalidConfig', `not an interface name: ${JSON.stringify(ifName)}`);
}
