import { withPathAccess } from '@oarlock/apiserver/handler-chain/path-access';
import { abstained, anonymous, authenticated, rejected, type Authenticator, type Credentials } from '@oarlock/spi/authn';
import { noOpinion, type Authorizer } from '@oarlock/spi/authz';
import type { PathAuthenticator, PathHandler } from '@oarlock/spi/paths';
import { describe, expect, it } from 'vitest';

const authenticator: Authenticator = { authenticate: () => abstained };
const authorizer: Authorizer = { authorize: () => noOpinion };
const chains = { authn: [authenticator], authz: [authorizer] };
const handler = (path: `/${string}`, more: Partial<PathHandler> = {}): PathHandler => ({
  path,
  methods: ['GET'],
  handle: async () => ({ code: 200, body: {} }),
  ...more,
});
const session: Authenticator = { authenticate: () => authenticated({ name: 'ada', groups: [] }) };

describe('an authenticator of a path handler', () => {
  it('is called before those of the composition', async () => {
    const { authn, authz } = withPathAccess(chains, [handler('/a', { authenticator: session }), handler('/b')]);
    expect(authn).toHaveLength(2);
    expect(await authn[0]?.authenticate({ headers: {}, path: '/' })).toMatchObject({ identity: { name: 'ada' } });
    expect(authn[1]).toBe(authenticator);
    expect(authz).toBe(chains.authz);
  });

  it.each([
    ['accepts', () => authenticated({ name: 'bob', groups: [] }), 'bob'],
    ['rejects', () => rejected('unknown token'), 'rejected'],
    ['abstains from', () => abstained, 'rejected'],
    ['fails on', () => Promise.reject(new Error('no connection')), 'no connection'],
  ] as const)('learns that the composition %s credentials', async (_, decide, expected) => {
    let outcome = '';
    const asking: PathAuthenticator = {
      async authenticate(credentials, composition) {
        const result = await composition.authenticate(credentials);
        outcome = result.outcome === 'authenticated' ? result.identity.name : result.outcome;
        return result;
      },
    };
    const { authn } = withPathAccess({ ...chains, authn: [{ authenticate: decide }] }, [handler('/a', { authenticator: asking })]);
    try {
      await authn[0]?.authenticate({ headers: {}, path: '/', bearerToken: 'token' });
    } catch (error) {
      outcome = (error as Error).message;
    }
    expect(outcome).toBe(expected);
  });
});

describe('a public path', () => {
  const { authn, authz } = withPathAccess(chains, [
    handler('/page/*', { isPublic: true }),
    handler('/exact', { isPublic: true }),
    handler('/page2/*'),
  ]);
  const outcome = async (path: string, more: Partial<Credentials> = {}) =>
    (await authn.at(-1)?.authenticate({ headers: {}, path, ...more }))?.outcome;
  const decision = async (path: string) =>
    (await authz.at(-1)?.authorize({ kind: 'path', identity: anonymous, verb: 'get', path }))?.decision;

  it.each([
    ['/page/', 'authenticated', 'allow'],
    ['/page/file', 'authenticated', 'allow'],
    ['/exact', 'authenticated', 'allow'],
    ['/exact/below', 'abstained', 'no-opinion'],
    ['/page', 'abstained', 'no-opinion'],
    ['/page2/file', 'abstained', 'no-opinion'],
    ['/api', 'abstained', 'no-opinion'],
    ['/', 'abstained', 'no-opinion'],
  ])('is decided by the exact path or the prefix: %s', async (path, wantedOutcome, wantedDecision) => {
    expect([await outcome(path), await decision(path)]).toEqual([wantedOutcome, wantedDecision]);
  });

  it('does not make a caller with other credentials anonymous', async () => {
    expect(await outcome('/page/', { bearerToken: 'invalid' })).toBe('abstained');
  });

  it('grants no access to resources', async () => {
    const attributes = {
      kind: 'resource',
      identity: anonymous,
      verb: 'get',
      group: '',
      version: 'v1',
      resource: 'page',
      subresource: '',
      namespace: '',
      name: '',
    } as const;
    expect(await authz.at(-1)?.authorize(attributes)).toEqual(noOpinion);
  });

  it('leaves the chains unchanged if no handler needs access', () => {
    expect(withPathAccess(chains, [handler('/a')])).toEqual(chains);
  });
});
