import type { NodeSelector, NodeSelectorRequirement } from '@oarlock/api/types/core-v1';
import type { PoolDevice } from './device-pools.ts';

const same = (a: NodeSelectorRequirement, b: NodeSelectorRequirement) => JSON.stringify(a) === JSON.stringify(b);

/**
 * Returns a selector for the nodes that can access all these devices, or undefined if all nodes can. A device that is local to the node, or that
 * binds to the node, restricts the selector to that node.
 */
export function nodeSelectorOf(devices: readonly PoolDevice[], node: string): NodeSelector | undefined {
  const thisNode: NodeSelector = { nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }] };
  const matchExpressions: NodeSelectorRequirement[] = [];
  const matchFields: NodeSelectorRequirement[] = [];
  for (const { location, device } of devices) {
    if (device.bindsToNode === true || location.nodeName) return thisNode;
    if (location.nodeSelector === undefined) continue;
    // the API allows exactly one term in a slice's selector
    const [term = {}] = location.nodeSelector.nodeSelectorTerms;
    for (const each of term.matchExpressions ?? []) if (!matchExpressions.some((known) => same(known, each))) matchExpressions.push(each);
    for (const each of term.matchFields ?? []) if (!matchFields.some((known) => same(known, each))) matchFields.push(each);
  }
  if (matchExpressions.length + matchFields.length === 0) return undefined;
  return {
    nodeSelectorTerms: [{ ...(matchExpressions.length > 0 && { matchExpressions }), ...(matchFields.length > 0 && { matchFields }) }],
  };
}
