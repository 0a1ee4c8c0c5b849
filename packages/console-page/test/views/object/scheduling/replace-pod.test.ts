import { describe, expect, it } from 'vitest';
import { changesOnlyPod, isReplaceable, replacementOf, replacePod } from '../../../../src/views/object/scheduling/replace-pod.ts';
import { fakeClient } from '../../../api/support.ts';

const pod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    name: 'big',
    namespace: 'n',
    uid: 'u',
    resourceVersion: '7',
    creationTimestamp: '2026-01-02T03:04:05Z',
    labels: { app: 'big' },
    annotations: { 'kubectl.kubernetes.io/last-applied-configuration': '{}', kept: 'yes' },
  },
  spec: { containers: [{ name: 'main', resources: { requests: { cpu: '100' } } }] },
  status: { phase: 'Pending' },
};
const unchanged = { cpu: '', memory: '', toleratesAll: false, ignoresNodeSelector: false, nodes: [] };
const changes = { ...unchanged, cpu: '100m' };

describe('isReplaceable', () => {
  it.each([
    ['a pod that waits for a node', {}, {}, true],
    ['a pod on a node', {}, { nodeName: 'a' }, false],
    ['a pod of a controller', { ownerReferences: [{ apiVersion: 'v1', kind: 'X', name: 'x', uid: 'x', controller: true }] }, {}, false],
    ['a pod with a finalizer', { finalizers: ['example.com/x'] }, {}, false],
    ['a pod that is being deleted', { deletionTimestamp: '2026-01-02T03:04:06Z' }, {}, false],
  ])('%s', (_, metadata, spec, expected) => {
    expect(isReplaceable({ ...pod, metadata: { ...pod.metadata, ...metadata }, spec: { ...pod.spec, ...spec } })).toBe(expected);
  });
});

describe('changesOnlyPod', () => {
  it('is false without a change, and with changed nodes', () => {
    const node = { node: pod, mode: 'edit', taints: '', labels: '', cpu: '', memory: '', unschedulable: false } as const;
    expect([unchanged, changes, { ...changes, nodes: [node] }].map(changesOnlyPod)).toEqual([false, true, false]);
  });
});

describe('replacePod', () => {
  it('creates the pod with its own metadata and the changes', () => {
    expect(replacementOf(pod, changes)).toEqual({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'big', namespace: 'n', labels: { app: 'big' }, annotations: { kept: 'yes' } },
      spec: { tolerations: [], containers: [{ name: 'main', resources: { requests: { cpu: '100m' } } }] },
    });
  });

  it('tries the new pod, then deletes the version that the user has seen, and creates it', async () => {
    const { client, requests } = fakeClient([{ json: {} }, { json: {} }, { json: {} }]);
    await replacePod(client, pod, changes);
    expect(requests.map(({ url, init }) => `${init.method} ${url}`)).toEqual([
      'POST /api/v1/namespaces/n/pods?fieldManager=oarlock-console&fieldValidation=Strict&dryRun=All',
      'DELETE /api/v1/namespaces/n/pods/big',
      'POST /api/v1/namespaces/n/pods?fieldManager=oarlock-console&fieldValidation=Strict',
    ]);
    expect(JSON.parse(String(requests[0]?.init.body))).toMatchObject({ metadata: { generateName: 'replacement-' } });
    expect(JSON.parse(String(requests[1]?.init.body))).toMatchObject({ preconditions: { uid: 'u', resourceVersion: '7' } });
  });

  it('keeps the pod if the server rejects the new one', async () => {
    const { client, requests } = fakeClient([{ json: { reason: 'Invalid', message: 'must be less than the limit' }, status: 422 }]);
    await expect(replacePod(client, pod, changes)).rejects.toThrow('must be less than the limit');
    expect(requests).toHaveLength(1);
  });
});
