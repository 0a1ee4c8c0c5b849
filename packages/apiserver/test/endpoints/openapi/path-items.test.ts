import { describe, expect, it } from 'vitest';
import { openApiParts } from '../../../src/endpoints/openapi/openapi-document.ts';
import { returnDeletedObjects } from '../../../src/endpoints/openapi/internal/operations.ts';
import { protobufOf } from '../../../src/endpoints/openapi/internal/openapi-v2-protobuf.ts';
import { allStrategies } from '../../../src/registry/strategies/strategies.ts';
import type { ServiceAllocator } from '../../../src/registry/strategies/service-allocator.ts';
import { documents, kindsOf, partsOf, served } from '../../support/openapi-documents.ts';

/** Strategies use the allocator only to write Services. */
const noAllocator = undefined as unknown as ServiceAllocator;

type Json = Readonly<Record<string, unknown>>;
type Operation = Json & { readonly operationId: string };
const methods: ReadonlySet<string> = new Set(['delete', 'get', 'head', 'options', 'patch', 'post', 'put']);
const operationsOf = (item: Json) => Object.entries(item).filter(([method]) => methods.has(method)) as [string, Operation][];

/** Returns a path item of OpenAPI v3 in few words: parameters of the path, then parameters, body and responses of each operation. */
function summaryOf(groupVersion: string, path: string): Json {
  const item = partsOf(documents.get(groupVersion) ?? [], 'path').get(path) ?? {};
  const names = (parameters: unknown) => ((parameters ?? []) as readonly { name: string }[]).map(({ name }) => name).join();
  const schemaName = ({ $ref, type }: { $ref?: string; type?: string }) => $ref?.split('.').at(-1) ?? type;
  const content = (value: unknown) => {
    const entries = Object.entries((value as { content?: Record<string, { schema: object }> }).content ?? {});
    return entries.length === 0 ? '' : `${entries.map(([type]) => type).join()} ${String(schemaName(entries[0]?.[1].schema ?? {}))}`;
  };
  return {
    parameters: names(item['parameters']),
    ...Object.fromEntries(
      operationsOf(item).map(([method, operation]) => {
        const { requestBody, responses } = operation as unknown as {
          requestBody?: { required?: boolean };
          responses: Record<string, object>;
        };
        const body = requestBody === undefined ? [] : [`${content(requestBody)}${requestBody.required === true ? ' required' : ''}`];
        const gvk = operation['x-kubernetes-group-version-kind'] as { group: string; version: string; kind: string };
        return [
          method,
          [
            `${operation['x-kubernetes-action']} ${gvk.group}/${gvk.version}.${gvk.kind} ${(operation['tags'] as string[]).join()}`,
            names(operation['parameters']),
            ...body,
            ...Object.entries(responses).map(([code, response]) => `${code} ${content(response)}`.trim()),
          ],
        ];
      }),
    ),
  };
}

describe('OpenAPI path items', () => {
  const all = 'application/json,application/vnd.kubernetes.protobuf,application/yaml';
  const streams =
    'application/json,application/json;stream=watch,application/vnd.kubernetes.protobuf,application/vnd.kubernetes.protobuf;stream=watch,application/yaml';
  const lists =
    'allowWatchBookmarks,continue,fieldSelector,labelSelector,limit,pretty,resourceVersion,resourceVersionMatch,sendInitialEvents,shardSelector,timeoutSeconds,watch';
  const lease = 'coordination.k8s.io/v1.Lease coordination_v1';
  const namespaced = '/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases';

  it('of an object have the parameters, bodies and media types of Kubernetes', () => {
    expect(summaryOf('coordination.k8s.io/v1', `${namespaced}/{name}`)).toEqual({
      parameters: 'name,namespace,pretty',
      get: [`get ${lease}`, '', `200 ${all} Lease`, '401'],
      put: [`put ${lease}`, 'dryRun,fieldManager,fieldValidation', '*/* Lease required', `200 ${all} Lease`, `201 ${all} Lease`, '401'],
      delete: [
        `delete ${lease}`,
        'dryRun,gracePeriodSeconds,ignoreStoreReadErrorWithClusterBreakingPotential,orphanDependents,propagationPolicy',
        '*/* DeleteOptions',
        `200 ${all} Status`,
        `202 ${all} Status`,
        '401',
      ],
      patch: [
        `patch ${lease}`,
        'dryRun,fieldManager,fieldValidation,force',
        'application/apply-patch+yaml,application/json-patch+json,application/merge-patch+json,application/strategic-merge-patch+json Patch required',
        `200 ${all} Lease`,
        `201 ${all} Lease`,
        '401',
      ],
    });
  });

  it('of collections and watches have the parameters of lists', () => {
    expect(summaryOf('coordination.k8s.io/v1', '/apis/coordination.k8s.io/v1/leases')).toEqual({
      parameters: lists,
      get: [`list ${lease}`, '', `200 ${streams} LeaseList`, '401'],
    });
    const collection = summaryOf('coordination.k8s.io/v1', namespaced);
    expect(collection['parameters']).toBe('namespace,pretty');
    expect(collection['post']).toEqual([
      `post ${lease}`,
      'dryRun,fieldManager,fieldValidation',
      '*/* Lease required',
      ...[200, 201, 202].map((code) => `${code} ${all} Lease`),
      '401',
    ]);
    expect(summaryOf('coordination.k8s.io/v1', namespaced.replace('/v1/', '/v1/watch/'))).toEqual({
      parameters: lists.replace('limit,', 'limit,namespace,'),
      get: [`watchlist ${lease}`, '', `200 ${streams} WatchEvent`, '401'],
    });
  });

  it('of deletions return what the strategy of the kind returns', () => {
    const strategies = allStrategies(noAllocator);
    const returned = [...strategies].filter(([, { returnsDeletedObject }]) => returnsDeletedObject === true).map(([name]) => name);
    expect([...returnDeletedObjects].sort()).toEqual(returned.sort());
  });

  it('of connections have the options as parameters', () => {
    const pod = '/api/v1/namespaces/{namespace}/pods/{name}';
    const exec = ['connect /v1.PodExecOptions core_v1', '', '200 */* string', '401'];
    expect(summaryOf('/v1', `${pod}/exec`)).toEqual({
      parameters: 'command,container,name,namespace,stderr,stdin,stdout,tty',
      get: exec,
      post: exec,
    });
    expect(summaryOf('/v1', `${pod}/proxy/{path}`)['parameters']).toBe('name,namespace,path,path');
    expect(summaryOf('/v1', `${pod}/log`)).toEqual({
      parameters:
        'container,follow,insecureSkipTLSVerifyBackend,limitBytes,name,namespace,pretty,previous,sinceSeconds,stream,tailLines,timestamps',
      get: ['get /v1.Pod core_v1', '', `200 ${all},text/plain string`, '401'],
    });
    expect(summaryOf('/v1', `${pod}/eviction`)['post']).toEqual([
      'post policy/v1.Eviction core_v1',
      '',
      '*/* Eviction required',
      ...[200, 201, 202].map((code) => `${code} ${all} Eviction`),
      '401',
    ]);
  });

  it('of version 3 describe the type of a parameter in its schema', () => {
    const item = partsOf(documents.get('coordination.k8s.io/v1') ?? [], 'path').get(namespaced);
    const [namespace] = (item?.['parameters'] ?? []) as readonly Json[];
    expect(namespace).toEqual({
      description: 'object name and auth scope, such as for teams and projects',
      name: 'namespace',
      in: 'path',
      required: true,
      schema: { type: 'string', uniqueItems: true },
    });
  });

  it('of version 2 list the media types in the order of Kubernetes', () => {
    const v2 = partsOf(openApiParts(served, 2, 'v1.36.0'), 'path');
    const types = (path: string, method: string) => {
      const { consumes, produces } = (v2.get(path)?.[method] ?? {}) as { consumes?: string[]; produces?: string[] };
      return [consumes, produces];
    };
    const objects = ['application/json', 'application/yaml', 'application/vnd.kubernetes.protobuf'];
    const watches = [...objects, 'application/json;stream=watch', 'application/vnd.kubernetes.protobuf;stream=watch'];
    const patches = ['json-patch+json', 'merge-patch+json', 'strategic-merge-patch+json', 'apply-patch+yaml'].map(
      (type) => `application/${type}`,
    );
    expect(types(namespaced, 'get')).toEqual([['*/*'], watches]);
    expect(types(namespaced, 'post')).toEqual([['*/*'], objects]);
    expect(types(`${namespaced}/{name}`, 'patch')).toEqual([patches, objects]);
    expect(types('/api/v1/namespaces/{namespace}/pods/{name}/log', 'get')).toEqual([['*/*'], ['text/plain', ...objects]]);
    expect(types('/api/v1/namespaces/{namespace}/pods/{name}/exec', 'get')).toEqual([['*/*'], ['*/*']]);
    for (const path of ['/api/', '/apis/', '/apis/apps/', '/apis/apps/v1/']) expect(types(path, 'get')).toEqual([objects, objects]);
    expect(types('/version/', 'get')).toEqual([['application/json'], ['application/json']]);
    expect(types('/openid/v1/jwks/', 'get')).toEqual([undefined, ['application/jwk-set+json']]);
    expect(types('/.well-known/openid-configuration/', 'get')).toEqual([undefined, ['application/json']]);
  });

  it('of version 2 share generic bodies, and no parameter by which clients recognize what a server supports', () => {
    const parts = [...openApiParts(kindsOf('coordination.k8s.io/v1'), 2, 'v1.36.0')];
    const shared = parts.find(({ kind }) => kind === 'tail')?.value['parameters'] as Readonly<Record<string, Json>>;
    const names = Object.keys(shared).map((key) => key.replace(/-.{8}$/, ''));
    expect(names).not.toContain('dryRun');
    expect(names).not.toContain('fieldValidation');
    expect(names.filter((name) => name === 'body' || name === 'fieldManager')).toEqual(['body', 'body', 'fieldManager', 'fieldManager']);
    const { patch, put } = partsOf(parts, 'path').get(`${namespaced}/{name}`) as Readonly<Record<string, { parameters: Json[] }>>;
    expect(patch?.parameters).toEqual([
      { $ref: expect.stringMatching(/^#\/parameters\/body-/) as string },
      expect.objectContaining({ name: 'dryRun', in: 'query' }),
      { $ref: expect.stringMatching(/^#\/parameters\/fieldManager-/) as string },
      expect.objectContaining({ name: 'fieldValidation', in: 'query' }),
      { $ref: expect.stringMatching(/^#\/parameters\/force-/) as string },
    ]);
    expect(put?.parameters[0]).toMatchObject({ in: 'body', name: 'body', required: true });
    expect(Buffer.concat([...protobufOf(parts)]).includes('#/parameters/body-')).toBe(true);
  });

  it('of version 2 refer to described parameters that they share', () => {
    const parts = [...openApiParts(kindsOf('coordination.k8s.io/v1'), 2, 'v1.36.0')];
    const tail = parts.find(({ kind }) => kind === 'tail')?.value;
    const shared = tail?.['parameters'] as Readonly<Record<string, Json>>;
    const item = partsOf(parts, 'path').get(`${namespaced}/{name}`);
    for (const parameter of (item?.['parameters'] ?? []) as readonly Json[]) {
      const { $ref } = parameter as { readonly $ref?: string };
      const parameterObject = $ref === undefined ? parameter : shared[$ref.replace('#/parameters/', '')];
      expect(parameterObject).toMatchObject({ type: 'string', uniqueItems: true, description: expect.stringMatching(/./) as string });
    }
    expect(Buffer.concat([...protobufOf(parts)]).includes('#/parameters/namespace-')).toBe(true);
  });
});

describe('OpenAPI properties', () => {
  const bodies = new Map([...documents.values()].flatMap((parts) => [...partsOf(parts, 'definition')]));
  const property = (definition: string, name: string) => {
    const { description: _description, ...rest } =
      ((bodies.get(definition)?.['properties'] ?? {}) as Readonly<Record<string, Json>>)[name] ?? {};
    return rest;
  };
  const ref = (name: string) => [{ $ref: `#/components/schemas/${name}` }];

  it('have the enumerations and defaults of Kubernetes', () => {
    expect(property('io.k8s.api.core.v1.Container', 'imagePullPolicy')).toEqual({
      type: 'string',
      enum: ['Always', 'IfNotPresent', 'Never'],
    });
    expect(property('io.k8s.api.core.v1.ContainerPort', 'protocol')).toEqual({
      type: 'string',
      default: 'TCP',
      enum: ['SCTP', 'TCP', 'UDP'],
    });
    expect(property('io.k8s.api.core.v1.NodeSelectorRequirement', 'operator')).toMatchObject({
      default: '',
      enum: expect.any(Array) as unknown,
    });
    expect(property('io.k8s.api.core.v1.PersistentVolumeClaimSpec', 'accessModes')).toMatchObject({
      items: { type: 'string', default: '', enum: ['ReadOnlyMany', 'ReadWriteMany', 'ReadWriteOnce', 'ReadWriteOncePod'] },
    });
    expect(property('io.k8s.api.core.v1.FileKeySelector', 'optional')).toMatchObject({ default: false });
    expect(property('io.k8s.api.certificates.v1beta1.PodCertificateRequestSpec', 'maxExpirationSeconds')).toMatchObject({
      default: 86_400,
    });
    for (const version of ['v1', 'v1beta1', 'v1beta2'])
      expect(property(`io.k8s.api.resource.${version}.DeviceToleration`, 'operator')).toMatchObject({ default: 'Equal' });
    const meta = 'io.k8s.apimachinery.pkg.apis.meta.v1';
    expect(property('io.k8s.api.core.v1.Pod', 'spec')).toEqual({ allOf: ref('io.k8s.api.core.v1.PodSpec'), default: {} });
    expect(property('io.k8s.api.core.v1.PodSpec', 'securityContext')).toEqual({ allOf: ref('io.k8s.api.core.v1.PodSecurityContext') });
    expect(property('io.k8s.api.apps.v1.DeploymentSpec', 'selector')).toEqual({ allOf: ref(`${meta}.LabelSelector`) });
    expect(property('io.k8s.api.core.v1.PodCondition', 'lastTransitionTime')).toEqual({ allOf: ref(`${meta}.Time`) });
    expect(property('io.k8s.api.core.v1.ResourceRequirements', 'limits')).toEqual({
      type: 'object',
      additionalProperties: ref('io.k8s.apimachinery.pkg.api.resource.Quantity')[0],
    });
    expect(property(`${meta}.ObjectMeta`, 'labels')).toEqual({ type: 'object', additionalProperties: { type: 'string', default: '' } });
  });

  it('of scalars with two types list both in version 3', () => {
    expect(bodies.get('io.k8s.apimachinery.pkg.util.intstr.IntOrString')).toEqual({
      format: 'int-or-string',
      oneOf: [{ type: 'integer' }, { type: 'string' }],
    });
    expect(bodies.get('io.k8s.apimachinery.pkg.api.resource.Quantity')).toEqual({ oneOf: [{ type: 'string' }, { type: 'number' }] });
  });

  it('are enumerated only if they exist', () => {
    const enumerated = [...bodies].flatMap(([name, body]) =>
      Object.entries((body['properties'] ?? {}) as Readonly<Record<string, Json>>).flatMap(([field, value]) =>
        JSON.stringify(value).includes('"enum":[') ? [`${name}.${field}`] : [],
      ),
    );
    console.info(`OpenAPI: ${enumerated.length} enumerated properties`);
    expect(enumerated.length).toBeGreaterThanOrEqual(100);
  });
});
