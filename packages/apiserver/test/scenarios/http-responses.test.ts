import { kinds } from '@oarlock/api/kinds';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { registerObjectCountMetrics } from '../../src/metrics/object-count-metrics.ts';
import type { Pipeline } from '../../src/pipeline/pipeline.ts';
import { configMap, rejectionOf, TestServer as Core } from '../support/pipeline-fixture.ts';
import { startServer, type TestServer } from '../support/start-server.ts';

/** Conformance behaviors under their names, over HTTP and the whole pipeline. */
let core: Core;
let server: TestServer<Pipeline>;
beforeEach(async () => {
  core = await Core.start();
  server = await startServer({}, core.pipeline);
});
afterEach(async () => {
  await server.stop();
  await core.stop();
});

const get = (path: string, accept = 'application/json') => server.http1('GET', path, { headers: { accept } });
interface GroupVersion {
  readonly groupVersion: string;
  readonly version: string;
}
interface Group {
  readonly name: string;
  readonly versions: readonly GroupVersion[];
  readonly preferredVersion: GroupVersion;
}
const groups = async () => (await get('/apis')).json<{ groups: readonly Group[] }>().groups;
const builtIn = kinds.filter(({ servedByDefault }) => servedByDefault);

describe('[sig-api-machinery] Discovery', () => {
  it('should locate the groupVersion and a resource within each APIGroup [Conformance]', async () => {
    for (const { versions } of await groups()) {
      for (const { groupVersion } of versions) {
        const list = (await get(`/apis/${groupVersion}`)).json<{ groupVersion: string; resources: { name: string }[] }>();
        expect(list.groupVersion).toBe(groupVersion);
        const expected = builtIn.filter(({ group, version }) => `${group}/${version}` === groupVersion);
        expect(list.resources.map(({ name }) => name)).toEqual(expect.arrayContaining(expected.map(({ resource }) => resource)));
      }
    }
  });

  it('should validate PreferredVersion for each APIGroup [Conformance]', async () => {
    const all = await groups();
    expect(all.length).toBeGreaterThan(15);
    for (const { name, versions, preferredVersion } of all) {
      expect((await get(`/apis/${name}`)).json()).toMatchObject({ kind: 'APIGroup', name, versions, preferredVersion });
      expect(versions).toContainEqual(preferredVersion);
    }
  });
});

describe('[sig-api-machinery] AggregatedDiscovery', () => {
  const form = (version: string) => `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`;
  interface Aggregated {
    readonly items: readonly {
      readonly metadata: { readonly name?: string };
      readonly versions: readonly { readonly version: string; readonly resources: readonly { readonly resource: string }[] }[];
    }[];
  }

  it.each(['v2', 'v2beta1'])('should support raw aggregated discovery endpoint Accept headers [Conformance]: %s', async (version) => {
    const found: string[] = [];
    for (const path of ['/api', '/apis']) {
      const answer = await get(path, form(version));
      expect(answer.headers['content-type']).toBe(form(version));
      const { items } = answer.json<Aggregated>();
      for (const { metadata, versions } of items)
        for (const { version: served, resources } of versions)
          for (const { resource } of resources) found.push(`${metadata.name ?? ''}/${served}/${resource}`);
      const etag = String(answer.headers['etag']);
      expect((await server.http1('GET', path, { headers: { accept: form(version), 'if-none-match': etag } })).code).toBe(304);
    }
    expect(found.sort()).toEqual(builtIn.map(({ group, version: served, resource }) => `${group}/${served}/${resource}`).sort());
  });

  it('should support aggregated discovery interface [Conformance]: prefers the first supported form, and the legacy form last', async () => {
    const accept = `${form('v3')},${form('v2')},${form('v2beta1')},application/json`;
    expect((await get('/apis', accept)).headers['content-type']).toBe(form('v2'));
    expect((await get('/apis', `${form('v3')},application/json`)).json()).toMatchObject({ kind: 'APIGroupList' });
  });
});

describe('[sig-api-machinery] server version', () => {
  it('should find the server version [Conformance]', async () => {
    const { major, minor } = (await get('/version')).json<{ major: string; minor: string }>();
    expect([major, minor]).toEqual(['1', '36']);
  });
});

describe('[sig-api-machinery] Servers with support for Table transformation', () => {
  it('should return a 406 for a backend which does not implement metadata [Conformance]', async () => {
    const body = JSON.stringify({
      kind: 'SelfSubjectAccessReview',
      apiVersion: 'authorization.k8s.io/v1',
      spec: { nonResourceAttributes: { path: '/', verb: 'get' } },
    });
    const ask = (accept: string) =>
      server.http1('POST', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
        headers: { accept, 'content-type': 'application/json' },
        body,
      });
    const rejection = await ask('application/json;as=Table;v=v1;g=meta.k8s.io');
    expect([rejection.code, rejection.json()]).toEqual([406, expect.objectContaining({ kind: 'Status', reason: 'NotAcceptable' })]);
    expect((await ask('application/json;as=Table;v=v1;g=meta.k8s.io,application/json')).json()).toMatchObject({
      status: { allowed: true },
    });
  });
});

describe('[sig-api-machinery] Servers with support for API chunking', () => {
  const total = 40;
  beforeEach(async () => {
    for (let i = 0; i < total; i++) await core.create('configmaps', configMap(`map-${String(i).padStart(2, '0')}`));
  });
  interface List {
    readonly metadata: { readonly continue?: string; readonly remainingItemCount?: number; readonly resourceVersion: string };
    readonly items: readonly { readonly metadata: { readonly name: string } }[];
  }
  const path = '/api/v1/namespaces/default/configmaps';
  const page = (limit: number, token = '') => get(`${path}?limit=${limit}&continue=${encodeURIComponent(token)}`);

  it('should return chunks of results for list calls [Conformance]', async () => {
    const names: string[] = [];
    let token = '';
    let first: string | undefined;
    do {
      const { metadata, items } = (await page(17, token)).json<List>();
      first ??= metadata.resourceVersion;
      expect(metadata.resourceVersion).toBe(first);
      expect(items.length).toBeLessThanOrEqual(17);
      names.push(...items.map((item) => item.metadata.name));
      expect(metadata.remainingItemCount ?? 0).toBe(total - names.length);
      token = metadata.continue ?? '';
      // later writes do not appear in the pages
      await core.create('configmaps', configMap(`late-${names.length}`));
    } while (token !== '');
    expect(names).toEqual(Array.from({ length: total }, (_, i) => `map-${String(i).padStart(2, '0')}`));
    expect((await get(path)).json<List>().items).toHaveLength(total + 3);
  });

  it('should support continue listing from the last key if the original version has been compacted away, though the list is inconsistent [Slow] [Conformance]', async () => {
    const first = (await page(10)).json<List>();
    await core.create('configmaps', configMap('map-99'));
    await core.storage.compact(core.pipeline.revision);
    const late = await Core.start({ storage: core.storage, clock: core.clock });
    try {
      const gone = await rejectionOf(late.list('configmaps', { limit: '10', continue: first.metadata.continue ?? '' }));
      const { metadata } = gone.status as unknown as { metadata: { continue: string } };
      expect(gone.status).toMatchObject({ code: 410, reason: 'Expired' });
      const rest = await late.list('configmaps', { limit: '100', continue: metadata.continue });
      expect(rest.names).toEqual([...Array.from({ length: total - 10 }, (_, i) => `map-${i + 10}`), 'map-99']);
      expect(rest.metadata).toEqual({ resourceVersion: String(core.pipeline.revision) });
    } finally {
      await late.stop();
    }
  });
});

describe('[sig-api-machinery] Watchers', () => {
  const labelled = (name: string, value: string, data = {}) => configMap(name, data, { labels: { watch: value } });

  it('should observe add, update, and delete watch notifications on configmaps [Conformance]', async () => {
    const [a, b, both] = await Promise.all([
      core.watch('configmaps', { labelSelector: 'watch=a' }),
      core.watch('configmaps', { labelSelector: 'watch=b' }),
      core.watch('configmaps', { labelSelector: 'watch in (a,b)' }),
    ]);
    await core.create('configmaps', labelled('a', 'a'));
    await core.update('configmaps', labelled('a', 'a', { mutation: '1' }));
    await core.remove('configmaps', 'a');
    await core.create('configmaps', labelled('b', 'b'));
    await core.remove('configmaps', 'b');
    expect(await a.take(3)).toEqual(['ADDED a', 'MODIFIED a', 'DELETED a']);
    expect(await b.take(2)).toEqual(['ADDED b', 'DELETED b']);
    expect(await both.take(5)).toEqual(['ADDED a', 'MODIFIED a', 'DELETED a', 'ADDED b', 'DELETED b']);
    for (const watch of [a, b, both]) await watch.close();
  });

  it('should be able to start watching from a specific resource version [Conformance]', async () => {
    await core.create('configmaps', configMap('a'));
    const { metadata } = await core.update('configmaps', configMap('a', { mutation: '1' }));
    await core.update('configmaps', configMap('a', { mutation: '2' }));
    await core.remove('configmaps', 'a');
    const watch = await core.watch('configmaps', { resourceVersion: metadata?.resourceVersion ?? '' });
    const changed = await watch.next();
    expect([changed?.type, (changed?.item.object as { data?: object } | undefined)?.data]).toEqual(['MODIFIED', { mutation: '2' }]);
    expect(await watch.take(1)).toEqual(['DELETED a']);
    await watch.close();
  });

  it('should be able to restart watching from the last resource version observed by the previous watch [Conformance]', async () => {
    const first = await core.watch('configmaps', {});
    await core.create('configmaps', configMap('a'));
    await core.update('configmaps', configMap('a', { mutation: '1' }));
    await first.next();
    const seen = await first.next();
    await first.close();
    await core.update('configmaps', configMap('a', { mutation: '2' }));
    await core.remove('configmaps', 'a');
    const second = await core.watch('configmaps', { resourceVersion: seen?.item.object.metadata?.resourceVersion ?? '' });
    expect(await second.take(2)).toEqual(['MODIFIED a', 'DELETED a']);
    await second.close();
  });

  it('should observe an object deletion if it stops meeting the requirements of the selector [Conformance]', async () => {
    const watch = await core.watch('configmaps', { labelSelector: 'watch=on' });
    await core.create('configmaps', labelled('a', 'on'));
    await core.update('configmaps', labelled('a', 'on', { mutation: '1' }));
    await core.update('configmaps', labelled('a', 'off'));
    await core.update('configmaps', labelled('a', 'off', { mutation: '2' }));
    await core.update('configmaps', labelled('a', 'on'));
    await core.remove('configmaps', 'a');
    expect(await watch.take(5)).toEqual(['ADDED a', 'MODIFIED a', 'DELETED a', 'ADDED a', 'DELETED a']);
    await watch.close();
  });

  it('should receive events on concurrent watches in same order [Conformance]', async () => {
    const versions = async (from: string, count: number) => {
      const watch = await core.watch('configmaps', { resourceVersion: from });
      const seen: string[] = [];
      while (seen.length < count) seen.push((await watch.next())?.item.object.metadata?.resourceVersion ?? '');
      await watch.close();
      return seen;
    };
    const start = (await core.list('configmaps')).metadata.resourceVersion ?? '';
    const writes = (async () => {
      for (let i = 0; i < 10; i++) {
        await core.create('configmaps', configMap(`m-${i}`));
        await core.update('configmaps', configMap(`m-${i}`, { mutation: '1' }));
        await core.remove('configmaps', `m-${i}`);
      }
    })();
    const all = await versions(start, 30);
    await writes;
    expect(new Set(all).size).toBe(30);
    for (const [at, version] of all.slice(0, -1).entries()) expect(await versions(version, 29 - at)).toEqual(all.slice(at + 1));
  });
});

describe('WatchList (KEP-3157)', () => {
  const query = { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan', allowWatchBookmarks: 'true' };
  it.each(['', '0', '1'])(
    'sends the state from resourceVersion %j, the bookmark that ends it, and later events',
    async (resourceVersion) => {
      await core.create('configmaps', configMap('a'));
      const last = await core.create('configmaps', configMap('b'));
      const watch = await core.watch('configmaps', { ...query, resourceVersion });
      expect(await watch.take(2)).toEqual(['ADDED a', 'ADDED b']);
      const end = await watch.next();
      expect([end?.type, end?.item.object]).toEqual([
        'BOOKMARK',
        {
          kind: 'ConfigMap',
          apiVersion: 'v1',
          metadata: { resourceVersion: last.metadata?.resourceVersion, annotations: { 'k8s.io/initial-events-end': 'true' } },
        },
      ]);
      await core.create('configmaps', configMap('c'));
      expect(await watch.take(1)).toEqual(['ADDED c']);
      await watch.close();
    },
  );

  it('sends no state without sendInitialEvents', async () => {
    await core.create('configmaps', configMap('a'));
    const watch = await core.watch('configmaps', { ...query, sendInitialEvents: 'false', resourceVersion: '' });
    await core.create('configmaps', configMap('b'));
    expect(await watch.take(1)).toEqual(['ADDED b']);
    await watch.close();
  });
});

describe('metrics', () => {
  it('count the stored objects', async () => {
    await core.create('configmaps', configMap('a'));
    await core.create('configmaps', configMap('b'));
    const registry = new Registry();
    registerObjectCountMetrics(
      registry,
      () => core.pipeline.servedKinds(),
      (group, version, resource) => core.pipeline.count(group, version, resource),
    );
    const text = await registry.metrics();
    expect(text).toContain('apiserver_resource_objects{group="",resource="configmaps"} 2');
    expect(text).toContain('apiserver_storage_objects{resource="deployments.apps"} 0');
  });

  it("have upstream's names", async () => {
    await core.create('configmaps', configMap('a'));
    const answer = await server.http1('GET', '/api/v1/configmaps?watch=1&timeoutSeconds=0&resourceVersion=0&limit=1', {
      headers: { accept: 'application/yaml' },
    });
    expect(answer.code).toBe(406);
    const names = new Set((await get('/metrics')).text.split('\n').map((line) => /^# TYPE (\S+)/.exec(line)?.[1]));
    for (const name of [
      'apiserver_request_total',
      'apiserver_request_duration_seconds',
      'apiserver_current_inflight_requests',
      'apiserver_longrunning_requests',
      'apiserver_watch_events_total',
      'apiserver_response_sizes',
      'apiserver_requested_deprecated_apis',
      'kubernetes_build_info',
    ])
      expect(names).toContain(name);
  });
});
