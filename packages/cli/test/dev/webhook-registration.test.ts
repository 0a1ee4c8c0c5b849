import { configMaps, mutatingWebhookConfigurations, validatingWebhookConfigurations } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import { allow, type AdmissionPlugin } from '@oarlock/spi/admission';
import type { Client } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { removeWebhooks, WebhookRegistration } from '../../src/dev/webhook-registration.ts';

const id = '0123456789';
const name = `oarlock-dev-${id}`;
const never = new AbortController().signal;
const validates: AdmissionPlugin = { matches: [{ resources: ['pods'], operations: ['CREATE'] }], validate: () => allow };
const mutates: AdmissionPlugin = { ...validates, mutate: ({ object }) => object ?? allow };

let clock: FakeClock;
let api: MemoryApi;
let registration: WebhookRegistration;
/** Returns a client that also applies objects that do not exist, which the in-memory API rejects. */
function applyingClient(): Client {
  const client = api.client();
  const patch: Client['patch'] = async (kind, target, _type, object) => {
    api.remove(kind, target);
    const [applied] = api.seed(kind, object as never);
    return applied as never;
  };
  return Object.assign(client, { patch });
}

beforeEach(() => {
  clock = new FakeClock();
  api = memoryApi({ clock });
  registration = new WebhookRegistration({
    client: applyingClient(),
    clock,
    id,
    url: 'https://10.0.0.9:4000',
    ca: 'PEM',
    failurePolicy: 'Ignore',
  });
});
afterEach(() => api.stop());

it('writes a webhook for each phase of a plugin, follows its rules, and removes them', async () => {
  await registration.apply([{ name: 'admission-a', plugin: mutates }]);
  expect(api.object(mutatingWebhookConfigurations, { name })?.webhooks).toHaveLength(1);
  expect(api.object(validatingWebhookConfigurations, { name })?.webhooks).toMatchObject([
    {
      name: `admission-a.${id}.oarlock.dev`,
      clientConfig: { url: 'https://10.0.0.9:4000/admission-a/validate', caBundle: Buffer.from('PEM').toString('base64') },
      failurePolicy: 'Ignore',
      rules: [{ apiGroups: [''], resources: ['pods'], operations: ['CREATE'] }],
    },
  ]);
  await registration.apply([{ name: 'admission-a', plugin: { ...validates, matches: [{ resources: ['secrets'], operations: ['*'] }] } }]);
  expect(api.object(mutatingWebhookConfigurations, { name })).toBeUndefined();
  expect(api.object(validatingWebhookConfigurations, { name })?.webhooks).toMatchObject([{ rules: [{ resources: ['secrets'] }] }]);
  await removeWebhooks(api.client(), id, never);
  await removeWebhooks(api.client(), id, never);
  expect(api.objects(validatingWebhookConfigurations)).toEqual([]);
});

it('reports that the API server reaches the server, that it does not, or that the check failed, and removes the probe', async () => {
  expect(await registration.checkReachable(() => true, never)).toEqual({ reachable: true });
  const calling = failure('InternalError', `failed calling webhook "probe.${id}.oarlock.dev": connect: connection refused`);
  api.failNext({ verb: 'create', resource: configMaps }, calling);
  expect(await registration.checkReachable(() => false, never)).toMatchObject({
    reachable: false,
    reason: expect.stringContaining('connection refused'),
  });
  api.failNext({ verb: 'create', resource: configMaps }, failure('Forbidden', 'no configmaps'));
  expect(await registration.checkReachable(() => false, never)).toMatchObject({
    reachable: undefined,
    reason: expect.stringContaining('no configmaps'),
  });
  const unanswered = registration.checkReachable(() => false, never);
  for (let waited = 0; waited <= 16_000; waited += 200) {
    await api.settle();
    await clock.advance(200);
  }
  expect(await unanswered).toEqual({ reachable: false, reason: 'it has not called the webhook within 15 s' });
  expect(api.objects(validatingWebhookConfigurations)).toEqual([]);
});
