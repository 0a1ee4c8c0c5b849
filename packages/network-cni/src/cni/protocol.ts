import { isIP } from 'node:net';
import { NetworkError, type Attachment, type NetworkErrorCode, type NetworkResult } from '@oarlock/spi/network';

export type CniCommand = 'ADD' | 'CHECK' | 'DEL' | 'GC' | 'STATUS' | 'VERSION';

/** The configuration of one CNI plugin: an entry of `plugins` in a conflist. */
export interface PluginConfig {
  readonly type: string;
  readonly capabilities?: Readonly<Record<string, boolean>>;
  readonly [key: string]: unknown;
}
/** A network configuration list (CNI specification, section 1). */
export interface NetworkList {
  readonly cniVersion: string;
  readonly name: string;
  readonly plugins: readonly PluginConfig[];
}

/** The result of ADD. It is kept unchanged, because the next CNI plugin, CHECK and DEL receive the complete result. */
export interface CniResult {
  readonly ips: readonly { readonly address: string; readonly gateway?: string }[];
  readonly [key: string]: unknown;
}

/** The command, the code of the CNI error, and the message. */
export interface CniErrorOptions {
  readonly command: CniCommand;
  readonly cniCode: number;
  readonly message: string;
}

/** Messages of CNI plugins are shown in events of pods and in logs. */
const maxMessage = 4096;

/** The error object of a CNI plugin (CNI specification, section 5), or a substitute if the plugin exits without an error object. */
export class CniError extends Error {
  override readonly name = 'CniFault';
  readonly plugin: string;
  readonly command: CniCommand;
  /** Error code of the CNI specification. Codes below 100 are reserved; the CNI plugin defines all others. */
  readonly cniCode: number;
  constructor(plugin: string, { command, cniCode, message }: CniErrorOptions) {
    super(message.slice(0, maxMessage));
    this.plugin = plugin;
    this.command = command;
    this.cniCode = cniCode;
  }
}

/** Well-known error codes (CNI specification 1.1, section 5, "Error"). */
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
/** CNI error code: the CNI plugin does not know the container. */
export const unknownContainer = 3;

/** Matches messages about exhausted addresses, for which host-local has no error code of its own. */
const exhausted = /no IP addresses available|no available IP|not enough (IP )?addresses/i;

export function toNetworkError(fault: CniError): NetworkError {
  const message = `CNI ${fault.command} by ${fault.plugin} failed: ${fault.message}`;
  if (exhausted.test(fault.message)) return new NetworkError('Exhausted', message, { cause: fault });
  return new NetworkError(fault.command === 'CHECK' ? 'Broken' : (codes[fault.cniCode] ?? 'PluginFailed'), message, { cause: fault });
}

const maxAddresses = 64;

/** Returns true for an IP address with or without a prefix length. A zone is not part of an address in CNI. */
function isAddress(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/');
  const family = address.includes('%') ? 0 : isIP(address);
  return (
    family !== 0 && rest.length === 0 && (prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (family === 4 ? 32 : 128)))
  );
}

/** Validates the output of ADD. @throws CniError if the value is not a CNI result */
export function parseResult(plugin: string, value: unknown): CniResult {
  const ips = (value as { ips?: unknown } | undefined)?.ips ?? [];
  const invalidResult = (message: string) => new CniError(plugin, { command: 'ADD', cniCode: 6, message });
  if (!Array.isArray(ips) || ips.some((ip: { address?: unknown } | null) => typeof ip?.address !== 'string'))
    throw invalidResult('the result has no list of addresses');
  if (ips.length > maxAddresses) throw invalidResult(`the result has more than ${maxAddresses} addresses`);
  // addresses are written to files of pods and to rules of the node
  for (const { address, gateway } of ips as readonly { readonly address: string; readonly gateway?: unknown }[]) {
    if (!isAddress(address)) throw invalidResult(`the result has an invalid address: ${JSON.stringify(address.slice(0, 100))}`);
    if (gateway !== undefined && (typeof gateway !== 'string' || (gateway !== '' && isIP(gateway) === 0)))
      throw invalidResult('the result has an invalid gateway');
  }
  return { ...(value as object), ips };
}

export function toNetworkResult({ ips }: CniResult): NetworkResult {
  const gateway = ips.find((ip) => ip.gateway !== undefined)?.gateway;
  return { ips: ips.map(({ address }) => address.split('/')[0] ?? ''), ...(gateway !== undefined && { gateway }) };
}

/** The CNI capability with which containerd passes the pod's annotations to CNI plugins. */
export const annotationsCapability = 'io.kubernetes.cri.pod-annotations';

/** Returns the capability arguments of an attachment (`runtimeConfig`) for a CNI plugin, restricted to the capabilities that the plugin declares. */
export function runtimeConfig(
  { capabilities }: PluginConfig,
  { portMappings, bandwidth, annotations }: Attachment,
): Record<string, unknown> | undefined {
  const args: Record<string, unknown> = {};
  const mappings = portMappings.filter(({ hostPort }) => hostPort > 0);
  if (capabilities?.['portMappings'] && mappings.length > 0) {
    args['portMappings'] = mappings.map(({ hostPort, containerPort, protocol, hostIp }) => ({
      hostPort,
      containerPort,
      protocol: protocol.toLowerCase(),
      ...(hostIp !== undefined && hostIp !== '' && { hostIP: hostIp }),
    }));
  }
  if (capabilities?.['bandwidth'] && bandwidth) {
    // each rate requires a burst; the value is upstream's
    const burst = 2 ** 32 - 1;
    args['bandwidth'] = {
      ...(bandwidth.ingressBits !== undefined && { ingressRate: bandwidth.ingressBits, ingressBurst: burst }),
      ...(bandwidth.egressBits !== undefined && { egressRate: bandwidth.egressBits, egressBurst: burst }),
    };
  }
  if (capabilities?.[annotationsCapability] && annotations) args[annotationsCapability] = annotations;
  return Object.keys(args).length > 0 ? args : undefined;
}

/** Returns the value of CNI_ARGS. Rejects names with reserved characters instead of escaping them, because the API server accepts no such names. */
export function cniArgs({ containerId, pod }: Pick<Attachment, 'containerId' | 'pod'>): string {
  for (const value of [pod.namespace, pod.name, pod.uid])
    if (!/^[a-zA-Z0-9_.:-]*$/.test(value)) throw new NetworkError('InvalidConfig', `invalid pod name: ${JSON.stringify(value)}`);
  return `IgnoreUnknown=1;K8S_POD_NAMESPACE=${pod.namespace};K8S_POD_NAME=${pod.name};K8S_POD_INFRA_CONTAINER_ID=${containerId};K8S_POD_UID=${pod.uid}`;
}

/**
 * Validates CNI_CONTAINERID and CNI_IFNAME (CNI specification 1.1, section 2).
 * @throws NetworkError `InvalidConfig` if a name is invalid
 */
export function validateNames({ containerId, ifName }: Pick<Attachment, 'containerId' | 'ifName'>): void {
  if (!/^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,199}$/.test(containerId))
    throw new NetworkError('InvalidConfig', `invalid container id: ${JSON.stringify(containerId)}`);
  if (!/^[^/:\s]{1,15}$/.test(ifName) || ifName === '.' || ifName === '..')
    throw new NetworkError('InvalidConfig', `invalid interface name: ${JSON.stringify(ifName)}`);
}
