import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { selfSigned } from '@oarlock/cluster/pki/certificate-writer';
import { issuePair, newKey } from '@oarlock/cluster/pki/key-pair';
import { kubeconfig } from '@oarlock/cluster/pki/kubeconfig';
import { keysPath } from '@oarlock/cluster/servers/server-plugins';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { withCluster } from '../../src/common/cluster-access.ts';
import { withSharedKeys } from '../../src/keys/shared-key-rotation.ts';

const ca = selfSigned('cluster', newKey());
const serving = issuePair(ca, { commonName: 'server', usages: ['server'], ipAddresses: ['127.0.0.1'] });
const admin = issuePair(ca, { commonName: 'admin', usages: ['client'] });

describe('a command that queries an API server', () => {
  let dir: string;
  let server: Server;
  let url: string;
  /** The response to each request; undefined for none, as of a server without its storage. */
  let response: object | undefined;

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'oarlock-access-'));
    response = undefined;
    server = createServer({ cert: serving.certificate, key: serving.key }, (_, answer) => {
      if (response !== undefined) answer.setHeader('content-type', 'application/json').end(JSON.stringify(response));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await writeFile(
      join(dir, 'admin.kubeconfig'),
      kubeconfig({ cluster: 'c', server: url, ca: ca.certificate, user: 'admin', client: admin }),
    );
  });
  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await rm(dir, { recursive: true });
  });
  const options = () => ({ dataDir: dir, kubeconfig: join(dir, 'admin.kubeconfig'), timeout: 30 });
  /** A clock whose timer fires when `expire` is called. */
  const clockOf = () => {
    let expire: () => void = () => {};
    const after = (ms: number, fire: () => void) => {
      expect(ms).toBe(30_000);
      expire = fire;
      return { cancel() {} };
    };
    return { clock: { after }, expire: () => expire() };
  };

  it('fails after its limit with the server and the remedy, and ends its request', async () => {
    const { clock, expire } = clockOf();
    const requested = once(server, 'request');
    const work = withCluster(options(), ({ client }) => client.raw('GET', '/'), { clock });
    const rejection = expect(work).rejects.toThrow(
      `the API server ${url} did not answer within 30 s; \`oarlock status\` shows what fails, and --timeout sets another limit`,
    );
    const [request] = (await requested) as [IncomingMessage];
    const closed = once(request.socket, 'close');
    expire();
    await rejection;
    await closed;
  });

  it('fails after its limit while it connects to a cluster of a data directory', async () => {
    const { clock, expire } = clockOf();
    const requested = once(server, 'request');
    const work = withCluster({ dataDir: dir, timeout: 30 }, async () => 'connected', { clock });
    const rejection = expect(work).rejects.toThrow(/the API server did not answer within 30 s/);
    await requested;
    expire();
    await rejection;
  });

  it('returns the result of its work', async () => {
    response = { answer: 42 };
    expect(await withCluster(options(), ({ client }) => client.raw('GET', '/'))).toEqual({ answer: 42 });
  });

  it('names the servers that did not apply the keys in time', async () => {
    response = { generation: 2, servers: [{ name: 'server-b', ready: true, keysGeneration: 1 }] };
    const { clock, expire } = clockOf();
    let reads = 0;
    server.on('request', (request) => {
      // the second read follows the answer to the first one
      if (request.url === keysPath && (reads += 1) === 2) expire();
    });
    const work = withSharedKeys({ dataDir: dir, timeout: 30 }, (rotation) => rotation.whenApplied(), clock);
    await expect(work).rejects.toThrow(/^server-b did not apply the keys \(`oarlock keys status`\) within 30 s; /);
  });
});
