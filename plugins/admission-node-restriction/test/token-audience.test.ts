import { csiDrivers, persistentVolumeClaims, persistentVolumes, pods, serviceAccounts } from '@oarlock/api/resources';
import type { Volume } from '@oarlock/api/types/core-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission, isAdmissionDecision } from '@oarlock/spi/admission';
import { admissionRequest } from '@oarlock/spi/admission/contract';
import { Authz, noOpinion, type Attributes } from '@oarlock/spi/authz';
import { Client } from '@oarlock/spi/client';
import { Cluster, type ClusterFacts } from '@oarlock/spi/cluster';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterAll, expect, it } from 'vitest';
import { z } from 'zod';
import plugin from '../src/plugin.ts';

const identity = { name: 'system:node:n1', groups: ['system:nodes', 'system:authenticated'] };
const api = memoryApi({ clock: new FakeClock() });
afterAll(() => api.stop());
const authorized: Attributes[] = [];
const authorizer = Authz.plugin({
  id: 'authz-test',
  config: z.strictObject({}),
  create: () => ({
    authorize(attributes: Attributes) {
      authorized.push(attributes);
      const allowed = attributes.kind === 'resource' && attributes.resource === 'granted';
      return allowed ? { decision: 'allow', reason: 'x' } : noOpinion;
    },
  }),
});

const driver = (name: string, ...audiences: string[]) => ({
  metadata: { name },
  spec: { tokenRequests: audiences.map((audience) => ({ audience })) },
});
const source = (volume: string, spec: object) => {
  api.seed(persistentVolumes, { metadata: { name: volume }, spec });
  return volume;
};
const volumes: Readonly<Record<string, Volume>> = {
  projected: { name: 'a', projected: { sources: [{ serviceAccountToken: { path: 't', audience: 'vault' } }] } },
  inline: { name: 'a', csi: { driver: 'inline.example.com' } },
  claimed: { name: 'a', persistentVolumeClaim: { claimName: 'claimed' } },
  unbound: { name: 'a', persistentVolumeClaim: { claimName: 'unbound' } },
  ephemeral: { name: 'a', ephemeral: {} },
  intree: { name: 'a', azureFile: { secretName: 's', shareName: 's' } },
};
api.seed(csiDrivers, driver('inline.example.com', 'sts'), driver('claimed.example.com', 'kms'), driver('file.csi.azure.com', 'azure'));
const byClaim = source('pv', { csi: { driver: 'claimed.example.com', volumeHandle: 'v' } });
for (const [name, volumeName] of [
  ['claimed', byClaim],
  ['ephemeral-a', byClaim],
  ['unbound', ''],
] as const)
  api.seed(persistentVolumeClaims, { metadata: { namespace: 'd', name }, spec: { ...(volumeName && { volumeName }) } });
for (const [name, volume] of Object.entries(volumes))
  api.seed(pods, { metadata: { namespace: 'd', name, uid: `uid-${name}` }, spec: { nodeName: 'n1', containers: [], volumes: [volume] } });

const requested = (pod: string, ...audiences: string[]): Promise<string> => requestToken(pod, audiences, {});

async function requestToken(pod: string, audiences: readonly string[], featureGates: Readonly<Record<string, boolean>>): Promise<string> {
  const host = new PluginHost({ clock: new FakeClock() }).provide(Client, api.client()).add({ plugin: authorizer });
  host.provide(Cluster, { featureGates } as ClusterFacts);
  const [admission] = host.add({ plugin }).get(Admission);
  const spec = { audiences, boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name: pod, uid: `uid-${pod}` } };
  const object = { metadata: { namespace: 'd', name: 'builder' }, ...{ spec } };
  const answer = await admission?.validate?.(admissionRequest('CREATE', serviceAccounts, object, { identity, subresource: 'token' }));
  if (answer === undefined || !isAdmissionDecision(answer)) throw new Error('no verdict');
  return answer.allowed ? 'allowed' : answer.message;
}

it.each([
  ['projected', 'vault'],
  ['inline', 'sts'],
  ['claimed', 'kms'],
  ['ephemeral', 'kms'],
  ['intree', 'azure'],
])('a node gets tokens of a pod with a %s volume for the audience %s, and for the API server', async (pod, audience) => {
  expect(await requested(pod, audience)).toBe('allowed');
  expect(await requested(pod)).toBe('allowed');
});

it.each([
  ['projected', 'sts'],
  ['inline', 'kms'],
  ['claimed', 'vault'],
  ['unbound', 'kms'],
  ['intree', 'kms'],
])('a node gets no token of a pod with a %s volume for the audience %s', async (pod, audience) => {
  expect(await requested(pod, audience)).toBe(
    `audience "${audience}" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience`,
  );
});

it('a node gets no token for several audiences', async () => {
  expect(await requested('projected', 'vault', 'sts')).toBe('node may only request 0 or 1 audiences');
});

it('a node gets tokens for an audience that it is authorized for', async () => {
  expect(await requested('inline', 'granted')).toBe('allowed');
  expect(authorized.at(-1)).toMatchObject({
    verb: 'request-serviceaccounts-token-audience',
    group: '',
    resource: 'granted',
    namespace: 'd',
    name: 'builder',
  });
});

it('a node gets tokens for any audience without the feature gate ServiceAccountNodeAudienceRestriction', async () => {
  const withGate = (value: boolean) => requestToken('projected', ['unneeded'], { ServiceAccountNodeAudienceRestriction: value });
  expect(await withGate(true)).not.toBe('allowed');
  expect(await withGate(false)).toBe('allowed');
});
