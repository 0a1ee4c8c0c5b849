import { expect, it } from 'vitest';
import { keysText, type KeysAndNodes } from '../../src/keys/keys.ts';

it('shows for each running server which steps of both CAs it has applied', () => {
  const server = { url: 'https://10.0.0.1:6443', version: 'v1.36.0', startedAt: '2026-11-24T12:00:00Z', trustedCAs: [], frontProxyCAs: [] };
  const none = { use: [], end: [] };
  const status: KeysAndNodes = {
    generation: 3,
    identity: { ca: ['sha256:1'], removedCa: [], etcdCa: ['sha256:8', 'sha256:7'] },
    servers: [
      { ...server, name: 'a', ready: true, keysGeneration: 3, memberCAs: { signing: 'sha256:8', trusted: ['sha256:7', 'sha256:8'] } },
      {
        ...server,
        name: 'b',
        ready: true,
        keysGeneration: 3,
        trustedCAs: ['sha256:1', 'sha256:0'],
        memberCAs: { signing: 'sha256:7', trusted: ['sha256:6', 'sha256:7'] },
      },
      { ...server, name: 'c', ready: false, keysGeneration: 1 },
    ],
    nodes: [
      { name: 'n1', signedBy: 'signing' },
      { name: 'n2', signedBy: 'trusted' },
      { name: 'n3', signedBy: 'unknown' },
    ],
    expirations: {},
    pending: {
      'service-account': none,
      encryption: none,
      ca: { use: [], end: ['b'] },
      'front-proxy-ca': { use: ['a'], end: ['a'] },
      'etcd-ca': none,
    },
  };
  expect(
    keysText(status)
      .split('\n')
      .map((line) => line.replace(/ {2,}/g, ' | ')),
  ).toEqual([
    'generation 3',
    'ca: sha256:1',
    'removedCa: none',
    'etcdCa: sha256:8, sha256:7',
    'NAME | STATUS | KEYS | TRUSTS NEXT CA | SIGNS WITH CA | TRUSTS NEXT FRONT-PROXY CA | SIGNS WITH FRONT-PROXY CA | TRUSTS REMOVED CA',
    'a | Ready | 3 | yes | yes | no | no | no',
    'b | Ready | 3 | yes | no | yes | yes | yes',
    'c | NotReady | 1 | - | - | - | - | -',
    '',
    'ETCD MEMBER | CERTIFICATES OF THE SIGNING CA | TRUSTS ALL CAS | TRUSTS REMOVED CA',
    'a | yes | yes | no',
    'b | no | no | yes',
    'c | <unknown> | <unknown> | <unknown>',
    '',
    'NODE | CERTIFICATE OF',
    'n1 | signing CA',
    'n2 | OTHER TRUSTED CA',
    'n3 | <unknown>',
  ]);
});
