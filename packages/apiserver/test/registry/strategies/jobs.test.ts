import type { KubeObject } from '@oarlock/api/object';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { rejectionOf, TestServer } from '../../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

const job = (labels: Readonly<Record<string, string>>) =>
  ({
    kind: 'Job',
    apiVersion: 'batch/v1',
    metadata: { name: 'x' },
    spec: { template: { metadata: { labels }, spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'i' }] } } },
  }) as KubeObject;
const jobs = { group: 'batch', version: 'v1', resource: 'jobs', kind: 'Job', namespaced: true };

describe('a new Job', () => {
  it('gets the labels of its pods and a selector', async () => {
    const created = await server.create(jobs, job({ app: 'a' }));
    const { uid = '' } = created.metadata ?? {};
    expect(created).toMatchObject({
      spec: {
        selector: { matchLabels: { 'batch.kubernetes.io/controller-uid': uid } },
        template: { metadata: { labels: { app: 'a', 'job-name': 'x', 'controller-uid': uid } } },
      },
    });
  });

  it('is rejected with the labels of another Job', async () => {
    expect((await rejectionOf(server.create(jobs, job({ 'job-name': 'other' })))).message).toContain(
      'spec.template.metadata.labels[job-name]: Invalid value: ',
    );
  });
});
