import { late, type Recent, type Rule } from './rule.ts';
import {
  amount,
  isActive,
  isOver,
  nameOf,
  requested,
  selects,
  isReady,
  scaled,
  type Budget,
  type Node,
  type Pod,
  type Quota,
} from '../model/stored-object.ts';

const portsOf = (pod: Pod) =>
  pod.spec.containers
    .flatMap(({ ports }) => ports ?? [])
    .flatMap(({ hostPort, protocol }) => (hostPort ? [`${protocol ?? 'TCP'} ${hostPort}`] : []));

/** A bound pod fits on its node, beside all pods that have not finished. */
export const fit: Rule = function* ({ now, before }, { world, lateLeader }) {
  if (now?.kind !== 'Pod') return;
  const pod = now as Pod;
  const { nodeName } = pod.spec;
  if (nodeName === undefined || (before as Pod | undefined)?.spec.nodeName === nodeName) return;
  const node = [...world.kind<Node>('Node')].find(({ metadata }) => metadata.name === nodeName);
  if (!node) {
    yield `${nameOf(pod)}: bound to ${nodeName}, which does not exist`;
    return;
  }
  const there = [...world.onNode<Pod>(nodeName)].filter((one) => !isOver(one));
  const excuse = lateLeader ? late : '';
  for (const resource of ['cpu', 'memory', 'example.com/gpu']) {
    const [used, all] = [there.reduce((sum, one) => sum + requested(one, resource), 0), amount(node.status?.allocatable?.[resource])];
    if (requested(pod, resource) > 0 && used > all * 1.000001)
      yield `${nameOf(pod)}: ${used} of ${all} ${resource} on ${nodeName}${excuse}`;
  }
  if (there.length > amount(node.status?.allocatable?.['pods'])) yield `${nameOf(pod)}: pod number ${there.length} on ${nodeName}${excuse}`;
  const mine = portsOf(pod);
  for (const other of there)
    if (other.metadata.uid !== pod.metadata.uid)
      for (const port of portsOf(other))
        if (mine.includes(port)) yield `${nameOf(pod)}: ${port} of ${nodeName} is ${nameOf(other)}'s${excuse}`;
};

/** Usage never exceeds a quota. */
export const quotas: Rule = function* ({ now, before }, { world }) {
  if (!now || before || (now.kind !== 'Pod' && now.kind !== 'ConfigMap')) return;
  for (const quota of world.kind<Quota>('ResourceQuota', now.metadata.namespace)) {
    const hard = quota.status?.hard ?? {};
    const allowed = (name: string) => Math.max(amount(hard[name]), amount(quota.spec.hard?.[name]));
    for (const name of Object.keys(hard)) {
      const used =
        now.kind === 'ConfigMap'
          ? name === 'count/configmaps'
            ? [...world.kind('ConfigMap', now.metadata.namespace)].length
            : 0
          : usedByPods([...world.kind<Pod>('Pod', now.metadata.namespace)], name);
      if (used > allowed(name) * 1.000001) yield `${nameOf(now)}: ${used} of ${allowed(name)} ${name} that ${nameOf(quota)} allows`;
    }
  }
};

function usedByPods(pods: readonly Pod[], name: string): number {
  const counted = pods.filter((pod) => !isOver(pod));
  if (name === 'pods') return counted.length;
  const [, resource] = /^requests\.(cpu|memory)$/.exec(name) ?? [];
  return resource === undefined ? 0 : counted.reduce((sum, pod) => sum + requested(pod, resource), 0);
}

/** An eviction leaves at least the healthy pods that the budget requires, unless others were lost at the same time. */
export function budgets(trouble: Recent<string>): Rule {
  return function* ({ now, before, at }, { world, evicted }) {
    const was = before as Pod | undefined;
    if (was?.kind !== 'Pod') return;
    const { namespace = '' } = was.metadata;
    const leaves = now?.metadata.deletionTimestamp !== undefined && was.metadata.deletionTimestamp === undefined;
    const mine = evicted.has(was.metadata.uid);
    if (isReady(was) && isActive(was) && !mine && (!now || leaves || !isReady(now as Pod))) trouble.note(namespace, was.metadata.name, at);
    if (!leaves || !mine || !isReady(was) || trouble.since(namespace) > at - 10_000) return;
    for (const budget of world.kind<Budget>('PodDisruptionBudget', namespace)) {
      const { selector, minAvailable, maxUnavailable } = budget.spec;
      if (!selects(selector?.matchLabels, was)) continue;
      const covered = [...world.kind<Pod>('Pod', namespace)].filter((pod) => selects(selector?.matchLabels, pod));
      const healthy = covered.filter((pod) => isReady(pod) && isActive(pod)).length;
      const expected = budget.status?.expectedPods ?? 0;
      const wanted =
        minAvailable === undefined ? expected - scaled(maxUnavailable, expected, true, 1) : scaled(minAvailable, expected, true, 0);
      if (healthy < wanted) yield `${nameOf(was)}: evicted, and ${nameOf(budget)} has ${healthy} healthy of ${wanted} required`;
    }
  };
}
