import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Resource } from '@oarlock/api/resource';
import { apiVersionOf } from '@oarlock/api/resource';
import { notFound, StatusError, failure } from '@oarlock/api/status';
import type { Client, PatchType } from '@oarlock/spi/client';
import { apiServices, services } from '@oarlock/api/resources';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import type { ApiHandler, ApiRequest, ApiVerb } from '@oarlock/spi/loopback';

/** The resources of one group and version that a test's extension API server serves. */
export interface ExtensionOptions {
  readonly resources: readonly [Resource, ...Resource[]];
  /** The handler that serves the objects: the `handler` of a memory API. */
  readonly handler: ApiHandler;
  /** The cluster's keys: the cluster CA issues the serving certificate, and the front-proxy CA verifies the API server. */
  readonly keys: Pick<ClusterKeys, 'issue' | 'caBundle' | 'frontProxy'>;
}

/** An extension API server (aggregated API server) for an APIService. */
export interface ExtensionServer extends AsyncDisposable {
  /** Whether the server is healthy; initially true. If false, every request fails with 503. */
  healthy: boolean;
  /** The user, method and URL of each request, in order. */
  readonly requests: readonly { readonly user: string; readonly method: string; readonly url: string }[];
  /** Registers the server with the API server: creates a Service that leads to this machine, and the APIService. */
  register(client: Client): Promise<void>;
  stop(): Promise<void>;
}

const service = { namespace: 'default', name: 'extension' };
const verbs: readonly ApiVerb[] = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];
const patchTypes: Readonly<Record<string, PatchType>> = {
  'application/json-patch+json': 'json',
  'application/merge-patch+json': 'merge',
  'application/strategic-merge-patch+json': 'strategic',
};

/** Serves resources over HTTPS from a memory API. Only the front proxy's client certificate is accepted. */
export async function extensionServer({ resources, handler, keys }: ExtensionOptions): Promise<ExtensionServer> {
  const pair = await keys.issue({ commonName: service.name, dnsNames: [`${service.name}.${service.namespace}.svc`], usages: ['server'] });
  const requestLog: { readonly user: string; readonly method: string; readonly url: string }[] = [];
  const state = { healthy: true };
  const server = createServer(
    { cert: pair.certificate, key: pair.key, ca: keys.frontProxy?.caBundle ?? [], requestCert: true, rejectUnauthorized: true },
    (request, response) => {
      const { method = '', url = '' } = request;
      requestLog.push({ user: String(request.headers['x-remote-user']), method, url });
      (state.healthy ? serve(resources, { handler, request, response }) : Promise.reject(failure('ServiceUnavailable', 'not now'))).catch(
        (error: unknown) => reject(response, error),
      );
    },
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const stop = async () => {
    server.closeAllConnections();
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    await closed;
  };
  return {
    requests: requestLog,
    get healthy() {
      return state.healthy;
    },
    set healthy(healthy) {
      state.healthy = healthy;
      if (!healthy) server.closeAllConnections();
    },
    async register(client) {
      const [{ group, version }] = resources;
      await client.create(services, {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: service,
        spec: { type: 'ExternalName', externalName: '127.0.0.1' },
      });
      await client.create(apiServices, {
        apiVersion: 'apiregistration.k8s.io/v1',
        kind: 'APIService',
        metadata: { name: `${version}.${group}` },
        spec: {
          group,
          version,
          groupPriorityMinimum: 2000,
          versionPriority: 200,
          caBundle: Buffer.from(keys.caBundle).toString('base64'),
          service: { ...service, port },
        },
      });
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

async function serve(
  resources: ExtensionOptions['resources'],
  { handler, request, response }: { readonly handler: ApiHandler; readonly request: IncomingMessage; readonly response: ServerResponse },
): Promise<void> {
  const url = new URL(request.url ?? '', 'https://extension');
  const groupVersion = apiVersionOf(resources[0]);
  const json = (code: number, value: unknown) => {
    response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  };
  if (url.pathname === `/apis/${groupVersion}`) {
    const listed = resources.map(({ resource: name, kind, namespaced }) => ({ name, singularName: '', kind, namespaced, verbs }));
    json(200, { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources: listed });
    return;
  }
  const disconnected = new AbortController();
  response.once('close', () => disconnected.abort());
  const answer = await handler.handle(await understood(resources, { request, uRL: url, signal: disconnected.signal }));
  if (answer.kind === 'object') json(answer.code, answer.object);
  else if (answer.kind === 'list') json(200, answer.list);
  else {
    response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
    for await (const batch of answer.events) for (const { type, object } of batch) response.write(`${JSON.stringify({ type, object })}\n`);
    response.end();
  }
}

async function understood(
  resources: ExtensionOptions['resources'],
  {
    request,
    uRL: { pathname, searchParams },
    signal,
  }: { readonly request: IncomingMessage; readonly uRL: URL; readonly signal: AbortSignal },
): Promise<ApiRequest> {
  const [, , , , ...parts] = pathname.split('/').map(decodeURIComponent);
  const [namespace = '', plural = '', name = '', subresource = ''] = parts[0] === 'namespaces' ? parts.slice(1) : ['', ...parts];
  const resource = resources.find((each) => each.resource === plural);
  if (resource === undefined || !pathname.startsWith(`/apis/${apiVersionOf(resource)}/`))
    throw notFound({ group: '', resource: 'paths' }, pathname);
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  const patchType = patchTypes[request.headers['content-type'] ?? ''];
  return {
    verb: verbOf(request.method ?? '', name, searchParams.has('watch')),
    resource,
    subresource,
    namespace,
    name,
    query: Object.fromEntries(searchParams),
    identity: { name: String(request.headers['x-remote-user']), groups: [] },
    signal,
    ...(chunks.length > 0 && { body: JSON.parse(Buffer.concat(chunks).toString()) as unknown }),
    ...(patchType && { patchType }),
  };
}

function verbOf(method: string, name: string, watching: boolean): ApiVerb {
  if (method === 'GET') return watching ? 'watch' : name === '' ? 'list' : 'get';
  if (method === 'DELETE') return name === '' ? 'deletecollection' : 'delete';
  return method === 'POST' ? 'create' : method === 'PUT' ? 'update' : 'patch';
}

function reject(response: ServerResponse, error: unknown): void {
  const { status, code } = error instanceof StatusError ? error : failure('InternalError', String(error));
  if (response.headersSent) response.destroy();
  else response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(status));
}
