import { expect, it } from 'vitest';
import { parseChallenges } from '@oarlock/oci/registry/challenge';

it.each<[string, ReturnType<typeof parseChallenges>]>([
  [
    'Bearer realm="https://auth.example.com/token",service="reg",scope="repository:a/b:pull,push"',
    [{ scheme: 'bearer', parameters: { realm: 'https://auth.example.com/token', service: 'reg', scope: 'repository:a/b:pull,push' } }],
  ],
  ['Basic realm="a \\"b\\""', [{ scheme: 'basic', parameters: { realm: 'a "b"' } }]],
  [
    'Negotiate, Bearer Realm=x , Basic realm=""',
    [
      { scheme: 'negotiate', parameters: {} },
      { scheme: 'bearer', parameters: { realm: 'x' } },
      { scheme: 'basic', parameters: { realm: '' } },
    ],
  ],
  ['', []],
  ['=,=,"', []],
])('parses %s', (header, expected) => {
  expect(parseChallenges(header)).toEqual(expected);
});
