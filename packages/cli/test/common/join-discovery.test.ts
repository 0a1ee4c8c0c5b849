import { generateKeyPairSync } from 'node:crypto';
import type { RequestListener } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { ServerList } from '@oarlock/client/http/server-list';
import { caHash } from '@oarlock/cluster/pki/ca-hash';
import { selfSigned } from '@oarlock/cluster/pki/certificate-writer';
import { afterEach, describe, expect, it } from 'vitest';
import { discoverCa, requireSynchronizedClock } from '../../src/common/join-discovery.ts';

const server = 'https://10.0.0.1:6443';
const times = (startedAt: number, endedAt: number) => ({ startedAt, endedAt, server });

const newCa = (name: string) =>
  selfSigned(name, generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string);

describe('the discovered CA', () => {
  let interceptor: Server | undefined;
  afterEach(async () => {
    interceptor?.closeAllConnections();
    await new Promise((resolve) => (interceptor === undefined ? resolve(undefined) : interceptor.close(resolve)));
  });
  const [cluster, attacker] = [newCa('cluster'), newCa('attacker')];
  const discover = (ca: string) =>
    discoverAt((_request, response) => response.setHeader('content-type', 'application/json').end(JSON.stringify({ ca })));
  const discoverAt = async (answer: RequestListener) => {
    const listener = createServer({ cert: attacker.certificate, key: attacker.key }, answer);
    interceptor = listener;
    await new Promise<void>((resolve) => {
      listener.listen(0, '127.0.0.1', resolve);
    });
    const servers = new ServerList([`https://127.0.0.1:${(listener.address() as AddressInfo).port}`], { random: Math.random });
    return discoverCa(servers, { expectedHash: caHash(cluster.certificate), option: '--ca-hash' });
  };

  it('is the one that matches the hash, without CAs that an attacker on the path adds', async () => {
    expect((await discover(`${cluster.certificate}\n${attacker.certificate}`)).trim()).toBe(cluster.certificate.trim());
  });

  it.each([
    ['another CA', attacker.certificate],
    ['another CA before it', `${attacker.certificate}\n${cluster.certificate}`],
    ['no CA', 'none'],
  ])('is rejected for %s', async (_, answer) => {
    await expect(discover(answer)).rejects.toThrow('does not match --ca-hash');
  });

  it.each(['null', '[]', '{"ca":null}', '"-----BEGIN CERTIFICATE-----"'])('is rejected for the answer %s', async (answer) => {
    const result = discoverAt((_request, response) => response.setHeader('content-type', 'application/json').end(answer));
    await expect(result).rejects.toThrow('does not match --ca-hash');
  });

  it('is not read from a longer answer than CAs can have', async () => {
    await expect(discover('x'.repeat(1024 * 1024))).rejects.toThrow('the response is longer than 262144 bytes');
  });

  it('is not read from another address to which the server redirects', async () => {
    let requests = 0;
    const result = discoverAt((_request, response) => {
      requests += 1;
      response.writeHead(302, { location: '/oarlock/v1/ca?again' }).end();
    });
    await expect(result).rejects.toThrow();
    expect(requests).toBe(1);
  });
});

describe('the clocks of a joining machine and of the server', () => {
  it.each([
    ['equal', 1_000, 1_000],
    ['within the time of the request', 1_000, 100_000],
    ['a minute apart', 61_000, 61_000],
  ])('may be %s', (_, startedAt, endedAt) => {
    expect(() => requireSynchronizedClock(1_000, times(startedAt, endedAt))).not.toThrow();
  });

  it('must not differ by more than a minute', () => {
    expect(() => requireSynchronizedClock(1_000_000, times(1_075_000, 1_076_000))).toThrow(
      `the clock of this machine is 75 s ahead of that of ${server}: synchronize the clocks, for example with NTP, and join again`,
    );
    expect(() => requireSynchronizedClock(1_000_000, times(919_000, 920_000))).toThrow('is 80 s behind that of');
  });
});
