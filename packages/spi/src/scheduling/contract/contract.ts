import { beforeEach, describe, expect, it } from 'vitest';
import { cycleState, updatedNodes, nodeInfo, sampleNodes, samplePods } from './samples.ts';
import type { CycleState, NodeInfo, Status, PodInfo, QueuedPod, ClusterEventWithHint, SchedulingPlugin } from '../scheduling.ts';

export interface SchedulingFixture {
  readonly plugin: SchedulingPlugin;
  /** Pods and nodes in addition to the samples of the suite, to which the plugin applies. */
  readonly pods?: readonly PodInfo[];
  readonly nodes?: readonly NodeInfo[];
  dispose?(): Promise<void>;
}

export { cycleState, nodeInfo, podInfo, type NodeOptions, type PodOptions } from './samples.ts';

type FilterResult = { readonly preFilterRejection: Status } | { readonly statusByNode: ReadonlyMap<string, Status> };
type EventAction = 'added' | 'updated' | 'deleted';

const statusCodes = {
  preEnqueue: ['success', 'skip', 'pending', 'unschedulable', 'unresolvable'],
  preFilter: ['success', 'skip', 'unschedulable', 'unresolvable'],
  filter: ['success', 'unschedulable', 'unresolvable'],
  preScore: ['success', 'skip'],
  reserve: ['success', 'skip', 'unschedulable', 'unresolvable', 'pending'],
  permit: ['success', 'skip', 'wait', 'unschedulable', 'unresolvable'],
} as const;

/** Checks the code and the reasons of a status. A promise is invalid: the extension points up to score are synchronous. */
function expectValidStatus(point: keyof typeof statusCodes, status: Status, subject: string): Status {
  expect(status, `${point} of ${subject} is a promise`).not.toBeInstanceOf(Promise);
  expect(statusCodes[point], `${point} of ${subject}`).toContain(status.code);
  if ('reasons' in status) {
    expect(status.reasons.length, `${point} of ${subject} has no reason`).toBeGreaterThan(0);
    for (const reason of status.reasons) expect(reason).toMatch(/\w/);
  }
  if (status.code === 'wait') expect(status.timeoutMs).toBeGreaterThan(0);
  return status;
}
const passes = (status: Status) => status.code === 'success' || status.code === 'skip';

/** Runs preFilter and filter of one plugin, as a scheduling cycle does. */
function filterAll(plugin: SchedulingPlugin, state: CycleState, pod: PodInfo, nodes: readonly NodeInfo[]): FilterResult {
  const preFilter = plugin.preFilter?.(state, pod) ?? { code: 'success' };
  expectValidStatus('preFilter', preFilter, pod.pod.metadata?.name ?? '');
  if (!passes(preFilter)) return { preFilterRejection: preFilter };
  const nodeNames = 'nodes' in preFilter ? (preFilter.nodes as ReadonlySet<string>) : undefined;
  const statusByNode = nodes.map((node): readonly [string, Status] => {
    if (nodeNames !== undefined && !nodeNames.has(node.name))
      return [node.name, { code: 'unresolvable', reasons: ['not among the nodes that preFilter returned'] }];
    if (preFilter.code === 'skip' || plugin.filter === undefined) return [node.name, { code: 'success' }];
    return [node.name, expectValidStatus('filter', plugin.filter(state, pod, node), `${pod.pod.metadata?.name} on ${node.name}`)];
  });
  return { statusByNode: new Map(statusByNode) };
}

/** Returns the normalized scores in the order of `nodes`, or undefined if the plugin does not score the pod. */
function scoreAll(plugin: SchedulingPlugin, state: CycleState, pod: PodInfo, nodes: readonly NodeInfo[]): Float64Array | undefined {
  if (plugin.score === undefined) return undefined;
  plugin.preFilter?.(state, pod);
  const preScore = plugin.preScore?.(state, pod, nodes) ?? { code: 'success' };
  if (expectValidStatus('preScore', preScore, pod.pod.metadata?.name ?? '').code === 'skip') return undefined;
  const scores = Float64Array.from(nodes, (node) => plugin.score?.(state, pod, node) ?? Number.NaN);
  plugin.normalizeScore?.(state, pod, nodes, scores);
  return scores;
}

const sortedStatuses = (result: FilterResult) =>
  'preFilterRejection' in result ? result.preFilterRejection : [...result.statusByNode].sort(([a], [b]) => (a < b ? -1 : 1));

/** Declares the tests that every scheduling plugin must pass, on sample pods and nodes. */
export function schedulingContract(name: string, open: () => Promise<SchedulingFixture> | SchedulingFixture): void {
  describe(`scheduling/v1 contract: ${name}`, () => {
    let fixture: SchedulingFixture;
    let plugin: SchedulingPlugin;
    let pods: readonly PodInfo[];
    let nodes: readonly NodeInfo[];
    beforeEach(async () => {
      fixture = await open();
      plugin = fixture.plugin;
      pods = [...samplePods, ...(fixture.pods ?? [])];
      nodes = [...sampleNodes, ...(fixture.nodes ?? [])];
      return () => fixture.dispose?.();
    });
    const filterOn = (pod: PodInfo, some: readonly NodeInfo[]) => filterAll(plugin, cycleState(some), pod, some);

    it('has a name, a valid weight and at least one extension point', () => {
      expect(plugin.name).toMatch(/^[A-Za-z][\w-]*$/);
      if (plugin.weight !== undefined) expect(Number.isInteger(plugin.weight) && plugin.weight >= 1 && plugin.weight <= 100).toBe(true);
      const points = [
        'preEnqueue',
        'queueSort',
        'preFilter',
        'filter',
        'postFilter',
        'preScore',
        'score',
        'reserve',
        'permit',
        'preBind',
        'bind',
        'postBind',
      ] as const;
      expect(
        points.filter((point) => plugin[point] !== undefined),
        'the plugin has no extension point',
      ).not.toEqual([]);
      if (plugin.normalizeScore !== undefined) expect(plugin.score, 'normalizeScore without score').toBeDefined();
      if (plugin.reserve !== undefined) expect(plugin.unreserve, 'reserve without unreserve').toBeDefined();
      if (plugin.addPod !== undefined || plugin.removePod !== undefined)
        expect(plugin.addPod !== undefined && plugin.removePod !== undefined, 'addPod and removePod must be implemented together').toBe(
          true,
        );
    });

    it('returns a valid status synchronously for every pod and node', () => {
      for (const pod of pods) {
        if (plugin.preEnqueue !== undefined) expectValidStatus('preEnqueue', plugin.preEnqueue(pod.pod), pod.key);
        filterOn(pod, nodes);
        for (const node of nodes) filterOn(pod, [node]);
        if (plugin.permit !== undefined) expectValidStatus('permit', plugin.permit(cycleState(nodes), pod, 'a1'), pod.key);
      }
    });

    it('filters deterministically, independent of the order and number of nodes', () => {
      for (const pod of pods) {
        const first = filterOn(pod, nodes);
        expect(sortedStatuses(filterOn(pod, nodes)), pod.key).toEqual(sortedStatuses(first));
        const reversed = nodes.toReversed();
        expect(sortedStatuses(filterAll(plugin, cycleState(nodes), pod, reversed)), pod.key).toEqual(sortedStatuses(first));
        const state = cycleState(nodes);
        filterAll(plugin, state, pod, nodes);
        if ('statusByNode' in first)
          for (const node of nodes)
            expect(sortedStatuses(filterAll(plugin, state, pod, [node])), `${pod.key} on ${node.name}`).toEqual([
              [node.name, first.statusByNode.get(node.name)],
            ]);
      }
    });

    it('scores from 0 to 100 for any set of feasible nodes', (context) => {
      if (plugin.score === undefined) context.skip('the plugin does not score');
      for (const pod of pods) {
        for (const some of [nodes, nodes.slice(0, 1), nodes.slice(-1), nodes.slice(2, 5), []]) {
          for (const score of scoreAll(plugin, cycleState(nodes), pod, some) ?? [])
            expect(score >= 0 && score <= 100, `${pod.key}: ${score}`).toBe(true);
        }
      }
    });

    it('scores deterministically, independent of the order of nodes', (context) => {
      if (plugin.score === undefined) context.skip('the plugin does not score');
      for (const pod of pods) {
        const first = scoreAll(plugin, cycleState(nodes), pod, nodes);
        expect(scoreAll(plugin, cycleState(nodes), pod, nodes), pod.key).toEqual(first);
        const reversed = scoreAll(plugin, cycleState(nodes), pod, nodes.toReversed());
        expect(reversed === undefined ? undefined : [...reversed].toReversed(), pod.key).toEqual(
          first === undefined ? undefined : [...first],
        );
      }
    });

    it('keeps its state consistent while pods are removed and added', (context) => {
      if (plugin.addPod === undefined) context.skip('the plugin has no addPod and removePod');
      for (const pod of pods) {
        const state = cycleState(nodes);
        const before = sortedStatuses(filterAll(plugin, state, pod, nodes));
        if (!Array.isArray(before)) continue;
        for (const node of nodes) {
          for (const other of node.pods) {
            plugin.removePod?.(state, pod, other, node);
            plugin.addPod?.(state, pod, other, node);
          }
        }
        const after = nodes
          .map((node): readonly [string, Status] => [node.name, plugin.filter?.(state, pod, node) ?? { code: 'success' }])
          .sort(([a], [b]) => (a < b ? -1 : 1));
        expect(after, pod.key).toEqual(before);
      }
    });

    it('sorts the queue consistently', (context) => {
      const { queueSort } = plugin;
      if (queueSort === undefined) {
        context.skip('the plugin does not sort the queue');
        return;
      }
      const queued: QueuedPod[] = pods.flatMap((pod, index) =>
        [0, 1].map((attempts): QueuedPod => ({ ...pod, queuedAt: 1_767_225_600_000 + (index % 4) * 1000, attempts })),
      );
      const sign = (a: QueuedPod, b: QueuedPod) => Math.sign(queueSort.call(plugin, a, b));
      for (const a of queued) {
        expect(sign(a, a)).toBe(0);
        for (const b of queued) {
          expect(sign(a, b) + sign(b, a), `${a.key} and ${b.key}`).toBe(0);
          for (const c of queued)
            if (sign(a, b) < 0 && sign(b, c) < 0) expect(sign(a, c), `${a.key} before ${b.key} before ${c.key}`).toBe(-1);
        }
      }
    });

    const eventsFor = (kind: string, action: EventAction): readonly ClusterEventWithHint[] =>
      (plugin.eventsToRegister ?? []).filter((each) => each.kind === kind && each.actions.includes(action));
    /** Returns true if the queue retries the pod on an event. A plugin without eventsToRegister is retried on every event. */
    const requeues = (pod: PodInfo, kind: string, action: EventAction, oldObject: unknown, newObject: unknown): boolean =>
      plugin.eventsToRegister === undefined ||
      eventsFor(kind, action).some(({ queueingHint }) => {
        const hint = queueingHint?.(pod.pod, oldObject, newObject) ?? 'queue';
        expect(['queue', 'skip']).toContain(hint);
        return hint === 'queue';
      });
    const rejects = (pod: PodInfo, some: readonly NodeInfo[], node: string) => {
      const result = filterOn(pod, some);
      return 'preFilterRejection' in result || !passes(result.statusByNode.get(node) ?? { code: 'success' });
    };

    it('registers valid cluster events', () => {
      for (const { kind, actions } of plugin.eventsToRegister ?? []) {
        expect(kind).toMatch(/^[A-Z]\w*$/);
        expect(actions.length, `${kind}: no actions`).toBeGreaterThan(0);
        for (const action of actions) expect(['added', 'updated', 'deleted']).toContain(action);
      }
    });

    it('requeues a rejected pod when a node update makes it fit', () => {
      for (const pod of pods) {
        for (const node of nodes) {
          if (!rejects(pod, nodes, node.name)) continue;
          for (const updated of updatedNodes(node)) {
            const changed = nodes.map((each) => (each.name === node.name ? updated : each));
            if (rejects(pod, changed, node.name)) continue;
            expect(
              requeues(pod, 'Node', 'updated', node.node, updated.node),
              `${pod.key} fits ${node.name} after a change that its hints skip`,
            ).toBe(true);
          }
        }
      }
    });

    it('requeues a pod rejected on all nodes when a node is added on which it fits', () => {
      const some = nodes.flatMap((node) => [node, ...updatedNodes(node)]);
      for (const pod of pods) {
        const result = filterOn(pod, nodes);
        if ('statusByNode' in result && [...result.statusByNode.values()].some(passes)) continue;
        for (const [index, node] of some.entries()) {
          const added = nodeInfo({
            name: `added-${index}`,
            labels: node.node.metadata?.labels ?? {},
            spec: node.node.spec ?? {},
            milliCpu: 1_000_000,
            memory: 8000 * 1024 ** 3,
          });
          if (!rejects(pod, [...nodes, added], added.name))
            expect(requeues(pod, 'Node', 'added', undefined, added.node), `${pod.key} fits a new node that its hints skip`).toBe(true);
        }
      }
    });

    it('requeues a rejected pod when the deletion of another pod makes it fit', () => {
      for (const pod of pods) {
        for (const node of nodes) {
          if (!rejects(pod, nodes, node.name)) continue;
          for (const deleted of node.pods) {
            const updated = nodeInfo({
              name: node.name,
              labels: node.node.metadata?.labels ?? {},
              spec: node.node.spec ?? {},
              images: Object.fromEntries(node.images),
              pods: node.pods.filter((each) => each !== deleted),
              milliCpu: node.allocatable.milliCpu,
              memory: node.allocatable.memory,
              maxPods: node.allocatable.pods,
            });
            const changed = nodes.map((each) => (each.name === node.name ? updated : each));
            if (!rejects(pod, changed, node.name))
              expect(
                requeues(pod, 'AssignedPod', 'deleted', deleted.pod, undefined),
                `${pod.key} fits ${node.name} after the deletion of ${deleted.key}, which its hints skip`,
              ).toBe(true);
          }
        }
      }
    });

    it('reverts a reservation, and tolerates unreserve without a reservation', async (context) => {
      if (plugin.reserve === undefined) context.skip('the plugin does not reserve');
      for (const pod of pods) {
        const state = cycleState(nodes);
        filterAll(plugin, state, pod, nodes);
        const first = expectValidStatus('reserve', (await plugin.reserve?.(state, pod, 'a1')) ?? { code: 'success' }, pod.key);
        plugin.unreserve?.(state, pod, 'a1');
        plugin.unreserve?.(state, pod, 'a1');
        const again = cycleState(nodes);
        filterAll(plugin, again, pod, nodes);
        expect((await plugin.reserve?.(again, pod, 'a1'))?.code, pod.key).toBe(first.code);
        plugin.unreserve?.(again, pod, 'a1');
        plugin.unreserve?.(cycleState(nodes), pod, 'a1');
      }
    });
  });
}
