import { expect, it } from 'vitest';
import { canonicalQuery, encodeComponent, sha256, signRequest } from '../../src/s3/signature-v4.ts';

/** The examples of Amazon's documentation of Signature Version 4 for S3. */
const scope = {
  credentials: { accessKeyId: 'AKIAIOSFODNN7EXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY' },
  region: 'us-east-1',
  now: Date.UTC(2013, 4, 24),
};
const host = 'https://examplebucket.s3.amazonaws.com';
const body = 'Welcome to Amazon S3.';

it.each([
  [
    'GET of an object with a range',
    { method: 'GET', url: new URL(`${host}/test.txt`), headers: { range: 'bytes=0-9' }, payloadHash: sha256('') },
    'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  ],
  [
    'PUT of an object',
    {
      method: 'PUT',
      url: new URL(`${host}/${encodeComponent('test$file.text')}`),
      headers: { date: 'Fri, 24 May 2013 00:00:00 GMT', 'x-amz-storage-class': 'REDUCED_REDUNDANCY' },
      payloadHash: sha256(body),
    },
    '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  ],
  [
    'GET of a subresource',
    { method: 'GET', url: new URL(`${host}/?lifecycle`), payloadHash: sha256('') },
    'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
  ],
  [
    'a list',
    { method: 'GET', url: new URL(`${host}/?max-keys=2&prefix=J`), payloadHash: sha256('') },
    '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
  ],
])('signs %s as in the example of the specification', (_, request, signature) => {
  expect(signRequest(request, scope)['authorization']).toMatch(new RegExp(`,Signature=${signature}$`));
});

it('signs the token of temporary credentials', () => {
  const request = { method: 'GET', url: new URL(host), payloadHash: sha256('') };
  const signed = signRequest(request, { ...scope, credentials: { ...scope.credentials, sessionToken: 'session' } });
  expect(signed['x-amz-security-token']).toBe('session');
  expect(signed['authorization']).toContain('x-amz-security-token');
});

it('encodes and sorts a query by its names, then by its values', () => {
  expect(
    canonicalQuery([
      ['a-b', '2'],
      ['a', "(!'*)"],
      ['a', ' +'],
    ]),
  ).toBe('a=%20%2B&a=%28%21%27%2A%29&a-b=2');
});
