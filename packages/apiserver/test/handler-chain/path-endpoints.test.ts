import protobuf from 'protobufjs';
import { gunzipSync } from 'node:zlib';
import { kinds } from '@oarlock/api/kinds';
import type { PathHandler, PathRequest } from '@oarlock/spi/paths';
import type { Health } from '@oarlock/spi/role';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { LatencyTracked } from '../../src/endpoints/request/latency-tracker.ts';
import { configMap } from '../support/fake-pipeline.ts';
import { ping } from '../../src/handler-chain/health-endpoints.ts';
import { loopbackPathHandler, PathEndpoints } from '../../src/handler-chain/path-endpoints.ts';
import { allowAll, startServer, type TestServer } from '../support/start-server.ts';

let server: TestServer;
let storage: Health | Error = { healthy: true };
const asked: PathRequest[] = [];
const handler: PathHandler = {
  path: '/oarlock/v1/echo',
  methods: ['GET', 'POST'],
  handle: async (request) => {
    asked.push(request);
    return { code: request.method === 'POST' ? 201 : 200, body: { got: request.body ?? null } };
  },
};
const below: PathHandler = {
  path: '/oarlock/v1/below/*',
  methods: ['GET'],
  handle: async ({ path }) => ({ code: path.endsWith('missing') ? 404 : 200, body: { path } }),
};
beforeAll(async () => {
  server = await startServer({
    handlers: [handler, below],
    checks: [
      ping,
      {
        name: 'storage',
        live: true,
        ready: true,
        check: async () => {
          if (storage instanceof Error) throw storage;
          return storage;
        },
      },
      { name: 'cache', live: false, ready: true, check: () => ({ healthy: true }) },
    ],
  });
});
afterAll(() => server.stop());

const aggregated =
  'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json';
interface ResourceList {
  resources: {
    name: string;
    kind: string;
    verbs: string[];
    group?: string;
    shortNames?: string[];
    storageVersionHash?: string;
    singularName: string;
    namespaced: boolean;
  }[];
}

describe('discovery', () => {
  it('lists versions and groups', async () => {
    expect((await server.http2('GET', '/api')).json()).toEqual({
      kind: 'APIVersions',
      versions: ['v1'],
      serverAddressByClientCIDRs: [{ clientCIDR: '0.0.0.0/0', serverAddress: '10.0.0.1:6443' }],
    });
    const groups = (await server.http2('GET', '/apis')).json<{
      groups: { name: string; preferredVersion: { version: string }; versions: unknown[] }[];
    }>().groups;
    expect(groups.map(({ name }) => name)).toEqual(expect.arrayContaining(['apps', 'batch', 'rbac.authorization.k8s.io']));
    expect(groups.find(({ name }) => name === 'autoscaling')).toEqual({
      name: 'autoscaling',
      versions: [
        { groupVersion: 'autoscaling/v2', version: 'v2' },
        { groupVersion: 'autoscaling/v1', version: 'v1' },
      ],
      preferredVersion: { groupVersion: 'autoscaling/v2', version: 'v2' },
    });
    expect(groups.every(({ versions }) => versions.length > 0)).toBe(true);
    expect((await server.http2('GET', '/apis/apps')).json()).toMatchObject({ kind: 'APIGroup', name: 'apps' });
    expect((await server.http2('GET', '/apis/nothing.example.com')).code).toBe(404);
  });

  it('serves z-pages', async () => {
    const page = await server.http2('GET', '/statusz');
    expect(page.headers['content-type']).toBe('text/plain; charset=utf-8');
    expect(page.text).toMatch(/^\nkube-apiserver statusz\n[^]*\nPaths: \/api \/apis .*\/statusz /);
    const accept = 'application/json;v=v1beta1;g=config.k8s.io;as=Flagz';
    expect((await server.http2('GET', '/flagz/', { headers: { accept } })).json()).toMatchObject({ kind: 'Flagz' });
    expect((await server.http2('GET', '/flagz', { headers: { accept: 'application/json' } })).code).toBe(406);
    expect((await server.http2('GET', '/')).json<{ paths: string[] }>().paths).toContain('/statusz');
  });

  it('lists resources with their subresources', async () => {
    const { resources } = (await server.http2('GET', '/api/v1')).json<ResourceList>();
    const of = (name: string) => resources.find((resource) => resource.name === name);
    expect(of('pods')).toMatchObject({
      singularName: 'pod',
      namespaced: true,
      kind: 'Pod',
      shortNames: ['po'],
      categories: ['all'],
      storageVersionHash: 'xPOwRZ+Yhw8=',
    });
    expect(of('pods/exec')).toMatchObject({ kind: 'PodExecOptions', verbs: ['create', 'get'], singularName: '' });
    expect(of('pods/eviction')).toMatchObject({ group: 'policy', version: 'v1', kind: 'Eviction' });
    expect(of('nodes')?.namespaced).toBe(false);
    expect((await server.http2('GET', '/apis/apps/v1/')).json()).toMatchObject({
      kind: 'APIResourceList',
      apiVersion: 'v1',
      groupVersion: 'apps/v1',
    });
  });

  it('is one aggregated document if the client accepts it', async () => {
    const answer = await server.http2('GET', '/apis', { headers: { accept: aggregated } });
    expect(answer.headers['content-type']).toBe('application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList');
    const { kind, apiVersion, items } = answer.json<{
      kind: string;
      apiVersion: string;
      items: { metadata: { name: string }; versions: { version: string; resources: { resource: string }[] }[] }[];
    }>();
    expect([kind, apiVersion]).toEqual(['APIGroupDiscoveryList', 'apidiscovery.k8s.io/v2']);
    const named = items.flatMap(({ metadata, versions }) =>
      versions.flatMap(({ version, resources }) => resources.map(({ resource }) => `${metadata.name}/${version}/${resource}`)),
    );
    expect(new Set(named)).toEqual(
      new Set(
        kinds
          .filter(({ servedByDefault, group }) => servedByDefault && group !== '')
          .map(({ group, version, resource }) => `${group}/${version}/${resource}`),
      ),
    );
    const again = await server.http2('GET', '/apis', { headers: { accept: aggregated, 'if-none-match': answer.headers['etag'] ?? '' } });
    expect([again.code, again.text]).toEqual([304, '']);
    expect(
      (
        await server.http2('GET', '/api', {
          headers: { accept: 'application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList' },
        })
      ).json(),
    ).toMatchObject({ apiVersion: 'apidiscovery.k8s.io/v2beta1' });
    expect((await server.http2('GET', '/api', { headers: { accept: 'application/yaml' } })).text).toContain('kind: APIVersions');
  });
});

interface OpenApi3 {
  paths: Record<
    string,
    Record<string, { parameters?: { name: string }[]; 'x-kubernetes-action': string; 'x-kubernetes-group-version-kind': object }>
  >;
  components: { schemas: Record<string, { properties?: Record<string, object>; 'x-kubernetes-group-version-kind'?: object[] }> };
}
function refsOf(value: unknown, found = new Set<string>()): Set<string> {
  if (typeof value === 'object' && value !== null)
    for (const [key, member] of Object.entries(value)) {
      if (key === '$ref' && typeof member === 'string') found.add(member);
      else refsOf(member, found);
    }
  return found;
}

interface Definition {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, object>>;
  readonly 'x-kubernetes-group-version-kind'?: unknown;
}

describe('OpenAPI', () => {
  it('v3 lists every group version with a hash for caching', async () => {
    const { paths } = (await server.http2('GET', '/openapi/v3')).json<{ paths: Record<string, { serverRelativeURL: string }> }>();
    expect(Object.keys(paths)).toEqual(expect.arrayContaining(['api/v1', 'apis/apps/v1', 'apis/autoscaling/v2']));
    const url = paths['apis/apps/v1']?.serverRelativeURL ?? '';
    const answer = await server.http2('GET', url, { headers: { 'accept-encoding': 'gzip' } });
    expect(answer.headers['content-encoding']).toBe('gzip');
    expect(answer.headers['cache-control']).toContain('immutable');
    expect((await server.http2('GET', url)).text).toBe(answer.text);
    expect((await server.http2('GET', url, { headers: { 'if-none-match': answer.headers['etag'] ?? '' } })).code).toBe(304);
    const moved = await server.http2('GET', '/openapi/v3/apis/apps/v1?hash=OLD');
    expect([moved.code, moved.headers.location]).toEqual([301, url]);
  });

  it('v3 has the extensions that clients use', async () => {
    const document = (await server.http2('GET', '/openapi/v3/apis/apps/v1')).json<OpenApi3>();
    const patch = document.paths['/apis/apps/v1/namespaces/{namespace}/deployments/{name}']?.['patch'];
    expect(patch).toMatchObject({
      'x-kubernetes-action': 'patch',
      'x-kubernetes-group-version-kind': { group: 'apps', version: 'v1', kind: 'Deployment' },
    });
    expect(patch?.parameters?.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['fieldValidation', 'fieldManager', 'dryRun', 'force']),
    );
    expect(document.components.schemas['io.k8s.api.apps.v1.Deployment']?.['x-kubernetes-group-version-kind']).toEqual([
      { group: 'apps', version: 'v1', kind: 'Deployment' },
    ]);
    expect(document.components.schemas['io.k8s.api.core.v1.PodSpec']?.properties?.['containers']).toMatchObject({
      'x-kubernetes-patch-merge-key': 'name',
      'x-kubernetes-patch-strategy': 'merge',
      'x-kubernetes-list-type': 'map',
    });
    expect(Object.keys(document.paths)).toContain('/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale');
  });

  it.each([
    '/openapi/v3/api/v1',
    '/openapi/v3/apis/apps/v1',
    '/openapi/v3/apis/apiextensions.k8s.io/v1',
    '/openapi/v3/apis/authorization.k8s.io/v1',
    '/openapi/v2',
  ])('%s has all definitions that it refers to', async (path) => {
    const document = (await server.http2('GET', path)).json<OpenApi3 & { definitions?: object; parameters?: object }>();
    const names = Object.keys(document.definitions ?? document.components.schemas).map(
      (name) => `#/${document.definitions ? 'definitions' : 'components/schemas'}/${name}`,
    );
    const known = new Set([...names, ...Object.keys(document.parameters ?? {}).map((name) => `#/parameters/${name}`)]);
    expect([...refsOf(document)].filter((ref) => !known.has(ref))).toEqual([]);
    const operations = Object.values(document.paths)
      .flatMap((item) => Object.values(item))
      .map((operation) => (operation as unknown as { operationId?: string }).operationId)
      .filter((id) => id !== undefined);
    expect(operations.filter((id, at) => operations.indexOf(id) !== at)).toEqual([]);
  });

  it('describes every kind', async () => {
    const { definitions } = (await server.http2('GET', '/openapi/v2')).json<{ definitions: Record<string, Definition> }>();
    const lacking = Object.entries(definitions)
      .filter(([, body]) => body['x-kubernetes-group-version-kind'] !== undefined)
      .filter(([, { description }]) => description === undefined)
      .map(([name]) => name);
    expect(lacking).toEqual([]);
    expect(definitions['io.k8s.api.apps.v1.Deployment']?.properties?.['spec']).toMatchObject({ description: 'The desired state.' });
  });

  it('v2 is available as protobuf under both media types', async () => {
    const root = protobuf.parse(gnostic).root;
    const json = (await server.http2('GET', '/openapi/v2')).json<{ paths: object; definitions: object }>();
    for (const name of ['com.github.proto-openapi.spec.v2@v1.0+protobuf', 'com.github.proto-openapi.spec.v2.v1.0+protobuf']) {
      const answer = await server.http2('GET', '/openapi/v2', { headers: { accept: `application/${name}`, 'accept-encoding': 'gzip' } });
      expect(answer.headers['content-type']).toBe('application/com.github.proto-openapi.spec.v2.v1.0+protobuf');
      const type = root.lookupType('Document');
      type Parameter = { nonBodyParameter?: { queryParameterSubSchema?: { name: string } } };
      const document = type.toObject(type.decode(gunzipSync(answer.bytes))) as {
        swagger: string;
        paths: {
          path: {
            name: string;
            value: { patch?: { parameters: { parameter?: Parameter; jsonReference?: { Ref: string } }[] } };
          }[];
        };
        parameters: {
          additionalProperties: { name: string; value: Parameter }[];
        };
        definitions: { additionalProperties: { name: string; value: Record<string, never> }[] };
      };
      expect(document.swagger).toBe('2.0');
      expect(document.paths.path.map(({ name: path }) => path)).toEqual(Object.keys(json.paths));
      expect(document.definitions.additionalProperties.map(({ name: definition }) => definition).sort()).toEqual(
        Object.keys(json.definitions).sort(),
      );
      const patched = document.paths.path
        .find(({ name: path }) => path === '/api/v1/nodes/{name}')
        ?.value.patch?.parameters.map(({ parameter, jsonReference }) => {
          const key = jsonReference?.Ref.replace('#/parameters/', '');
          return parameter ?? document.parameters.additionalProperties.find(({ name: shared }) => shared === key)?.value;
        });
      const queried = patched?.map((parameter) => parameter?.nonBodyParameter?.queryParameterSubSchema?.name);
      // the parameters of one operation, and those that several share
      expect(queried).toEqual(expect.arrayContaining(['dryRun', 'fieldManager', 'fieldValidation', 'force']));
      const pod = document.definitions.additionalProperties.find(({ name: definition }) => definition === 'io.k8s.api.core.v1.PodSpec')
        ?.value as unknown as {
        properties: {
          additionalProperties: {
            name: string;
            value: {
              items: { schema: { Ref: string }[] };
              type: { value: string[] };
              vendorExtension: { name: string; value: { yaml: string } }[];
            };
          }[];
        };
      };
      const containers = pod.properties.additionalProperties.find(({ name: property }) => property === 'containers')?.value;
      expect(containers).toMatchObject({
        type: { value: ['array'] },
        items: { schema: [{ Ref: '#/definitions/io.k8s.api.core.v1.Container' }] },
      });
      expect(containers?.vendorExtension).toContainEqual({ name: 'x-kubernetes-patch-merge-key', value: { yaml: '"name"\n' } });
    }
    expect((await server.http2('GET', '/openapi/v2', { headers: { accept: 'text/plain' } })).code).toBe(406);
  });
});

/** The fields of gnostic's messages that the tests check. */
const gnostic = `syntax = "proto3";
message Any { string yaml = 2; } message NamedAny { string name = 1; Any value = 2; }
message TypeItem { repeated string value = 1; } message ItemsItem { repeated Schema schema = 1; }
message Schema { string Ref = 1; string format = 2; repeated string required = 19; TypeItem type = 22; ItemsItem items = 23; Properties properties = 25; repeated NamedAny vendor_extension = 31; }
message NamedSchema { string name = 1; Schema value = 2; } message Properties { repeated NamedSchema additional_properties = 1; }
message Query { bool required = 1; string in = 2; string name = 4; string type = 6; } message NonBody { Query query_parameter_sub_schema = 3; }
message Parameter { NonBody non_body_parameter = 2; } message JsonReference { string Ref = 1; }
message ParametersItem { Parameter parameter = 1; JsonReference json_reference = 2; }
message NamedParameter { string name = 1; Parameter value = 2; } message Parameters { repeated NamedParameter additional_properties = 1; }
message Operation { repeated string tags = 1; string operation_id = 5; repeated ParametersItem parameters = 8; repeated NamedAny vendor_extension = 13; }
message PathItem { Operation get = 2; Operation patch = 8; } message NamedPathItem { string name = 1; PathItem value = 2; }
message Paths { repeated NamedPathItem path = 2; }
message Document { string swagger = 1; Paths paths = 8; Properties definitions = 9; Parameters parameters = 10; }`;

describe('health', () => {
  it('is ok, or has the failed checks without their reasons', async () => {
    storage = { healthy: true };
    for (const path of ['/healthz', '/livez', '/readyz', '/readyz/storage', '/readyz/'])
      expect(await server.http1('GET', path).then(({ code, text }) => [code, text])).toEqual([200, 'ok']);
    expect((await server.http1('GET', '/readyz?verbose')).text).toBe('[+]ping ok\n[+]storage ok\n[+]cache ok\nreadyz check passed\n');
    expect((await server.http1('GET', '/livez?verbose')).text).toBe('[+]ping ok\n[+]storage ok\nlivez check passed\n');
    storage = { healthy: false, reason: 'the password is hunter2' };
    expect(await server.http1('GET', '/readyz').then(({ code, text }) => [code, text])).toEqual([
      500,
      '[+]ping ok\n[-]storage failed: reason withheld\n[+]cache ok\nreadyz check failed\n',
    ]);
    expect((await server.http1('GET', '/readyz/storage')).code).toBe(500);
    expect((await server.http1('GET', '/readyz?exclude=storage&verbose=1')).text).toBe(
      '[+]ping ok\n[+]storage excluded: ok\n[+]cache ok\nreadyz check passed\n',
    );
    expect((await server.http1('GET', '/readyz?exclude=nothing&exclude=storage&verbose=1')).text).toContain('no matches for "nothing"');
    expect((await server.http1('GET', '/livez/cache')).code).toBe(404);
    storage = new Error('broken');
    expect((await server.http1('GET', '/livez')).code).toBe(500);
    storage = { healthy: true };
  });
});

describe('a path without a resource', () => {
  it('is in the list of paths; /version has the version', async () => {
    expect((await server.http1('GET', '/')).json<{ paths: string[] }>().paths).toEqual(
      expect.arrayContaining([
        '/api',
        '/api/v1',
        '/apis',
        '/apis/',
        '/apis/apps',
        '/apis/apps/v1',
        '/flagz',
        '/healthz',
        '/healthz/ping',
        '/livez',
        '/livez/ping',
        '/metrics/slis',
        '/openapi/v2',
        '/openapi/v3',
        '/openapi/v3/',
        '/readyz',
        '/readyz/ping',
        '/statusz',
        '/metrics',
        '/openapi/v3/api/v1',
        '/version',
        '/oarlock/v1/below/',
        '/oarlock/v1/echo',
      ]),
    );
    expect((await server.http1('GET', '/version')).json()).toMatchObject({ major: '1', minor: '36', gitVersion: 'v1.36.0+oarlock.test' });
    expect((await server.http1('POST', '/version')).code).toBe(405);
    expect(await server.http1('GET', '/nothing').then(({ code, text, headers }) => [code, text, headers['content-type']])).toEqual([
      404,
      '404 page not found\n',
      'text/plain; charset=utf-8',
    ]);
  });

  it('is counted by the request metrics', async () => {
    server.pipeline.object(configMap('a'));
    await server.http1('GET', '/api/v1/namespaces/default/configmaps/a');
    const { text, headers } = await server.http1('GET', '/metrics');
    expect(headers['content-type']).toContain('text/plain; version=0.0.4');
    expect(text).toMatch(
      /^apiserver_request_total\{verb="GET",dry_run="",group="",version="v1",resource="configmaps",subresource="",scope="resource",component="apiserver",code="200"\} \d+$/m,
    );
    expect(text).toMatch(/^apiserver_request_duration_seconds_bucket\{le="0.1",verb="GET"/m);
    expect(text).toMatch(/^kubernetes_build_info\{major="1",minor="36",git_version="v1.36.0",.*platform="linux\/[a-z0-9]+"\} 1$/m);
    expect(text).toMatch(/^apiserver_current_inflight_requests\{request_kind="readOnly"\} 1$/m);
  });

  it('reports the waits for webhooks as no latency of the server', async () => {
    const clock = new FakeClock();
    const waiting = await startServer({ clock });
    onTestFinished(() => waiting.stop());
    waiting.pipeline.object(configMap('a'));
    const { pipeline } = waiting;
    const handle = pipeline.answer;
    pipeline.answer = async (request) => {
      const { latencies }: LatencyTracked = request;
      await clock.advance(3000);
      latencies?.addLatency('mutating-webhook', 2000);
      latencies?.addLatency('validating-webhook', 500);
      latencies?.addLatency('etcd', 400);
      return handle(request);
    };
    await waiting.http1('GET', '/api/v1/namespaces/default/configmaps/a');
    const { text } = await waiting.http1('GET', '/metrics');
    const secondsOf = (name: string) =>
      Number(new RegExp(`^apiserver_request_${name}_seconds_sum.*"configmaps".* (\\S+)$`, 'm').exec(text)?.[1]);
    expect(secondsOf('duration')).toBe(3);
    expect(secondsOf('sli_duration')).toBe(0.5);
  });

  it('returns only the metrics that name[] selects', async () => {
    const namesOf = async (query: string, path = '/metrics') => {
      const { text } = await server.http1('GET', `${path}?${query}`);
      return [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
    };
    const some = 'name[]=kubernetes_build_info&name[]=apiserver_longrunning_requests&name[]=none';
    expect((await namesOf(some)).toSorted()).toEqual(['apiserver_longrunning_requests', 'kubernetes_build_info']);
    expect(await namesOf('name[]=kubernetes_build_info')).toEqual(['kubernetes_build_info']);
    expect(await namesOf('name[]=kubernetes_build_info', '/metrics/slis')).toEqual([]);
  });

  it('is served by the handler of its plugin', async () => {
    expect(
      await server
        .http1('POST', '/oarlock/v1/echo?a=b', { headers: { 'content-type': 'application/json' }, body: '{"x":1}' })
        .then((answer) => [answer.code, answer.json()]),
    ).toEqual([201, { got: { x: 1 } }]);
    expect(asked.at(-1)).toMatchObject({
      method: 'POST',
      path: '/oarlock/v1/echo',
      query: { a: 'b' },
      body: { x: 1 },
      identity: { name: 'system:anonymous' },
    });
    expect((await server.http1('GET', '/oarlock/v1/echo')).json()).toEqual({ got: null });
    expect((await server.http1('DELETE', '/oarlock/v1/echo')).code).toBe(405);
    expect((await server.http1('POST', '/oarlock/v1/echo', { headers: { 'content-type': 'application/json' }, body: '{' })).code).toBe(400);
    expect((await server.http1('GET', '/oarlock/v1/below/x/y')).json()).toEqual({ path: '/oarlock/v1/below/x/y' });
    expect((await server.http1('GET', '/oarlock/v1/below/missing')).code).toBe(404);
  });

  it('is available to the loopback client', async () => {
    const paths = new PathEndpoints({
      discovery: { value: (path: string) => (path === '/api' ? { kind: 'APIVersions' } : undefined) } as never,
      openApi: {} as never,
      health: { has: () => false } as never,
      handlers: [handler, below],
      version: 'v1.36.0',
      registries: () => [],
    });
    const answer = loopbackPathHandler(paths, [allowAll]);
    const me = { name: 'me', groups: [] };
    expect(await answer('GET', '/version', undefined, me)).toMatchObject({ minor: '36' });
    expect(await answer('POST', '/oarlock/v1/echo?c=d', { y: 2 }, me)).toEqual({ got: { y: 2 } });
    expect(asked.at(-1)).toMatchObject({ query: { c: 'd' }, identity: me });
    expect(await answer('GET', '/api', undefined, me)).toEqual({ kind: 'APIVersions' });
    await expect(answer('GET', '/oarlock/v1/below/missing', undefined, me)).rejects.toMatchObject({ code: 404, reason: 'NotFound' });
    await expect(answer('GET', '/nothing', undefined, me)).rejects.toMatchObject({ code: 404 });
    await expect(loopbackPathHandler(paths, [])('GET', '/version', undefined, me)).rejects.toMatchObject({ code: 403 });
  });

  it('has one handler', () => {
    expect(
      () =>
        new PathEndpoints({
          discovery: {} as never,
          openApi: {} as never,
          health: {} as never,
          handlers: [handler, handler],
          version: '',
          registries: () => [],
        }),
    ).toThrow('two handlers claim /oarlock/v1/echo');
  });
});
