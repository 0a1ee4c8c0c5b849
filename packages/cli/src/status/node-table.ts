import { leases, nodes } from '@oarlock/api/resources';
import type { Lease } from '@oarlock/api/types/coordination-v1';
import type { Node } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';
import { describeExpiry, presentedExpiry, type TlsServer } from './certificate-expiry.ts';

export interface NodeStatus {
  readonly name: string;
  /** As kubectl prints it, such as `Ready,SchedulingDisabled`. */
  readonly status: string;
  readonly version: string;
  readonly address: string;
  /** Time of the last renewal of the node's Lease; absent if the node has none. */
  readonly renewedAt?: string;
  /** End of the kubelet's serving certificate; absent if this machine cannot reach the kubelet. */
  readonly certificateExpiresAt?: string;
}

/** Limit of concurrent connections to kubelets. */
const maxConnections = 32;

/** Reads the nodes of the cluster and the serving certificates of their kubelets. */
export async function readNodes(client: Client): Promise<readonly NodeStatus[]> {
  const [{ items }, nodeLeases] = await Promise.all([
    client.list<Node>(nodes),
    client.list<Lease>(leases, { namespace: 'kube-node-lease' }),
  ]);
  const renewals = new Map(nodeLeases.items.map(({ metadata, spec }) => [metadata?.name, spec?.renewTime]));
  return eachNode(items, (node) => describe(node, renewals));
}

/** Calls `read` with each node, a bounded number at a time because it connects to the kubelet, and returns the results in the order of the nodes. */
export async function eachNode<T>(items: readonly Node[], read: (node: Node) => Promise<T>): Promise<readonly T[]> {
  const found: T[] = [];
  for (let at = 0; at < items.length; at += maxConnections)
    found.push(...(await Promise.all(items.slice(at, at + maxConnections).map(read))));
  return found;
}

async function describe(node: Node, renewals: ReadonlyMap<string | undefined, string | undefined>): Promise<NodeStatus> {
  const renewedAt = renewals.get(node.metadata?.name);
  const expiry = await kubeletExpiry(node);
  return {
    name: node.metadata?.name ?? '',
    status: nodeStatusOf(node),
    version: node.status?.nodeInfo?.kubeletVersion ?? '',
    address: addressOf(node),
    ...(renewedAt !== undefined && { renewedAt }),
    ...(expiry !== undefined && { certificateExpiresAt: new Date(expiry).toISOString() }),
  };
}

/** Returns the rows of a table of nodes, with a row of titles. */
export function nodeRows(list: readonly NodeStatus[], now: number): readonly (readonly string[])[] {
  const rows = list.map(({ name, status, version, address, renewedAt, certificateExpiresAt }) => [
    name,
    status,
    version,
    address,
    age(renewedAt, now),
    describeExpiry(certificateExpiresAt === undefined ? undefined : Date.parse(certificateExpiresAt), now),
  ]);
  return [['NODE', 'STATUS', 'VERSION', 'ADDRESS', 'RENEWED', 'CERTIFICATE'], ...rows];
}

/** Returns the time since a renewal, such as `4s ago`. */
export function age(time: string | undefined, now: number): string {
  return time === undefined ? '<never>' : `${Math.max(0, Math.round((now - Date.parse(time)) / 1000))}s ago`;
}

/** Returns the status as kubectl prints it, such as `Ready,SchedulingDisabled`. */
export function nodeStatusOf({ spec, status }: Node): string {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready')?.status;
  return [ready === 'True' ? 'Ready' : 'NotReady', ...(spec?.unschedulable === true ? ['SchedulingDisabled'] : [])].join(',');
}

const addressOf = ({ status }: Node): string => status?.addresses?.find(({ type }) => type === 'InternalIP')?.address ?? '';

async function kubeletExpiry(node: Node): Promise<number | undefined> {
  const kubelet = kubeletOf(node);
  return kubelet && presentedExpiry(kubelet);
}

/** Returns the address and port of a node's kubelet; undefined if the node has not reported them. */
export function kubeletOf(node: Node): TlsServer | undefined {
  const [host, port] = [addressOf(node), node.status?.daemonEndpoints?.kubeletEndpoint?.Port];
  return host === '' || port === undefined ? undefined : { host, port };
}
