import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Scheduling, type NodeInfo, type PodInfo } from '@oarlock/spi/scheduling';
import { cycleState, nodeInfo, podInfo } from '@oarlock/spi/scheduling/contract';
import { expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const web = (name: string, namespace = 'default') => podInfo({ name, namespace, labels: { app: 'web' } });
const node = (name: string, zone: string, ...pods: PodInfo[]) => nodeInfo({ name, labels: { 'topology.kubernetes.io/zone': zone }, pods });

function scores(pod: PodInfo, nodes: readonly NodeInfo[]): readonly number[] | undefined {
  const [created] = new PluginHost().add({ plugin }).get(Scheduling);
  if (created?.score === undefined) throw new Error('the plugin does not score');
  const state = cycleState(nodes);
  if (created.preScore?.(state, pod, nodes).code === 'skip') return undefined;
  const all = Float64Array.from(nodes, (each) => created.score?.(state, pod, each) ?? 0);
  created.normalizeScore?.(state, pod, nodes, all);
  return [...all];
}

it('prefers the zone with the fewest pods of the same application, counted over all of its nodes', () => {
  const nodes = [node('a1', 'a', web('w1')), node('a2', 'a', web('w2')), node('b1', 'b', web('w3')), node('c1', 'c')];
  expect(scores(web('new'), nodes)).toEqual([0, 0, 50, 100]);
});

it('counts neither other applications nor other namespaces', () => {
  const nodes = [node('a1', 'a', podInfo({ name: 'db', labels: { app: 'db' } })), node('b1', 'b', web('w1', 'elsewhere'))];
  expect(scores(web('new'), nodes)).toEqual([100, 100]);
});

it('does not score a pod without the label', () => {
  expect(scores(podInfo({ name: 'plain' }), [node('a1', 'a')])).toBeUndefined();
});
