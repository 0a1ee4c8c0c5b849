import { describe, expect, it } from 'vitest';
import { matchesNodeSelector, matchesNodeSelectorTerm, matchesRequiredNodeAffinity } from '../../src/component-helpers/node-affinity.ts';
import type { Node, NodeSelectorRequirement } from '../../src/generated/types/core-v1.ts';

const node: Node = { metadata: { name: 'worker', labels: { disk: 'ssd', cores: '8', padded: '+008', size: '1.5', empty: '' } } };
const matchesExpression = (key: string, operator: string, ...values: string[]) =>
  matchesNodeSelectorTerm({ matchExpressions: [{ key, operator, ...(values.length > 0 && { values }) }] }, node);
const matchesField = (requirement: NodeSelectorRequirement, of: Node = node) => matchesNodeSelectorTerm({ matchFields: [requirement] }, of);

describe('a node selector term', () => {
  it.each([
    ['disk', 'In', ['ssd', 'hdd'], true],
    ['disk', 'In', ['hdd'], false],
    ['absent', 'In', [''], false],
    ['empty', 'In', [''], true],
    ['disk', 'NotIn', ['hdd'], true],
    ['disk', 'NotIn', ['ssd'], false],
    ['absent', 'NotIn', ['ssd'], true],
    ['disk', 'Exists', [], true],
    ['absent', 'Exists', [], false],
    ['absent', 'DoesNotExist', [], true],
    ['disk', 'DoesNotExist', [], false],
  ])('matches labels: %s %s %j is %s', (key, operator, values, expected) => {
    expect(matchesExpression(key, operator, ...values)).toBe(expected);
  });

  it.each([
    ['cores', 'Gt', '7', true],
    ['cores', 'Gt', '8', false],
    ['cores', 'Gt', '007', true],
    ['cores', 'Lt', '9', true],
    ['padded', 'Gt', '7', true],
    ['cores', 'Lt', '9223372036854775807', true],
    ['cores', 'Lt', '9223372036854775808', false],
    ['cores', 'Gt', '0x1', false],
    ['cores', 'Gt', '1.5', false],
    ['size', 'Gt', '1', false],
    ['disk', 'Gt', '1', false],
    ['absent', 'Lt', '1', false],
    // no label has such a value, and upstream rejects the requirement
    ['cores', 'Gt', '-1', false],
  ])('compares int64 labels: %s %s %s is %s', (key, operator, bound, expected) => {
    expect(matchesExpression(key, operator, bound)).toBe(expected);
  });

  it.each<[string, NodeSelectorRequirement]>([
    ['an unknown operator', { key: 'disk', operator: 'Like', values: ['ssd'] }],
    ['the name of an inherited property as operator', { key: 'disk', operator: 'toString' }],
    ['In without values', { key: 'disk', operator: 'In' }],
    ['NotIn without values', { key: 'disk', operator: 'NotIn', values: [] }],
    ['Exists with values', { key: 'disk', operator: 'Exists', values: ['ssd'] }],
    ['Gt without a value', { key: 'cores', operator: 'Gt' }],
    ['Gt with two values', { key: 'cores', operator: 'Gt', values: ['1', '2'] }],
    ['a value that no label can have', { key: 'disk', operator: 'NotIn', values: ['a b'] }],
    ['a key that no label can have', { key: 'a b', operator: 'DoesNotExist' }],
  ])('does not match with %s', (_name, requirement) => {
    expect(matchesNodeSelectorTerm({ matchExpressions: [requirement] }, node)).toBe(false);
  });

  it('does not take inherited properties for labels', () => {
    expect(matchesExpression('toString', 'Exists')).toBe(false);
    expect(matchesExpression('constructor', 'DoesNotExist')).toBe(true);
    expect(matchesNodeSelectorTerm({ matchExpressions: [{ key: 'toString', operator: 'Exists' }] }, {})).toBe(false);
  });

  it('matches the field metadata.name with In and NotIn one value', () => {
    expect(matchesField({ key: 'metadata.name', operator: 'In', values: ['worker'] })).toBe(true);
    expect(matchesField({ key: 'metadata.name', operator: 'In', values: ['other'] })).toBe(false);
    expect(matchesField({ key: 'metadata.name', operator: 'NotIn', values: ['other'] })).toBe(true);
    expect(matchesField({ key: 'metadata.name', operator: 'In', values: ['worker', 'other'] })).toBe(false);
    expect(matchesField({ key: 'metadata.name', operator: 'In' })).toBe(false);
    expect(matchesField({ key: 'metadata.name', operator: 'Exists' })).toBe(false);
    expect(matchesField({ key: 'metadata.name', operator: 'Gt', values: ['1'] })).toBe(false);
  });

  it('reads an absent field as the empty string', () => {
    expect(matchesField({ key: 'spec.podCIDR', operator: 'NotIn', values: ['a'] })).toBe(true);
    expect(matchesField({ key: 'spec.podCIDR', operator: 'In', values: ['a'] })).toBe(false);
  });

  it('needs both expressions and fields to match', () => {
    const matchExpressions = [{ key: 'disk', operator: 'In', values: ['ssd'] }];
    const named = (name: string) => [{ key: 'metadata.name', operator: 'In', values: [name] }];
    expect(matchesNodeSelectorTerm({ matchExpressions, matchFields: named('worker') }, node)).toBe(true);
    expect(matchesNodeSelectorTerm({ matchExpressions, matchFields: named('other') }, node)).toBe(false);
    expect(matchesNodeSelectorTerm({ matchFields: named('worker'), matchExpressions: [{ key: 'disk', operator: 'Like' }] }, node)).toBe(
      false,
    );
  });

  it('matches no node if it is empty', () => {
    expect(matchesNodeSelectorTerm({}, node)).toBe(false);
    expect(matchesNodeSelectorTerm({ matchExpressions: [], matchFields: [] }, node)).toBe(false);
  });
});

describe('a node selector', () => {
  it('matches if one term matches, valid or not the others', () => {
    const bad = { matchExpressions: [{ key: 'disk', operator: 'In' }] };
    const good = { matchExpressions: [{ key: 'disk', operator: 'Exists' }] };
    expect(matchesNodeSelector({ nodeSelectorTerms: [bad, {}, good] }, node)).toBe(true);
    expect(matchesNodeSelector({ nodeSelectorTerms: [bad, {}] }, node)).toBe(false);
  });

  it('matches no node without terms', () => {
    expect(matchesNodeSelector({ nodeSelectorTerms: [] }, node)).toBe(false);
    expect(matchesNodeSelector({}, node)).toBe(false);
  });
});

describe('the required node affinity of a pod', () => {
  const containers: [] = [];
  it('includes nodeSelector', () => {
    expect(matchesRequiredNodeAffinity(undefined, node)).toBe(true);
    expect(matchesRequiredNodeAffinity({ containers, nodeSelector: { disk: 'ssd' } }, node)).toBe(true);
    expect(matchesRequiredNodeAffinity({ containers, nodeSelector: { disk: 'hdd' } }, node)).toBe(false);
    expect(matchesRequiredNodeAffinity({ containers, nodeSelector: { toString: '' } }, {})).toBe(false);
  });

  it('includes requiredDuringSchedulingIgnoredDuringExecution', () => {
    const affinity = (operator: string) => ({
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'disk', operator }] }] },
      },
    });
    expect(matchesRequiredNodeAffinity({ containers, affinity: affinity('Exists') }, node)).toBe(true);
    expect(matchesRequiredNodeAffinity({ containers, affinity: affinity('DoesNotExist') }, node)).toBe(false);
    expect(matchesRequiredNodeAffinity({ containers, nodeSelector: { disk: 'hdd' }, affinity: affinity('Exists') }, node)).toBe(false);
  });
});
