import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { boundConnections, listenerDeadlines } from '@oarlock/primitives/net/bounded-listener';
import type { Node } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Registry } from 'prom-client';

export interface ProxyHealthServerOptions {
  readonly services: { readonly error: string | undefined; readonly node: Node | undefined };
  /** The proxy mode; undefined if the proxy does not report one. */
  readonly mode: string | undefined;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly healthzBindAddress: string | undefined;
  readonly metricsBindAddress: string | undefined;
}

const toBeDeletedTaint = 'ToBeDeletedByClusterAutoscaler';

/** Returns false if the node is about to be deleted: load balancers must not send new connections to such a node (KEP-3836). */
function isEligible(node: Node | undefined): boolean {
  return node?.metadata?.deletionTimestamp === undefined && node?.spec?.taints?.some(({ key }) => key === toBeDeletedTaint) !== true;
}

/** Serves the endpoints `/healthz`, `/livez`, `/metrics` and `/proxyMode`, as kube-proxy does. */
export class ProxyHealthServer {
  readonly #options: ProxyHealthServerOptions;
  #servers: readonly Server[] = [];

  constructor(options: ProxyHealthServerOptions) {
    this.#options = options;
  }

  /** Starts the HTTP servers. @throws Error if an address cannot be bound */
  async start(): Promise<void> {
    const { healthzBindAddress, metricsBindAddress, registry, mode } = this.#options;
    this.#servers = await Promise.all([
      ...listen(healthzBindAddress, (path, response) => {
        if (path === '/healthz') this.#health(response, isEligible(this.#options.services.node));
        else if (path === '/livez') this.#health(response, true);
        else response.writeHead(404).end();
      }),
      ...listen(metricsBindAddress, (path, response) => {
        if (path === '/healthz') response.end('ok');
        else if (path === '/proxyMode' && mode !== undefined) response.end(mode);
        else if (path !== '/metrics') response.writeHead(404).end();
        else
          void registry.metrics().then(
            (text) => response.writeHead(200, { 'Content-Type': registry.contentType }).end(text),
            (error: unknown) => response.writeHead(500).end(String(error)),
          );
      }),
    ]);
  }

  async stop(): Promise<void> {
    await Promise.all(
      this.#servers.map((server) => {
        const closed = once(server, 'close');
        server.close();
        server.closeAllConnections();
        return closed;
      }),
    );
  }

  #health(response: ServerResponse, eligible: boolean): void {
    const { clock, services } = this.#options;
    const now = new Date(clock.now()).toISOString();
    const good = services.error === undefined && eligible;
    response.writeHead(good ? 200 : 503, { 'Content-Type': 'application/json', 'X-Content-Type-Options': 'nosniff' });
    response.end(JSON.stringify({ lastUpdated: now, currentTime: now, nodeEligible: eligible }));
  }
}

function listen(address: string | undefined, answer: (path: string, response: ServerResponse) => void): readonly Promise<Server>[] {
  if (address === undefined) return [];
  const at = address.lastIndexOf(':');
  const server = createServer(listenerDeadlines, (request, response) => answer((request.url ?? '').split('?')[0] ?? '', response));
  boundConnections(server);
  server.listen({ host: address.slice(0, at).replace(/^\[|\]$/g, ''), port: Number(address.slice(at + 1)) });
  return [once(server, 'listening').then(() => server)];
}
