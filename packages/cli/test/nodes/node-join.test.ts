import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join as joinPath } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { caHash } from '@oarlock/cluster/pki/ca-hash';
import { selfSigned } from '@oarlock/cluster/pki/certificate-writer';
import { issuePair, newKey } from '@oarlock/cluster/pki/key-pair';
import { kubeconfig } from '@oarlock/cluster/pki/kubeconfig';
import { retryTimes } from '@oarlock/client/http/retry-unavailable';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { join } from '../../src/node-join.ts';

const token = 'abcdef.0123456789abcdef';
const ca = selfSigned('cluster', newKey());
const serving = issuePair(ca, { commonName: 'server', usages: ['server'], ipAddresses: ['127.0.0.1'] });
const nodeKey = issuePair(ca, { commonName: 'system:node:n1', organizations: ['system:nodes'], usages: ['client', 'server'] });

/** A clock on which the first pause lasts as long as a join waits. */
function sleepingClock() {
  let now = 0;
  return { monotonic: () => now, sleep: async () => void (now += retryTimes.longestMs) };
}

describe('a machine that has joined, when the API servers reject its certificate,', () => {
  let server: Server;
  let url: string;
  let dataDir: string;
  let readiness: string | undefined;

  beforeEach(async () => {
    readiness = undefined;
    // it rejects certificates and tokens, also at paths that are open to anonymous callers
    server = createServer(
      { cert: serving.certificate, key: serving.key, requestCert: true, rejectUnauthorized: false },
      (request, response) => {
        response.setHeader('content-type', 'application/json');
        const isNode = Object.keys((request.socket as TLSSocket).getPeerCertificate()).length > 0;
        if (request.url === '/oarlock/v1/ca' && !isNode) response.end(JSON.stringify({ ca: ca.certificate }));
        else if (request.url === '/version') response.end(JSON.stringify({ gitVersion: 'v1.36.0' }));
        else if (request.url === '/readyz?verbose' && readiness !== undefined)
          response.writeHead(500, { 'content-type': 'text/plain' }).end(readiness);
        else
          response
            .writeHead(401)
            .end(JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'Unauthorized', code: 401 }));
      },
    );
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    dataDir = await mkdtemp(joinPath(tmpdir(), 'oarlock-node-join-'));
    const files = {
      'node.json': JSON.stringify({ nodeName: 'n1', server: url, cluster: { name: 'one' } }),
      'kubelet-serving.crt': nodeKey.certificate,
      'kubelet.kubeconfig': kubeconfig({ cluster: 'one', server: url, ca: ca.certificate, user: 'system:node:n1', client: nodeKey }),
    };
    for (const [name, text] of Object.entries(files)) await writeFile(joinPath(dataDir, name), text);
  });
  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await rm(dataDir, { recursive: true });
  });

  it('reports that the node was removed and what to do', async () => {
    await expect(join({ dataDir, detach: false })).rejects.toThrow(
      `${url} rejects the certificate of the node n1, as after \`oarlock node remove\`: join again with a new token`,
    );
  });

  it('reports a server of a CA that the node does not know, and what to do', async () => {
    const stranger = selfSigned('former', newKey());
    const file = kubeconfig({ cluster: 'one', server: url, ca: stranger.certificate, user: 'system:node:n1', client: nodeKey });
    await writeFile(joinPath(dataDir, 'kubelet.kubeconfig'), file);
    await expect(join({ dataDir, detach: false })).rejects.toThrow(
      `${url} presents a certificate of a CA that the node n1 does not know, as after \`oarlock keys ca use\` if the node did not run before: join again with a new token and a new --data-dir`,
    );
  });

  it('joins again with a token', async () => {
    const again = join({ dataDir, detach: false, server: [url], token, caHash: caHash(ca.certificate) });
    await expect(again).rejects.toThrow(`${url} rejects the token`);
  });

  it('waits for a server that cannot read its storage, and does not blame the token', async () => {
    readiness = '[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n';
    const again = join({ dataDir, detach: false, server: [url], token, caHash: caHash(ca.certificate) }, { clock: sleepingClock() });
    await expect(again).rejects.toThrow(
      `${url} cannot verify the token, because it is not ready: etcd failed. Join again when it is ready`,
    );
  });

  it('continues when the server can read its storage again', async () => {
    readiness = '[-]etcd failed: reason withheld\n';
    const clock = { ...sleepingClock(), sleep: async () => void (readiness = '[+]etcd ok\n') };
    const again = join({ dataDir, detach: false, server: [url], token, caHash: caHash(ca.certificate) }, { clock });
    await expect(again).rejects.toThrow(`${url} rejects the token`);
  });

  it('does not join another cluster with the data directory of the former one', async () => {
    const other = caHash(selfSigned('other', newKey()).certificate);
    await expect(join({ dataDir, detach: false, server: [url], token, caHash: other })).rejects.toThrow(
      `--ca-hash: ${dataDir} belongs to the cluster one, which has another CA: join with a new --data-dir`,
    );
  });
});
