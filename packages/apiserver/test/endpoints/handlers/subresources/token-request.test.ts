import { createPublicKey } from 'node:crypto';
import { decodeProtectedHeader, jwtVerify } from 'jose';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import { pod, rejectionOf, TestServer, testKeys } from '../../../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

describe('token', () => {
  const ask = (spec: object, on = server) =>
    on.create<KubeObject & { status: { token: string; expirationTimestamp: string } }>(
      'serviceaccounts',
      { kind: 'TokenRequest', apiVersion: 'authentication.k8s.io/v1', ...{ spec } },
      { subresource: 'token', name: 'sa' },
    );
  const account = (on = server) => on.create('serviceaccounts', { kind: 'ServiceAccount', apiVersion: 'v1', metadata: { name: 'sa' } });
  const verify = (token: string, on = server) =>
    jwtVerify(token, createPublicKey(on.keys.serviceAccount.verifyingKeys[0] ?? ''), { currentDate: new Date(on.clock.now()) });

  it.each(['ec', 'rsa'] as const)("is signed by the cluster's key (%s), with upstream's claims", async (type) => {
    const other = await TestServer.start({ keys: testKeys(type) });
    const { metadata } = await account(other);
    const created = await ask({ audiences: ['vault'], expirationSeconds: 600 }, other);
    expect(created).toMatchObject({
      kind: 'TokenRequest',
      metadata: { name: 'sa', namespace: 'default' },
      spec: { audiences: ['vault'], expirationSeconds: 600 },
      status: { expirationTimestamp: '2026-01-01T00:10:00Z' },
    });
    const { payload } = await verify(created.status.token, other);
    const now = Date.UTC(2026, 0, 1) / 1000;
    expect(decodeProtectedHeader(created.status.token)).toEqual({
      alg: type === 'ec' ? 'ES256' : 'RS256',
      kid: expect.any(String) as string,
    });
    expect(payload).toEqual({
      aud: ['vault'],
      exp: now + 600,
      iat: now,
      nbf: now,
      iss: 'https://kubernetes.default.svc.cluster.local',
      jti: expect.any(String) as string,
      sub: 'system:serviceaccount:default:sa',
      'kubernetes.io': { namespace: 'default', serviceaccount: { name: 'sa', uid: metadata?.uid } },
    });
    await other.stop();
  });

  it('is only for the service account with the uid of the request', async () => {
    const uid = (await account()).metadata?.uid;
    const post = (requested: string | undefined) =>
      server.create(
        'serviceaccounts',
        { kind: 'TokenRequest', apiVersion: 'authentication.k8s.io/v1', metadata: { ...(requested !== undefined && { uid: requested }) } },
        { subresource: 'token', name: 'sa' },
      );
    expect((await post(uid)).metadata?.uid).toBe(uid);
    expect((await post(undefined)).metadata?.uid).toBe(uid);
    expect((await rejectionOf(post('earlier'))).message).toBe(
      `Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "sa": the UID in the token request (earlier) does not match the UID of the service account (${uid})`,
    );
  });

  it('is bound to a pod of the service account, and expires as requested', async () => {
    await account();
    await server.create('nodes', { kind: 'Node', apiVersion: 'v1', metadata: { name: 'n' } });
    const { metadata } = await server.create('pods', pod('p', { nodeName: 'n', serviceAccountName: 'sa' }));
    const created = await ask({
      expirationSeconds: 3607,
      boundObjectRef: { kind: 'Pod', apiVersion: 'v1', name: 'p', uid: metadata?.uid },
    });
    const { payload } = await verify(created.status.token);
    const now = Date.UTC(2026, 0, 1) / 1000;
    expect(payload).toMatchObject({ exp: now + 3607, 'kubernetes.io': { pod: { name: 'p', uid: metadata?.uid }, node: { name: 'n' } } });
    expect(payload['kubernetes.io']).not.toHaveProperty('warnafter');
    expect(created.status.expirationTimestamp).toBe('2026-01-01T01:00:07Z');
    await server.create('pods', pod('q', { serviceAccountName: 'other' }));
    expect((await rejectionOf(ask({ boundObjectRef: { kind: 'Pod', apiVersion: 'v1', name: 'q' } }))).message).toBe(
      'cannot bind token for serviceaccount "sa" to pod running with different serviceaccount name.',
    );
    expect((await rejectionOf(ask({ boundObjectRef: { kind: 'Pod', apiVersion: 'v1', name: 'p', uid: 'x' } }))).message).toContain(
      'the UID in the bound object reference (x) does not match the UID in record.',
    );
    expect((await rejectionOf(ask({ boundObjectRef: { kind: 'ConfigMap', apiVersion: 'v1', name: 'p' } }))).message).toBe(
      'cannot bind token to object of type /v1, Kind=ConfigMap',
    );
  });

  it('is what admission has decided on, not what was requested', async () => {
    const spec = { audiences: ['admitted'], expirationSeconds: 700, boundObjectRef: { kind: 'Secret', apiVersion: 'v1', name: 's' } };
    let mutated: object = spec;
    const other = await TestServer.start({
      admission: [
        {
          matches: [{ resources: ['serviceaccounts/token'], operations: ['CREATE'] }],
          mutate: ({ object }) => ({ ...object, spec: mutated }) as KubeObject,
        },
      ],
    });
    try {
      await account(other);
      const { metadata } = await other.create('secrets', { kind: 'Secret', apiVersion: 'v1', metadata: { name: 's' } });
      const created = await ask({ audiences: ['requested'], expirationSeconds: 7200 }, other);
      const { payload } = await verify(created.status.token, other);
      expect(payload).toMatchObject({ aud: ['admitted'], 'kubernetes.io': { secret: { name: 's', uid: metadata?.uid } } });
      expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(700);
      expect(created).toMatchObject({ spec, status: { expirationTimestamp: '2026-01-01T00:11:40Z' } });
      for (const [invalid, code] of [
        [{ expirationSeconds: 1 }, 422],
        [{ expirationSeconds: 'long' }, 500],
        [{ audiences: { a: 'b' } }, 500],
      ] as const) {
        mutated = invalid;
        expect((await rejectionOf(ask({}, other))).code).toBe(code);
      }
    } finally {
      await other.stop();
    }
  });

  it('lives at least ten minutes', async () => {
    await account();
    expect((await rejectionOf(ask({ expirationSeconds: 10 }))).message).toBe(
      'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 10: may not specify a duration less than 10 minutes',
    );
    expect(
      (
        await rejectionOf(
          server.create(
            'serviceaccounts',
            { kind: 'TokenRequest', apiVersion: 'authentication.k8s.io/v1', ...{ spec: {} } },
            { subresource: 'token', name: 'nobody' },
          ),
        )
      ).message,
    ).toBe('serviceaccounts "nobody" not found');
  });
});
