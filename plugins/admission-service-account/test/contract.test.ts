import type { KubeObject } from '@oarlock/api/object';
import { pods, serviceAccounts } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import type { Pod } from '@oarlock/api/types/core-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission, isAdmissionDecision } from '@oarlock/spi/admission';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { Client, Informers } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const tokenPath = '/var/run/secrets/kubernetes.io/serviceaccount';
const pod = (spec: Partial<NonNullable<Pod['spec']>> = {}, metadata: Pod['metadata'] = {}): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'd', name: 'p', ...metadata },
  spec: { containers: [{ name: 'c', image: 'x' }], ...spec },
});
const as = (object: KubeObject | undefined): Pod => object ?? {};
const create = (object: Pod) => admissionRequest('CREATE', pods, object);

async function open() {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  api.seed(
    serviceAccounts,
    { metadata: { namespace: 'd', name: 'default' } },
    { metadata: { namespace: 'd', name: 'quiet' }, automountServiceAccountToken: false },
    { metadata: { namespace: 'd', name: 'puller' }, imagePullSecrets: [{ name: 'registry' }] },
    {
      metadata: { namespace: 'd', name: 'limited', annotations: { 'kubernetes.io/enforce-mountable-secrets': 'true' } },
      secrets: [{ name: 'own' }],
      imagePullSecrets: [{ name: 'registry' }],
    },
  );
  const [created] = new PluginHost({ clock })
    .provide(Client, api.client())
    .provide(Informers, api.informers)
    .add({ plugin })
    .get(Admission);
  if (created === undefined) throw new Error('not created');
  await clock.settle();
  return { api, plugin: created };
}

admissionContract('admission-service-account', async () => {
  const { api, plugin: created } = await open();
  const mountsOf = (object: KubeObject | undefined) =>
    [...(as(object).spec?.containers ?? []), ...(as(object).spec?.initContainers ?? [])].map(
      ({ volumeMounts = [] }) => volumeMounts.filter(({ mountPath }) => mountPath === tokenPath).length,
    );
  return {
    plugin: created,
    cases: [
      {
        title: 'a pod without an account',
        request: create(pod()),
        expected: 'allowed',
        check(object) {
          const { spec } = as(object);
          expect(spec).toMatchObject({ serviceAccountName: 'default', serviceAccount: 'default' });
          const [volume] = spec?.volumes ?? [];
          expect(volume?.name).toMatch(/^kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
          expect(volume?.projected).toEqual({
            defaultMode: 0o644,
            sources: [
              { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
              { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
              { downwardAPI: { items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }] } },
            ],
          });
          expect(spec?.containers[0]?.volumeMounts).toEqual([{ name: volume?.name, readOnly: true, mountPath: tokenPath }]);
        },
      },
      {
        title: 'every container',
        request: create(pod({ containers: [{ name: 'a' }, { name: 'b' }], initContainers: [{ name: 'i' }] })),
        expected: 'allowed',
        check: (object) => expect(mountsOf(object)).toEqual([1, 1, 1]),
      },
      {
        title: 'a container that mounts a volume at the token path itself',
        expected: 'allowed',
        request: create(
          pod({
            containers: [{ name: 'a', volumeMounts: [{ name: 'own', mountPath: tokenPath }] }, { name: 'b' }],
            volumes: [{ name: 'own', emptyDir: {} }],
          }),
        ),
        check(object) {
          expect(mountsOf(object)).toEqual([1, 1]);
          expect(as(object).spec?.containers[0]?.volumeMounts).toEqual([{ name: 'own', mountPath: tokenPath }]);
        },
      },
      {
        title: 'containers that all mount a volume at the token path themselves',
        request: create(
          pod({
            containers: [{ name: 'a', volumeMounts: [{ name: 'own', mountPath: tokenPath }] }],
            volumes: [{ name: 'own', emptyDir: {} }],
          }),
        ),
        expected: 'allowed',
        check: (object) => expect(as(object).spec?.volumes).toHaveLength(1),
      },
      {
        title: 'an account without automount',
        request: create(pod({ serviceAccountName: 'quiet' })),
        expected: 'allowed',
        check: (object) => expect(as(object).spec?.volumes).toBeUndefined(),
      },
      {
        title: 'a pod with automount that overrides its account',
        request: create(pod({ serviceAccountName: 'quiet', automountServiceAccountToken: true })),
        expected: 'allowed',
        check: (object) => expect(mountsOf(object)).toEqual([1]),
      },
      {
        title: 'a pod without automount',
        request: create(pod({ automountServiceAccountToken: false })),
        expected: 'allowed',
        check: (object) => expect(as(object).spec).toMatchObject({ serviceAccountName: 'default' }),
      },
      {
        title: 'pull secrets of the account',
        request: create(pod({ serviceAccountName: 'puller' })),
        expected: 'allowed',
        check: (object) => expect(as(object).spec?.imagePullSecrets).toEqual([{ name: 'registry' }]),
      },
      {
        title: 'pull secrets of the pod',
        request: create(pod({ serviceAccountName: 'puller', imagePullSecrets: [{ name: 'own' }] })),
        expected: 'allowed',
        check: (object) => expect(as(object).spec?.imagePullSecrets).toEqual([{ name: 'own' }]),
      },
      {
        title: 'the deprecated field alone',
        request: create(pod({ serviceAccount: 'quiet' })),
        expected: 'allowed',
        check: (object) => expect(as(object).spec).toMatchObject({ serviceAccountName: 'quiet', serviceAccount: 'quiet' }),
      },
      {
        title: 'a missing account',
        request: create(pod({ serviceAccountName: 'missing' })),
        expected: 'denied',
        message: 'error looking up service account d/missing: serviceaccount "missing" not found',
      },
      { title: 'a mirror pod', request: create(pod({}, { annotations: { 'kubernetes.io/config.mirror': 'x' } })), expected: 'ignored' },
      {
        title: 'a mirror pod with a service account',
        request: create(pod({ serviceAccountName: 'default' }, { annotations: { 'kubernetes.io/config.mirror': 'x' } })),
        expected: 'denied',
        message: 'a mirror pod may not reference service accounts',
      },
      ...(
        [
          ['secrets', { imagePullSecrets: [{ name: 's' }] }],
          ['secrets', { volumes: [{ name: 'v', secret: { secretName: 's' } }] }],
          ['secrets', { containers: [{ name: 'c', env: [{ name: 'E', valueFrom: { secretKeyRef: { name: 's', key: 'k' } } }] }] }],
          ['use ServiceAccountToken', { volumes: [{ name: 'v', projected: { sources: [{ serviceAccountToken: { path: 't' } }] } }] }],
        ] as const
      ).map(([message, spec]) => ({
        title: `a mirror pod with ${Object.keys(spec).join()}`,
        request: create(pod(spec, { annotations: { 'kubernetes.io/config.mirror': 'x' } })),
        expected: 'denied' as const,
        message: new RegExp(`^a mirror pod may not .*${message}`),
      })),
      ...(
        [
          [{ volumes: [{ name: 'v', secret: { secretName: 's' } }] }, 'volume with secret.secretName="s"'],
          [
            { containers: [{ name: 'c', env: [{ name: 'E', valueFrom: { secretKeyRef: { name: 's', key: 'k' } } }] }] },
            'container c with envVar E referencing secret.secretName="s"',
          ],
          [
            { initContainers: [{ name: 'i', envFrom: [{ secretRef: { name: 's' } }] }] },
            'init container i with envFrom referencing secret.secretName="s"',
          ],
        ] as const
      ).map(([spec, what]) => ({
        title: `an account that limits its pods, and ${what}`,
        request: create(pod({ serviceAccountName: 'limited', ...spec })),
        expected: 'denied' as const,
        message: `${what} is not allowed because service account limited does not reference that secret`,
      })),
      {
        title: 'an account that limits its pods, and a pull secret of another',
        request: create(pod({ serviceAccountName: 'limited', imagePullSecrets: [{ name: 'registry' }, { name: 's' }] })),
        expected: 'denied',
        message: 'imagePullSecrets[1].name="s" is not allowed because service account limited does not reference that imagePullSecret',
      },
      {
        title: 'an account that limits its pods to its own secrets',
        request: create(pod({ serviceAccountName: 'limited', volumes: [{ name: 'v', secret: { secretName: 'own' } }] })),
        expected: 'allowed',
        check: (object) => expect(as(object).spec?.imagePullSecrets).toEqual([{ name: 'registry' }]),
      },
      {
        title: 'an ephemeral container with a secret that the account does not reference',
        request: admissionRequest(
          'UPDATE',
          pods,
          pod({ serviceAccountName: 'limited', ephemeralContainers: [{ name: 'e', envFrom: [{ secretRef: { name: 's' } }] }] }),
          { old: pod({ serviceAccountName: 'limited' }), subresource: 'ephemeralcontainers' },
        ),
        expected: 'denied',
        message:
          'ephemeral container e with envFrom referencing secret.secretName="s" is not allowed because service account limited does not reference that secret',
      },
      { title: 'an update', request: admissionRequest('UPDATE', pods, pod(), { old: pod() }), expected: 'ignored' },
      {
        title: 'a subresource of a pod',
        request: admissionRequest('CREATE', pods, pod(), { subresource: 'binding' }),
        expected: 'ignored',
      },
    ],
    writes: () => api.requests.filter(({ verb }) => !['get', 'list', 'watch'].includes(verb)).length,
    failDependencies: () => api.failNext({ verb: 'get' }, failure('ServiceUnavailable', 'the store is unavailable'), 10_000),
    dispose: () => api.stop(),
  };
});

describe('admission-service-account', () => {
  it('reads a new account that the cache does not have yet', async () => {
    const { api, plugin: created } = await open();
    api.seed(serviceAccounts, { metadata: { namespace: 'd', name: 'fresh' } });
    const answer = await created.mutate?.(create(pod({ serviceAccountName: 'fresh' })));
    expect(answer !== undefined && !isAdmissionDecision(answer) && as(answer).spec?.serviceAccountName).toBe('fresh');
    await api.stop();
  });

  it('generates unique volume names', async () => {
    const { api, plugin: created } = await open();
    const names = new Set<string | undefined>();
    for (let each = 0; each < 50; each++) names.add(as((await created.mutate?.(create(pod()))) as KubeObject).spec?.volumes?.[0]?.name);
    expect(names.size).toBe(50);
    await api.stop();
  });
});
