import { afterEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import { allow, deny, type AdmissionPlugin, type AdmissionRequest } from '@oarlock/spi/admission';
import { configMap, pod, rejectionOf, TestServer, type ServerOptions } from '../support/pipeline-fixture.ts';

let server: TestServer;
const start = async (options: ServerOptions = {}) => {
  server = await TestServer.start(options);
  return server;
};
afterEach(() => server.stop());

const plugin = (
  resources: readonly string[],
  operations: AdmissionPlugin['matches'][number]['operations'],
  rest: Omit<AdmissionPlugin, 'matches'>,
): AdmissionPlugin => ({ matches: [{ resources, operations }], ...rest });

describe('admission', () => {
  it('runs mutating plugins in order, defaulting, validation, then validating plugins', async () => {
    const seen: string[] = [];
    const label = (key: string): AdmissionPlugin =>
      plugin(['pods'], ['CREATE'], {
        mutate(request) {
          seen.push(`mutate ${key}`);
          expect(Object.isFrozen(request.object)).toBe(true);
          return {
            ...request.object,
            metadata: { ...request.object?.metadata, labels: { ...request.object?.metadata?.labels, [key]: 'x' } },
          };
        },
        validate(request) {
          seen.push(
            `validate ${key} ${Object.keys(request.object?.metadata?.labels ?? {}).join('+')} ${request.object?.metadata?.uid === undefined ? 'early' : 'complete'}`,
          );
          return allow;
        },
      });
    await start({ admission: [label('a'), label('b')] });
    expect((await server.create('pods', pod('p'))).metadata?.labels).toEqual({ a: 'x', b: 'x' });
    expect(seen).toEqual(['mutate a', 'mutate b', 'validate a a+b complete', 'validate b a+b complete']);
  });

  const spelled = {
    labels: {},
    spec: {
      nodeSelector: {},
      tolerations: [],
      hostPID: false,
      nonsense: 'x',
      containers: [
        {
          name: 'main',
          image: 'i',
          env: [],
          args: null,
          ports: [],
          resources: { requests: { cpu: '0.1', memory: '1024Mi' }, limits: {} },
        },
      ],
    },
  };
  const { labels, spec } = spelled;
  const sent = (name: string, more: object = {}): KubeObject => ({
    ...pod(name),
    ...{ spec },
    metadata: { ...pod(name).metadata, labels, ...more },
  });
  const wiped = ({ metadata, ...rest }: KubeObject) => ({
    ...rest,
    metadata: { ...metadata, name: '', uid: '', resourceVersion: '', creationTimestamp: '', managedFields: [] },
  });

  it.each([['create'], ['update']] as const)('decodes a changed object like a body: %s', async (verb) => {
    const rewrites: AdmissionPlugin = plugin(['pods'], [verb === 'create' ? 'CREATE' : 'UPDATE'], {
      mutate: ({ object }) =>
        object?.metadata?.annotations?.['spelled'] === 'out'
          ? ({
              ...object,
              ...{ spec: { ...(object as { spec?: object }).spec, ...spec } },
              metadata: { ...object.metadata, labels },
            } as KubeObject)
          : allow,
    });
    await start({ admission: [rewrites] });
    const annotations = { spelled: 'out' };
    const plain = await server.create('pods', sent('plain', { annotations: { spelled: 'by the client' } }));
    const created = await server.create(
      'pods',
      verb === 'create' ? { ...pod('made'), metadata: { ...pod('made').metadata, annotations } } : sent('made'),
    );
    const done = verb === 'create' ? created : await server.update('pods', { ...created, metadata: { ...created.metadata, annotations } });
    const same = { ...plain, metadata: { ...plain.metadata, annotations } };
    expect(wiped(done)).toEqual({
      ...wiped(same),
      metadata: { ...wiped(same).metadata, ...(verb === 'update' && { generation: done.metadata?.generation }) },
    });
    expect(JSON.stringify(done)).not.toMatch(/"env"|nodeSelector|nonsense|"limits"|hostPID|"labels"/);
  });

  it('fails with an internal error if a plugin returns an object that cannot be decoded', async () => {
    const breaks = plugin(['configmaps'], ['CREATE'], { mutate: ({ object }) => ({ ...object, ...{ data: { a: 7 } } }) as KubeObject });
    await start({ admission: [breaks] });
    expect(await rejectionOf(server.create('configmaps', configMap('c')))).toMatchObject({
      code: 500,
      reason: 'InternalError',
      message: expect.stringContaining('cannot unmarshal number into Go struct field ConfigMap.data of type string') as string,
    });
  });

  it('sets defaults again after a mutation', async () => {
    await start({
      admission: [
        plugin(['pods'], ['CREATE'], {
          mutate: ({ object }) => ({
            ...object,
            ...{
              spec: {
                containers: [
                  { name: 'main', image: 'i' },
                  { name: 'added', image: 'j' },
                ],
              },
            },
          }),
        }),
      ],
    });
    expect(await server.create('pods', pod('p'))).toMatchObject({
      spec: { containers: [{}, { name: 'added', imagePullPolicy: 'Always', terminationMessagePath: '/dev/termination-log' }] },
    });
  });

  it('calls a plugin only for requests that it matches', async () => {
    const seen: string[] = [];
    const watcher: AdmissionPlugin = {
      matches: [
        { resources: ['pods/binding', 'deployments.apps'], operations: ['CREATE'] },
        { resources: ['configmaps'], operations: ['*'] },
      ],
      validate({ operation, resource, subresource, name, old }) {
        seen.push([operation, resource.resource, subresource, name, old === undefined ? 'new' : 'old'].join(' '));
        return allow;
      },
    };
    await start({ admission: [watcher] });
    await server.create('pods', pod('p'));
    await server.create(
      'pods',
      { kind: 'Binding', apiVersion: 'v1', metadata: { name: 'p' }, ...{ target: { name: 'n' } } },
      { subresource: 'binding', name: 'p' },
    );
    await server.create('configmaps', configMap('', {}, { generateName: 'g-' }));
    await server.create('configmaps', configMap('c'));
    await server.patch('configmaps', 'c', { data: { a: 'b' } });
    await server.remove('configmaps', 'c');
    expect(seen).toEqual([
      'CREATE pods binding p new',
      expect.stringMatching(/^CREATE configmaps {2}g-\w{5} new$/),
      'CREATE configmaps  c new',
      'UPDATE configmaps  c old',
      'DELETE configmaps  c old',
    ]);
  });

  it('rejects a request with the reason of the decision and writes nothing', async () => {
    const denyWith = (decision: ReturnType<typeof deny>) => plugin(['*'], ['*'], { validate: () => decision });
    const status = async (decision: ReturnType<typeof deny>) => {
      await start({ admission: [denyWith(decision)] });
      const { status } = await rejectionOf(server.create('configmaps', configMap('a')));
      expect((await server.list('configmaps')).names).toEqual([]);
      await server.stop();
      return status;
    };
    expect(await status(deny('not here'))).toMatchObject({
      code: 403,
      reason: 'Forbidden',
      message: 'configmaps "a" is forbidden: not here',
      details: { name: 'a', kind: 'configmaps' },
    });
    expect(await status(deny('wrong', { reason: 'Invalid', field: 'data' }))).toMatchObject({
      code: 422,
      message: 'ConfigMap "a" is invalid: data: wrong',
      details: { causes: [{ field: 'data', message: 'wrong' }] },
    });
    expect(await status(deny('slower', { reason: 'TooManyRequests' }))).toMatchObject({ code: 429 });
    expect(await status(deny('namespaces "x" not found', { reason: 'NotFound' }))).toMatchObject({
      code: 404,
      message: 'namespaces "x" not found',
    });
    expect(await status(deny('no', { reason: 'BadRequest' }))).toMatchObject({ code: 400 });
    expect(await status(deny('no', { reason: 'Conflict' }))).toMatchObject({ code: 409 });
    await start();
  });

  it('returns warnings of plugins', async () => {
    await start({
      admission: [
        plugin(['configmaps'], ['CREATE'], {
          mutate(request: AdmissionRequest) {
            request.warn('take care');
            request.annotate('a', 'b');
            return request.object as KubeObject;
          },
        }),
      ],
    });
    expect(await server.handle('create', 'configmaps', { namespace: 'default', body: configMap('a') })).toMatchObject({
      warnings: ['take care'],
    });
  });

  it('decides on the newest stored object when the cache is stale', async () => {
    const denyFinished: AdmissionPlugin = plugin(['configmaps'], ['DELETE'], {
      validate: ({ old }) => ((old as { data?: { keep?: string } }).data?.keep === 'yes' ? deny('kept') : allow),
    });
    await start({ admission: [denyFinished] });
    await server.create('configmaps', configMap('a', { keep: 'yes' }));
    expect((await rejectionOf(server.remove('configmaps', 'a'))).code).toBe(403);
    // written directly to storage: the cache may not contain it yet
    await server.storage.commit(
      [{ key: '/registry/configmaps/default/a', value: Buffer.from('{"metadata":{"name":"a","namespace":"default"}}') }],
      [],
    );
    await server.remove('configmaps', 'a');
  });

  it('reinvokes mutating plugins once after a plugin that requests it', async () => {
    const seen: string[] = [];
    const first = plugin(['configmaps'], ['CREATE'], {
      mutate({ object, mutation: round }) {
        seen.push(`first ${round?.isReinvocation} ${Object.keys((object as { data?: object }).data ?? {}).join('+')}`);
        return object as KubeObject;
      },
    });
    const outside = plugin(['configmaps'], ['CREATE'], {
      mutate({ object, mutation: round }) {
        seen.push(`outside ${round?.isReinvocation}`);
        round?.reinvoke();
        return {
          ...object,
          ...{ data: { ...(object as { data?: object }).data, [`round${round?.isReinvocation ? 2 : 1}`]: 'x' } },
        } as KubeObject;
      },
    });
    await start({ admission: [first, outside] });
    expect(await server.create('configmaps', configMap('a'))).toMatchObject({ data: { round1: 'x', round2: 'x' } });
    expect(seen).toEqual(['first false ', 'outside false', 'first true round1', 'outside true']);
  });

  it('skips idle plugins', async () => {
    let idle = true;
    const strict: AdmissionPlugin = { ...plugin(['*'], ['*'], { validate: () => deny('no') }), isIdle: () => idle };
    await start({ admission: [strict] });
    await server.create('configmaps', configMap('a'));
    idle = false;
    expect((await rejectionOf(server.create('configmaps', configMap('b')))).code).toBe(403);
  });

  it('returns the Status of a denial unchanged', async () => {
    const status = {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: 'not on a Sunday',
      reason: 'Teapot',
      code: 418,
    } as const;
    await start({ admission: [plugin(['*'], ['*'], { validate: () => deny('x', { status }) })] });
    expect(await rejectionOf(server.create('configmaps', configMap('a')))).toMatchObject({
      code: 418,
      message: 'not on a Sunday',
      reason: 'Teapot',
    });
  });

  it('passes annotations, and warnings of a denial, to the request', async () => {
    const recorded: string[] = [];
    await start({
      admission: [
        plugin(['configmaps'], ['CREATE'], {
          validate(request) {
            request.annotate('policy/key', 'value');
            request.warn('take care');
            return deny('no');
          },
        }),
      ],
    });
    const request = {
      namespace: 'default',
      body: configMap('a'),
      annotate: (key: string, value: string) => void recorded.push(`${key}=${value}`),
      warn: (message: string) => void recorded.push(message),
    };
    await rejectionOf(server.handle('create', 'configmaps', request));
    expect(recorded.filter((each) => !each.startsWith('authorization.'))).toEqual(['policy/key=value', 'take care']);
  });
});
