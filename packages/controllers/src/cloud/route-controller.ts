import { nodes as nodeResource } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/time';
import type { Node, NodeCondition } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { optional } from '@oarlock/kernel/slot';
import { Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Cloud, type CloudRoutes } from '@oarlock/spi/cloud';
import { Cluster } from '@oarlock/spi/cluster';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { BlockList, isIPv6 } from 'node:net';
import { z } from 'zod';

/** All of them: what the cloud has is one list. */
const key = 'routes';
const rangesOf = ({ spec }: Node): readonly string[] => spec?.podCIDRs ?? (spec?.podCIDR ? [spec.podCIDR] : []);
const textOf = (nodeName: string, range: string) => `${nodeName} ${range}`;

interface Parts {
  readonly nodes: Informer<Node>;
  readonly routes: CloudRoutes;
  readonly recorder: EventRecorder;
  readonly podCIDRs: readonly string[];
  readonly clock: Clock;
  readonly everyMs: number;
}

/** A route in the cloud for each node's pods, none that leads nowhere, and in each node whether it can be reached. */
export class RouteController implements Controller {
  readonly name = 'route';
  readonly workers = 1;
  readonly watches;
  readonly #parts: Parts;
  readonly #ours = new BlockList();

  constructor(parts: Parts) {
    this.#parts = parts;
    for (const range of parts.podCIDRs) {
      const [base = '', bits] = range.split('/');
      this.#ours.addSubnet(base, Number(bits), isIPv6(base) ? 'ipv6' : 'ipv4');
    }
    this.watches = [watch(parts.nodes, (node, old) => (old !== undefined && rangesOf(node).join() === rangesOf(old).join() ? [] : [key]))];
  }

  async reconcile(_key: string, { client, signal }: ReconcileContext): Promise<ReconcileResult> {
    const { nodes, routes, recorder, everyMs } = this.#parts;
    const present = (await routes.list(signal)).filter(({ destinationCIDR }) => this.#isOurs(destinationCIDR));
    const wanted = new Set(nodes.list().flatMap((node) => rangesOf(node).map((range) => textOf(node.metadata?.name ?? '', range))));
    const there = new Set(present.map(({ nodeName, destinationCIDR }) => textOf(nodeName, destinationCIDR)));
    // first those that lead nowhere: a range may have a new node
    for (const route of present) if (!wanted.has(textOf(route.nodeName, route.destinationCIDR))) await routes.remove(route, signal);
    for (const node of nodes.list()) {
      const name = node.metadata?.name ?? '';
      let failed = rangesOf(node).length === 0;
      for (const range of rangesOf(node)) {
        if (there.has(textOf(name, range))) continue;
        try {
          await routes.create({ nodeName: name, destinationCIDR: range }, signal);
        } catch (error) {
          signal.throwIfAborted();
          failed = true;
          const because = error instanceof Error ? error.message : String(error);
          recorder.event(node, 'Warning', 'FailedToCreateRoute', `Could not create route ${range} for node ${name}: ${because}`);
        }
      }
      const condition = this.#judged(node, !failed);
      if (condition !== undefined)
        await client.patch(nodeResource, { name }, 'strategic', { status: { conditions: [condition] } }, { subresource: 'status' });
    }
    return { requeueAfterMs: everyMs };
  }

  #isOurs(range: string): boolean {
    const base = range.split('/')[0] ?? '';
    return this.#ours.check(base, isIPv6(base) ? 'ipv6' : 'ipv4');
  }

  /** The node's condition as it should be; undefined when it is so already. */
  #judged(node: Node, reachable: boolean): NodeCondition | undefined {
    const before = node.status?.conditions?.find(({ type }) => type === 'NetworkUnavailable');
    const status = reachable ? 'False' : 'True';
    if (before?.status === status) return undefined;
    const now = formatTime(this.#parts.clock.now());
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
      nodes: informers.of(nodeResource),
      routes: cloud.routes,
      recorder: events.recorder('route_controller'),
      podCIDRs: facts.podCIDRs,
      clock,
      everyMs: config.everySeconds * 1000,
    });
  },
});
