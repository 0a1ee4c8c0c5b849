import type { NodeSelector, NodeSelectorRequirement } from '@oarlock/api/types/core-v1';
import type { Offer } from './device-pools.ts';

const same = (a: NodeSelectorRequirement, b: NodeSelectorRequirement) => JSON.stringify(a) === JSON.stringify(b);

/** The nodes that can use all the devices; undefined: any can. One that is local to the node, or bound to it, leaves that node alone. */
export function nodeSelectorOf(offers: readonly Offer[], node: string): NodeSelector | undefined {
  const here: NodeSelector = { nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }] };
  const matchExpressions: NodeSelectorRequirement[] = [];
  const matchFields: NodeSelectorRequirement[] = [];
  for (const { where, device } of offers) {
    if (device.bindsToNode === true || where.nodeName) return here;
    if (where.nodeSelector === undefined) continue;
    // the API allows exactly one term here
    const [term = {}] = where.nodeSelector.nodeSelectorTerms;
    for (const each of term.matchExpressions ?? []) if (!matchExpressions.some((known) => same(known, each))) matchExpressions.push(each);
    for (const each of term.matchFields ?? []) if (!matchFields.some((known) => same(known, each))) matchFields.push(each);
  }
  if (matchExpressions.length + matchFields.length === 0) return undefined;
  return {
    nodeSelectorTerms: [{ ...(matchExpressions.length > 0 && { matchExpressions }), ...(matchFields.length > 0 && { matchFields }) }],
  };
}
