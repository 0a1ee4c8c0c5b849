import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../../../src/api/client.ts';
import { ObjectVersions, previousReader, type HistoryEnd } from '../../../../src/views/object/changes/object-versions.ts';
import { fakeClient, queryOf } from '../../../api/support.ts';

const version = (resourceVersion: string, uid = 'u'): KubeObject => ({ metadata: { name: 'web', namespace: 'd', uid, resourceVersion } });
const deployments = {
  ...{ group: 'apps', version: 'v1', resource: 'deployments', kind: 'Deployment', namespaced: true },
  ...{ verbs: [], shortNames: [], subresources: [] },
};
const { signal } = new AbortController();

describe('previousReader', () => {
  it('lists the state just before the version', async () => {
    const { client, requests } = fakeClient([{ json: { metadata: {}, items: [version('35')] } }]);
    expect(await previousReader(client, deployments)(version('42'), signal)).toEqual(version('35'));
    expect(requests[0]?.url).toMatch(/^\/apis\/apps\/v1\/namespaces\/d\/deployments\?/);
    expect(requests[0] && queryOf(requests[0])).toEqual({
      fieldSelector: 'metadata.name=web',
      resourceVersion: '41',
      resourceVersionMatch: 'Exact',
    });
  });

  it.each([
    ['the object did not exist', { json: { metadata: {}, items: [] } }, 'created'],
    ['another object had the name', { json: { metadata: {}, items: [version('35', 'other')] } }, 'created'],
    ['the storage was compacted', { json: { reason: 'Expired' }, status: 410 }, 'compacted'],
  ] as const)('reports that %s', async (_, response, expected) => {
    expect(await previousReader(fakeClient([response]).client, deployments)(version('42'), signal)).toBe(expected);
  });

  it('reads nothing for a resource version that is not a number, and passes on other errors', async () => {
    const { client, requests } = fakeClient([{ json: { message: 'no' }, status: 403 }]);
    expect(await previousReader(client, deployments)(version('abc'), signal)).toBe('unordered');
    expect(requests).toEqual([]);
    await expect(previousReader(client, deployments)(version('9'), signal)).rejects.toThrow('no');
  });
});

describe('ObjectVersions', () => {
  /** A storage with the versions 10, 20, ... that counts its reads. */
  const storage = () => {
    const reads: string[] = [];
    const read = (object: KubeObject): Promise<KubeObject | HistoryEnd> => {
      const { resourceVersion } = object.metadata;
      reads.push(resourceVersion);
      return Promise.resolve(resourceVersion === '10' ? 'created' : version(String(Number(resourceVersion) - 10)));
    };
    return { read, reads };
  };
  const listOf = (versions: ObjectVersions) => versions.list.map(({ object }) => object.metadata.resourceVersion);

  it('reads a page of versions, and earlier ones on request, until the object was created', async () => {
    const { read, reads } = storage();
    const versions = new ObjectVersions(version('50'), read);
    await versions.add(version('50'), 2, signal);
    expect(listOf(versions)).toEqual(['50', '40', '30']);
    await versions.loadEarlier(10, signal);
    expect(listOf(versions)).toEqual(['50', '40', '30', '20', '10']);
    expect(versions.list.at(-1)?.previous).toBe('created');
    await versions.loadEarlier(10, signal);
    expect(reads).toHaveLength(5);
  });

  it('reads only the versions between a new one and those that are known', async () => {
    const { read, reads } = storage();
    const versions = new ObjectVersions(version('50'), read);
    await versions.add(version('50'), 2, signal);
    reads.length = 0;
    await versions.add(version('70'), 10, signal);
    expect(reads).toEqual(['70', '60']);
    expect(listOf(versions)).toEqual(['70', '60', '50', '40', '30']);
  });
});
