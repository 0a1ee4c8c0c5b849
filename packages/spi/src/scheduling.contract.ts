import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { cycleState, improved, nodeInfo, sampleNodes, samplePods } from './scheduling.contract.world.ts';
import type { CycleState, NodeInfo, Outcome, PodInfo, QueuedPod, RequeueOn, SchedulingPlugin } from './scheduling.ts';

export interface SchedulingFixture {
  readonly plugin: SchedulingPlugin;
  /** Pods and nodes besides the suite's own: those that the plugin is for. */
  readonly pods?: readonly PodInfo[];
  readonly nodes?: readonly NodeInfo[];
  dispose?(): Promise<void>;
}

export { cycleState, nodeInfo, podInfo, type NodeSketch, type PodSketch } from './scheduling.contract.world.ts';

type Filtered = { readonly refused: Outcome } | { readonly verdicts: ReadonlyMap<string, Outcome> };
type Event = 'added' | 'updated' | 'deleted';

const codes = {
  preEnqueue: ['success', 'skip', 'pending', 'unschedulable', 'unresolvable'],
  preFilter: ['success', 'skip', 'unschedulable', 'unresolvable'],
  filter: ['success', 'unschedulable', 'unresolvable'],
  preScore: ['success', 'skip'],
  reserve: ['success', 'skip', 'unschedulable', 'unresolvable', 'pending'],
  permit: ['success', 'skip', 'wait', 'unschedulable', 'unresolvable'],
} as const;

/** Answers must be values at once: the extension points up to score must not wait. */
function sane(point: keyof typeof codes, outcome: Outcome, of: string): Outcome {
  expect(outcome, `${point} of ${of} waits`).not.toBeInstanceOf(Promise);
  expect(codes[point], `${point} of ${of}`).toContain(outcome.code);
  if ('reasons' in outcome) {
    expect(outcome.reasons.length, `${point} of ${of} refuses without a reason`).toBeGreaterThan(0);
    for (const reason of outcome.reasons) expect(reason).toMatch(/\w/);
  }
  if (outcome.code === 'wait') expect(outcome.timeoutMs).toBeGreaterThan(0);
  return outcome;
}
const passes = (outcome: Outcome) => outcome.code === 'success' || outcome.code === 'skip';

/** preFilter and filter of one plugin, as a scheduling cycle runs them. */
function filterAll(plugin: SchedulingPlugin, state: CycleState, pod: PodInfo, nodes: readonly NodeInfo[]): Filtered {
  const before = plugin.preFilter?.(state, pod) ?? { code: 'success' };
  sane('preFilter', before, pod.pod.metadata?.name ?? '');
  if (!passes(before)) return { refused: before };
  const narrowed = 'nodes' in before ? (before.nodes as ReadonlySet<string>) : undefined;
  const verdicts = nodes.map((node): readonly [string, Outcome] => {
    if (narrowed !== undefined && !narrowed.has(node.name))
      return [node.name, { code: 'unresolvable', reasons: ['not among the nodes that preFilter named'] }];
    if (before.code === 'skip' || plugin.filter === undefined) return [node.name, { code: 'success' }];
    return [node.name, sane('filter', plugin.filter(state, pod, node), `${pod.pod.metadata?.name} on ${node.name}`)];
  });
  return { verdicts: new Map(verdicts) };
}

/** Scores after normalize, one per node, or undefined when the plugin has nothing to say. */
function scoreAll(plugin: SchedulingPlugin, state: CycleState, pod: PodInfo, nodes: readonly NodeInfo[]): Float64Array | undefined {
  if (plugin.score === undefined) return undefined;
  plugin.preFilter?.(state, pod);
  const before = plugin.preScore?.(state, pod, nodes) ?? { code: 'success' };
  if (sane('preScore', before, pod.pod.metadata?.name ?? '').code === 'skip') return undefined;
  const scores = Float64Array.from(nodes, (node) => plugin.score?.(state, pod, node) ?? Number.NaN);
  plugin.normalize?.(state, pod, nodes, scores);
  return scores;
}

const whole = (value: Filtered) => ('refused' in value ? value.refused : [...value.verdicts].sort(([a], [b]) => (a < b ? -1 : 1)));

/** What every scheduling plugin promises, on pods and nodes of many kinds. */
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
    });
    afterEach(() => fixture.dispose?.());
    const filterOn = (pod: PodInfo, some: readonly NodeInfo[]) => filterAll(plugin, cycleState(some), pod, some);

    it('has a name, a sound weight and something to do', () => {
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
        'it has no extension point',
      ).not.toEqual([]);
      if (plugin.normalize !== undefined) expect(plugin.score, 'normalize without score').toBeDefined();
      if (plugin.reserve !== undefined) expect(plugin.unreserve, 'reserve without unreserve').toBeDefined();
      if (plugin.addPod !== undefined || plugin.removePod !== undefined)
        expect(plugin.addPod !== undefined && plugin.removePod !== undefined, 'addPod and removePod belong together').toBe(true);
    });

    it('answers every pod and node at once, with sane codes and reasons', () => {
      for (const pod of pods) {
        if (plugin.preEnqueue !== undefined) sane('preEnqueue', plugin.preEnqueue(pod.pod), pod.key);
        filterOn(pod, nodes);
        for (const node of nodes) filterOn(pod, [node]);
        if (plugin.permit !== undefined) sane('permit', plugin.permit(cycleState(nodes), pod, 'a1'), pod.key);
      }
    });

    it('filters purely: the same answer again, in any order of nodes, for one node as among many', () => {
      for (const pod of pods) {
        const first = filterOn(pod, nodes);
        expect(whole(filterOn(pod, nodes)), pod.key).toEqual(whole(first));
        const reversed = nodes.toReversed();
        expect(whole(filterAll(plugin, cycleState(nodes), pod, reversed)), pod.key).toEqual(whole(first));
        const state = cycleState(nodes);
        filterAll(plugin, state, pod, nodes);
        if ('verdicts' in first)
          for (const node of nodes)
            expect(whole(filterAll(plugin, state, pod, [node])), `${pod.key} on ${node.name}`).toEqual([
              [node.name, first.verdicts.get(node.name)],
            ]);
      }
    });

    it('scores from 0 to 100, whatever nodes are left', (context) => {
      if (plugin.score === undefined) context.skip('it does not score');
      for (const pod of pods) {
        for (const some of [nodes, nodes.slice(0, 1), nodes.slice(-1), nodes.slice(2, 5), []]) {
          for (const score of scoreAll(plugin, cycleState(nodes), pod, some) ?? [])
            expect(score >= 0 && score <= 100, `${pod.key}: ${score}`).toBe(true);
        }
      }
    });

    it('scores purely', (context) => {
      if (plugin.score === undefined) context.skip('it does not score');
      for (const pod of pods) {
        const first = scoreAll(plugin, cycleState(nodes), pod, nodes);
        expect(scoreAll(plugin, cycleState(nodes), pod, nodes), pod.key).toEqual(first);
        const reversed = scoreAll(plugin, cycleState(nodes), pod, nodes.toReversed());
        expect(reversed === undefined ? undefined : [...reversed].toReversed(), pod.key).toEqual(
          first === undefined ? undefined : [...first],
        );
      }
    });

    it('keeps its state right while pods are tried on and off a node', (context) => {
      if (plugin.addPod === undefined) context.skip('it keeps no state that pods change');
      for (const pod of pods) {
        const state = cycleState(nodes);
        const before = whole(filterAll(plugin, state, pod, nodes));
        if (!Array.isArray(before)) continue;
        for (const node of nodes) {
          for (const other of node.pods) {
            plugin.removePod?.(state, pod, other, node);
            plugin.addPod?.(state, pod, other, node);
          }
        }
        const after = nodes
          .map((node): readonly [string, Outcome] => [node.name, plugin.filter?.(state, pod, node) ?? { code: 'success' }])
          .sort(([a], [b]) => (a < b ? -1 : 1));
        expect(after, pod.key).toEqual(before);
      }
    });

    it('sorts the queue consistently', (context) => {
      const { queueSort } = plugin;
      if (queueSort === undefined) {
        context.skip('it does not sort');
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

    const entries = (kind: string, on: Event): readonly RequeueOn[] =>
      (plugin.requeueOn ?? []).filter((each) => each.kind === kind && each.on.includes(on));
    /** Whether the queue tries the pod again. A plugin that says nothing of what it waits for is asked again after any change. */
    const wakes = (pod: PodInfo, kind: string, on: Event, old: unknown, now: unknown): boolean =>
      plugin.requeueOn === undefined ||
      entries(kind, on).some(({ hint }) => {
        const answer = hint?.(pod.pod, old, now) ?? 'queue';
        expect(['queue', 'skip']).toContain(answer);
        return answer === 'queue';
      });
    const refuses = (pod: PodInfo, some: readonly NodeInfo[], node: string) => {
      const answer = filterOn(pod, some);
      return 'refused' in answer || !passes(answer.verdicts.get(node) ?? { code: 'success' });
    };

    it('names changes that there are', () => {
      for (const { kind, on } of plugin.requeueOn ?? []) {
        expect(kind).toMatch(/^[A-Z]\w*$/);
        expect(on.length, `${kind}: on nothing`).toBeGreaterThan(0);
        for (const event of on) expect(['added', 'updated', 'deleted']).toContain(event);
      }
    });

    it('wakes a pod that it refused when a node changes so that it fits', () => {
      for (const pod of pods) {
        for (const node of nodes) {
          if (!refuses(pod, nodes, node.name)) continue;
          for (const better of improved(node)) {
            const changed = nodes.map((each) => (each.name === node.name ? better : each));
            if (refuses(pod, changed, node.name)) continue;
            expect(
              wakes(pod, 'Node', 'updated', node.node, better.node),
              `${pod.key} fits ${node.name} after a change that its hints skip`,
            ).toBe(true);
          }
        }
      }
    });

    it('wakes a pod that it refused everywhere when a node comes on which it fits', () => {
      const some = nodes.flatMap((node) => [node, ...improved(node)]);
      for (const pod of pods) {
        const answer = filterOn(pod, nodes);
        if ('verdicts' in answer && [...answer.verdicts.values()].some(passes)) continue;
        for (const [index, node] of some.entries()) {
          const fresh = nodeInfo({
            name: `fresh-${index}`,
            labels: node.node.metadata?.labels ?? {},
            spec: node.node.spec ?? {},
            milliCpu: 1_000_000,
            memory: 8000 * 1024 ** 3,
          });
          if (!refuses(pod, [...nodes, fresh], fresh.name))
            expect(wakes(pod, 'Node', 'added', undefined, fresh.node), `${pod.key} fits a new node that its hints skip`).toBe(true);
        }
      }
    });

    it('wakes a pod that it refused when a pod goes and makes room', () => {
      for (const pod of pods) {
        for (const node of nodes) {
          if (!refuses(pod, nodes, node.name)) continue;
          for (const gone of node.pods) {
            const left = nodeInfo({
              name: node.name,
              labels: node.node.metadata?.labels ?? {},
              spec: node.node.spec ?? {},
              images: Object.fromEntries(node.images),
              pods: node.pods.filter((each) => each !== gone),
              milliCpu: node.allocatable.milliCpu,
              memory: node.allocatable.memory,
              maxPods: node.allocatable.pods,
            });
            const changed = nodes.map((each) => (each.name === node.name ? left : each));
            if (!refuses(pod, changed, node.name))
              expect(
                wakes(pod, 'AssignedPod', 'deleted', gone.pod, undefined),
                `${pod.key} fits ${node.name} once ${gone.key} is gone, which its hints skip`,
              ).toBe(true);
          }
        }
      }
    });

    it('gives back what it reserved, and what it never did', async (context) => {
      if (plugin.reserve === undefined) context.skip('it reserves nothing');
      for (const pod of pods) {
        const state = cycleState(nodes);
        filterAll(plugin, state, pod, nodes);
        const first = sane('reserve', (await plugin.reserve?.(state, pod, 'a1')) ?? { code: 'success' }, pod.key);
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
