import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { boundConnections, listenerDeadlines } from '@oarlock/primitives/net/bounded-listener';
import type { Logger } from '@oarlock/primitives/logger';
import type { ServicePort } from '@oarlock/spi/proxy';

export interface ServiceHealthServerOptions {
  readonly healthy: () => boolean;
  readonly log: Logger;
}
interface Health {
  readonly port: number;
  localEndpoints: number;
  readonly server: Server;
}

/**
 * Serves the health checks of load balancers on the `healthCheckNodePort` of each Service: reports whether this node has local endpoints.
 * With externalTrafficPolicy Local, a node without local endpoints drops the traffic of the Service.
 */
export class ServiceHealthServer {
  readonly #options: ServiceHealthServerOptions;
  readonly #services = new Map<string, Health>();

  constructor(options: ServiceHealthServerOptions) {
    this.#options = options;
  }

  set(key: string, ports: readonly ServicePort[]): void {
    const port = ports.find(({ externalLocal }) => externalLocal)?.healthCheckNodePort;
    const known = this.#services.get(key);
    if (known && known.port !== port) {
      this.#services.delete(key);
      known.server.close();
      known.server.closeAllConnections();
    }
    if (port === undefined) return;
    const local = new Set(ports.flatMap(({ endpoints }) => endpoints.filter(({ local, ready }) => local && ready).map(({ ip }) => ip)));
    const current = this.#services.get(key) ?? this.#serve(key, port);
    current.localEndpoints = local.size;
  }

  async stop(): Promise<void> {
    const servers = [...this.#services.values()].map(({ server }) => server).filter(({ listening }) => listening);
    this.#services.clear();
    await Promise.all(
      servers.map((server) => {
        const closed = once(server, 'close');
        server.close();
        server.closeAllConnections();
        return closed;
      }),
    );
  }

  #serve(key: string, port: number): Health {
    const [namespace = '', name = ''] = key.split('/');
    const server = createServer(listenerDeadlines, (_request, response) => {
      const { localEndpoints } = health;
      const serviceProxyHealthy = this.#options.healthy();
      response.writeHead(localEndpoints > 0 && serviceProxyHealthy ? 200 : 503, {
        'Content-Type': 'application/json',
        'X-Content-Type-Options': 'nosniff',
        'X-Load-Balancing-Endpoint-Weight': String(localEndpoints),
      });
      response.end(`${JSON.stringify({ service: { namespace, name }, localEndpoints, serviceProxyHealthy })}\n`);
    });
    const health: Health = { port, localEndpoints: 0, server };
    server.on('error', (error) =>
      this.#options.log.warn({ service: key, port, error: error.message }, 'the health check node port of a Service could not be served'),
    );
    boundConnections(server);
    server.listen(port);
    server.unref();
    this.#services.set(key, health);
    return health;
  }
}
