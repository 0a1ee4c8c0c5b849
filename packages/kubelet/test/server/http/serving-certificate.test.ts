import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SecureContextOptions } from 'node:tls';
import { openKeys } from '@oarlock/cluster/pki/keys';
import { silentLogger } from '@oarlock/primitives/logger';
import type { ClusterKeys, KeyPair } from '@oarlock/spi/cluster';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ServingCertificate } from '../../../src/server/http/serving-certificate.ts';

describe('ServingCertificate', () => {
  let directory: string;
  let keys: ClusterKeys;
  let clock: FakeClock;
  let used: SecureContextOptions[];
  const server = { setSecureContext: (options: SecureContextOptions) => void used.push(options) };
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-serving-'));
    ({ keys } = await openKeys(directory, 'https://kubernetes.default.svc'));
    clock = new FakeClock({ start: Date.now() });
    used = [];
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  const files = () => ({ certificateFile: join(directory, 'kubelet.crt'), keyFile: join(directory, 'kubelet.key') });
  const write = async (pair: KeyPair): Promise<KeyPair> => {
    await writeFile(files().keyFile, pair.key);
    await writeFile(files().certificateFile, pair.certificate);
    return pair;
  };
  let issued = 0;
  // the keys return the same certificate for the same names
  const issue = () => keys.issue({ commonName: `system:node:n${issued++}`, usages: ['server'] });
  const certificate = (tls?: ReturnType<typeof files>): ServingCertificate =>
    new ServingCertificate({
      ...{ keys, address: '127.0.0.1', config: { nodeName: 'n', tls } },
      context: { clock, log: silentLogger, hostname: 'n' },
    });

  it('uses the certificate of its files soon after they have changed, until it stops', async () => {
    const first = await write(await issue());
    const serving = certificate(files());
    serving.keep(server, await serving.current());
    const second = await write(await issue());
    await expect.poll(() => used.at(-1)?.cert).toBe(second.certificate);
    expect(second.certificate).not.toBe(first.certificate);
    const before = used.length;
    serving.stop();
    await write(await issue());
    await clock.advance(60_000);
    expect(used).toHaveLength(before);
  });

  it('keeps the certificate while its files cannot be read', async () => {
    await write(await issue());
    const serving = certificate(files());
    serving.keep(server, await serving.current());
    await rm(files().certificateFile);
    const second = await write(await issue());
    await expect.poll(() => used.at(-1)?.cert).toBe(second.certificate);
    serving.stop();
  });
});
