import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto';
import { nodes, pods, secrets, serviceAccounts } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authn } from '@oarlock/spi/authn';
import { authnContract, bearerCredentials } from '@oarlock/spi/authn/contract';
import { Client } from '@oarlock/spi/client';
import { Keys } from '@oarlock/spi/cluster';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { SignJWT, type JWTPayload } from 'jose';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const issuer = 'https://kubernetes.default.svc.cluster.local';
const newKey = (curve = 'P-256') =>
  generateKeyPairSync('ec', { namedCurve: curve }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
const [signing, former, foreign] = [newKey(), newKey(), newKey()];
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
const publicOf = (pem: string) => createPublicKey(pem).export({ type: 'spki', format: 'pem' }) as string;

const now = Date.UTC(2026, 0, 1) / 1000;
const account = { name: 'robot', uid: 'sa-1' };
interface Claims {
  readonly key?: string;
  readonly alg?: string;
  readonly claims?: JWTPayload;
  readonly bound?: Record<string, unknown>;
}

function token({ key = signing, alg = 'ES256', claims = {}, bound = {} }: Claims = {}): Promise<string> {
  const payload: JWTPayload = {
    iss: issuer,
    aud: [issuer],
    sub: 'system:serviceaccount:d:robot',
    iat: now,
    nbf: now,
    exp: now + 3600,
    jti: 'jti-1',
    'kubernetes.io': { namespace: 'd', serviceaccount: account, ...bound },
    ...claims,
  };
  return new SignJWT(payload).setProtectedHeader({ alg }).sign(createPrivateKey(key));
}

function open(config: unknown = {}) {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  api.seed(serviceAccounts, { metadata: { namespace: 'd', name: 'robot', uid: 'sa-1' } });
  api.seed(pods, { metadata: { namespace: 'd', name: 'p', uid: 'pod-1' }, spec: { containers: [], nodeName: 'n1' } });
  api.seed(secrets, { metadata: { namespace: 'd', name: 's', uid: 'secret-1' } });
  api.seed(nodes, { metadata: { name: 'n1', uid: 'node-1' } });
  const keys = {
    caBundle: '',
    issue: () => Promise.reject(new Error('none')),
    sign: () => Promise.reject(new Error('none')),
    serviceAccount: { issuer, signingKey: signing, verifyingKeys: [publicOf(signing), publicOf(former), publicOf(rsa)] },
  };
  const rotate = (verifyingKeys: readonly string[]) => {
    keys.serviceAccount = { ...keys.serviceAccount, verifyingKeys: [...verifyingKeys] };
  };
  const [authenticator] = new PluginHost({ clock }).provide(Client, api.client()).provide(Keys, keys).add({ plugin, config }).get(Authn);
  if (authenticator === undefined) throw new Error('not created');
  return { clock, api, authenticator, rotate };
}

const groups = ['system:serviceaccounts', 'system:serviceaccounts:d', 'system:authenticated'];
const identity = { name: 'system:serviceaccount:d:robot', uid: 'sa-1', groups };

authnContract('authn-service-account', async () => {
  const { api, authenticator } = open();
  const plain = await token();
  const bound = await token({ bound: { pod: { name: 'p', uid: 'pod-1' }, node: { name: 'n1', uid: 'node-1' } } });
  const unsigned = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${plain.split('.')[1]}.`;
  const withSecret = `${Buffer.from('{"alg":"HS256"}').toString('base64url')}.${plain.split('.')[1]}.${plain.split('.')[2]}`;
  return {
    authenticator,
    known: [
      {
        title: 'an account',
        credentials: bearerCredentials(plain),
        identity: { ...identity, extra: { 'authentication.kubernetes.io/credential-id': ['JTI=jti-1'] } },
      },
      {
        title: 'bound to a pod',
        credentials: bearerCredentials(bound),
        identity: {
          ...identity,
          extra: {
            'authentication.kubernetes.io/pod-name': ['p'],
            'authentication.kubernetes.io/pod-uid': ['pod-1'],
            'authentication.kubernetes.io/node-name': ['n1'],
            'authentication.kubernetes.io/node-uid': ['node-1'],
          },
        },
      },
      {
        title: 'bound to a secret',
        credentials: bearerCredentials(await token({ bound: { secret: { name: 's', uid: 'secret-1' } } })),
        identity,
      },
      { title: 'signed with a former key', credentials: bearerCredentials(await token({ key: former })), identity },
      { title: 'signed with RSA', credentials: bearerCredentials(await token({ key: rsa, alg: 'RS256' })), identity },
    ],
    invalid: [
      { title: 'another key', credentials: bearerCredentials(await token({ key: foreign })) },
      { title: 'unsigned', credentials: bearerCredentials(unsigned) },
      { title: 'another algorithm', credentials: bearerCredentials(withSecret) },
      { title: 'another algorithm of the key', credentials: bearerCredentials(await token({ key: rsa, alg: 'PS256' })) },
      { title: 'another issuer', credentials: bearerCredentials(await token({ claims: { iss: 'https://elsewhere' } })) },
      { title: 'another audience', credentials: bearerCredentials(await token({ claims: { aud: ['vault'] } })) },
      { title: 'no audience', credentials: bearerCredentials(await token({ claims: { aud: [] } })) },
      { title: 'expired', credentials: bearerCredentials(await token({ claims: { exp: now - 1 } })) },
      { title: 'without an expiry', credentials: bearerCredentials(await token({ claims: { exp: undefined } as unknown as JWTPayload })) },
      { title: 'not valid yet', credentials: bearerCredentials(await token({ claims: { nbf: now + 60 } })) },
      {
        title: 'of an account that was deleted and created again',
        credentials: bearerCredentials(await token({ bound: { serviceaccount: { name: 'robot', uid: 'sa-0' } } })),
      },
      {
        title: 'of a deleted account',
        credentials: bearerCredentials(await token({ bound: { serviceaccount: { name: 'gone', uid: 'sa-1' } } })),
      },
      { title: 'of an account of another namespace', credentials: bearerCredentials(await token({ bound: { namespace: 'e' } })) },
      {
        title: 'of a pod that was deleted and created again',
        credentials: bearerCredentials(await token({ bound: { pod: { name: 'p', uid: 'pod-0' } } })),
      },
      { title: 'of a deleted pod', credentials: bearerCredentials(await token({ bound: { pod: { name: 'q', uid: 'pod-1' } } })) },
      {
        title: 'of a deleted secret',
        credentials: bearerCredentials(await token({ bound: { secret: { name: 't', uid: 'secret-1' } } })),
      },
      { title: 'of a deleted node', credentials: bearerCredentials(await token({ bound: { node: { name: 'n0', uid: 'node-1' } } })) },
      {
        title: 'with a subject that does not match the account',
        credentials: bearerCredentials(await token({ claims: { sub: 'system:serviceaccount:kube-system:admin' } })),
      },
      { title: 'without private claims', credentials: bearerCredentials(await token({ claims: { 'kubernetes.io': undefined } })) },
      {
        title: 'with an account that is not an object',
        credentials: bearerCredentials(await token({ claims: { 'kubernetes.io': { namespace: 'd', serviceaccount: 'robot' } } })),
      },
    ],
    secrets: [plain.split('.')[2] ?? '', bound.split('.')[2] ?? ''],
    failDependencies: () => api.failNext({}, failure('ServiceUnavailable', 'the storage is unavailable'), 10_000),
    dispose: () => api.stop(),
  };
});

describe('authn-service-account', () => {
  it('rejects an expired token, also a cached one', async () => {
    const { clock, authenticator } = open();
    const short = bearerCredentials(await token({ claims: { exp: now + 5 } }));
    await clock.advance(4_900);
    expect(await authenticator.authenticate(short)).toMatchObject({ outcome: 'authenticated' });
    await clock.advance(200);
    expect(await authenticator.authenticate(short)).toEqual({ outcome: 'rejected', reason: 'the service account token is not valid' });
  });

  it('caches a token for less than ten seconds, then rejects it if its pod was deleted', async () => {
    const { clock, api, authenticator } = open();
    const bound = bearerCredentials(await token({ bound: { pod: { name: 'p', uid: 'pod-1' } } }));
    await authenticator.authenticate(bound);
    const requestCount = api.requests.length;
    for (let again = 0; again < 100; again++) await authenticator.authenticate(bound);
    expect(api.requests.length).toBe(requestCount);
    api.remove(pods, { namespace: 'd', name: 'p' });
    await clock.advance(10_001);
    expect(await authenticator.authenticate(bound)).toEqual({ outcome: 'rejected', reason: 'the pod of the token does not exist' });
  });

  it.each([
    ['account', serviceAccounts, { namespace: 'd', name: 'robot' }, {}],
    ['pod', pods, { namespace: 'd', name: 'p' }, { pod: { name: 'p', uid: 'pod-1' } }],
    ['secret', secrets, { namespace: 'd', name: 's' }, { secret: { name: 's', uid: 'secret-1' } }],
    ['node', nodes, { name: 'n1' }, { node: { name: 'n1', uid: 'node-1' } }],
  ] as const)('rejects a token within ten seconds after its %s was deleted', async (_kind, resource, name, bound) => {
    const { authenticator, api, clock } = open();
    const good = bearerCredentials(await token({ bound }));
    const outcome = async () => (await authenticator.authenticate(good)).outcome;
    expect(await outcome()).toBe('authenticated');
    api.remove(resource, name);
    await clock.advance(10_000);
    expect(await outcome()).toBe('rejected');
  });

  it.each([
    ['warnafter', { bound: { warnafter: [{ toString: null }] } }],
    ['jti', { claims: { jti: { toString: null } } }],
  ])('rejects a token whose claim %s is of another type', async (_name, claims) => {
    const { authenticator } = open();
    const malformed = bearerCredentials(await token(claims as Claims));
    expect(await authenticator.authenticate(malformed)).toMatchObject({ outcome: 'rejected' });
  });

  it('annotates the audit event of a token that should have been replaced', async () => {
    const { authenticator, clock } = open();
    const late = bearerCredentials(await token({ bound: { warnafter: now + 600 } }));
    expect(await authenticator.authenticate(late)).not.toHaveProperty('annotations');
    await clock.advance(700_000);
    expect(await authenticator.authenticate(late)).toMatchObject({
      outcome: 'authenticated',
      annotations: { 'authentication.k8s.io/stale-token': 'subject: system:serviceaccount:d:robot, seconds after warning threshold: 100' },
    });
  });

  it('does not cache a rejection', async () => {
    const { api, authenticator } = open();
    const bound = bearerCredentials(await token({ bound: { pod: { name: 'late', uid: 'pod-2' } } }));
    expect(await authenticator.authenticate(bound)).toMatchObject({ outcome: 'rejected' });
    api.seed(pods, { metadata: { namespace: 'd', name: 'late', uid: 'pod-2' }, spec: { containers: [] } });
    expect(await authenticator.authenticate(bound)).toMatchObject({ outcome: 'authenticated' });
  });

  it('abstains from tokens of other issuers without API requests', async () => {
    const { api, authenticator } = open();
    for (const other of [await token({ claims: { iss: 'https://elsewhere' } }), 'a.b.c', 'abc', `${'x'.repeat(20_000)}`])
      expect(await authenticator.authenticate(bearerCredentials(other))).toEqual({ outcome: 'abstained' });
    expect(api.requests).toEqual([]);
  });

  it('accepts the configured audiences only', async () => {
    const { authenticator } = open({ audiences: ['api', 'other'] });
    expect(await authenticator.authenticate(bearerCredentials(await token({ claims: { aud: ['other'] } })))).toMatchObject({
      outcome: 'authenticated',
    });
    expect(await authenticator.authenticate(bearerCredentials(await token()))).toMatchObject({ outcome: 'rejected' });
  });
});

describe('a token of a deleted pod', () => {
  const pod = (uid: string) => ({ metadata: { namespace: 'd', name: 'p', uid }, spec: { containers: [] } });

  it('stays invalid when a pod of the same name is created', async () => {
    const { authenticator, api, clock } = open();
    const stolen = bearerCredentials(await token({ bound: { pod: { name: 'p', uid: 'pod-1' } } }));
    expect(await authenticator.authenticate(stolen)).toMatchObject({ outcome: 'authenticated' });
    api.remove(pods, { namespace: 'd', name: 'p' });
    await clock.advance(10_000);
    expect(await authenticator.authenticate(stolen)).toMatchObject({ outcome: 'rejected' });
    api.seed(pods, pod('pod-2'));
    for (let round = 0; round < 3; round++) {
      expect(await authenticator.authenticate(stolen)).toEqual({ outcome: 'rejected', reason: 'the pod of the token does not exist' });
      await clock.advance(10_000);
    }
  });

  it('is rejected at once if it was not used before', async () => {
    const { authenticator, api } = open();
    const stolen = bearerCredentials(await token({ bound: { pod: { name: 'p', uid: 'pod-1' } } }));
    api.remove(pods, { namespace: 'd', name: 'p' });
    expect(await authenticator.authenticate(stolen)).toMatchObject({ outcome: 'rejected' });
    expect(await authenticator.authenticate({ ...stolen, audiences: [issuer] })).toMatchObject({ outcome: 'rejected' });
  });

  it('is rejected under another audience although the first result is cached', async () => {
    const { authenticator, api } = open();
    const claims = { aud: [issuer, 'vault'] };
    const stolen = bearerCredentials(await token({ claims, bound: { pod: { name: 'p', uid: 'pod-1' } } }));
    expect(await authenticator.authenticate(stolen)).toMatchObject({ outcome: 'authenticated' });
    api.remove(pods, { namespace: 'd', name: 'p' });
    expect(await authenticator.authenticate({ ...stolen, audiences: ['vault'] })).toMatchObject({ outcome: 'rejected' });
  });

  it('cannot replace the pod claim with inherited properties', async () => {
    const { authenticator } = open();
    const bound = { pod: { ['__proto__']: { name: 'p', uid: 'pod-1' } } };
    for (const forged of [bound, JSON.parse('{"__proto__":{"pod":{"name":"p","uid":"pod-1"}},"pod":null}') as Record<string, unknown>])
      expect(await authenticator.authenticate(bearerCredentials(await token({ bound: forged })))).toMatchObject({ outcome: 'rejected' });
  });
});

describe('a token for another audience', () => {
  it('is valid in a TokenReview for that audience only', async () => {
    const { authenticator } = open();
    const foreignToken = await token({ claims: { aud: ['vault', 'other'] } });
    expect(await authenticator.authenticate(bearerCredentials(foreignToken))).toMatchObject({ outcome: 'rejected' });
    expect(await authenticator.authenticate({ ...bearerCredentials(foreignToken), audiences: ['vault', 'x'] })).toMatchObject({
      outcome: 'authenticated',
      audiences: ['vault'],
    });
    expect(await authenticator.authenticate({ ...bearerCredentials(foreignToken), audiences: ['x'] })).toMatchObject({
      outcome: 'rejected',
    });
  });
});

it('accepts tokens of new keys at once and rejects cached tokens of removed keys', async () => {
  const { authenticator, rotate } = open();
  const [old, fresh] = [await token(), await token({ key: foreign })];
  expect(await authenticator.authenticate(bearerCredentials(old))).toMatchObject({ outcome: 'authenticated' });
  expect(await authenticator.authenticate(bearerCredentials(fresh))).toMatchObject({ outcome: 'rejected' });
  rotate([publicOf(foreign), publicOf(signing)]);
  for (const each of [old, fresh])
    expect(await authenticator.authenticate(bearerCredentials(each))).toMatchObject({ outcome: 'authenticated' });
  rotate([publicOf(foreign)]);
  expect(await authenticator.authenticate(bearerCredentials(old))).toMatchObject({ outcome: 'rejected' });
  expect(await authenticator.authenticate(bearerCredentials(fresh))).toMatchObject({ outcome: 'authenticated' });
});

describe('tokens of one connection', () => {
  const requestOn = (connection: object, bearerToken: string) => ({ ...bearerCredentials(bearerToken), connection });

  it('authenticate each request by its own token', async () => {
    const { api, authenticator } = open();
    api.seed(serviceAccounts, { metadata: { namespace: 'd', name: 'other', uid: 'sa-2' } });
    const bound = { serviceaccount: { name: 'other', uid: 'sa-2' } };
    const [first, second] = [await token(), await token({ bound, claims: { sub: 'system:serviceaccount:d:other' } })];
    const connection = {};
    for (const [used, name] of [
      [first, 'system:serviceaccount:d:robot'],
      [second, 'system:serviceaccount:d:other'],
      [second, 'system:serviceaccount:d:other'],
      [first, 'system:serviceaccount:d:robot'],
    ] as const)
      expect(await authenticator.authenticate(requestOn(connection, used))).toMatchObject({ identity: { name } });
    expect(await authenticator.authenticate(requestOn(connection, `${first}x`))).toMatchObject({ outcome: 'rejected' });
  });

  it('are rejected on an open connection when their key is removed', async () => {
    const { authenticator, rotate } = open();
    const request = requestOn({}, await token());
    for (let again = 0; again < 2; again++) expect(await authenticator.authenticate(request)).toMatchObject({ outcome: 'authenticated' });
    rotate([publicOf(foreign)]);
    expect(await authenticator.authenticate(request)).toMatchObject({ outcome: 'rejected' });
  });

  it('are rejected on an open connection when they expire, and when their pod was deleted', async () => {
    const { api, authenticator, clock } = open();
    const short = requestOn({}, await token({ claims: { exp: now + 5 } }));
    const bound = requestOn({}, await token({ bound: { pod: { name: 'p', uid: 'pod-1' } } }));
    for (const request of [short, bound]) expect(await authenticator.authenticate(request)).toMatchObject({ outcome: 'authenticated' });
    await clock.advance(5_001);
    expect(await authenticator.authenticate(short)).toMatchObject({ outcome: 'rejected' });
    api.remove(pods, { namespace: 'd', name: 'p' });
    await clock.advance(5_000);
    expect(await authenticator.authenticate(bound)).toMatchObject({ outcome: 'rejected' });
  });
});

it('rejects a token one minute after the deletion of its pod should have ended', async () => {
  const { authenticator, api, clock } = open();
  const bound = await token({ bound: { pod: { name: 'p', uid: 'pod-1' } } });
  const deletionTimestamp = new Date(clock.now()).toISOString();
  api.seed(pods, { metadata: { namespace: 'd', name: 'p', uid: 'pod-1', deletionTimestamp }, spec: { containers: [], nodeName: 'n1' } });
  expect(await authenticator.authenticate(bearerCredentials(bound))).toMatchObject({ outcome: 'authenticated' });
  await clock.advance(71_000);
  expect(await authenticator.authenticate(bearerCredentials(bound))).toMatchObject({ outcome: 'rejected' });
});

describe('a token of a Secret', () => {
  const legacy = (claims: JWTPayload = {}, key = signing) =>
    new SignJWT({
      iss: 'kubernetes/serviceaccount',
      sub: 'system:serviceaccount:d:robot',
      'kubernetes.io/serviceaccount/namespace': 'd',
      'kubernetes.io/serviceaccount/secret.name': 'held',
      'kubernetes.io/serviceaccount/service-account.name': 'robot',
      'kubernetes.io/serviceaccount/service-account.uid': 'sa-1',
      ...claims,
    })
      .setProtectedHeader({ alg: 'ES256' })
      .sign(createPrivateKey(key));
  const secretWith = (token: string) => ({
    metadata: { namespace: 'd', name: 'held' },
    data: { token: Buffer.from(token).toString('base64') },
  });

  it('is valid while the Secret contains it', async () => {
    const { authenticator, api, clock } = open();
    const good = await legacy();
    expect(await authenticator.authenticate(bearerCredentials(good))).toMatchObject({ outcome: 'rejected' });
    api.seed(secrets, secretWith(good));
    expect(await authenticator.authenticate(bearerCredentials(good))).toMatchObject({
      outcome: 'authenticated',
      identity: { name: 'system:serviceaccount:d:robot', uid: 'sa-1' },
      annotations: {
        'authentication.k8s.io/legacy-token': 'system:serviceaccount:d:robot',
        'authentication.k8s.io/legacy-token-manual-secret': 'held',
      },
    });
    api.remove(secrets, { namespace: 'd', name: 'held' });
    await clock.advance(10_001);
    expect(await authenticator.authenticate(bearerCredentials(good))).toMatchObject({ outcome: 'rejected' });
  });

  it('causes a warning if the ServiceAccount lists the Secret', async () => {
    const { authenticator, api } = open();
    const good = await legacy();
    api.seed(secrets, secretWith(good));
    expect(await authenticator.authenticate(bearerCredentials(good))).not.toHaveProperty('warnings');
    const other = open();
    const account = other.api.object(serviceAccounts, { namespace: 'd', name: 'robot' });
    other.api.seed(serviceAccounts, {
      ...account,
      metadata: { ...account?.metadata, namespace: 'd', name: 'robot' },
      secrets: [{ name: 'held' }],
    });
    other.api.seed(secrets, secretWith(good));
    expect(await other.authenticator.authenticate(bearerCredentials(good))).toMatchObject({
      annotations: { 'authentication.k8s.io/legacy-token-autogenerated-secret': 'held' },
      warnings: [
        'Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens.',
      ],
    });
  });

  it('has its last use recorded once a day', async () => {
    const { authenticator, api, clock } = open();
    const good = await legacy();
    api.seed(secrets, secretWith(good));
    const label = () => api.object(secrets, { namespace: 'd', name: 'held' })?.metadata?.labels;
    const writes = () => api.requests.filter(({ verb }) => verb === 'patch').length;
    await authenticator.authenticate(bearerCredentials(good));
    const today = new Date(clock.now()).toISOString().slice(0, 10);
    expect(label()).toEqual({ 'kubernetes.io/legacy-token-last-used': today });
    await clock.advance(10_001); // the cached result has expired
    await authenticator.authenticate(bearerCredentials(good));
    expect(writes()).toBe(1);
    await clock.advance(86_400_000);
    await authenticator.authenticate(bearerCredentials(good));
    expect([writes(), label()?.['kubernetes.io/legacy-token-last-used']]).toEqual([2, new Date(clock.now()).toISOString().slice(0, 10)]);
  });

  it('is rejected while the Secret is marked invalid', async () => {
    const { authenticator, api } = open();
    const good = await legacy();
    const secret = secretWith(good);
    api.seed(secrets, {
      ...secret,
      metadata: { ...secret.metadata, labels: { 'kubernetes.io/legacy-token-invalid-since': '2025-01-01' } },
    });
    expect(await authenticator.authenticate(bearerCredentials(good))).toEqual({
      outcome: 'rejected',
      reason: expect.stringContaining('the token in secret d/held for service account d/robot has been marked invalid'),
    });
  });

  it('is rejected one minute after the deletion of its account should have ended', async () => {
    const { authenticator, api, clock } = open();
    const good = await legacy();
    api.seed(secrets, secretWith(good));
    const deletionTimestamp = new Date(clock.now()).toISOString();
    api.seed(serviceAccounts, { metadata: { namespace: 'd', name: 'robot', uid: 'sa-1', deletionTimestamp } });
    expect(await authenticator.authenticate(bearerCredentials(good))).toMatchObject({ outcome: 'authenticated' });
    await clock.advance(71_000);
    expect(await authenticator.authenticate(bearerCredentials(good))).toMatchObject({ outcome: 'rejected' });
  });

  it.each<[string, JWTPayload, string?]>([
    ['another key', {}, foreign],
    ['another account', { sub: 'system:serviceaccount:d:other' }],
    ['another uid', { 'kubernetes.io/serviceaccount/service-account.uid': 'sa-2' }],
    ['no Secret', { 'kubernetes.io/serviceaccount/secret.name': '' }],
  ])('is rejected with %s', async (_title, claims, key) => {
    const { authenticator, api } = open();
    const wrong = await legacy(claims, key);
    api.seed(secrets, secretWith(wrong));
    expect(await authenticator.authenticate(bearerCredentials(wrong))).toMatchObject({ outcome: 'rejected' });
  });
});
