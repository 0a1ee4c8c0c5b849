import { expect, it } from 'vitest';
import { applyDocuments } from '../../../src/views/create/apply-documents.ts';
import { fakeClient, queryOf } from '../../api/support.ts';

const jobs = {
  ...{ group: 'batch', version: 'v1', resource: 'jobs', kind: 'Job', namespaced: true },
  ...{ verbs: [], shortNames: [], subresources: [] },
};
const apply = (document: object, client: ReturnType<typeof fakeClient>['client']) =>
  applyDocuments([document], { client, namespace: 'n', dryRun: true, force: false, resources: async () => [jobs] });

it('creates an object whose name the server generates', async () => {
  const { client, requests } = fakeClient([{ json: { metadata: { name: 'once-x7k2p' } }, status: 201 }]);
  const results = await apply({ apiVersion: 'batch/v1', kind: 'Job', metadata: { generateName: 'once-' } }, client);
  expect(results).toMatchObject([{ title: 'Job once-x7k2p', outcome: 'created', namespace: 'n', name: 'once-x7k2p' }]);
  expect(requests.map(({ url, init }) => `${init.method} ${url.split('?')[0]}`)).toEqual(['POST /apis/batch/v1/namespaces/n/jobs']);
  expect(queryOf(requests[0]!)).toEqual({ fieldManager: 'oarlock-console', fieldValidation: 'Strict', dryRun: 'All' });
});

it('rejects an object that has neither', async () => {
  const results = await apply({ apiVersion: 'batch/v1', kind: 'Job', metadata: {} }, fakeClient([]).client);
  expect(results).toMatchObject([{ title: 'Document 1', outcome: 'failed', message: expect.stringContaining('generateName') }]);
});
