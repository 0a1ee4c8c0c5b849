import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { selfSigned } from '@oarlock/cluster/pki/certificate-writer';
import { issuePair, newKey } from '@oarlock/cluster/pki/key-pair';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { updateServingAddress } from '../../src/nodes/serving-address.ts';

const ca = selfSigned('cluster', newKey());
const pairFor = (address: string) => issuePair(ca, { commonName: 'system:node:n1', ipAddresses: [address], usages: ['server'] });
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'oarlock-serving-'));
});
afterEach(() => rm(directory, { recursive: true }));

it('a node whose address has changed gets a serving certificate for the new one', async () => {
  const [former, next] = [pairFor('10.0.0.1'), pairFor('10.0.0.2')];
  const files = { certificateFile: join(directory, 'crt'), keyFile: join(directory, 'key') };
  await writeFile(files.certificateFile, former.certificate);
  const requested: (readonly string[])[] = [];
  const update = (address: string) =>
    updateServingAddress({
      ...{ nodeName: 'n1', address, ...files },
      request: async (names) => {
        requested.push(names);
        return next;
      },
    });
  expect(await update('10.0.0.1')).toBe(false);
  expect(await update('10.0.0.2')).toBe(true);
  expect(requested).toEqual([['n1', '10.0.0.2']]);
  expect([await readFile(files.certificateFile, 'utf8'), await readFile(files.keyFile, 'utf8')]).toEqual([next.certificate, next.key]);
  expect(await update('10.0.0.2')).toBe(false);
});
