import type { KubeObject } from '@oarlock/api/object';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decodeProtobuf } from '../../src/endpoints/negotiation/protobuf-decoder.ts';
import type { Pipeline } from '../../src/pipeline/pipeline.ts';
import { pod, TestServer as Core } from '../support/pipeline-fixture.ts';
import { eventsIn, type Event } from '../support/protobuf-frames.ts';
import { startServer, type TestServer } from '../support/start-server.ts';

/** The requests that the kubernetes plugin of CoreDNS sends, in the media type and with the parameters of client-go's reflector. */
const protobuf = 'application/vnd.kubernetes.protobuf';
const headers = { accept: `${protobuf},application/json`, 'user-agent': 'coredns/1.12' };
const aliveOnly = encodeURIComponent('status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown');
const slices = '/apis/discovery.k8s.io/v1/endpointslices';

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

interface List extends KubeObject {
  readonly items?: readonly KubeObject[];
}
async function list(path: string): Promise<List> {
  const answer = await server.http2('GET', path, { headers });
  expect([answer.code, answer.headers['content-type']]).toEqual([200, protobuf]);
  return decodeProtobuf(answer.decoded) as List;
}
const named = ({ items = [] }: List) => items.map(({ metadata }) => metadata?.name);

/** Opens a watch; `take` resolves with the first events. */
function watch(path: string): { take(count: number): Promise<readonly Event[]> } {
  const stream = server.session().request({ ':method': 'GET', ':path': path, ...headers });
  let bytes = Buffer.alloc(0);
  let received: () => void = () => undefined;
  stream.on('data', (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk]);
    received();
  });
  const complete = () => eventsIn(bytes);
  return {
    async take(count) {
      while (complete().length < count)
        await new Promise<void>((resolve) => {
          received = resolve;
        });
      return complete().slice(0, count);
    },
  };
}
const summaryOf = ({ type, object }: Event) => `${type} ${object.metadata?.name ?? ''}`.trim();

const service = (name: string, spec: object): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name },
  ...{ spec: { ports: [{ port: 80, name: 'http' }], ...spec } },
});
const slice = (addresses: readonly string[], ready = true): KubeObject => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { name: 'headless-1', labels: { 'kubernetes.io/service-name': 'headless' } },
  ...{
    addressType: 'IPv4',
    endpoints: [{ addresses, hostname: 'web-0', conditions: { ready } }],
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  },
});

describe('CoreDNS', () => {
  it('decides by the version and by discovery to watch EndpointSlices', async () => {
    const version = (await server.http2('GET', '/version', { headers })).json<{ major: string; minor: string }>();
    expect([version.major, Number.parseInt(version.minor, 10)]).toEqual(['1', 36]);
    const group = (await server.http2('GET', '/apis/discovery.k8s.io/v1', { headers: { accept: 'application/json' } })).json<{
      resources: { name: string; verbs: string[] }[];
    }>();
    expect(group.resources.find(({ name }) => name === 'endpointslices')?.verbs).toEqual(expect.arrayContaining(['list', 'watch']));
  });

  it('lists Services with all of their addresses and follows their changes', async () => {
    await core.create('services', service('web', {}));
    await core.create('services', service('headless', { clusterIP: 'None' }));
    await core.create('services', service('outside', { type: 'ExternalName', externalName: 'example.com', ports: undefined }));
    const all = await list('/api/v1/services?limit=500&resourceVersion=0');
    expect(named(all)).toEqual(['headless', 'outside', 'web']);
    const specs = (all.items ?? []).map((each) => (each as { spec?: { clusterIPs?: string[]; externalName?: string } }).spec);
    expect(specs[0]?.clusterIPs).toEqual(['None']);
    expect(specs[1]?.externalName).toBe('example.com');
    expect(specs[2]?.clusterIPs).toHaveLength(1);
    const from = all.metadata?.resourceVersion ?? '';
    const following = watch(`/api/v1/services?allowWatchBookmarks=true&resourceVersion=${from}&timeoutSeconds=500&watch=true`);
    await core.patch('services', 'web', { spec: { externalIPs: ['192.0.2.1'] } });
    await core.remove('services', 'headless');
    const events = await following.take(2);
    expect(events.map(summaryOf)).toEqual(['MODIFIED web', 'DELETED headless']);
    expect(events[0]?.object).toMatchObject({ spec: { externalIPs: ['192.0.2.1'] } });
  });

  it('receives the EndpointSlices of headless Services with host names, ports and readiness', async () => {
    await core.create('endpointslices.discovery.k8s.io', slice(['10.0.0.1']));
    const initial = watch(
      `${slices}?allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=500&watch=true`,
    );
    const [first, bookmark] = await initial.take(2);
    expect(first).toMatchObject({
      type: 'ADDED',
      object: {
        metadata: { labels: { 'kubernetes.io/service-name': 'headless' } },
        endpoints: [{ addresses: ['10.0.0.1'], hostname: 'web-0', conditions: { ready: true } }],
        ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
      },
    });
    expect(bookmark).toMatchObject({ type: 'BOOKMARK', object: { metadata: { annotations: { 'k8s.io/initial-events-end': 'true' } } } });
    await core.update('endpointslices.discovery.k8s.io', slice(['10.0.0.1', '10.0.0.2'].slice(1), false));
    const changed = (await initial.take(3))[2];
    expect(changed).toMatchObject({ type: 'MODIFIED', object: { endpoints: [{ addresses: ['10.0.0.2'], conditions: { ready: false } }] } });
  });

  it('in verified pod mode sees the pods that have not ended, and their end as a deletion', async () => {
    const start = (name: string, phase: string) =>
      core
        .create('pods', pod(name))
        .then(() =>
          core.patch('pods', name, { status: { phase, podIPs: [{ ip: '10.0.0.9' }], podIP: '10.0.0.9' } }, { subresource: 'status' }),
        );
    await start('running', 'Running');
    await start('done', 'Succeeded');
    const pods = await list(`/api/v1/pods?fieldSelector=${aliveOnly}&limit=500&resourceVersion=0`);
    expect(named(pods)).toEqual(['running']);
    expect(pods.items?.[0]).toMatchObject({ status: { podIP: '10.0.0.9' } });
    const from = pods.metadata?.resourceVersion ?? '';
    const following = watch(`/api/v1/pods?allowWatchBookmarks=true&fieldSelector=${aliveOnly}&resourceVersion=${from}&watch=true`);
    await core.patch('pods', 'running', { status: { phase: 'Failed' } }, { subresource: 'status' });
    await start('next', 'Running');
    expect((await following.take(3)).map(summaryOf)).toEqual(['DELETED running', 'ADDED next', 'MODIFIED next']);
  });

  it('lists the namespaces that its label selector matches', async () => {
    const namespace = (name: string, labels: Record<string, string>) =>
      core.create('namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } });
    await namespace('exposed', { dns: 'public' });
    await namespace('hidden', {});
    const all = await list(`/api/v1/namespaces?labelSelector=${encodeURIComponent('dns=public')}&limit=500&resourceVersion=0`);
    expect(named(all)).toEqual(['exposed']);
  });
});
