import { objectKey } from '@oarlock/api/object';
import type { Pod } from '@oarlock/api/types/core-v1';
import { podInfo } from './amounts.ts';
import { Cycle } from './cycle.ts';
import type { Explanation, Verdict } from './explain.ts';
import { score } from './framework.ts';
import type { NodeCache } from './node-cache.ts';
import { NodeSearch, unschedulableMessage } from './node-search.ts';
import type { Nominations } from './nominations.ts';
import { reasonsOf } from './scheduling-cycle.ts';
import type { SchedulingProfile } from './profiles.ts';

interface ExplainParts {
  readonly cache: NodeCache;
  readonly nominations: Nominations;
  profileOf(pod: Pod): SchedulingProfile | undefined;
}

/** Each pod in turn, those before it counted where they would go; all is undone. Without a pause, so that nobody sees it. */
export function explainAll(pods: readonly Pod[], parts: ExplainParts): readonly Explanation[] {
  const undo: (() => void)[] = [];
  try {
    return pods.map((pod) => explain(pod, parts, undo));
  } finally {
    for (const each of undo.toReversed()) each();
  }
}

function explain(pod: Pod, { cache, nominations, profileOf }: ExplainParts, undo: (() => void)[]): Explanation {
  const { namespace = '', name = '' } = pod.metadata ?? {};
  const bound = pod.spec?.nodeName;
  const about = { namespace, name, ...(bound && { bound }) };
  const profile = profileOf(pod);
  if (profile === undefined)
    return { ...about, message: `no profile of this scheduler is named ${JSON.stringify(pod.spec?.schedulerName)}`, nodes: [] };
  const { framework } = profile;
  const gate = framework.preEnqueue(pod);
  // as it was before it had a node
  const { nodeName: _node, ...spec } = pod.spec ?? {};
  const asked = podInfo(bound ? { ...pod, spec: spec as NonNullable<Pod['spec']> } : pod);
  const key = objectKey(pod);
  const assumed = cache.isAssumed(key) ? cache.nodeOf(key) : undefined;
  if (assumed !== undefined) {
    cache.forget(key);
    undo.push(() => cache.assume(podInfo(pod), assumed));
  } else if (bound && cache.removePod(key)) undo.push(() => cache.setPod(pod));

  const cycle = new Cycle(cache, framework, { nominations });
  const { fits, refusals, everywhere } = new NodeSearch().run(framework, undefined, cycle, asked, true);
  const parts = new Map<string, Float64Array>();
  const totals = fits.length === 0 ? new Float64Array() : score(framework, cycle, asked, fits, parts);
  const verdicts: Verdict[] = fits.map(({ name: node }, index) => ({
    node,
    score: totals[index] ?? 0,
    scores: Object.fromEntries([...parts].map(([plugin, values]) => [plugin, values[index] ?? 0])),
  }));
  verdicts.sort((a, b) => (b.score ?? 0) - (a.score ?? 0) || (a.node < b.node ? -1 : 1));
  const chosen = verdicts[0]?.node;
  if (chosen !== undefined && !bound && assumed === undefined && gate === undefined) {
    cache.assume(asked, chosen);
    undo.push(() => cache.forget(key));
  }
  const message =
    gate !== undefined
      ? `held back by ${gate.plugin}: ${reasonsOf(gate)}`
      : chosen === undefined
        ? unschedulableMessage(cache.nodes.length, refusals, everywhere)
        : undefined;
  return {
    ...about,
    ...(chosen !== undefined && gate === undefined && { chosen }),
    ...(message !== undefined && { message }),
    nodes: [
      ...verdicts,
      ...[...refusals].map(([node, { plugin, outcome }]) => ({
        node,
        refusedBy: plugin,
        reasons: 'reasons' in outcome ? outcome.reasons : [],
      })),
    ],
  };
}
