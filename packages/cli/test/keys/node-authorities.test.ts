import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Node } from '@oarlock/api/types/core-v1';
import { keysPath, type KeysStatus } from '@oarlock/cluster/servers/server-plugins';
import { caHash } from '@oarlock/cluster/pki/ca-hash';
import { openKeys, rotateAuthority } from '@oarlock/cluster/pki/keys';
import type { Client } from '@oarlock/spi/client';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { requireRenewedNodes, rotateCa } from '../../src/keys/keys.ts';
import { readNodeAuthorities } from '../../src/keys/node-authorities.ts';
import { SharedKeyRotation } from '../../src/keys/shared-key-rotation.ts';

interface Pair {
  readonly key: string;
  readonly cert: string;
}
let directory: string;
let pairs: Record<'now' | 'former' | 'own', Pair>;
const servers: Server[] = [];

/** Creates a CA that signs only its own certificate, which a kubelet can then present. */
async function selfSigned(name: string): Promise<Pair> {
  const [key, cert] = [join(directory, `${name}.key`), join(directory, `${name}.crt`)];
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  execFileSync('openssl', ['req', '-x509', ...newKey, '-keyout', key, '-out', cert, '-subj', `/CN=${name}`], { stdio: 'ignore' });
  return { key: await readFile(key, 'utf8'), cert: await readFile(cert, 'utf8') };
}
async function kubelet(name: string, pair: Pair | undefined): Promise<Node> {
  let port = 1;
  if (pair !== undefined) {
    const server = createServer(pair).listen(0, '127.0.0.1');
    servers.push(server);
    await once(server, 'listening');
    ({ port } = server.address() as AddressInfo);
  }
  return {
    metadata: { name },
    status: { addresses: [{ type: 'InternalIP', address: '127.0.0.1' }], daemonEndpoints: { kubeletEndpoint: { Port: port } } },
  };
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'node-authorities-'));
  pairs = { now: await selfSigned('now'), former: await selfSigned('former'), own: await selfSigned('own') };
});
afterEach(() => {
  for (const server of servers.splice(0)) server.close().closeAllConnections();
  vi.restoreAllMocks();
});
afterAll(() => rm(directory, { recursive: true }));

const allNodes = async (): Promise<readonly Node[]> => [
  await kubelet('renewed', pairs.now),
  await kubelet('old', pairs.former),
  await kubelet('foreign', pairs.own),
  await kubelet('down', undefined),
  { metadata: { name: 'new' } },
];
const expected = [
  { name: 'renewed', signedBy: 'signing' },
  { name: 'old', signedBy: 'trusted' },
  { name: 'foreign', signedBy: 'other' },
  { name: 'down', signedBy: 'unknown' },
  { name: 'new', signedBy: 'unknown' },
];

it('reads which CA signed the certificate that each kubelet presents', async () => {
  const items = await allNodes();
  const client = { list: () => Promise.resolve({ items }) } as unknown as Client;
  expect(await readNodeAuthorities(client, [pairs.now.cert, pairs.former.cert])).toEqual(expected);
});

it('takes the signing CA from the record of the keys, not from the server that has not been restarted', async () => {
  const items = await allNodes();
  const raw = (_method: string, path: string) => {
    expect(path).not.toBe(keysPath);
    return Promise.resolve({ ca: `${pairs.former.cert}${pairs.now.cert}` });
  };
  const rotation = new SharedKeyRotation({ list: () => Promise.resolve({ items }), raw } as unknown as Client);
  const nodesWith = (ca: readonly string[]) => rotation.nodes({ identity: { ca } } as unknown as KeysStatus);
  expect(await nodesWith([caHash(pairs.now.cert), caHash(pairs.former.cert)])).toEqual(expected);
  // after `end`, which the server has not applied: the removed CA is never the signing one
  expect(await nodesWith([caHash(pairs.now.cert)])).toEqual(expected);
});

it('rejects the end of a rotation while nodes present certificates of the former CA, and warns of those that do not answer', () => {
  const output = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  expect(() =>
    requireRenewedNodes([
      { name: 'a', signedBy: 'trusted' },
      { name: 'b', signedBy: 'signing' },
      { name: 'c', signedBy: 'trusted' },
    ]),
  ).toThrow('a, c still present certificates of the former CA: restart each of these nodes');
  expect(output).not.toHaveBeenCalled();
  requireRenewedNodes([
    { name: 'a', signedBy: 'signing' },
    { name: 'b', signedBy: 'unknown' },
    { name: 'c', signedBy: 'other' },
  ]);
  expect(output.mock.calls).toEqual([['b did not answer: the node has to join again if the former CA signed its certificates.\n']]);
});

it('warns that nodes cannot be checked if no cluster runs', async () => {
  const dataDir = join(directory, 'data');
  const pki = join(dataDir, 'pki');
  await mkdir(pki, { recursive: true });
  await openKeys(pki, 'https://x');
  await rotateAuthority(pki, 'add', 'ca');
  await rotateAuthority(pki, 'use', 'ca');
  const output = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  await rotateCa('ca', 'end', { dataDir, timeout: 5 });
  expect(output.mock.calls[0]?.[0]).toMatch(/^The cluster is not running: nodes with certificates of the former CA/);
});
