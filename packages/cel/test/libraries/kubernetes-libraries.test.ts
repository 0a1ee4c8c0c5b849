import { describe, expect, it } from 'vitest';
import { kubernetesLibraries, mutationLibraries } from '../../src/libraries/kubernetes-libraries.ts';

/** The functions that Kubernetes 1.36 adds to the standard functions of CEL, by the version that introduced them. Compatibility version: 1.35. */
const functionsByVersion: Readonly<Record<string, readonly string[]>> = {
  '1.23': [
    'isSorted',
    'sum',
    'max',
    'min',
    'indexOf',
    'lastIndexOf',
    'find',
    'findAll',
    'url',
    'isURL',
    'getScheme',
    'getHost',
    'getHostname',
  ],
  '1.23, URLs': ['getPort', 'getEscapedPath', 'getQuery'],
  '1.27': [
    'path',
    'group',
    'serviceAccount',
    'resource',
    'subresource',
    'namespace',
    'name',
    'check',
    'allowed',
    'reason',
    'errored',
    'error',
  ],
  '1.28, optional types': ['optional.of', 'optional.none', 'optional.ofNonZeroValue', 'hasValue', 'value', 'or', 'orValue'],
  '1.28, lists of optional values': ['first', 'last', 'optional.unwrap', 'unwrapOpt'],
  '1.28, quantities': [
    'quantity',
    'isQuantity',
    'sign',
    'isInteger',
    'asInteger',
    'asApproximateFloat',
    'add',
    'sub',
    'isLessThan',
    'isGreaterThan',
  ],
  '1.29, strings 2': ['charAt', 'join', 'lowerAscii', 'upperAscii', 'replace', 'split', 'substring', 'trim', 'format', 'strings.quote'],
  '1.29, sets': ['sets.contains', 'sets.equivalent', 'sets.intersects'],
  '1.30': ['ip', 'isIP', 'ip.isCanonical', 'family', 'isUnspecified', 'isLoopback', 'isLinkLocalMulticast', 'isLinkLocalUnicast'],
  '1.30, CIDR': ['isGlobalUnicast', 'cidr', 'isCIDR', 'containsIP', 'containsCIDR', 'masked', 'prefixLength'],
  '1.31': ['format.named', 'validate', 'fieldSelector', 'labelSelector', 'compareTo'],
  '1.33': ['semver', 'isSemver', 'major', 'minor', 'patch'],
  '1.34, lists 3': ['slice', 'flatten', 'distinct', 'lists.range', 'reverse', 'sort', '@sortByAssociatedKeys'],
};

const standardFunctions = new Set(
  [
    ['int', 'uint', 'double', 'string', 'bool', 'bytes', 'timestamp', 'duration', 'dyn', 'type', 'size', 'matches'],
    ['startsWith', 'endsWith', 'contains', 'getFullYear', 'getMonth', 'getDayOfYear', 'getDayOfMonth', 'getDate', 'getDayOfWeek'],
    ['getHours', 'getMinutes', 'getSeconds', 'getMilliseconds'],
  ].flat(),
);

describe('functions', () => {
  const names = new Set(kubernetesLibraries.flatMap(({ functions }) => functions.map(({ name }) => name)));
  it('are those of the base environment of Kubernetes 1.36', () => {
    const isOperator = (name: string) => /^[-!@_]/.test(name) && name !== '@sortByAssociatedKeys';
    const isFormat = (name: string) => /^format\.(?!named)/.test(name);
    const added = [...names].filter((name) => !isOperator(name) && !isFormat(name) && !standardFunctions.has(name));
    expect(added.sort()).toEqual(Object.values(functionsByVersion).flat().sort());
  });

  it('include jsonpatch.escapeKey only in mutating admission policies', () => {
    const more = mutationLibraries.flatMap(({ functions }) => functions.map(({ name }) => name)).filter((name) => !names.has(name));
    expect(more).toEqual(['jsonpatch.escapeKey']);
  });
});
