import { afterEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import { abstained, authenticated, rejected } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import { admin, allowAll, rejectionOf, TestServer, type ServerOptions } from '../../../support/pipeline-fixture.ts';

let server: TestServer;
const start = async (options: ServerOptions = {}) => {
  server = await TestServer.start(options);
  return server;
};
afterEach(() => server.stop());
describe('reviews', () => {
  const body = (kind: string, spec: object, group = 'authorization.k8s.io'): KubeObject => ({
    kind,
    apiVersion: `${group}/v1`,
    ...{ spec },
  });
  const onlyPods: Authorizer = {
    authorize: (a) =>
      a.identity.name === 'bob' && a.kind === 'resource' && a.resource === 'pods'
        ? { decision: 'allow', reason: 'bob likes pods' }
        : a.identity.name === 'bob'
          ? { decision: 'deny', reason: 'bob does not' }
          : { decision: 'allow', reason: 'x' },
  };

  it('return the fields of the client as managedFields, and reject other metadata', async () => {
    await start({ authz: [allowAll] });
    const spec = { user: 'bob', nonResourceAttributes: { verb: 'get', path: '/metrics' } };
    const create = (metadata: object) =>
      server.object<KubeObject>('create', 'subjectaccessreviews.authorization.k8s.io', {
        namespace: '',
        body: { ...body('SubjectAccessReview', spec), metadata },
        query: { fieldManager: 'me' },
      });
    expect((await create({})).metadata).toEqual({
      managedFields: [
        {
          manager: 'me',
          operation: 'Update',
          apiVersion: 'authorization.k8s.io/v1',
          time: '2026-01-01T00:00:00Z',
          fieldsType: 'FieldsV1',
          fieldsV1: {
            'f:spec': { 'f:nonResourceAttributes': { '.': {}, 'f:path': {}, 'f:verb': {} }, 'f:user': {} },
          },
        },
      ],
    });
    expect((await rejectionOf(create({ name: 'x' }))).message).toContain('metadata: Invalid value: ');
    expect((await rejectionOf(create({ name: 'x' }))).message).toContain(': must be empty');
  });

  it('return whether a user may perform an action', async () => {
    await start({ authz: [onlyPods] });
    const ask = (spec: object) =>
      server.create('subjectaccessreviews.authorization.k8s.io', body('SubjectAccessReview', spec), { namespace: '' });
    expect(await ask({ user: 'bob', resourceAttributes: { verb: 'get', resource: 'pods', namespace: 'a' } })).toMatchObject({
      status: { allowed: true, reason: 'bob likes pods' },
    });
    expect(await ask({ user: 'bob', nonResourceAttributes: { verb: 'get', path: '/metrics' } })).toMatchObject({
      status: { allowed: false, denied: true, reason: 'bob does not' },
    });
    expect((await rejectionOf(ask({ resourceAttributes: { verb: 'get' } }))).message).toContain(
      'spec.user: Invalid value: "": at least one of user or group must be specified',
    );
    expect((await rejectionOf(ask({ user: 'bob' }))).message).toContain(
      'exactly one of nonResourceAttributes or resourceAttributes must be specified',
    );
    const missingUser = server.create(
      'subjectaccessreviews.authorization.k8s.io',
      body('SubjectAccessReview', { nonResourceAttributes: { path: '/x', verb: 'get' } }),
    );
    expect(await rejectionOf(missingUser)).toMatchObject({
      code: 422,
      message: '.authorization.k8s.io "" is invalid: spec.user: Invalid value: "": at least one of user or group must be specified',
    });
    const rules = server.create('selfsubjectrulesreviews.authorization.k8s.io', body('SelfSubjectRulesReview', {}));
    expect(await rejectionOf(rules)).toMatchObject({ code: 400, message: 'no namespace on request' });
    const local = server.create(
      'localsubjectaccessreviews.authorization.k8s.io',
      body('LocalSubjectAccessReview', { user: 'bob', resourceAttributes: { namespace: 'other', verb: 'get', resource: 'pods' } }),
      { namespace: 'a' },
    );
    expect((await rejectionOf(local)).message).toContain(
      'spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace',
    );
  });

  it('return the permissions and the identity of the caller', async () => {
    await start({ authz: [onlyPods, allowAll] });
    const mine = (resource: string) =>
      server.create(
        'selfsubjectaccessreviews.authorization.k8s.io',
        body('SelfSubjectAccessReview', { resourceAttributes: { verb: 'get', resource } }),
      );
    expect(await mine('secrets')).toMatchObject({ status: { allowed: true } });
    expect(
      await server.create('selfsubjectreviews.authentication.k8s.io', {
        kind: 'SelfSubjectReview',
        apiVersion: 'authentication.k8s.io/v1',
      }),
    ).toMatchObject({ status: { userInfo: { username: 'admin', groups: admin.groups } } });
    expect(
      await server.create('selfsubjectrulesreviews.authorization.k8s.io', body('SelfSubjectRulesReview', { namespace: 'a' })),
    ).toMatchObject({ status: { incomplete: true, resourceRules: [], nonResourceRules: [] } });
  });

  it('return the user of a token', async () => {
    await start({
      authn: [
        {
          authenticate: ({ bearerToken }) =>
            bearerToken === 'good'
              ? authenticated({ name: 'bob', uid: '7', groups: ['g'] })
              : bearerToken === 'bad'
                ? rejected('expired')
                : abstained,
        },
        { authenticate: () => authenticated({ name: 'system:anonymous', groups: ['system:unauthenticated'] }) },
      ],
    });
    const review = (spec: object) =>
      server.create('tokenreviews.authentication.k8s.io', body('TokenReview', spec, 'authentication.k8s.io'));
    expect(await review({ token: 'good' })).toMatchObject({
      status: { authenticated: true, user: { username: 'bob', uid: '7', groups: ['g'] } },
    });
    expect(await review({ token: 'good', audiences: ['https://kubernetes.default.svc.cluster.local', 'x'] })).toMatchObject({
      status: { authenticated: true, audiences: ['https://kubernetes.default.svc.cluster.local'] },
    });
    expect(
      ((await review({ token: 'good', audiences: ['x'] })) as { status?: { authenticated?: boolean } }).status?.authenticated,
    ).toBeUndefined();
    expect(await review({ token: 'bad' })).toMatchObject({ status: { error: '[expired]' } });
    expect(((await review({ token: 'unknown' })) as { status?: object }).status).toEqual({ user: {}, error: 'invalid bearer token' });
    expect(await rejectionOf(review({}))).toMatchObject({ code: 400, message: 'token is required for TokenReview in authentication' });
  });
});
