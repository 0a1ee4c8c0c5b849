import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { validatingWebhookConfigurations } from '@oarlock/api/resources';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { closeSession, openSession, removeLeftBehind } from '../../src/dev/dev-session.ts';

const { signal } = new AbortController();
const server = 'https://10.0.0.1:6443';
let dataDir: string;
let api: MemoryApi;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'oarlock-session-'));
  api = memoryApi({ clock: new FakeClock() });
});
afterEach(async () => {
  await api.stop();
  await rm(dataDir, { recursive: true });
});

it('the next start removes the webhooks of a run that was killed', async () => {
  const client = api.client();
  expect(await removeLeftBehind(dataDir, { client, server, signal })).toBeUndefined();
  const id = await openSession(dataDir, server);
  expect((await stat(join(dataDir, 'dev-session.json'))).mode & 0o777).toBe(0o600);
  api.seed(validatingWebhookConfigurations, { metadata: { name: `oarlock-dev-${id}` }, webhooks: [] });
  expect(await removeLeftBehind(dataDir, { client, server: 'https://other:6443', signal })).toContain(
    `an earlier run did not remove its webhooks from ${server}; remove them there: kubectl delete`,
  );
  expect(api.objects(validatingWebhookConfigurations)).toHaveLength(1);
  expect(await removeLeftBehind(dataDir, { client, server, signal })).toBe('removed the webhooks of an earlier run that was killed');
  expect(api.objects(validatingWebhookConfigurations)).toEqual([]);
  expect(await readdir(dataDir)).toEqual([]);
});

it('a run that ends leaves nothing to remove', async () => {
  const id = await openSession(dataDir, server);
  await closeSession(dataDir, id, { client: api.client(), signal });
  expect(await removeLeftBehind(dataDir, { client: api.client(), server, signal })).toBeUndefined();
});
