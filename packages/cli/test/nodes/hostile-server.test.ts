import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join as joinPath } from 'node:path';
import { text } from 'node:stream/consumers';
import { caHash } from '@oarlock/cluster/pki/ca-hash';
import { selfSigned } from '@oarlock/cluster/pki/certificate-writer';
import { issuePair, newKey } from '@oarlock/cluster/pki/key-pair';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { CommandError } from '../../src/common/command-error.ts';
import { join } from '../../src/node-join.ts';
import { joinServer } from '../../src/server-join.ts';

const ca = selfSigned('cluster', newKey());
const otherCa = selfSigned('other', newKey());
const serving = issuePair(ca, { commonName: 'server', usages: ['server'], ipAddresses: ['127.0.0.1'] });
const anotherNode = issuePair(ca, { commonName: 'system:node:n1', organizations: ['system:nodes'], usages: ['client'] });
const pem = (base64: string) => `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----\n`;
const cluster = { name: 'one', domain: 'cluster.local', podCIDRs: [], serviceCIDRs: [], nodePorts: '30000-32767' };
const joined = { ca: ca.certificate, cluster };
const requests = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const signed = (certificate: string) => ({
  metadata: { name: 'node-csr-1', resourceVersion: '1' },
  status: { certificate: Buffer.from(certificate).toString('base64') },
});

let server: Server;
let url: string;
let dataDir: string;
/** The answers of the server to all of its paths; null to others. */
let answers: Readonly<Record<string, unknown>>;
beforeEach(async () => {
  server = createServer({ cert: serving.certificate, key: serving.key }, (request, response) => {
    void text(request).then(() =>
      response.setHeader('content-type', 'application/json').end(JSON.stringify(answers[request.url ?? ''] ?? null)),
    );
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  dataDir = await mkdtemp(joinPath(tmpdir(), 'oarlock-hostile-'));
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await rm(dataDir, { recursive: true });
});

const discovery = { '/oarlock/v1/ca': { ca: ca.certificate }, '/version': { gitVersion: 'v1.36.0' } };
/** Joins with hostile answers. Returns the error, after checking that the data directory is as before. */
async function failureOf(hostile: Readonly<Record<string, unknown>>, attempt: () => Promise<void>): Promise<string> {
  answers = { ...discovery, '/oarlock/v1/join': joined, ...hostile };
  const error: unknown = await attempt().then(
    () => new Error('joined'),
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(CommandError);
  expect(await readdir(dataDir)).toEqual([]);
  return (error as CommandError).message;
}
const joinNode = () =>
  join({ dataDir, detach: false, server: [url], token: 'abcdef.0123456789abcdef', caHash: caHash(ca.certificate), nodeName: 'n1' });
const newServer = () =>
  joinServer({
    dataDir,
    detach: false,
    url,
    token: `abcdef.0123456789abcdef.${Buffer.alloc(32).toString('base64url')}`,
    discoveryTokenCaCertHash: caHash(ca.certificate),
    nodeName: 's2',
  });

const malformed = 'does not answer as a server of Oarlock';
it.each([
  ['no version', { '/version': null }, malformed],
  ['a version of another type', { '/version': { gitVersion: 5 } }, malformed],
  ['no answer', { '/oarlock/v1/join': null }, malformed],
  ['CAs of another type', { '/oarlock/v1/join': { ...joined, ca: 7 } }, malformed],
  ['CAs that are none', { '/oarlock/v1/join': { ...joined, ca: ca.certificate + pem('AAAA') } }, malformed],
  ['no configuration', { '/oarlock/v1/join': { ca: ca.certificate } }, malformed],
  ['a name of another type', { '/oarlock/v1/join': { ...joined, cluster: { ...cluster, name: { a: 1 } } } }, malformed],
  ['networks of another type', { '/oarlock/v1/join': { ...joined, cluster: { ...cluster, podCIDRs: 'x' } } }, malformed],
  [
    'components of another type',
    { '/oarlock/v1/join': { ...joined, cluster: { ...cluster, dnsServiceIP: '', components: 7 } } },
    malformed,
  ],
  [
    'the CA of another cluster',
    { '/oarlock/v1/join': { ...joined, ca: otherCa.certificate } },
    'x509: certificate signed by unknown authority',
  ],
  ['a certificate of another key', { [requests]: signed(anotherNode.certificate) }, 'the signer returned the certificate of another key'],
  ['another text as certificate', { [requests]: signed('text') }, 'the signer returned no certificate in PEM'],
])('a node does not join with %s', async (_, hostile, message) => {
  expect(await failureOf(hostile, joinNode)).toContain(message);
});

const answer = { sealedClusterKey: '', record: '{}' };
it.each([
  ['no answer', null],
  ['a record of another type', { ...answer, record: {} }],
  ['a path as the name of a plugin', { ...answer, storage: { plugin: '../../etc', endpoints: [] } }],
  ['the directory above as the name of a plugin', { ...answer, storage: { plugin: '..', endpoints: [] } }],
  ['endpoints of another type', { ...answer, storage: { plugin: 'storage-etcd', endpoints: [7] } }],
])('a server does not join with %s', async (_, hostile) => {
  expect(await failureOf({ '/oarlock/v1/server-join': hostile }, newServer)).toContain(malformed);
});
