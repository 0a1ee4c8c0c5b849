import { createServer as createLocalServer, type IncomingMessage, type Server as LocalServer, type ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Logger } from '@oarlock/kernel/logger';
import type { Kubelet } from '../kubelet.ts';
import type { PodWorker } from '../pod-worker.ts';
import { findContainer } from '../pods.ts';
import { Access } from './access.ts';
import { configz } from './configz.ts';
import { parseLogRequest, sendLogs } from './container-logs.ts';
import { HttpProblem } from './http-problem.ts';
import { LocalConnection } from './local-connection.ts';
import { portForwardProtocol } from './port-forward.ts';
import { webSocketForwardProtocols } from './port-forward-websocket.ts';
import { spdyCommandProtocols } from './remote-command-spdy.ts';
import { webSocketCommandProtocols } from './remote-command-websocket.ts';
import { sendNodeLogs } from './node-logs.ts';
import { ServingCertificate } from './serving-certificate.ts';
import { Sessions } from './sessions.ts';
import { StatsSummary } from './stats-summary.ts';
import { containerMetrics, probeMetrics, resourceMetrics } from './usage-metrics.ts';
import { StreamingUpgrades, type StreamProtocols } from './streaming.ts';

export interface KubeletServerOptions {
  readonly kubelet: Kubelet;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly listen: { readonly host: string; readonly port: number };
  /** Series of this process, in the text format of Prometheus. */
  metrics(): Promise<string>;
}

const maxHead = 256 * 1024;
const commands: StreamProtocols = { websocket: webSocketCommandProtocols, spdy: spdyCommandProtocols };
const forwards: StreamProtocols = { websocket: webSocketForwardProtocols, spdy: [portForwardProtocol] };
const codes: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

/** The API of the kubelets of this process: logs, exec, attach, port-forward, pods and stats, over HTTPS, for the API server and administrators alone. */
export class KubeletServer {
  readonly #options: KubeletServerOptions;
  readonly #sockets = new Set<Duplex>();
  readonly #upgrades = new StreamingUpgrades();
  readonly #access: Access;
  readonly #summary: StatsSummary;
  readonly #certificate: ServingCertificate;
  readonly #sessions: Sessions;
  #server: Server | undefined;
  /** Speaks as the other, and listens nowhere. */
  readonly #local: LocalServer;

  constructor(options: KubeletServerOptions) {
    this.#options = options;
    const { client, clock } = options.kubelet.context;
    this.#access = new Access({ client, clock, signal: options.signal });
    this.#summary = new StatsSummary(options.kubelet);
    this.#certificate = new ServingCertificate(options.kubelet);
    this.#sessions = new Sessions({ signal: options.signal, clock, log: options.log });
    this.#local = createLocalServer({ maxHeaderSize: maxHead });
    this.#serve(this.#local);
  }

  /** Listens, and returns the port. @throws Error when it is taken, or no certificate is to be had */
  async start(): Promise<number> {
    const { listen } = this.#options;
    const pair = await this.#certificate.current();
    const server = createServer({
      ...this.#certificate.tls(pair),
      requestCert: true,
      rejectUnauthorized: false,
      // a command of exec is part of the URL
      maxHeaderSize: maxHead,
      ALPNProtocols: ['http/1.1'],
    });
    this.#serve(server);
    this.#server = server;
    this.#certificate.renewLater(server, pair);
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(listen.port, listen.host, () => {
        server.off('error', reject);
        resolve();
      });
    });
    server.on('error', (error) => this.#options.log.warn({ err: error }, "the kubelet's server has a problem"));
    return (server.address() as AddressInfo).port;
  }

  /** A connection of the API server of this process: what is asked over it is served as over the listener. @throws Error after the stop */
  connect(): Duplex {
    if (this.#options.signal.aborted || this.#server?.listening !== true) throw new Error('the kubelet does not serve');
    const [near, far] = LocalConnection.pair();
    this.#local.emit('connection', far);
    return near;
  }

  #serve(server: Server | LocalServer): void {
    server.on('connection', (socket: Duplex) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      void this.#handle(request, response);
    });
    server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      void this.#upgrade(request, socket, head);
    });
  }

  async stop(): Promise<void> {
    this.#certificate.stop();
    const server = this.#server;
    if (!server) return;
    const closed = new Promise<void>((resolve) => {
      server.close(() => resolve());
    });
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const url = urlOf(request);
      if (/^\/healthz(\/ping|\/log)?$/.test(url.pathname)) {
        respond(response, 200, 'ok');
        return;
      }
      await this.#authorize(request, url.pathname);
      await this.#route(request, response, url);
    } catch (error) {
      const { code, message } = this.#problem(error);
      if (response.headersSent) response.destroy();
      else respond(response, code, message);
    }
  }

  async #route(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    const { kubelet, signal } = this.#options;
    const [area = '', ...rest] = url.pathname.slice(1).split('/').map(decode);
    if (area === 'exec' || area === 'attach' || area === 'portForward') throw new HttpProblem(400, 'Upgrade request required');
    if (area !== 'containerLogs' && request.method !== 'GET' && request.method !== 'HEAD') throw new HttpProblem(405, 'method not allowed');
    const page = this.#pages[url.pathname.replace(/\/$/, '')];
    if (page) {
      const { type, body } = await page(signal);
      respond(response, 200, body, type);
    } else if (area === 'containerLogs') {
      const { worker, container } = this.#find(rest);
      await sendLogs(worker, container, parseLogRequest(url.searchParams, kubelet.context.clock), request, response, signal);
    } else if (area === 'logs') await sendNodeLogs(kubelet.config.systemLogDir, rest.join('/'), response);
    else throw new HttpProblem(404, '404 page not found');
  }

  /** What is answered as a whole, by path. */
  readonly #pages: Readonly<Record<string, (signal: AbortSignal) => Promise<Page> | Page>> = {
    '/pods': () => json(this.#podList((worker) => worker.stage !== 'finished')),
    '/runningpods': () => json(this.#podList((worker) => worker.state.running.length > 0)),
    '/healthz/syncloop': () => text(this.#syncs()),
    '/configz': () => json(configz(this.#options.kubelet.config, this.#options.kubelet.context.facts)),
    '/stats/summary': async (signal) => json(await this.#summary.read(signal)),
    '/metrics': async () => metrics(await this.#options.metrics()),
    '/metrics/resource': async (signal) => metrics(await resourceMetrics(this.#options.kubelet, signal)),
    '/metrics/cadvisor': async (signal) => metrics(await containerMetrics(this.#options.kubelet, signal)),
    '/metrics/probes': () => metrics(probeMetrics(this.#options.kubelet)),
  };

  #podList(shown: (worker: PodWorker) => boolean): unknown {
    const items = [...this.#options.kubelet.agents.values()].flatMap(({ pods }) =>
      [...pods.workers].filter(shown).map(({ record }) => ({ ...record.pod, status: record.status ?? record.pod.status })),
    );
    return { kind: 'PodList', apiVersion: 'v1', metadata: {}, items };
  }

  #syncs(): string {
    const { healthy, because } = { because: '', ...this.#options.kubelet.health() };
    if (!healthy) throw new HttpProblem(500, because);
    return 'ok';
  }

  async #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on('error', () => socket.destroy());
    try {
      const url = urlOf(request);
      await this.#authorize(request, url.pathname);
      const [area = '', ...rest] = url.pathname.slice(1).split('/').map(decode);
      this.#sessions.checkRoom();
      if (area === 'portForward') {
        const serve = this.#sessions.forward(this.#findPod(rest), url.searchParams);
        this.#upgrades.accept(request, socket, head, forwards, (upgraded) => this.#sessions.sit(serve(upgraded)));
      } else if (area === 'exec' || area === 'attach') {
        const { worker, container } = this.#find(rest);
        const serve = this.#sessions.command(worker, container, area, url.searchParams);
        this.#upgrades.accept(request, socket, head, commands, (upgraded) => this.#sessions.sit(serve(upgraded)));
      } else throw new HttpProblem(404, '404 page not found');
    } catch (error) {
      const { code, message } = this.#problem(error);
      socket.end(
        `HTTP/1.1 ${code} ${codes[code] ?? 'Error'}\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(message)}\r\nConnection: close\r\n\r\n${message}`,
      );
    }
  }

  /** `NAMESPACE/POD` or `NAMESPACE/POD/UID`. */
  #findPod([namespace = '', name = '', uid, ...more]: readonly string[]): PodWorker {
    if (namespace === '' || name === '' || more.length > 0) throw new HttpProblem(404, '404 page not found');
    for (const agent of this.#options.kubelet.agents.values()) {
      const worker = agent.pods.find(namespace, name);
      if (worker && (uid === undefined || worker.record.uid === uid)) return worker;
    }
    throw new HttpProblem(404, `pod "${name}" does not exist`);
  }

  /** `NAMESPACE/POD/CONTAINER` or `NAMESPACE/POD/UID/CONTAINER`. */
  #find(parts: readonly string[]): { readonly worker: PodWorker; readonly container: string } {
    const [namespace = '', name = ''] = parts;
    const [uid, container = ''] = parts.length === 4 ? [parts[2], parts[3]] : [undefined, parts[2]];
    if (parts.length < 3 || parts.length > 4) throw new HttpProblem(404, '404 page not found');
    for (const agent of this.#options.kubelet.agents.values()) {
      const worker = agent.pods.find(namespace, name);
      if (!worker || (uid !== undefined && worker.record.uid !== uid)) continue;
      if (findContainer(worker.record.pod, container)) return { worker, container };
      throw new HttpProblem(404, `container "${container}" not found in pod "${name}"`);
    }
    throw new HttpProblem(404, `pod "${name}" does not exist`);
  }

  async #authorize(request: IncomingMessage, path: string): Promise<void> {
    const [nodeName = ''] = this.#options.kubelet.agents.keys();
    await this.#access.check(request, path, nodeName);
  }

  #problem(error: unknown): { readonly code: number; readonly message: string } {
    if (error instanceof HttpProblem) return error;
    this.#options.log.warn({ err: error }, 'a request to the kubelet failed');
    return { code: 500, message: error instanceof Error ? error.message : String(error) };
  }
}

function urlOf(request: IncomingMessage): URL {
  try {
    return new URL(request.url ?? '/', 'https://kubelet');
  } catch (cause) {
    throw new HttpProblem(400, 'the URL cannot be read', { cause });
  }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch (cause) {
    throw new HttpProblem(400, 'the URL cannot be read', { cause });
  }
}

interface Page {
  readonly type: string;
  readonly body: string;
}
const json = (value: unknown): Page => ({ type: 'application/json', body: JSON.stringify(value) });
const metrics = (body: string): Page => ({ type: 'text/plain; version=0.0.4; charset=utf-8', body });
const text = (body: string): Page => ({ type: 'text/plain; charset=utf-8', body });

function respond(response: ServerResponse, code: number, body: string, type = 'text/plain; charset=utf-8'): void {
  response.writeHead(code, { 'Content-Type': type, 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}
