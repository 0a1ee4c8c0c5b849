import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import { openKeys } from '@oarlock/cluster/pki/keys';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Exchange } from '../../src/http/exchange.ts';
import { kubeletClientRequest } from '../../src/proxy/kubelet-client-request.ts';
import { ProxyClientCertificate, type ServingCertificateVerification } from '../../src/proxy/proxy-client-certificate.ts';
import { ProxyAddresses } from '../../src/proxy/proxy-addresses.ts';
import { KubeletProxy } from '../../src/proxy/kubelet-proxy.ts';

describe('kubelet with a self-signed certificate', () => {
  let directory: string;
  let keys: ClusterKeys;
  let kubelet: Server;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-foreign-'));
    ({ keys } = await openKeys(join(directory, 'ours'), 'https://kubernetes.default.svc'));
    const { keys: theirs } = await openKeys(join(directory, 'theirs'), 'https://kubernetes.default.svc');
    const { certificate, key } = await theirs.issue({ commonName: 'node@1', ipAddresses: ['127.0.0.1'], usages: ['server'] });
    kubelet = createServer({ cert: certificate, key }, (_request, response) => response.end('a line\n')).listen(0, '127.0.0.1');
    await new Promise((resolve) => kubelet.once('listening', resolve));
  });
  afterAll(async () => {
    kubelet.close();
    kubelet.closeAllConnections();
    await rm(directory, { recursive: true, force: true });
  });

  const read = async (verify: ServingCertificateVerification, own: boolean) => {
    const stop = new AbortController();
    const certificate = new ProxyClientCertificate({
      issue: () => keys.issue(kubeletClientRequest),
      caBundle: keys.caBundle,
      verify,
      clock: systemClock,
    });
    const proxy = new KubeletProxy(certificate, stop.signal, { addresses: new ProxyAddresses({ listeners: () => [] }) });
    let body = '';
    const exchange = {
      signal: stop.signal,
      setHeader: () => undefined,
      abort: () => undefined,
      openStream: () => ({
        write: (chunks: readonly Buffer[]) => {
          body += Buffer.concat(chunks).toString('utf8');
          return true;
        },
        waitForDrain: () => Promise.resolve(),
        end: () => undefined,
        closed: false,
      }),
    } as unknown as Exchange;
    const { port } = kubelet.address() as AddressInfo;
    try {
      await proxy.stream(
        { kind: 'kubelet', nodeName: 'far', host: '127.0.0.1', port, path: '/containerLogs/a/b/c', upgrade: false, own },
        exchange,
      );
    } finally {
      stop.abort();
    }
    return body;
  };

  it.each([
    [true, true],
    [true, false],
    ['own', true],
  ] as const)('is rejected: verify %s, own %s', async (verify, own) => {
    await expect(read(verify, own)).rejects.toThrow('x509: certificate signed by unknown authority');
  });

  it.each([
    [false, true],
    ['own', false],
  ] as const)('is accepted: verify %s, own %s', async (verify, own) => {
    expect(await read(verify, own)).toBe('a line\n');
  });
});
