import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Scheduling } from '@oarlock/spi/scheduling';
import { cycleState, nodeInfo, podInfo, schedulingContract } from '@oarlock/spi/scheduling/contract';
import { expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const labelled = ['fast-1', 'fast-2'].map((name) => nodeInfo({ name, labels: { 'example.com/preferred': '' } }));

function create() {
  const [created] = new PluginHost().add({ plugin }).get(Scheduling);
  if (created === undefined) throw new Error('the plugin was not created');
  return created;
}

schedulingContract('__ID__', () => ({ plugin: create(), nodes: labelled }));

it('scores nodes with the label higher', () => {
  const nodes = [nodeInfo({ name: 'plain' }), ...labelled];
  const scores = nodes.map((node) => create().score?.(cycleState(nodes), podInfo({ name: 'web' }), node));
  expect(scores).toEqual([0, 100, 100]);
});
