import type { NodeSelectorTerm } from '../../../generated/types/core-v1.ts';
import type { LabelSelector } from '../../../generated/types/meta-v1.ts';
import { isLabelValue } from '../../../values/names.ts';

/** The node labels that other labels have replaced. */
const deprecatedNodeLabels: ReadonlyMap<string, string> = new Map([
  ['beta.kubernetes.io/arch', 'deprecated since v1.14; use "kubernetes.io/arch" instead'],
  ['beta.kubernetes.io/os', 'deprecated since v1.14; use "kubernetes.io/os" instead'],
  ['failure-domain.beta.kubernetes.io/region', 'deprecated since v1.17; use "topology.kubernetes.io/region" instead'],
  ['failure-domain.beta.kubernetes.io/zone', 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'],
  ['beta.kubernetes.io/instance-type', 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'],
]);
export const nodeLabelDeprecation = (key: string | undefined): string | undefined => deprecatedNodeLabels.get(key ?? '');

/** Returns the warnings about the deprecated keys of a map of node labels; `pathOf` returns the path of a key. */
export function nodeLabelMapWarnings(
  labels: Readonly<Record<string, string>> | undefined,
  pathOf: (key: string) => string,
): readonly string[] {
  return Object.keys(labels ?? {}).flatMap((key) => {
    const message = nodeLabelDeprecation(key);
    return message === undefined ? [] : [`${pathOf(key)}: ${message}`];
  });
}

/** Returns the warnings about a node selector term. `checkValues` adds those about values that no label can have. */
export function nodeSelectorTermWarnings(
  path: string,
  { matchExpressions = [] }: NodeSelectorTerm,
  checkValues = false,
): readonly string[] {
  const warnings: string[] = [];
  for (const [i, { key, values = [] }] of matchExpressions.entries()) {
    const message = nodeLabelDeprecation(key);
    if (message !== undefined) warnings.push(`${path}.matchExpressions[${i}].key: ${key} is ${message}`);
    if (!checkValues) continue;
    for (const [j, value] of values.entries())
      for (const error of isLabelValue(value)) warnings.push(`${path}.matchExpressions[${i}].values[${j}]: ${value} is invalid, ${error}`);
  }
  return warnings;
}

export function nodeLabelSelectorWarnings(path: string, selector: LabelSelector | undefined): readonly string[] {
  const expressions = (selector?.matchExpressions ?? []).flatMap(({ key }, i) => {
    const message = nodeLabelDeprecation(key);
    return message === undefined ? [] : [`${path}.matchExpressions[${i}].key: ${key} is ${message}`];
  });
  return [...expressions, ...nodeLabelMapWarnings(selector?.matchLabels, (key) => `${path}.matchLabels.${key}`)];
}
