import { jsonEqual } from '@oarlock/api/json/json';
import { nodes as nodeResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Node, NodeAddress, NodeSpec } from '@oarlock/api/types/core-v1';
import { optional } from '@oarlock/kernel/slot';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Cloud, type CloudInstance, type CloudNodes } from '@oarlock/spi/cloud';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { withTypeMeta } from '../objects/object-identity.ts';

const uninitializedTaint = 'node.cloudprovider.kubernetes.io/uninitialized';
const shutdownTaint = 'node.cloudprovider.kubernetes.io/shutdown';
const isReady = ({ status }: Node) => status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;
const hasTaint = ({ spec }: Node, taint: string) => spec?.taints?.some(({ key }) => key === taint) ?? false;

interface CloudNodeControllerOptions {
  readonly nodes: Informer<Node>;
  readonly cloud: CloudNodes;
  readonly recorder: EventRecorder;
  readonly refreshMs: number;
  readonly monitorMs: number;
}

/**
 * Synchronizes nodes with the instances of the cloud provider: initializes new nodes, updates addresses, taints nodes whose instance is shut
 * down, and deletes nodes that are not ready if their instance does not exist.
 */
export class CloudNodeController implements Controller {
  readonly name = 'cloud-node';
  readonly watches;
  readonly #options: CloudNodeControllerOptions;

  constructor(options: CloudNodeControllerOptions) {
    this.#options = options;
    this.watches = [
      watch(options.nodes, (node, old) =>
        old === undefined ||
        isReady(node) !== isReady(old) ||
        hasTaint(node, uninitializedTaint) ||
        hasTaint(node, shutdownTaint) !== hasTaint(old, shutdownTaint)
          ? [node.metadata?.name ?? '']
          : [],
      ),
    ];
  }

  async reconcile(name: string, { client, signal }: ReconcileContext): Promise<ReconcileResult | void> {
    const { nodes, cloud, recorder, refreshMs, monitorMs } = this.#options;
    const node = nodes.get(name);
    if (node === undefined || node.metadata?.deletionTimestamp !== undefined) return undefined;
    const instance = await cloud.instance(node, signal);
    if (instance === undefined) {
      // a ready node exists whatever the cloud reports; an uninitialized node may have an instance that the cloud does not list yet
      if (isReady(node) || hasTaint(node, uninitializedTaint))
        return { requeueAfterMs: hasTaint(node, uninitializedTaint) ? monitorMs : refreshMs };
      recorder.event(node, 'Normal', 'DeletingNode', `Deleting node ${name} because it does not exist in the cloud provider`);
      try {
        await client.delete(nodeResource, { name }, { preconditions: { uid: node.metadata?.uid ?? '' } });
      } catch (error) {
        if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
      }
      return undefined;
    }
    const updated = await this.#syncNode(node, instance, client);
    await writeAddresses(updated, instance.addresses, client);
    if (hasTaint(node, uninitializedTaint)) recorder.event(node, 'Normal', 'Synced', 'Node synced successfully');
    return { requeueAfterMs: isReady(node) ? refreshMs : monitorMs };
  }

  /** Updates labels, providerID and taints of a node in one write, which also removes the taint `uninitialized`. */
  async #syncNode(node: Node, instance: CloudInstance, client: Client): Promise<Node> {
    const isShutDown = !isReady(node) && instance.shutdown;
    const taints = (node.spec?.taints ?? []).filter(({ key }) => key !== uninitializedTaint && key !== shutdownTaint);
    if (isShutDown)
      taints.push(node.spec?.taints?.find(({ key }) => key === shutdownTaint) ?? { key: shutdownTaint, effect: 'NoSchedule' });
    const { taints: _old, ...rest }: NodeSpec = node.spec ?? {};
    const next: Node = {
      ...withTypeMeta(nodeResource, node),
      metadata: { ...node.metadata, labels: { ...node.metadata?.labels, ...labelsOf(instance) } },
      spec: { ...rest, ...(taints.length > 0 && { taints }), ...(rest.providerID === undefined && { providerID: instance.providerID }) },
    };
    return jsonEqual(next.spec, node.spec) && jsonEqual(next.metadata, node.metadata) ? node : client.update(nodeResource, next);
  }
}

const labelsOf = ({ instanceType, zone, region }: CloudInstance): Readonly<Record<string, string>> => ({
  ...(instanceType !== undefined && { 'node.kubernetes.io/instance-type': instanceType, 'beta.kubernetes.io/instance-type': instanceType }),
  ...(zone !== undefined && { 'topology.kubernetes.io/zone': zone, 'failure-domain.beta.kubernetes.io/zone': zone }),
  ...(region !== undefined && { 'topology.kubernetes.io/region': region, 'failure-domain.beta.kubernetes.io/region': region }),
});

/** Writes the addresses of an instance to the node's status. Keeps the Hostname address of the kubelet if the cloud reports no Hostname. */
async function writeAddresses(node: Node, addresses: readonly NodeAddress[], client: Client): Promise<void> {
  const existing = node.status?.addresses ?? [];
  const hostnames = addresses.some(({ type }) => type === 'Hostname') ? [] : existing.filter(({ type }) => type === 'Hostname');
  const desired = [...addresses, ...hostnames];
  if (addresses.length === 0 || jsonEqual(existing, desired)) return;
  await client.update(
    nodeResource,
    { ...withTypeMeta(nodeResource, node), status: { ...node.status, addresses: desired } },
    { subresource: 'status' },
  );
}

export default Controllers.plugin({
  id: 'controller-cloud-node',
  declares: { loop: 'cloud-node' },
  config: z.strictObject({
    refreshSeconds: z.number().min(1).default(300),
    /** Interval in seconds between checks of nodes that are new or not ready. */
    monitorSeconds: z.number().min(1).default(5),
  }),
  needs: { informers: Informers, events: Events, cloud: optional(Cloud) },
  create({ informers, events, cloud, config }) {
    if (cloud?.nodes === undefined) return { name: 'cloud-node', watches: [], async reconcile() {} };
    return new CloudNodeController({
      nodes: informers.forResource(nodeResource),
      cloud: cloud.nodes,
      recorder: events.recorder('cloud-node-controller'),
      refreshMs: config.refreshSeconds * 1000,
      monitorMs: config.monitorSeconds * 1000,
    });
  },
});
