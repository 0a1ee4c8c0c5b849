import { nodes as nodeResource } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/values/time';
import type { Node, NodeCondition } from '@oarlock/api/types/core-v1';
import { errorText } from '@oarlock/primitives/error-text';
import type { Clock } from '@oarlock/primitives/clock';
import { optional } from '@oarlock/kernel/slot';
import { Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Cloud, type CloudRoutes } from '@oarlock/spi/cloud';
import { Cluster } from '@oarlock/spi/cluster';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { addressOfCIDR, cidrContains, parseCIDRSloppy, type CIDR } from '@oarlock/api/net/cidr';
import { z } from 'zod';

/** The only key of the work queue: the cloud provider lists all routes in one call. */
const key = 'routes';
const podCIDRsOf = ({ spec }: Node): readonly string[] => spec?.podCIDRs ?? (spec?.podCIDR ? [spec.podCIDR] : []);
const routeKey = (nodeName: string, range: string) => `${nodeName} ${range}`;

interface RouteControllerOptions {
  readonly nodes: Informer<Node>;
  readonly routes: CloudRoutes;
  readonly recorder: EventRecorder;
  readonly podCIDRs: readonly string[];
  readonly clock: Clock;
  readonly everyMs: number;
}

/** Creates cloud routes for the pod CIDRs of each node, deletes stale routes, and sets the NetworkUnavailable condition of nodes. */
export class RouteController implements Controller {
  readonly name = 'route';
  readonly concurrentReconciles = 1;
  readonly watches;
  readonly #options: RouteControllerOptions;
  readonly #podCIDRs: readonly CIDR[];

  constructor(options: RouteControllerOptions) {
    this.#options = options;
    this.#podCIDRs = options.podCIDRs.flatMap((range) => parseCIDRSloppy(range) ?? []);
    this.watches = [
      watch(options.nodes, (node, old) => (old !== undefined && podCIDRsOf(node).join() === podCIDRsOf(old).join() ? [] : [key])),
    ];
  }

  async reconcile(_key: string, { client, signal }: ReconcileContext): Promise<ReconcileResult> {
    const { nodes, routes, recorder, everyMs } = this.#options;
    const existing = (await routes.list(signal)).filter(({ destinationCIDR }) => this.#isManagedRange(destinationCIDR));
    const desiredKeys = new Set(
      nodes.list().flatMap((node) => podCIDRsOf(node).map((range) => routeKey(node.metadata?.name ?? '', range))),
    );
    const existingKeys = new Set(existing.map(({ nodeName, destinationCIDR }) => routeKey(nodeName, destinationCIDR)));
    // stale routes first: their range may belong to a new node
    for (const route of existing) if (!desiredKeys.has(routeKey(route.nodeName, route.destinationCIDR))) await routes.remove(route, signal);
    for (const node of nodes.list()) {
      const name = node.metadata?.name ?? '';
      let failed = podCIDRsOf(node).length === 0;
      for (const range of podCIDRsOf(node)) {
        if (existingKeys.has(routeKey(name, range))) continue;
        try {
          await routes.create({ nodeName: name, destinationCIDR: range }, signal);
        } catch (error) {
          signal.throwIfAborted();
          failed = true;
          const message = errorText(error);
          recorder.event(node, 'Warning', 'FailedToCreateRoute', `Could not create route ${range} for node ${name}: ${message}`);
        }
      }
      const condition = this.#updateNetworkingCondition(node, !failed);
      if (condition !== undefined)
        await client.patch(nodeResource, { name }, 'strategic', { status: { conditions: [condition] } }, { subresource: 'status' });
    }
    return { requeueAfterMs: everyMs };
  }

  #isManagedRange(range: string): boolean {
    const address = addressOfCIDR(range);
    return address !== undefined && this.#podCIDRs.some((podCIDR) => cidrContains(podCIDR, address));
  }

  /** Returns the NetworkUnavailable condition to write to a node, or undefined if the node's condition is up to date. */
  #updateNetworkingCondition(node: Node, reachable: boolean): NodeCondition | undefined {
    const before = node.status?.conditions?.find(({ type }) => type === 'NetworkUnavailable');
    const status = reachable ? 'False' : 'True';
    if (before?.status === status) return undefined;
    const now = formatTime(this.#options.clock.now());
    return {
      type: 'NetworkUnavailable',
      status,
      reason: reachable ? 'RouteCreated' : 'NoRouteCreated',
      message: reachable ? 'RouteController created a route' : 'RouteController failed to create a route',
      lastTransitionTime: now,
      lastHeartbeatTime: now,
    };
  }
}

export default Controllers.plugin({
  id: 'controller-route',
  declares: { loop: 'route' },
  config: z.strictObject({ everySeconds: z.number().min(1).default(10) }),
  needs: { informers: Informers, events: Events, facts: Cluster, cloud: optional(Cloud) },
  create({ informers, events, facts, cloud, config }, { clock }) {
    if (cloud?.routes === undefined) return { name: 'route', watches: [], async reconcile() {} };
    return new RouteController({
      nodes: informers.forResource(nodeResource),
      routes: cloud.routes,
      recorder: events.recorder('route_controller'),
      podCIDRs: facts.podCIDRs,
      clock,
      everyMs: config.everySeconds * 1000,
    });
  },
});
