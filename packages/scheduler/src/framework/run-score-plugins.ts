import { success, type NodeInfo, type PodInfo, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import type { SchedulingCycleState } from './cycle-state.ts';
import type { Framework } from './framework.ts';
import { isSuccess, statusMessage } from './plugin-status.ts';

/**
 * Returns the weighted sum of the plugins' scores for each node, in the order of `nodes`.
 * If `scoresByPlugin` is given, stores the weighted scores of each plugin in it.
 * @throws Error if a preScore plugin fails, or a score is not in the range of 0 to 100 after normalizing; the pod is then retried as after an error
 */
export function runScorePlugins(
  framework: Framework,
  state: SchedulingCycleState,
  {
    pod,
    nodes,
    scoresByPlugin,
  }: { readonly pod: PodInfo; readonly nodes: readonly NodeInfo[]; readonly scoresByPlugin?: Map<string, Float64Array> | undefined },
): Float64Array {
  const { observer } = state;
  const preScoreAt = observer.now();
  const skipped = new Set<SchedulingPlugin>();
  for (const plugin of framework.pluginsAt('preScore')) {
    const status = plugin.preScore?.(state, pod, nodes) ?? success;
    if (status.code === 'skip') skipped.add(plugin);
    else if (!isSuccess(status)) {
      observer.observe('PreScore', status.code, preScoreAt);
      throw new Error(`running PreScore plugin ${JSON.stringify(plugin.name)}: ${statusMessage(status)}`);
    }
  }
  observer.observe('PreScore', 'success', preScoreAt);
  const scoreAt = observer.now();
  const totals = new Float64Array(nodes.length);
  const scores = new Float64Array(nodes.length);
  for (const plugin of framework.pluginsAt('score')) {
    if (skipped.has(plugin) || plugin.score === undefined) continue;
    for (let index = 0; index < nodes.length; index++) {
      const node = nodes[index];
      scores[index] = node === undefined ? 0 : plugin.score(state, pod, node);
    }
    plugin.normalizeScore?.(state, pod, nodes, scores);
    checkScores(plugin, scores);
    const weight = framework.weightOf(plugin);
    for (let index = 0; index < scores.length; index++) totals[index] = (totals[index] ?? 0) + weight * (scores[index] ?? 0);
    scoresByPlugin?.set(
      plugin.name,
      scores.map((score) => score * weight),
    );
  }
  observer.observe('Score', 'success', scoreAt);
  return totals;
}

const [minNodeScore, maxNodeScore] = [0, 100];

function checkScores({ name }: SchedulingPlugin, scores: Float64Array): void {
  const invalid = scores.find((score) => !(score >= minNodeScore && score <= maxNodeScore));
  if (invalid === undefined) return;
  const range = `it should in the range of [${minNodeScore}, ${maxNodeScore}] after normalizing`; // upstream's words
  throw new Error(
    `applying score defaultWeights on Score plugins: plugin ${JSON.stringify(name)} returns an invalid score ${invalid}, ${range}`,
  );
}
