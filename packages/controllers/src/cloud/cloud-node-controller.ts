import { jsonEqual } from '@oarlock/api/json';
import { nodes as nodeResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Node, NodeAddress, NodeSpec } from '@oarlock/api/types/core-v1';
import { optional } from '@oarlock/kernel/slot';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Cloud, type CloudInstance, type CloudNodes } from '@oarlock/spi/cloud';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { typed } from '../pod-template.ts';

const uninitialized = 'node.cloudprovider.kubernetes.io/uninitialized';
const shutdown = 'node.cloudprovider.kubernetes.io/shutdown';
const isReady = ({ status }: Node) => status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;
const has = ({ spec }: Node, taint: string) => spec?.taints?.some(({ key }) => key === taint) ?? false;

interface Parts {
  readonly nodes: Informer<Node>;
  readonly cloud: CloudNodes;
  readonly recorder: EventRecorder;
  readonly refreshMs: number;
  readonly monitorMs: number;
}

/**
 * Keeps nodes and the cloud's machines together: a node that has just come is told what the cloud knows of it; addresses are brought up to date; one that is silent is
 * deleted when its machine is gone, and tainted when that is shut down.
 */
export class CloudNodeController implements Controller {
  readonly name = 'cloud-node';
  readonly watches;
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.watches = [
      watch(parts.nodes, (node, old) =>
        old === undefined || isReady(node) !== isReady(old) || has(node, uninitialized) || has(node, shutdown) !== has(old, shutdown)
          ? [node.metadata?.name ?? '']
          : [],
      ),
    ];
  }

  async reconcile(name: string, { client, signal }: ReconcileContext): Promise<ReconcileResult | void> {
    const { nodes, cloud, recorder, refreshMs, monitorMs } = this.#parts;
    const node = nodes.get(name);
    if (node === undefined || node.metadata?.deletionTimestamp !== undefined) return undefined;
    const instance = await cloud.instance(node, signal);
    if (instance === undefined) {
      // a node that speaks is there, whatever the cloud says; one that the cloud has never seen may still come to be
      if (isReady(node) || has(node, uninitialized)) return { requeueAfterMs: has(node, uninitialized) ? monitorMs : refreshMs };
      recorder.event(node, 'Normal', 'DeletingNode', `Deleting node ${name} because it does not exist in the cloud provider`);
      try {
        await client.delete(nodeResource, { name }, { preconditions: { uid: node.metadata?.uid ?? '' } });
      } catch (error) {
        if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
      }
      return undefined;
    }
    const settled = await this.#settle(node, instance, client);
    await writeAddresses(settled, instance.addresses, client);
    if (has(node, uninitialized)) recorder.event(node, 'Normal', 'Synced', 'Node synced successfully');
    return { requeueAfterMs: isReady(node) ? refreshMs : monitorMs };
  }

  /** Labels and taints. The taint of a node that is new goes last, together with what it was waiting for. */
  async #settle(node: Node, instance: CloudInstance, client: Client): Promise<Node> {
    const down = !isReady(node) && instance.shutdown;
    const taints = (node.spec?.taints ?? []).filter(({ key }) => key !== uninitialized && key !== shutdown);
    if (down) taints.push(node.spec?.taints?.find(({ key }) => key === shutdown) ?? { key: shutdown, effect: 'NoSchedule' });
    const { taints: _old, ...rest }: NodeSpec = node.spec ?? {};
    const next: Node = {
      ...typed(nodeResource, node),
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

/** The name by which the node itself says it is known stays, unless the cloud knows one. */
async function writeAddresses(node: Node, addresses: readonly NodeAddress[], client: Client): Promise<void> {
  const present = node.status?.addresses ?? [];
  const own = addresses.some(({ type }) => type === 'Hostname') ? [] : present.filter(({ type }) => type === 'Hostname');
  const wanted = [...addresses, ...own];
  if (addresses.length === 0 || jsonEqual(present, wanted)) return;
  await client.update(
    nodeResource,
    { ...typed(nodeResource, node), status: { ...node.status, addresses: wanted } },
    { subresource: 'status' },
  );
}

export default Controllers.plugin({
  id: 'controller-cloud-node',
  declares: { loop: 'cloud-node' },
  config: z.strictObject({
    refreshSeconds: z.number().min(1).default(300),
    /** How often the cloud is asked for machines whose nodes are silent or new. */
    monitorSeconds: z.number().min(1).default(5),
  }),
  needs: { informers: Informers, events: Events, cloud: optional(Cloud) },
  create({ informers, events, cloud, config }) {
    if (cloud?.nodes === undefined) return { name: 'cloud-node', watches: [], async reconcile() {} };
    return new CloudNodeController({
      nodes: informers.of(nodeResource),
      cloud: cloud.nodes,
      recorder: events.recorder('cloud-node-controller'),
      refreshMs: config.refreshSeconds * 1000,
      monitorMs: config.monitorSeconds * 1000,
    });
  },
});
