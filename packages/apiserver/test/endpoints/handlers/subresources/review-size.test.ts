import type { KubeObject } from '@oarlock/api/object';
import { afterEach, expect, it } from 'vitest';
import { rejectionOf, TestServer } from '../../../support/pipeline-fixture.ts';

let server: TestServer;
afterEach(() => server.stop());

const spec = { user: 'bob', token: 't', namespace: 'default', resourceAttributes: { verb: 'get', resource: 'pods', namespace: 'default' } };
it.each([
  ['SubjectAccessReview', 'subjectaccessreviews', 'authorization.k8s.io', ''],
  ['LocalSubjectAccessReview', 'localsubjectaccessreviews', 'authorization.k8s.io', 'default'],
  ['SelfSubjectAccessReview', 'selfsubjectaccessreviews', 'authorization.k8s.io', ''],
  ['SelfSubjectRulesReview', 'selfsubjectrulesreviews', 'authorization.k8s.io', ''],
  ['TokenReview', 'tokenreviews', 'authentication.k8s.io', ''],
  ['SelfSubjectReview', 'selfsubjectreviews', 'authentication.k8s.io', ''],
])('a %s of more than 256 KiB is rejected before it is decoded', async (kind, resource, group, namespace) => {
  const requested: string[] = [];
  server = await TestServer.start({
    authz: [
      {
        authorize(attributes) {
          requested.push(attributes.identity.name);
          return { decision: 'allow', reason: 'x' };
        },
      },
    ],
  });
  const review = { kind, apiVersion: `${group}/v1`, ...{ spec } } as KubeObject;
  const status = await rejectionOf(server.create(`${resource}.${group}`, review, { namespace, bytes: 262_145 }));
  expect(status).toMatchObject({ code: 413, reason: 'RequestEntityTooLarge', message: 'Request entity too large: limit is 262144' });
  expect(requested).not.toContain('bob');
});

it('a review of some thousand groups is accepted', async () => {
  server = await TestServer.start();
  const groups = Array.from({ length: 4000 }, (_, at) => `group-${at}`);
  const review = {
    kind: 'SubjectAccessReview',
    apiVersion: 'authorization.k8s.io/v1',
    ...{ spec: { groups, resourceAttributes: { verb: 'get', resource: 'pods' } } },
  };
  const bytes = Buffer.byteLength(JSON.stringify(review));
  expect(await server.create('subjectaccessreviews.authorization.k8s.io', review as KubeObject, { namespace: '', bytes })).toMatchObject({
    status: {},
  });
});
