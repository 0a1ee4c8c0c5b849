import { allow, type AdmissionPlugin } from '@oarlock/spi/admission';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { pod, rejectionOf, TestServer } from '../support/pipeline-fixture.ts';

// what admission decides on has the namespace and the name of the object that the request acts on, so that policies can rely on them
const admitted: string[] = [];
const recorder: AdmissionPlugin = {
  matches: [{ resources: ['*'], operations: ['CREATE', 'UPDATE'] }],
  validate({ object }) {
    const { namespace = '-', name = '-' } = object?.metadata ?? {};
    admitted.push(`${namespace}/${name}`);
    return allow;
  },
};
const mismatch = 'the namespace of the provided object does not match the namespace sent on the request';
const namespace = 'default';
const deployments = 'deployments.apps';
const subjectReviews = 'localsubjectaccessreviews.authorization.k8s.io';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start({ admission: [recorder] });
  admitted.length = 0;
});
afterEach(() => server.stop());

describe('pods/eviction', () => {
  const evict = (metadata: object) =>
    server.create('pods', { apiVersion: 'policy/v1', kind: 'Eviction', metadata }, { namespace, subresource: 'eviction', name: 'a' });

  it('is admitted with the namespace of the request, and rejected with another', async () => {
    await server.create('pods', pod('a'));
    admitted.length = 0;
    expect((await rejectionOf(evict({ name: 'a', namespace: 'kube-system' }))).status).toMatchObject({ code: 400, message: mismatch });
    expect(admitted).toEqual([]);
    await evict({ name: 'a' });
    expect(admitted[0]).toBe('default/a');
  });
});

describe('deployments/scale', () => {
  const template = { metadata: { labels: { a: 'b' } }, spec: { containers: [{ name: 'c', image: 'c' }] } };
  const scaled = { namespace, subresource: 'scale', name: 'd' };
  const put = (metadata: object) => server.update(deployments, { kind: 'Scale', metadata, ...{ spec: { replicas: 2 } } }, scaled);
  const patch = (metadata: object) => server.patch(deployments, 'd', { metadata, spec: { replicas: 3 } }, scaled);
  beforeEach(async () => {
    await server.create(deployments, {
      kind: 'Deployment',
      metadata: { name: 'd' },
      ...{ spec: { selector: { matchLabels: { a: 'b' } }, template } },
    });
    admitted.length = 0;
  });

  it('is admitted with the name and namespace of the request', async () => {
    await put({ name: 'd' });
    await patch({});
    await patch({ namespace: null });
    expect(admitted).toEqual(['default/d', 'default/d', 'default/d']);
  });

  it('is rejected with others', async () => {
    const faults = [put({}), put({ name: 'e' }), put({ name: 'd', namespace: 'a' })];
    faults.push(patch({ name: null }), patch({ name: 'e' }), patch({ namespace: 'a' }));
    expect(await Promise.all(faults.map(async (fault) => (await rejectionOf(fault)).message))).toEqual([
      'name must be provided',
      'the name of the object (e) does not match the name on the URL (d)',
      mismatch,
      'the name of the object (d based on URL) was undeterminable: name must be provided',
      'the name of the object (e) does not match the name on the URL (d)',
      mismatch,
    ]);
    expect(admitted).toEqual([]);
  });
});

describe('localsubjectaccessreviews', () => {
  const review = (metadata: object) =>
    server.create(
      subjectReviews,
      {
        kind: 'LocalSubjectAccessReview',
        metadata,
        ...{ spec: { user: 'u', resourceAttributes: { namespace, verb: 'get', resource: 'pods' } } },
      },
      { namespace },
    );

  it('is admitted with the namespace of the request, and rejected with another', async () => {
    expect((await rejectionOf(review({ namespace: 'a' }))).status).toMatchObject({ code: 400, message: mismatch });
    await review({});
    expect(admitted).toEqual(['default/-']);
  });
});
