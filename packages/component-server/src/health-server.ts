import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { errorText } from '@oarlock/primitives/error-text';
import { boundConnections, listenerDeadlines } from '@oarlock/primitives/net/bounded-listener';
import { metricsText } from '@oarlock/kernel/metrics-text';
import type { Health } from '@oarlock/spi/role';
import type { Registry } from 'prom-client';

export interface HealthServerOptions {
  /** The port to listen on; 0 selects a free port. */
  readonly port: number;
  readonly address: string;
  checkHealth(): Health | Promise<Health>;
  registries(): readonly Registry[];
}

/** Serves `/healthz`, `/metrics`, and `/readyz`, which succeeds between `ready` and `drain`. */
export class HealthServer {
  readonly #options: HealthServerOptions;
  readonly #server: Server;
  #ready = false;

  constructor(options: HealthServerOptions) {
    this.#options = options;
    this.#server = createServer(listenerDeadlines, (request, response) => {
      this.#handle(request, response).catch((error: unknown) => end(response, 500, errorText(error)));
    });
    boundConnections(this.#server);
  }

  /** Starts the server and returns its port. */
  async start(): Promise<number> {
    const { port, address } = this.#options;
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, address, resolve);
    });
    return (this.#server.address() as AddressInfo).port;
  }

  ready(): void {
    this.#ready = true;
  }

  drain(): void {
    this.#ready = false;
  }

  async stop(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }

  async #handle({ url = '/' }: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = url.replace(/\?.*$/, '');
    if (path === '/metrics') {
      const { contentType, text } = await metricsText(this.#options.registries());
      response.writeHead(200, { 'content-type': contentType }).end(text);
      return;
    }
    if (path !== '/healthz' && path !== '/readyz') return end(response, 404, 'not found');
    const health = await this.#options.checkHealth();
    if (!health.healthy) return end(response, 500, health.reason);
    if (path === '/readyz' && !this.#ready) return end(response, 503, 'not ready');
    end(response, 200, 'ok');
  }
}

function end(response: ServerResponse, code: number, text: string): void {
  response.writeHead(code, { 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`);
}
